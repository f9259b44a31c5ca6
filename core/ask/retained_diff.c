#include "ask/retained_diff.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum { MAX_DEPTH = 256 };

/* One group of one of the two answers. */
struct entry {
	const struct gm_retained_node *node;
	bool after;
};

/* A variable is identified by its own name only, whatever is shown with it. Numbers of items are
 * not part of a name. */
static int compare_entries(const struct entry *left, const struct entry *right)
{
	const struct gm_retained_node *a = left->node, *b = right->node;
	if (a->root != b->root)
		return (int)a->root - (int)b->root;
	return gm_retained_names_compare(a->names, a->root && a->name_count ? 1 : a->name_count,
	        b->names, b->root && b->name_count ? 1 : b->name_count, false);
}

static int by_name(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	int order = compare_entries(left, right);
	if (order || left->after != right->after)
		return order ? order : (int)left->after - (int)right->after;
	return left->node < right->node ? -1 : left->node > right->node;
}

static uint64_t size_of_change(const struct gm_retained_change *change)
{
	return change->before > change->after ? change->before - change->after
	                                      : change->after - change->before;
}

static int by_change(const void *a, const void *b)
{
	const struct gm_retained_change *left = a, *right = b;
	if (size_of_change(left) != size_of_change(right))
		return size_of_change(left) > size_of_change(right) ? -1 : 1;
	return gm_retained_names_compare(left->node->names, left->node->name_count,
	        right->node->names, right->node->name_count, true);
}

static void change_deinit(struct gm_retained_change *change)
{
	for (size_t i = 0; i < change->child_count; i++)
		change_deinit(&change->children[i]);
	free(change->children);
}

static bool compare(const struct gm_retained_node *before, size_t before_count,
        const struct gm_retained_node *after, size_t after_count, unsigned depth,
        struct gm_retained_change **ret_changes, size_t *ret_count);

/* The groups [entries, entries + count), which have the same name. */
static bool compare_group(const struct entry *entries, size_t count, unsigned depth,
        struct gm_retained_change *ret_change)
{
	const struct gm_retained_node *before = NULL, *after = NULL;
	struct gm_retained_change change = {0};
	for (size_t i = 0; i < count; i++) {
		const struct gm_retained_node *node = entries[i].node;
		if (entries[i].after) {
			change.after += node->bytes;
			change.blocks_after += node->blocks;
			after = node;
		} else {
			change.before += node->bytes;
			change.blocks_before += node->blocks;
			before = node;
		}
	}
	change.node = after ? after : before;
	bool whole = true;
	/* the parts of groups in both answers; for a new or a lost group they add nothing */
	if (before && after && count == 2)
		whole = compare(before->children, before->child_count, after->children,
		        after->child_count, depth + 1, &change.children, &change.child_count);
	if (!whole)
		change_deinit(&change);
	else
		*ret_change = change;
	return whole;
}

static bool is_changed(const struct gm_retained_change *change)
{
	return change->before != change->after || change->blocks_before != change->blocks_after ||
	       change->child_count > 0;
}

static void add_entries(struct entry *entries, size_t *count, const struct gm_retained_node *nodes,
        size_t node_count, bool after)
{
	for (size_t i = 0; i < node_count; i++)
		entries[(*count)++] = (struct entry){&nodes[i], after};
}

static bool compare(const struct gm_retained_node *before, size_t before_count,
        const struct gm_retained_node *after, size_t after_count, unsigned depth,
        struct gm_retained_change **ret_changes, size_t *ret_count)
{
	size_t count = 0, made = 0;
	if (depth > MAX_DEPTH || before_count + after_count == 0)
		return true;
	struct entry *entries = calloc(before_count + after_count, sizeof(*entries));
	struct gm_retained_change *changes = calloc(before_count + after_count, sizeof(*changes));
	bool whole = entries && changes;
	if (whole) {
		add_entries(entries, &count, before, before_count, false);
		add_entries(entries, &count, after, after_count, true);
		qsort(entries, count, sizeof(*entries), by_name);
	}
	for (size_t i = 0; whole && i < count;) {
		size_t end = i + 1;
		while (end < count && compare_entries(&entries[end], &entries[i]) == 0)
			end++;
		whole = compare_group(entries + i, end - i, depth, &changes[made]);
		if (whole && is_changed(&changes[made]))
			made++;
		else if (whole)
			change_deinit(&changes[made]);
		i = end;
	}
	free(entries);
	if (!whole || made == 0) {
		for (size_t i = 0; i < made; i++)
			change_deinit(&changes[i]);
		free(changes);
		return whole;
	}
	qsort(changes, made, sizeof(*changes), by_change);
	*ret_changes = changes;
	*ret_count = made;
	return true;
}

static const struct gm_retained_device *device_of(const struct gm_retained *retained, int device)
{
	static const struct gm_retained_device none;
	for (size_t i = 0; i < retained->device_count; i++)
		if (retained->devices[i].device == device)
			return &retained->devices[i];
	return &none;
}

static bool add_device(struct gm_retained_diff *diff, const struct gm_retained *before,
        const struct gm_retained *after, int number)
{
	const struct gm_retained_device *old = device_of(before, number);
	const struct gm_retained_device *new = device_of(after, number);
	struct gm_retained_device_change *change = &diff->devices[diff->device_count++];
	*change = (struct gm_retained_device_change){.device = number,
	        .before = old->allocated,
	        .after = new->allocated,
	        .blocks_before = old->allocated_blocks,
	        .blocks_after = new->allocated_blocks};
	return compare(old->nodes, old->node_count, new->nodes, new->node_count, 0,
	        &change->changes, &change->change_count);
}

struct gm_error *gm_ask_retained_diff(const struct gm_retained *before,
        const struct gm_retained *after, struct gm_retained_diff *ret_diff)
{
	struct gm_retained_diff diff = {
	        .devices = calloc(
	                before->device_count + after->device_count + 1, sizeof(*diff.devices))};
	bool whole = diff.devices != NULL;
	for (size_t i = 0; whole && i < after->device_count; i++)
		whole = add_device(&diff, before, after, after->devices[i].device);
	for (size_t i = 0; whole && i < before->device_count; i++) {
		bool seen = false;
		for (size_t j = 0; j < after->device_count; j++)
			seen |= after->devices[j].device == before->devices[i].device;
		if (!seen)
			whole = add_device(&diff, before, after, before->devices[i].device);
	}
	if (!whole) {
		gm_retained_diff_deinit(&diff);
		return &gm_error_no_memory;
	}
	*ret_diff = diff;
	return NULL;
}

void gm_retained_diff_deinit(struct gm_retained_diff *diff)
{
	for (size_t i = 0; i < diff->device_count; i++) {
		for (size_t j = 0; j < diff->devices[i].change_count; j++)
			change_deinit(&diff->devices[i].changes[j]);
		free(diff->devices[i].changes);
	}
	free(diff->devices);
	*diff = (struct gm_retained_diff){0};
}
