#include "ask/zero/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

struct names_visit {
	struct gm_zero_names *names;
	uint64_t module;
	bool no_memory;
};

/* A parameter that several modules have keeps the name from the first. */
static bool add(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct names_visit *visit = context;
	struct gm_zero_names *names = visit->names;
	bool is_new = false;
	if (!name)
		return true;
	uint64_t *number = gm_map_put(&names->owners, value, &is_new);
	if (number && !is_new)
		return true;
	char *copy = strdup(name);
	if (!number || !copy || !gm_array_reserve(&names->entries, 1)) {
		free(copy);
		if (number)
			*number = 0;
		visit->no_memory = true;
		return false;
	}
	names->entries.items[names->entries.count++] = (struct gm_zero_name){visit->module, copy};
	*number = names->entries.count;
	return true;
}

bool gm_zero_names_find(struct gm_zero_reading *reading, struct gm_zero_names *names)
{
	struct names_visit visit = {.names = names};
	for (size_t i = 0; i < reading->modules.count && !visit.no_memory; i++) {
		struct gm_zero_attribute parts[] = {{"_parameters", 0}, {"_modules", 0}};
		visit.module = reading->modules.items[i];
		gm_zero_attributes(reading, visit.module, parts, 2);
		gm_zero_pairs(reading, parts[0].object, add, &visit);
		gm_zero_pairs(reading, parts[1].object, add, &visit);
	}
	return !visit.no_memory;
}

void gm_zero_names_deinit(struct gm_zero_names *names)
{
	for (size_t i = 0; i < names->entries.count; i++)
		free(names->entries.items[i].name);
	gm_array_deinit(&names->entries);
	gm_map_deinit(&names->owners);
}

/* Modules that FullyShardedDataParallel, checkpoint_wrapper() and torch.compile() put around
 * another: names in checkpoints (torch.distributed.checkpoint) omit them. */
static bool is_of_wrapper(const char *name)
{
	return strcmp(name, "_fsdp_wrapped_module") == 0 ||
	       strcmp(name, "_checkpoint_wrapped_module") == 0 || strcmp(name, "_orig_mod") == 0;
}

bool gm_zero_name_of(const struct gm_zero_names *names, uint64_t object, char **ret_name)
{
	char *name = NULL;
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		const uint64_t *number = gm_map_find(&names->owners, object);
		if (!number || !*number)
			break;
		const struct gm_zero_name *entry = &names->entries.items[*number - 1];
		object = entry->module;
		if (is_of_wrapper(entry->name))
			continue;
		char *longer = NULL;
		if (asprintf(&longer, "%s%s%s", entry->name, name ? "." : "", name ? name : "") < 0)
			longer = NULL;
		free(name);
		if (!(name = longer))
			return false;
	}
	*ret_name = name;
	return true;
}
