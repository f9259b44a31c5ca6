#include "holders/retained/reach.h"
#include "base/strings.h"

#include <stdlib.h>

void gm_reach_destroy(struct gm_reach *reach)
{
	if (!reach)
		return;
	gm_array_deinit(&reach->vertices);
	gm_array_deinit(&reach->edges);
	gm_array_deinit(&reach->names);
	gm_array_deinit(&reach->natives);
	gm_array_deinit(&reach->variables);
	gm_array_deinit(&reach->blocks);
	gm_strings_deinit(&reach->strings);
	gm_array_deinit(&reach->labels);
	for (size_t i = 0; i < reach->owners.count; i++)
		gm_native_owner_release(reach->owners.items[i]);
	gm_array_deinit(&reach->owners);
	gm_map_deinit(&reach->by_label);
	free(reach->local);
	free(reach->more);
	free(reach->first);
	free(reach->tree);
	free(reach->order);
	free(reach);
}
