/*
 * Checks that the objects that a sweep found are exactly those of the collector's lists, by the
 * links of the lists (sweep.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "cpython/sweep/sweep.h"
#include "cpython/sweep/sweep_inside.h"

enum {
	HEADS_MOST = 8 * GM_MAX_INTERPRETERS,
	FOLLOWED_MOST = 1 << 25,
};

struct lists {
	struct gm_sweep *sweep;
	struct gm_walker *walker;
	struct gm_address_set found, linked;
	uint64_t heads[HEADS_MOST]; /* the beginning of each list, as if an object followed */
	size_t head_count;
	GM_ARRAY(uint64_t)
	strange; /* the neighbour of something, and neither an object nor a head */
	bool unknown_head, no_memory;
};

static bool is_head(const struct lists *lists, uint64_t address)
{
	for (size_t i = 0; i < lists->head_count; i++)
		if (lists->heads[i] == address)
			return true;
	return false;
}

static void add_head(struct lists *lists, struct gm_python *python, uint64_t head)
{
	const struct gm_python_layout *l = &python->layout;
	uint64_t next = gm_py_field(python, head, l->gc_head_next) & ~UINT64_C(3);
	if (!next || lists->head_count == HEADS_MOST) {
		lists->unknown_head = true;
		return;
	}
	lists->heads[lists->head_count++] = head + (uint64_t)l->gc_head_size;
	if (!gm_address_set_add(&lists->linked, next + (uint64_t)l->gc_head_size, NULL))
		lists->no_memory = true;
}

static bool add_heads(void *context, struct gm_python *python, uint64_t interpreter)
{
	const struct gm_python_layout *l = &python->layout;
	struct lists *lists = context;
	for (int32_t i = 0; i < l->gc_generation_count; i++)
		add_head(lists, python,
		        interpreter +
		                (uint64_t)(l->interpreter_generations + i * l->gc_generation_size));
	add_head(lists, python, interpreter + (uint64_t)l->interpreter_permanent);
	return true;
}

/* From an object that was not found on, as long as the next one was not found either. */
static void follow(struct lists *lists, uint64_t object)
{
	const struct gm_python_layout *l = &lists->walker->python->layout;
	struct gm_sweep *sweep = lists->sweep;
	while (!lists->no_memory && !gm_address_set_has(&lists->found, object) &&
	        !is_head(lists, object)) {
		const uint8_t *links = gm_store_at(
		        &lists->walker->store, object - (uint64_t)l->gc_head_size, GM_POOL_HEAD);
		uint8_t copy[GM_POOL_HEAD];
		if (!links || sweep->followed.count >= FOLLOWED_MOST ||
		        !gm_py_is_tracked(lists->walker, memcpy(copy, links, sizeof(copy)))) {
			lists->no_memory |= !gm_array_push(&lists->strange, object);
			return;
		}
		uint64_t next = (gm_u64_at(copy, l->gc_head_next) & ~UINT64_C(3)) +
		                (uint64_t)l->gc_head_size;
		if (!gm_array_push(&sweep->followed, object) ||
		        !gm_address_set_add(&lists->found, object, NULL) ||
		        !gm_address_set_add(&lists->linked, next, NULL))
			lists->no_memory = true;
		object = next;
	}
}

static void follow_all(struct lists *lists)
{
	size_t count = gm_address_set_difference(&lists->linked, &lists->found, NULL, 0);
	uint64_t *missed = malloc((count + 1) * sizeof(*missed));
	uint64_t *scratch = malloc((count + 1) * sizeof(*scratch));
	if (missed && scratch) {
		gm_address_set_difference(&lists->linked, &lists->found, missed, count);
		gm_sort_by_address(missed, scratch, count, sizeof(*missed));
		for (size_t i = 0; i < count; i++)
			follow(lists, missed[i]);
	}
	lists->no_memory |= !missed || !scratch;
	free(missed);
	free(scratch);
	struct gm_sweep *sweep = lists->sweep;
	scratch = malloc((sweep->followed.count + 1) * sizeof(*scratch));
	if (scratch && sweep->followed.count > 1)
		gm_sort_by_address(
		        sweep->followed.items, scratch, sweep->followed.count, sizeof(*scratch));
	lists->no_memory |= !scratch;
	free(scratch);
}

static uint64_t linked_to(struct lists *lists, uint64_t object, int32_t link)
{
	const struct gm_python_layout *l = &lists->walker->python->layout;
	const uint8_t *links = gm_store_at(
	        &lists->walker->store, object - (uint64_t)l->gc_head_size, GM_POOL_HEAD);
	return links ? (gm_u64_at(links, link) & ~UINT64_C(7)) + (uint64_t)l->gc_head_size : 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/*
 * A candidate that is the next of nothing only looked like an object, and is removed; what was
 * unexplained only because of it is not any more. If it led to an object, that object must have
 * another predecessor, as its own link says. Returns how many are not explained by this.
 */
static size_t leave_out(struct lists *lists, const uint64_t *alone, size_t count)
{
	const struct gm_python_layout *l = &lists->walker->python->layout;
	size_t wrong = 0, explained = 0;
	uint64_t *led_to = malloc((count + 1) * sizeof(*led_to));
	if (!led_to) {
		lists->no_memory = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		gm_address_set_remove(&lists->found, alone[i]);
	for (size_t i = 0; i < count; i++) {
		uint64_t next = led_to[i] = linked_to(lists, alone[i], l->gc_head_next);
		if (!gm_address_set_has(&lists->found, next))
			continue;
		uint64_t before = linked_to(lists, next, l->gc_head_previous);
		wrong += (!gm_address_set_has(&lists->found, before) && !is_head(lists, before)) ||
		         linked_to(lists, before, l->gc_head_next) != next;
	}
	if (count > 1)
		qsort(led_to, count, sizeof(*led_to), by_number);
	for (size_t i = 0; i < lists->strange.count; i++)
		explained += count > 0 && bsearch(&lists->strange.items[i], led_to, count,
		                                  sizeof(*led_to), by_number) != NULL;
	free(led_to);
	return wrong + lists->strange.count - explained;
}

/*
 * Every object is the next of something, and every next is an object or the beginning of a list:
 * there are as many objects as links, so the links form cycles, which contain all beginnings of
 * lists. Python creates no cycle without a beginning.
 */
static bool is_whole(struct lists *lists)
{
	enum { ALONE_MOST = 1 << 16 };
	size_t alone = gm_address_set_difference(&lists->found, &lists->linked, NULL, 0);
	size_t some = lists->found.count / 64 + 64, wrong;
	if (alone > ALONE_MOST || alone > some || lists->unknown_head || lists->no_memory)
		return false;
	uint64_t *list = malloc((alone + 1) * sizeof(*list));
	if (!list)
		return false;
	gm_address_set_difference(&lists->found, &lists->linked, list, alone);
	wrong = leave_out(lists, list, alone);
	free(list);
	/* if it ran meanwhile, a few were created and freed */
	bool runs = gm_image_goes_on(lists->sweep->walk.python->image);
	return !lists->no_memory && wrong <= (runs ? some : 0);
}

bool gm_sweep_objects(struct gm_sweep *sweep, struct gm_address_set *ret_objects)
{
	struct lists *lists = calloc(1, sizeof(*lists));
	struct gm_sweeper *first = gm_sweeper_of(sweep, 0);
	bool whole = lists && first;
	if (whole) {
		lists->sweep = sweep;
		lists->walker = first->walker;
		for (size_t i = 0; i < GM_SWEEP_THREADS && whole; i++)
			if (sweep->sweepers[i])
				whole = !sweep->sweepers[i]->no_memory &&
				        gm_address_set_take(
				                &lists->found, &sweep->sweepers[i]->found) &&
				        gm_address_set_take(
				                &lists->linked, &sweep->sweepers[i]->linked) &&
				        gm_address_set_take(
				                &sweep->others, &sweep->sweepers[i]->others);
	}
	if (whole) {
		gm_py_each_interpreter(sweep->walk.python, add_heads, lists);
		follow_all(lists);
		whole = is_whole(lists);
	}
	if (whole) {
		*ret_objects = lists->found;
		lists->found = (struct gm_address_set){0};
	}
	if (lists) {
		gm_address_set_deinit(&lists->found);
		gm_address_set_deinit(&lists->linked);
		gm_array_deinit(&lists->strange);
	}
	free(lists);
	return whole;
}
