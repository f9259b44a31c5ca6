#include "ask/names/optimizers.h"

#include "ask/names/fragments.h"

#include <stdlib.h>
#include <string.h>

struct group_visit {
	struct gm_name_walk *walk;
	const char *class;
	uint64_t group;
};

static bool see_parameter(void *context, uint64_t item, uint64_t index)
{
	struct group_visit *visit = context;
	struct gm_name_walk *walk = visit->walk;
	const uint64_t *number = gm_map_find(&walk->objects, item);
	size_t before;
	if (number && *number) {
		uint32_t root = walk->found.items[*number - 1].root;
		if (root != UINT32_MAX)
			walk->roots.items[root].trained = true;
	} else if (gm_name_walk_push(walk, &before, "%s.param_groups[%llu]['params'][%llu]",
	                   visit->class, (unsigned long long)visit->group,
	                   (unsigned long long)index)) {
		gm_name_walk_add(walk, GM_NAMED_PARAMETER, item, NULL);
		gm_name_walk_pop(walk, before);
		gm_name_walk_fragment_gradients(walk, item);
	}
	return !walk->no_memory;
}

static bool see_group(void *context, uint64_t item, uint64_t index)
{
	struct group_visit *visit = context;
	struct gm_zero_attribute entries[] = {{"params", 0}};
	gm_zero_entries(visit->walk->reading, item, entries, 1);
	visit->group = index;
	gm_zero_items(visit->walk->reading, entries[0].object, see_parameter, visit);
	return !visit->walk->no_memory;
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool see_value(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_name_walk *walk = context;
	if (gm_name_walk_is_whole(walk, name) &&
	        !gm_name_walk_add(walk, GM_NAMED_OPTIMIZER_STATE, value, name))
		gm_name_walk_container(walk, GM_NAMED_OPTIMIZER_STATE, value, name);
	return !walk->no_memory;
}

static bool see_state(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_name_walk *walk = context;
	const uint64_t *number = key ? gm_map_find(&walk->objects, key) : NULL;
	size_t before;
	if (!number || !*number)
		return true;
	const struct gm_found_name *found = &walk->found.items[*number - 1];
	walk->root = found->root;
	if (gm_name_walk_push(walk, &before, "%s", found->path)) {
		gm_zero_pairs(walk->reading, value, see_value, walk);
		gm_name_walk_pop(walk, before);
	}
	walk->root = UINT32_MAX;
	return !walk->no_memory;
}

void gm_name_walk_optimizers(struct gm_name_walk *walk)
{
	const struct gm_zero_objects *optimizers = &walk->reading->optimizers;
	walk->root = UINT32_MAX;
	for (size_t i = 0; i < optimizers->count && !walk->no_memory; i++) {
		struct gm_zero_attribute attributes[] = {{"param_groups", 0}, {"state", 0}};
		char *class = gm_zero_class(walk->reading, optimizers->items[i]);
		struct group_visit visit = {walk, class ? class : "optimizer", 0};
		gm_zero_attributes(walk->reading, optimizers->items[i], attributes, 2);
		gm_zero_items(walk->reading, attributes[0].object, see_group, &visit);
		gm_zero_pairs(walk->reading, attributes[1].object, see_state, walk);
		free(class);
	}
}
