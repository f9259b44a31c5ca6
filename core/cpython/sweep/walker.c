#include "cpython/sweep/walker.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

/* --- a thread's state ------------------------------------------------------------------------- */

struct gm_walker *gm_walker_create(struct gm_list_walk *walk, size_t frames)
{
	struct gm_walker *walker = calloc(1, sizeof(*walker));
	if (!walker)
		return NULL;
	walker->walk = walk;
	walker->python = walk->python;
	walker->large = malloc(GM_WALK_LARGE);
	if (walker->large && gm_store_init(&walker->store, walk->python->image, frames))
		return walker;
	free(walker->large);
	free(walker);
	return NULL;
}

void gm_walker_destroy(struct gm_walker *walker)
{
	gm_store_deinit(&walker->store);
	gm_address_set_deinit(&walker->large_pages);
	free(walker->large);
	gm_array_deinit(&walker->addresses);
	gm_array_deinit(&walker->requests);
	gm_array_deinit(&walker->unknown);
	gm_array_deinit(&walker->references);
	gm_array_deinit(&walker->starts);
	gm_array_deinit(&walker->slow);
	gm_array_deinit(&walker->late);
	gm_array_deinit(&walker->outside);
	gm_array_deinit(&walker->scratch);
	gm_array_deinit(&walker->raw);
	free(walker);
}

static bool is_read_by_caller(const struct gm_walker *walker, const struct gm_type *type)
{
	const char *const *names = walker->walk->options->read_by_caller;
	for (; names && *names; names++)
		for (const struct gm_type *base = type; base; base = base->base)
			if (!strcmp(base->full_name, *names))
				return true;
	return false;
}

const struct gm_walk_type *gm_walk_type_at(struct gm_walker *walker, uint64_t address)
{
	size_t slot = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (GM_WALK_TYPES - 1);
	struct gm_walk_type *known = &walker->types[slot];
	struct gm_dict_keys keys;
	if (known->address == address)
		return known->type ? known : NULL;
	if (!address || address & 7)
		return NULL;
	pthread_mutex_lock(&walker->walk->lock);
	known->type = gm_py_type(walker->python, address);
	known->inline_count = 0;
	known->special = false;
	for (const char *const *name = walker->walk->special; known->type && name && *name; name++)
		known->special |= strcmp(known->type->name, *name) == 0;
	known->guess_from = known->type && !is_read_by_caller(walker, known->type)
	                            ? known->type->guess_from
	                            : 0;
	if (known->type && known->type->cached_keys &&
	        gm_py_read_keys(walker->python, known->type->cached_keys, &keys))
		known->inline_count = keys.count > GM_MAX_INLINE_VALUES ? GM_MAX_INLINE_VALUES
		                                                        : (uint32_t)keys.count;
	pthread_mutex_unlock(&walker->walk->lock);
	known->address = address;
	return known->type ? known : NULL;
}

static uint64_t *atom_slot(struct gm_walker *walker, uint64_t address)
{
	return &walker->atoms[(address * UINT64_C(0x9e3779b97f4a7c15) >> 44) & (GM_WALK_ATOMS - 1)];
}

void gm_walk_is_atom(struct gm_walker *walker, uint64_t address)
{
	*atom_slot(walker, address) = address;
}

bool gm_walk_is_counted(const struct gm_walker *walker, const uint8_t *head)
{
	const struct gm_python_layout *layout = &walker->python->layout;
	/* immortal objects have 32 bits set, and possibly what extensions of older versions have
	 * added (3.12: Include/object.h) */
	uint64_t count = gm_refcount_in(layout, gm_u64_at(head, layout->object_refcount));
	return count != 0 && count <= UINT64_C(1) << 40;
}

/* Is it a string, a number or code, or no object at all? `head`: its bytes up to its type. */
static bool is_atom(struct gm_walker *walker, const uint8_t *head)
{
	const struct gm_walk_type *type =
	        gm_walk_type_at(walker, gm_u64_at(head, walker->python->layout.object_type));
	return !type || type->type->atom || !gm_walk_is_counted(walker, head);
}

static bool push_reference(struct gm_walker *walker, struct gm_walk_reference reference)
{
	struct gm_walk_late late = {reference, walker->position};
	return walker->is_late ? gm_array_push(&walker->late, late)
	                       : gm_array_push(&walker->references, reference);
}

static void look_at(struct gm_walker *walker, struct gm_walk_head *waiting)
{
	const uint8_t *head = waiting->head;
	waiting->head = NULL;
	if (!head)
		return;
	if (!is_atom(walker, head)) {
		if (!gm_array_push(&walker->outside, waiting->reference))
			walker->no_memory = true;
	} else if (gm_u64_at(head, 0) !=
	           1) { /* its reference count: other holders will reach it too */
		*atom_slot(walker, waiting->reference.to) = waiting->reference.to;
	}
}

/* Targets that are not in the set are examined here if their memory is cached, otherwise together
 * with others nearby. They are usually not in the processor's cache: they are prefetched while some
 * others are examined. */
static bool push_unknown(struct gm_walker *walker, struct gm_walk_outside unknown)
{
	const uint8_t *head = gm_kept_have_near(walker->store.kept, unknown.to,
	        (size_t)walker->python->layout.object_type + 8, &walker->near_kept);
	if (!head)
		return gm_array_push(&walker->unknown, unknown);
	struct gm_walk_head *place = &walker->ahead[walker->next_ahead];
	walker->next_ahead = (walker->next_ahead + 1) % GM_WALK_AHEAD;
	__builtin_prefetch(head + walker->python->layout.object_type);
	look_at(walker, place);
	*place = (struct gm_walk_head){unknown, head};
	return true;
}

void gm_walk_emit_rest(struct gm_walker *walker)
{
	for (size_t i = 0; i < GM_WALK_AHEAD; i++)
		look_at(walker, &walker->ahead[i]);
}

/* --- in a sweep ------------------------------------------------------------------------------- */

/*
 * A target is examined if it is in these chunks, or elsewhere if it is met repeatedly: a list of
 * millions of Nones must not be stored.
 */
enum gm_looked gm_walk_look_at(struct gm_walker *walker, uint64_t target, const uint8_t *head)
{
	const struct gm_walk_type *known =
	        gm_walk_type_at(walker, gm_u64_at(head, walker->python->layout.object_type));
	if (!known || !gm_walk_is_counted(walker, head))
		return GM_NO_OBJECT;
	/* a tracked object is in the set, even if it holds nothing */
	if (known->type->atom && known->type->flags & GM_TYPE_FLAG_HAVE_GC)
		return GM_NOT_LOOKED;
	if (known->type->atom && gm_u64_at(head, 0) != 1)
		gm_walk_is_atom(walker, target);
	return known->type->atom ? GM_HOLDS_NOTHING : GM_MAY_HOLD;
}

enum gm_looked gm_walk_look_there(struct gm_walker *walker, uint64_t target)
{
	const size_t size = (size_t)walker->python->layout.object_type + 8;
	const uint8_t *head = gm_store_at(&walker->store, target, size);
	uint8_t copy[GM_WALK_HEAD];
	if (!head)
		return GM_NO_OBJECT;
	if (size > sizeof(copy))
		return GM_NOT_LOOKED;
	return gm_walk_look_at(walker, target, memcpy(copy, head, size));
}

static enum gm_looked look(struct gm_walker *walker, uint64_t target)
{
	enum { OFTEN = 32 };
	const size_t size = (size_t)walker->python->layout.object_type + 8;
	const uint8_t *head = gm_store_have_near(&walker->store, target, size, &walker->near_kept);
	uint8_t copy[GM_WALK_HEAD];
	if (head)
		return gm_walk_look_at(walker, target, head);
	struct gm_walk_met *met =
	        &walker->met[(target * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (GM_WALK_MET - 1)];
	if (met->address != target)
		*met = (struct gm_walk_met){target, 0, GM_NOT_LOOKED};
	if (++met->times == OFTEN && size <= sizeof(copy) &&
	        gm_image_try_read(walker->python->image, target, copy, size))
		met->looked = gm_walk_look_at(walker, target, copy);
	return (enum gm_looked)met->looked;
}

static void emit_by_address(
        struct gm_walker *walker, uint32_t from, uint64_t target, uint32_t extra)
{
	enum gm_looked looked = look(walker, target);
	struct gm_walk_outside reference = {
	        target, from, extra | (looked == GM_MAY_HOLD ? GM_WALK_LOOKED_AT : 0)};
	if (looked == GM_HOLDS_NOTHING || looked == GM_NO_OBJECT)
		return;
	if (!gm_array_push(&walker->raw, reference))
		walker->no_memory = true;
}

/* --- references ---------------------------------------------------------------------------------
 */

void gm_walk_emit(struct gm_walker *walker, uint32_t from, uint64_t target, uint32_t extra)
{
	if (!target || target & 7 || *atom_slot(walker, target) == target)
		return;
	if (walker->by_address) {
		emit_by_address(walker, from, target, extra);
		return;
	}
	uint32_t to =
	        gm_address_set_find_near(walker->walk->options->objects, target, &walker->near);
	struct gm_walk_reference reference = {from, to, extra};
	struct gm_walk_outside unknown = {target, from, extra};
	if (to != GM_NO_ADDRESS_NUMBER ? !push_reference(walker, reference)
	                               : !push_unknown(walker, unknown))
		walker->no_memory = true;
}

/* Targets that are not in the set: all but strings, numbers and code. */
static void sort_out_unknown(struct gm_walker *walker)
{
	size_t count = walker->unknown.count;
	struct gm_walk_outside *unknown = walker->unknown.items;
	const size_t head_size = (size_t)walker->python->layout.object_type + 8;
	uint64_t last = 0;
	bool last_is_atom = true;
	if (!gm_array_reserve(&walker->scratch, count * sizeof(*unknown) + 1)) {
		walker->no_memory = true;
		return;
	}
	gm_sort_by_address(unknown, walker->scratch.items, count, sizeof(*unknown));
	for (size_t i = 0; i < count; i++) {
		if (unknown[i].to != last) {
			const uint8_t *head = gm_store_at(&walker->store, unknown[i].to, head_size);
			last = unknown[i].to;
			last_is_atom = !head || is_atom(walker, head);
			if (last_is_atom)
				*atom_slot(walker, last) = last;
		}
		if (!last_is_atom && !gm_array_push(&walker->outside, unknown[i]))
			walker->no_memory = true;
	}
}

static int by_holder(const void *a, const void *b)
{
	const struct gm_walk_outside *left = a, *right = b;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return left->extra < right->extra ? -1 : left->extra > right->extra;
}

/* What is cached depends on timing: sorted by target, then by holder, the order is the same each
 * time. */
static void sort_outside(struct gm_walker *walker)
{
	size_t count = walker->outside.count;
	struct gm_walk_outside *outside = walker->outside.items;
	if (!gm_array_reserve(&walker->scratch, count * sizeof(*outside) + 1)) {
		walker->no_memory = true;
		return;
	}
	gm_sort_by_address(outside, walker->scratch.items, count, sizeof(*outside));
	for (size_t first = 0, end; first < count; first = end) {
		bool sorted = true;
		for (end = first + 1; end < count && outside[end].to == outside[first].to; end++)
			sorted &= by_holder(&outside[end - 1], &outside[end]) <= 0;
		if (!sorted)
			qsort(outside + first, end - first, sizeof(*outside), by_holder);
	}
}

/* References that were found late come after the others of their object. */
static void sort_in_late(struct gm_walker *walker, size_t objects)
{
	size_t count = walker->references.count + walker->late.count, made = 0;
	uint32_t *next = calloc(objects + 1, sizeof(*next));
	struct gm_walk_late *late = malloc((walker->late.count + 1) * sizeof(*late));
	struct gm_walk_reference *merged = malloc((count + 1) * sizeof(*merged));
	if (!next || !late || !merged) {
		walker->no_memory = true;
		free(merged);
	} else {
		for (size_t i = 0; i < walker->late.count; i++)
			next[walker->late.items[i].position + 1]++;
		for (size_t i = 1; i <= objects; i++)
			next[i] += next[i - 1];
		for (size_t i = 0; i < walker->late.count; i++)
			late[next[walker->late.items[i].position]++] = walker->late.items[i];
		for (size_t i = 0, at = 0; i < objects; i++) {
			size_t end = i + 1 < objects ? walker->starts.items[i + 1]
			                             : walker->references.count;
			for (size_t k = walker->starts.items[i]; k < end; k++)
				merged[made++] = walker->references.items[k];
			for (; at < next[i]; at++)
				merged[made++] = late[at].reference;
		}
		free(walker->references.items);
		walker->references.items = merged;
		walker->references.count = made;
		walker->references.capacity = count + 1;
	}
	free(next);
	free(late);
}

/* --- the end of a batch ------------------------------------------------------------------------
 */

/* An array's memory without its spare capacity. */
static void *cut(void *items, size_t bytes)
{
	void *shorter = bytes ? realloc(items, bytes) : NULL;
	return shorter ? shorter : items;
}

static void hand_over(struct gm_walker *walker, struct gm_walk_batch *batch)
{
	batch->reference_count = walker->references.count;
	batch->references = cut(walker->references.items,
	        walker->references.count * sizeof(*walker->references.items));
	batch->outside_count = walker->outside.count;
	batch->outside =
	        cut(walker->outside.items, walker->outside.count * sizeof(*walker->outside.items));
	memset(&walker->references, 0, sizeof(walker->references));
	memset(&walker->outside, 0, sizeof(walker->outside));
}

void gm_walk_batch_end(struct gm_walker *walker, struct gm_walk_batch *batch)
{
	sort_out_unknown(walker);
	gm_walk_emit_rest(walker);
	if (walker->late.count > 0 && !walker->no_memory)
		sort_in_late(walker, walker->starts.count);
	sort_outside(walker);
	hand_over(walker, batch);
}
