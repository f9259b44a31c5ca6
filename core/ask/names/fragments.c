/*
 * deepspeed/utils/tensor_fragment.py: a parameter's attribute _hp_mapping is None if this rank has
 * no part of it, and otherwise a tensor_fragment. Its hp_fragment is a view of the flat copy in
 * fp32; optim_fragment has views of the optimizer's state by its keys.
 */
#include "ask/names/fragments.h"

#include <string.h>

static const char *copy_key(const struct gm_tensor *tensor)
{
	return tensor->dtype && strcmp(tensor->dtype, "float32") != 0 ? tensor->dtype : "fp32";
}

struct state_visit {
	struct gm_name_walk *walk;
	uint64_t count; /* elements of the part */
};

static bool see_state(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct state_visit *visit = context;
	struct gm_name_walk *walk = visit->walk;
	struct gm_tensor part;
	if (gm_name_walk_is_whole(walk, name) && gm_zero_tensor(walk->reading, value, &part) &&
	        part.numel == visit->count)
		gm_name_walk_tensor(walk, GM_NAMED_OPTIMIZER_STATE, &part, name);
	return !walk->no_memory;
}

/* The number of a parameter in `found`, from 1. */
static void add_fragment(struct gm_name_walk *walk, uint64_t number)
{
	struct gm_zero_attribute mapping[] = {{"_hp_mapping", 0}};
	struct gm_zero_attribute parts[] = {{"hp_fragment", 0}, {"optim_fragment", 0}};
	struct gm_tensor part;
	gm_zero_attributes(walk->reading, walk->found.items[number - 1].object, mapping, 1);
	if (!mapping[0].object)
		return;
	gm_zero_attributes(walk->reading, mapping[0].object, parts, 2);
	if (!gm_zero_tensor(walk->reading, parts[0].object, &part) ||
	        !gm_name_walk_tensor(walk, GM_NAMED_PARAMETER, &part, copy_key(&part)))
		return;
	const struct gm_name_fragment fragment = {
	        part.storage, part.storage_offset, part.numel, number};
	struct state_visit visit = {walk, part.numel};
	if (!gm_array_push(&walk->fragments, fragment))
		walk->no_memory = true;
	else
		gm_zero_pairs(walk->reading, parts[1].object, see_state, &visit);
}

/* With the path and the root of a parameter. */
static bool enter(struct gm_name_walk *walk, uint64_t number, size_t *ret_before)
{
	const struct gm_found_name *found = &walk->found.items[number - 1];
	walk->root = found->root;
	return gm_name_walk_push(walk, ret_before, "%s", found->path);
}

void gm_name_walk_fragments(struct gm_name_walk *walk)
{
	const uint64_t count = walk->found.count;
	size_t before;
	for (uint64_t number = 1; number <= count && !walk->no_memory; number++) {
		if (!walk->found.items[number - 1].object || !enter(walk, number, &before))
			continue;
		add_fragment(walk, number);
		gm_name_walk_pop(walk, before);
	}
	walk->root = UINT32_MAX;
}

static void add_gradient(struct gm_name_walk *walk, const struct gm_name_fragment *fragment,
        const struct gm_tensor *flat, const struct gm_tensor *gradient)
{
	struct gm_tensor part = *gradient;
	size_t before, longer;
	uint64_t start = fragment->start - flat->storage_offset;
	if (fragment->storage != flat->storage || fragment->start < flat->storage_offset ||
	        start > flat->numel || fragment->count > flat->numel - start ||
	        !enter(walk, fragment->parameter, &before))
		return;
	const uint32_t root = walk->root;
	part.storage_offset += start;
	part.numel = fragment->count;
	if (root != UINT32_MAX)
		walk->roots.items[root].trained = true;
	if (gm_name_walk_push(walk, &longer, ".grad"))
		gm_name_walk_tensor(walk, GM_NAMED_GRADIENT, &part, copy_key(&part));
	gm_name_walk_pop(walk, before);
}

void gm_name_walk_fragment_gradients(struct gm_name_walk *walk, uint64_t parameter)
{
	struct gm_tensor flat, gradient;
	if (!walk->fragments.count || !gm_zero_tensor(walk->reading, parameter, &flat) ||
	        !flat.grad || !gm_torch_tensor(walk->reading->torch, flat.grad, &gradient) ||
	        gradient.numel != flat.numel)
		return;
	for (size_t i = 0; i < walk->fragments.count && !walk->no_memory; i++)
		add_gradient(walk, &walk->fragments.items[i], &flat, &gradient);
	walk->root = UINT32_MAX;
}
