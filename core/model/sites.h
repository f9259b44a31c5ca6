/*
 * Sites: where events happened, as one number for each event. Stacks, thread and flags come in few
 * combinations, so an event keeps the number of its own in four bytes, and whoever goes through a
 * record by sites need not decode it again. Internal to core/model.
 */
#ifndef GM_MODEL_SITES_H
#define GM_MODEL_SITES_H

#include "base/array.h"
#include "log/log.h"

struct gm_site {
	uint64_t thread;
	uint32_t python_stack, native_stack;
	uint32_t flags;
	bool foreign; /* memory of another library, not of PyTorch */
};

enum { GM_SITES_NEAR = 1 << 12 };

struct gm_sites {
	GM_ARRAY(struct gm_site) items;
	uint32_t *slots; /* open-addressed: number of a site, plus 1; 0: free */
	size_t slot_count;
	uint32_t latest;              /* the number of the last event's */
	uint32_t near[GM_SITES_NEAR]; /* numbers of sites, by a few bits of them */
};

void gm_sites_deinit(struct gm_sites *sites);
/* The number of an event's site; false: no memory. */
bool gm_sites_put(struct gm_sites *sites, const struct gm_event *event, uint32_t *ret_site);
/* The table is needed no more: only sites that are there are looked up from here on. */
void gm_sites_finish(struct gm_sites *sites);

#endif
