#include "cpython/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/team.h"
#include "cpython/sweep/sweep_inside.h"

enum {
	RESERVED_REFERENCES = 2 << 20,
	RESERVED_OBJECTS = 1 << 20,
	/* bytes of references before they are reduced: of all threads together, of one, and the
	 * fraction of memory */
	LEAST_NOTED = 4 << 20,
	LEAST_NOTED_EACH = 1 << 20,
	NOTED_SHARE = 32,
	LATE_TIMES = 2, /* as many references may be added while the last arrays are read */
};

struct gm_sweep *gm_sweep_create(
        struct gm_python *python, const char *const *read_by_caller, const char *const *special)
{
	struct gm_sweep *sweep = calloc(1, sizeof(*sweep));
	if (!sweep)
		return NULL;
	sweep->options.read_by_caller = read_by_caller;
	sweep->walk = (struct gm_list_walk){
	        .python = python, .options = &sweep->options, .special = special};
	unsigned threads = gm_team_size();
	uint64_t resident = gm_image_resident(python->image);
	sweep->words = resident / sizeof(uint64_t);
	sweep->expected = resident / threads;
	sweep->least_noted = LEAST_NOTED / threads;
	if (sweep->least_noted < LEAST_NOTED_EACH)
		sweep->least_noted = LEAST_NOTED_EACH;
	pthread_mutex_init(&sweep->walk.lock, NULL);
	return sweep;
}

static void sweeper_destroy(struct gm_sweeper *sweeper)
{
	if (!sweeper)
		return;
	gm_walker_destroy(sweeper->walker);
	gm_address_set_deinit(&sweeper->found);
	gm_address_set_deinit(&sweeper->linked);
	gm_address_set_deinit(&sweeper->others);
	gm_array_deinit(&sweeper->objects);
	gm_array_deinit(&sweeper->special);
	gm_array_deinit(&sweeper->parts);
	gm_array_deinit(&sweeper->pools);
	free(sweeper);
}

void gm_sweep_destroy(struct gm_sweep *sweep)
{
	if (!sweep)
		return;
	for (size_t i = 0; i < GM_SWEEP_THREADS; i++)
		sweeper_destroy(sweep->sweepers[i]);
	for (size_t i = 0; i < sweep->idle_count; i++)
		gm_walker_destroy(sweep->idle[i]);
	gm_address_set_deinit(&sweep->others);
	gm_array_deinit(&sweep->followed);
	gm_array_deinit(&sweep->special);
	gm_array_deinit(&sweep->parts);
	gm_array_deinit(&sweep->groups);
	gm_array_deinit(&sweep->unknown);
	gm_array_deinit(&sweep->ranges);
	free(sweep->pools);
	pthread_mutex_destroy(&sweep->walk.lock);
	free(sweep);
}

struct gm_sweeper *gm_sweeper_of(struct gm_sweep *sweep, unsigned thread)
{
	struct gm_sweeper *sweeper = sweep->sweepers[thread];
	if (sweeper)
		return sweeper;
	sweeper = calloc(1, sizeof(*sweeper));
	if (!sweeper)
		return NULL;
	sweeper->walker = gm_walker_create(&sweep->walk, GM_WALK_FEW_FRAMES);
	if (!sweeper->walker) {
		free(sweeper);
		return NULL;
	}
	sweeper->walker->by_address = true;
	sweeper->walker->squeeze = gm_sweep_squeeze;
	sweeper->walker->sweeper = sweeper;
	sweeper->walker->raw_most = sweep->words;
	/* address space: these grow to megabytes, and then need not be moved */
	(void)gm_array_reserve(&sweeper->walker->raw, RESERVED_REFERENCES);
	(void)gm_array_reserve(&sweeper->objects, RESERVED_OBJECTS);
	return sweep->sweepers[thread] = sweeper;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static bool note_objects(struct gm_sweeper *sweeper, size_t count)
{
	if (!gm_array_reserve(&sweeper->objects, count) ||
	        !gm_array_reserve(&sweeper->walker->starts, count + 1) ||
	        sweeper->objects.count + count > UINT32_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct gm_pool_object *found = &sweeper->chunk[i];
		bool added =
		        found->next
		                ? gm_address_set_add(&sweeper->found, found->object, NULL) &&
		                          gm_address_set_add(&sweeper->linked, found->next, NULL)
		                : gm_address_set_add(&sweeper->others, found->object, NULL);
		if (!added || (found->special && !gm_array_push(&sweeper->special, found->object)))
			return false;
		sweeper->addresses[i] = found->object;
		sweeper->objects.items[sweeper->objects.count + i] = found->object;
	}
	return true;
}

static void sweep_chunk(
        struct gm_sweeper *sweeper, unsigned thread, const struct gm_kept_chunk *chunk)
{
	struct gm_walker *walker = sweeper->walker;
	if (!gm_array_reserve(&sweeper->pools, GM_CHUNK_POOLS)) {
		sweeper->no_memory = true;
		return;
	}
	struct gm_pool_place *pools = sweeper->pools.items + sweeper->pools.count;
	size_t pool_count, count;
	count = gm_py_pool_objects(walker, chunk, sweeper->chunk, pools, &pool_count);
	sweeper->pools.count += pool_count;
	if (count == 0)
		return;
	sweeper->part_first = walker->raw.count;
	walker->starts.count = 0;
	if (!note_objects(sweeper, count)) {
		sweeper->no_memory = true;
		return;
	}
	gm_walk_objects(walker, sweeper->addresses, NULL, (uint32_t)sweeper->objects.count, count);
	sweeper->objects.count += count;
	struct gm_sweep_part part = {.first_object = sweeper->chunk[0].object,
	        .first = sweeper->part_first,
	        .count = walker->raw.count - sweeper->part_first,
	        .thread = thread};
	if (part.count > 0 && !gm_array_push(&sweeper->parts, part))
		sweeper->no_memory = true;
}

void gm_sweep_chunks(
        struct gm_sweep *sweep, unsigned thread, const struct gm_kept_chunk *chunks, size_t count)
{
	struct gm_sweeper *sweeper = gm_sweeper_of(sweep, thread);
	if (!sweeper)
		return;
	sweeper->walker->store.here = chunks;
	sweeper->walker->store.here_count = count;
	for (size_t i = 0; i < count && !sweeper->no_memory && !sweeper->walker->no_memory; i++)
		if (chunks[i].there) {
			sweeper->shown += GM_KEPT_CHUNK;
			uint64_t all =
			        sweeper->shown > sweep->expected ? sweeper->shown : sweep->expected;
			sweeper->walker->raw_limit = (sweep->least_noted + all / NOTED_SHARE) /
			                             sizeof(*sweeper->walker->raw.items);
			sweep_chunk(sweeper, thread, &chunks[i]);
		}
	sweeper->walker->store.here = NULL;
	sweeper->walker->store.here_count = 0;
}

bool gm_sweep_wants(
        struct gm_sweep *sweep, const struct gm_mapping *mapping, uint64_t start, uint64_t end)
{
	return gm_py_may_have_pools(sweep->walk.python, mapping, start, end);
}

void gm_sweep_check(struct gm_sweep *sweep, const struct gm_kept_chunk *chunks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (chunks[i].there && gm_py_has_pool(sweep->walk.python, &chunks[i]))
			atomic_store(&sweep->missed, true);
}

bool gm_sweep_missed(const struct gm_sweep *sweep)
{
	return atomic_load(&sweep->missed);
}

/* Each holder's own part. */
static void note_late(struct gm_sweeper *sweeper, unsigned thread, size_t first)
{
	struct gm_walker *walker = sweeper->walker;
	for (size_t end; first < walker->raw.count && !sweeper->no_memory; first = end) {
		uint32_t from = walker->raw.items[first].from;
		for (end = first + 1; end < walker->raw.count && end - first < GM_SWEEP_GROUP &&
		                      walker->raw.items[end].from == from;)
			end++;
		struct gm_sweep_part part = {
		        sweeper->objects.items[from], first, end - first, thread, GM_SWEEP_LATE};
		sweeper->no_memory |= !gm_array_push(&sweeper->parts, part);
	}
}

void gm_sweep_rest(struct gm_sweep *sweep, unsigned thread)
{
	struct gm_sweeper *sweeper = sweep->sweepers[thread];
	if (!sweeper)
		return;
	sweeper->part_first = sweeper->walker->raw.count;
	/* All pools were scanned, and only arrays are left. Their references are resolved faster
	 * later, by all threads and with the objects known, than by this thread alone. */
	sweeper->walker->raw_limit *= LATE_TIMES;
	gm_walk_arrays(sweeper->walker);
	gm_array_deinit(&sweeper->walker->requests);
	note_late(sweeper, thread, sweeper->part_first);
	sweeper->no_memory |= sweeper->walker->no_memory;
}
