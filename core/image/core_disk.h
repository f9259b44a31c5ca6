/*
 * The files that a core's process had mapped, on the local disk: parts that are not in the core are
 * read from there, if the files are the same. Internal to the image room.
 *
 * "The same" means equal build-ids (the core has the first page of each library, which contains the
 * build-id) or, if a file has none, an equal first page. A file is searched for under the sysroot
 * first: at its own path there, then by its name alone (a folder into which the libraries of
 * another machine were copied); then at its own path.
 */
#ifndef GM_IMAGE_CORE_DISK_H
#define GM_IMAGE_CORE_DISK_H

#include <pthread.h>
#include <stdbool.h>

#include "image/build_id.h"
#include "image/core_file.h"

/* A file that was searched for. */
struct gm_disk_file {
	const char *path; /* in the core's notes */
	enum gm_file_state state;
	char *found;                   /* where it is: the one that is the same; NULL: none */
	int fd;                        /* of it, once it was read; -1: not open */
	const uint8_t *bytes;          /* of all of it, while it is lent; NULL: not mapped */
	uint64_t size;                 /* of these */
	bool refused;                  /* it cannot be mapped */
	struct gm_build_id core, disk; /* of the core's, and of the last one that was another */
};

struct gm_core_disk {
	const struct gm_core_file *core;
	char *sysroot;        /* NULL: none */
	pthread_mutex_t lock; /* for the following */
	struct gm_disk_file *files;
	size_t count, capacity;
	uint32_t *file_of; /* of each of the core's mapped parts, plus 1; 0: not looked for. NULL:
	                      nothing was lent yet */
};

void gm_core_disk_init(struct gm_core_disk *disk, const struct gm_core_file *core);
void gm_core_disk_deinit(struct gm_core_disk *disk);
/* Files are searched for again. */
struct gm_error *gm_core_disk_set_sysroot(struct gm_core_disk *disk, const char *sysroot);

/* Looks for a file, once. False: no memory. The strings stay until the sysroot changes. */
bool gm_core_disk_file(struct gm_core_disk *disk, const char *path, struct gm_disk_file *ret_file);
/* Bytes of a mapping that only the mapped file has; never past the mapping. 0: it has none, or is
 * not there. */
size_t gm_core_disk_read(struct gm_core_disk *disk, const struct gm_core_mapped *mapped,
        uint64_t address, void *buffer, size_t size);
/* The bytes of a mapping's file from its first one on, mapped until gm_core_disk_borrow_end();
 * NULL: it cannot be mapped. By several threads at once. */
const uint8_t *gm_core_disk_borrow(
        struct gm_core_disk *disk, const struct gm_core_mapped *mapped, uint64_t *ret_size);
void gm_core_disk_borrow_end(struct gm_core_disk *disk);

#endif
