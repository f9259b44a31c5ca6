/*
 * Resolves the references of a sweep's objects from addresses to numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/sort.h"
#include "base/team.h"
#include "cpython/sweep/sweep.h"
#include "cpython/sweep/sweep_inside.h"
#include "cpython/sweep/walk.h"

static int by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/* --- groups ----------------------------------------------------------------------------------- */

static bool gather_special(struct gm_sweep *sweep)
{
	for (size_t i = 0; i < GM_SWEEP_THREADS; i++) {
		const struct gm_sweeper *sweeper = sweep->sweepers[i];
		for (size_t k = 0; sweeper && k < sweeper->special.count; k++)
			if (!gm_array_push(&sweep->special, sweeper->special.items[k]))
				return false;
	}
	if (sweep->special.count > 1)
		qsort(sweep->special.items, sweep->special.count, sizeof(uint64_t), by_number);
	return true;
}

/* In the order of addresses, whichever thread found them. */
static bool gather(struct gm_sweep *sweep)
{
	size_t count = 0;
	for (size_t i = 0; i < GM_SWEEP_THREADS; i++)
		count += sweep->sweepers[i] ? sweep->sweepers[i]->parts.count : 0;
	void *scratch = malloc((count + 1) * sizeof(struct gm_sweep_part));
	if (!scratch || !gm_array_reserve(&sweep->parts, count + 1)) {
		free(scratch);
		return false;
	}
	for (size_t i = 0; i < GM_SWEEP_THREADS; i++) {
		struct gm_sweeper *sweeper = sweep->sweepers[i];
		if (!sweeper || sweeper->parts.count == 0)
			continue;
		memcpy(sweep->parts.items + sweep->parts.count, sweeper->parts.items,
		        sweeper->parts.count * sizeof(struct gm_sweep_part));
		sweep->parts.count += sweeper->parts.count;
		gm_array_deinit(&sweeper->parts);
	}
	gm_sort_by_address(sweep->parts.items, scratch, count, sizeof(struct gm_sweep_part));
	free(scratch);
	/* for equal addresses a chunk's part comes first: the same thread created it before the
	 * others */
	for (uint32_t i = 0, chunk = 0; i < count; i++) {
		chunk = sweep->parts.items[i].chunk == GM_SWEEP_LATE ? chunk : i;
		sweep->parts.items[i].chunk = chunk;
	}
	return true;
}

static bool make_groups(struct gm_sweep *sweep)
{
	size_t sum = GM_SWEEP_GROUP;
	for (size_t i = 0; i < sweep->parts.count; i++) {
		if (sum >= GM_SWEEP_GROUP && !gm_array_push(&sweep->groups, i))
			return false;
		sum = (sum >= GM_SWEEP_GROUP ? 0 : sum) + sweep->parts.items[i].count;
	}
	return true;
}

struct resolving {
	const struct gm_sweep *sweep;
	struct gm_walker *walker;
	const struct gm_address_chunk *near; /* the position of the last holder */
	/* for holders that the collector does not track, which ascend: the position of the last one
	 * */
	size_t parts;                     /* that begin at it or before */
	const struct gm_sweep_part *part; /* the last that was searched ... */
	size_t reference;                 /* ... and where it was in that */
};

static void resolve(struct resolving *resolving, uint32_t from, uint64_t target, uint32_t extra)
{
	const struct gm_sweep *sweep = resolving->sweep;
	struct gm_walker *walker = resolving->walker;
	uint32_t to = gm_address_set_find_near(sweep->objects, target, &walker->near);
	struct gm_walk_reference known = {from, to, extra & ~GM_WALK_LOOKED_AT};
	struct gm_walk_outside other = {target, from, extra & ~GM_WALK_LOOKED_AT};
	bool pushed = true;
	/* A block in which no object was found contains a string, a number, code or nothing. So
	 * does one of which only the first words could be an object's: whether those were examined
	 * depends on timing. */
	if (to != GM_NO_ADDRESS_NUMBER)
		pushed = gm_array_push(&walker->references, known);
	else if (gm_address_set_has(&sweep->others, target))
		pushed = gm_array_push(&walker->outside, other);
	else if (!gm_sweep_is_block(sweep, target))
		pushed = extra & GM_WALK_LOOKED_AT ? gm_array_push(&walker->outside, other)
		                                   : gm_array_push(&walker->unknown, other);
	walker->no_memory |= !pushed;
}

static void resolve_part(struct resolving *resolving, const struct gm_sweep_part *part)
{
	const struct gm_sweep *sweep = resolving->sweep;
	const struct gm_sweeper *sweeper = sweep->sweepers[part->thread];
	const struct gm_walk_outside *raw = sweeper->walker->raw.items + part->first;
	uint32_t last = UINT32_MAX, from = GM_NO_ADDRESS_NUMBER;
	for (size_t i = 0; i < part->count; i++) {
		if (raw[i].from != last) {
			last = raw[i].from;
			from = gm_address_set_find_near(
			        sweep->objects, sweeper->objects.items[last], &resolving->near);
		}
		if (from != GM_NO_ADDRESS_NUMBER)
			resolve(resolving, from, raw[i].to, raw[i].extra);
	}
}

/* A walker for one group, which no other thread uses. */
static struct gm_walker *take_idle(struct gm_sweep *sweep)
{
	pthread_mutex_lock(&sweep->walk.lock);
	struct gm_walker *walker = sweep->idle_count > 0 ? sweep->idle[--sweep->idle_count] : NULL;
	pthread_mutex_unlock(&sweep->walk.lock);
	return walker ? walker : gm_walker_create(&sweep->walk, GM_WALK_FEW_FRAMES);
}

static void put_idle(struct gm_sweep *sweep, struct gm_walker *walker)
{
	pthread_mutex_lock(&sweep->walk.lock);
	sweep->no_memory |= walker->no_memory;
	if (sweep->idle_count < GM_SWEEP_THREADS) {
		sweep->idle[sweep->idle_count++] = walker;
		walker = NULL;
	}
	pthread_mutex_unlock(&sweep->walk.lock);
	if (walker)
		gm_walker_destroy(walker);
}

static void note_no_memory(struct gm_sweep *sweep)
{
	pthread_mutex_lock(&sweep->walk.lock);
	sweep->no_memory = true;
	pthread_mutex_unlock(&sweep->walk.lock);
}

/* Appends items to an array that all threads share, with the lock held. */
#define APPEND(sweep, all, items_, count_)                                                        \
	do {                                                                                      \
		size_t more_ = (count_);                                                          \
		if (!gm_array_reserve((all), more_)) {                                            \
			(sweep)->no_memory = true;                                                \
		} else if (more_ > 0) {                                                           \
			memcpy((all)->items + (all)->count, (items_), more_ * sizeof(*(items_))); \
			(all)->count += more_;                                                    \
		}                                                                                 \
	} while (0)

/* Unknown targets are everywhere: those of all groups are examined together. */
static void hand_over(struct gm_sweep *sweep, struct resolving *resolving)
{
	struct gm_walker *walker = resolving->walker;
	pthread_mutex_lock(&sweep->walk.lock);
	APPEND(sweep, &sweep->unknown, walker->unknown.items, walker->unknown.count);
	pthread_mutex_unlock(&sweep->walk.lock);
	walker->unknown.count = 0;
}

static void resolve_group(void *context, size_t number)
{
	struct gm_sweep *sweep = context;
	struct resolving resolving = {.sweep = sweep, .walker = take_idle(sweep)};
	size_t end = number + 1 < sweep->groups.count ? sweep->groups.items[number + 1]
	                                              : sweep->parts.count;
	if (!resolving.walker) {
		note_no_memory(sweep);
		return;
	}
	resolving.walker->unknown.count = 0;
	size_t most = 0;
	for (size_t i = sweep->groups.items[number]; i < end; i++)
		most += sweep->parts.items[i].count;
	if (!gm_array_reserve(&resolving.walker->references, most))
		resolving.walker->no_memory = true;
	for (size_t i = sweep->groups.items[number]; i < end && !resolving.walker->no_memory; i++)
		resolve_part(&resolving, &sweep->parts.items[i]);
	hand_over(sweep, &resolving);
	gm_walk_batch_end(resolving.walker, &sweep->batches[number]);
	put_idle(sweep, resolving.walker);
}

/* Examines a range of unknown targets, whose addresses ascend. */
static void look_at_range(void *context, size_t number)
{
	struct gm_sweep *sweep = context;
	struct gm_walker *walker = take_idle(sweep);
	size_t first = sweep->ranges.items[number], last = sweep->ranges.items[number + 1];
	if (!walker) {
		note_no_memory(sweep);
		return;
	}
	walker->unknown.count = 0;
	if (gm_array_reserve(&walker->unknown, last - first)) {
		memcpy(walker->unknown.items, sweep->unknown.items + first,
		        (last - first) * sizeof(*walker->unknown.items));
		walker->unknown.count = last - first;
	} else {
		walker->no_memory = true;
	}
	gm_walk_batch_end(walker, &sweep->batches[sweep->groups.count + number]);
	put_idle(sweep, walker);
}

/* Splits the unknown targets between different addresses. */
static bool make_ranges(struct gm_sweep *sweep)
{
	enum { RANGE = 1 << 14 };
	size_t count = sweep->unknown.count;
	struct gm_walk_outside *unknown = sweep->unknown.items;
	void *scratch = malloc((count + 1) * sizeof(*unknown));
	if (!scratch || !gm_array_push(&sweep->ranges, 0)) {
		free(scratch);
		return false;
	}
	if (count > 0)
		gm_sort_by_address(unknown, scratch, count, sizeof(*unknown));
	free(scratch);
	for (size_t at = RANGE; at < count; at += RANGE) {
		while (at < count && unknown[at].to == unknown[at - 1].to)
			at++;
		if (at < count && !gm_array_push(&sweep->ranges, at))
			return false;
	}
	return count == 0 || gm_array_push(&sweep->ranges, count);
}

/* Objects that were found by their links are outside of pools: they are walked separately. */
static struct gm_error *walk_followed(struct gm_sweep *sweep, struct gm_walk_result *ret_result)
{
	size_t count = sweep->followed.count;
	if (count == 0)
		return NULL;
	uint32_t *numbers = malloc(count * sizeof(*numbers));
	if (!numbers)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		numbers[i] = gm_address_set_find(sweep->objects, sweep->followed.items[i]);
	struct gm_walk_options options = {.objects = sweep->objects,
	        .addresses = sweep->followed.items,
	        .numbers = numbers,
	        .count = count,
	        .read_by_caller = sweep->options.read_by_caller};
	struct gm_error *error = gm_python_walk(sweep->walk.python, &options, ret_result);
	free(numbers);
	return error;
}

struct gm_error *gm_sweep_references(struct gm_sweep *sweep, const struct gm_address_set *objects,
        struct gm_walk_result *ret_result)
{
	struct gm_walk_result followed = {0}, result = {0};
	sweep->objects = sweep->options.objects = objects;
	if (!gm_sweep_gather_pools(sweep) || !gather_special(sweep) || !gather(sweep) ||
	        !make_groups(sweep))
		return &gm_error_no_memory;
	gm_try(walk_followed(sweep, &followed));
	result.batches = calloc(sweep->groups.count + 1, sizeof(*result.batches));
	bool done = result.batches != NULL;
	if (done) {
		sweep->batches = result.batches;
		result.count = sweep->groups.count;
		gm_team_run(sweep->groups.count, resolve_group, sweep);
		done = !sweep->no_memory && make_ranges(sweep);
	}
	size_t ranges = done ? sweep->ranges.count - 1 : 0;
	size_t all = result.count + ranges + followed.count;
	struct gm_walk_batch *more =
	        done ? realloc(result.batches, (all + 1) * sizeof(*more)) : NULL;
	if (more) {
		result.batches = sweep->batches = more;
		memset(more + result.count, 0, (all - result.count) * sizeof(*more));
		gm_team_run(ranges, look_at_range, sweep);
		if (followed.count > 0)
			memcpy(more + result.count + ranges, followed.batches,
			        followed.count * sizeof(*more));
		result.count = all;
		followed.count = 0;
	}
	gm_walk_result_deinit(&followed);
	if (!more || sweep->no_memory) {
		gm_walk_result_deinit(&result);
		return &gm_error_no_memory;
	}
	*ret_result = result;
	return NULL;
}

/* --- what the collector does not track -------------------------------------------------------- */

bool gm_sweep_is_plain(const struct gm_sweep *sweep, uint64_t object)
{
	return gm_address_set_has(&sweep->others, object) &&
	       (sweep->special.count == 0 ||
	               !bsearch(&object, sweep->special.items, sweep->special.count, sizeof(object),
	                       by_number));
}

/* The number of parts that begin at or before `address`. Usually the same as for the last holder.
 * */
static size_t parts_up_to(struct resolving *resolving, uint64_t address)
{
	const struct gm_sweep *sweep = resolving->sweep;
	const struct gm_sweep_part *parts = sweep->parts.items;
	size_t last = resolving->parts, count = sweep->parts.count;
	if ((last > 0 && parts[last - 1].first_object > address) ||
	        (last < count && parts[last].first_object <= address))
		resolving->parts =
		        gm_partition_point(count, middle, parts[middle].first_object <= address);
	return resolving->parts;
}

/* In a chunk's part, whose holders ascend: the first reference of this holder or a later one. The
 * search starts at the last holder's position, with doubling steps. */
static size_t first_reference(struct resolving *resolving, const struct gm_sweeper *sweeper,
        const struct gm_sweep_part *part, uint64_t holder)
{
	const struct gm_walk_outside *raw = sweeper->walker->raw.items;
	const uint64_t *objects = sweeper->objects.items;
	size_t low = part->first, end = part->first + part->count, high, step = 1;
	if (resolving->part == part && objects[raw[resolving->reference].from] < holder)
		low = resolving->reference + 1;
	for (high = low; high < end && objects[raw[high].from] < holder; step *= 2) {
		low = high + 1;
		high = end - low < step ? end : low + step;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (objects[raw[middle].from] < holder)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < end) {
		resolving->part = part;
		resolving->reference = low;
	}
	return low;
}

/* The references of a holder in this part. */
static void resolve_holder(struct resolving *resolving, const struct gm_sweep_part *part,
        uint64_t holder, uint32_t number)
{
	const struct gm_sweeper *sweeper = resolving->sweep->sweepers[part->thread];
	const struct gm_walk_outside *raw = sweeper->walker->raw.items;
	for (size_t i = first_reference(resolving, sweeper, part, holder);
	        i < part->first + part->count && sweeper->objects.items[raw[i].from] == holder; i++)
		resolve(resolving, number, raw[i].to, raw[i].extra);
}

/* All references of one holder: in its chunk's part, and in its own parts. */
static void resolve_other(struct resolving *resolving, uint64_t holder, uint32_t number)
{
	const struct gm_sweep *sweep = resolving->sweep;
	size_t end = parts_up_to(resolving, holder), first = end;
	while (first > 0 && sweep->parts.items[first - 1].first_object == holder)
		first--;
	if (end == 0)
		return;
	size_t chunk = sweep->parts.items[first < end ? first : end - 1].chunk;
	resolve_holder(resolving, &sweep->parts.items[chunk], holder, number);
	for (; first < end; first++)
		if (first != chunk)
			resolve_holder(resolving, &sweep->parts.items[first], holder, number);
}

struct untracked {
	uint64_t *addresses; /* that were not swept */
	uint32_t *numbers;
	size_t count;
	struct gm_walk_batch batch; /* of those that were */
};

static bool resolve_others(struct gm_sweep *sweep, const uint64_t *addresses,
        const uint32_t *numbers, size_t count, struct untracked *untracked)
{
	struct resolving resolving = {.sweep = sweep, .walker = take_idle(sweep)};
	if (!resolving.walker)
		return false;
	resolving.walker->unknown.count = 0;
	for (size_t i = 0; i < count; i++) {
		if (!gm_address_set_has(&sweep->others, addresses[i])) {
			untracked->addresses[untracked->count] = addresses[i];
			untracked->numbers[untracked->count++] = numbers[i];
			continue;
		}
		resolve_other(&resolving, addresses[i], numbers[i]);
	}
	gm_walk_batch_end(resolving.walker, &untracked->batch);
	put_idle(sweep, resolving.walker);
	return !sweep->no_memory;
}

struct gm_error *gm_sweep_untracked(struct gm_sweep *sweep, const uint64_t *addresses,
        const uint32_t *numbers, size_t count, struct gm_walk_result *ret_result)
{
	struct untracked untracked = {.addresses = malloc((count + 1) * sizeof(uint64_t)),
	        .numbers = malloc((count + 1) * sizeof(uint32_t))};
	struct gm_error *error = &gm_error_no_memory;
	struct gm_walk_result result = {0};
	if (untracked.addresses && untracked.numbers &&
	        resolve_others(sweep, addresses, numbers, count, &untracked)) {
		struct gm_walk_options options = {.objects = sweep->objects,
		        .addresses = untracked.addresses,
		        .numbers = untracked.numbers,
		        .count = untracked.count,
		        .read_by_caller = sweep->options.read_by_caller};
		error = gm_python_walk(sweep->walk.python, &options, &result);
	}
	struct gm_walk_batch *more =
	        error ? NULL : realloc(result.batches, (result.count + 1) * sizeof(*more));
	if (more) {
		result.batches = more;
		more[result.count++] = untracked.batch;
		*ret_result = result;
	} else {
		gm_walk_result_deinit(&result);
		free(untracked.batch.references);
		free(untracked.batch.outside);
		error = &gm_error_no_memory;
	}
	free(untracked.addresses);
	free(untracked.numbers);
	return error;
}
