/*
 * Memory of a far away process, of which each unit is fetched once: it is kept in a file without a
 * name, as it may be gigabytes. Inside of the image room; may be used by several threads at once.
 */
#ifndef GM_IMAGE_FETCHED_H
#define GM_IMAGE_FETCHED_H

#include <pthread.h>

#include "image/maps.h"

typedef size_t (*gm_fetch)(void *context, uint64_t address, void *buffer, size_t size);

/* One mapping's units: where they are in the file, and which are there. */
struct gm_fetched_area {
	uint64_t start, end;
	uint64_t offset;
	uint8_t *there; /* one byte a unit, enum unit_state */
};

struct gm_fetched {
	gm_fetch fetch;
	void *context;
	int fd; /* -1: nothing is kept, as there is no disk for it */
	struct gm_fetched_area *areas;
	size_t count;
	uint64_t bytes; /* fetched so far */
	uint8_t *buffer;
	pthread_mutex_t lock;
};

struct gm_error *gm_fetched_init(
        struct gm_fetched *fetched, const struct gm_maps *maps, gm_fetch fetch, void *context);
void gm_fetched_deinit(struct gm_fetched *fetched);
/* Bytes from `address` on; fewer than `size`: what follows cannot be read. */
size_t gm_fetched_read(struct gm_fetched *fetched, uint64_t address, void *buffer, size_t size);

#endif
