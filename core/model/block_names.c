#include "model/block_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

enum { COMPARED = 64 };

bool gm_block_names_take(struct gm_block_names *names, const struct gm_log *log, uint64_t number,
        gm_find_named *find, void *context)
{
	size_t count = gm_log_name_count(log);
	names->next = UINT64_MAX;
	for (; names->taken < count; names->taken++) {
		struct gm_log_name name;
		gm_log_name(log, names->taken, &name);
		if (name.event > number) {
			names->next = name.event;
			break;
		}
		uint32_t block = find(context, &name);
		if (block == UINT32_MAX)
			continue;
		const struct gm_named_block one = {
		        block, (uint32_t)names->items.count, (uint32_t)names->taken};
		if (!gm_array_push(&names->items, one))
			return false;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct gm_named_block *left = a, *right = b;
	if (left->block != right->block)
		return left->block < right->block ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

void gm_block_names_sort(struct gm_block_names *names)
{
	if (names->items.count)
		qsort(names->items.items, names->items.count, sizeof(*names->items.items), compare);
}

static bool is_same(const struct gm_block_name *a, const struct gm_block_name *b)
{
	return a->kind == b->kind && a->offset == b->offset && strcmp(a->name, b->name) == 0;
}

size_t gm_block_names_of(const struct gm_block_names *names, const struct gm_log *log, size_t block,
        struct gm_block_name *ret_names, size_t max)
{
	size_t count = 0;
	size_t at = gm_partition_point(
	        names->items.count, middle, names->items.items[middle].block < block);
	for (; at < names->items.count && names->items.items[at].block == block; at++) {
		struct gm_log_name name;
		gm_log_name(log, names->items.items[at].name, &name);
		const struct gm_block_name one = {gm_log_string(log, name.name),
		        (enum gm_named_kind)name.kind, name.offset, name.size};
		/* for a block with very many names, some may be returned twice */
		size_t same = 0, known = count < max ? count : max;
		known = known < COMPARED ? known : COMPARED;
		while (same < known && !is_same(&ret_names[same], &one))
			same++;
		if (same < known)
			continue;
		if (count < max)
			ret_names[count] = one;
		count++;
	}
	return count;
}
