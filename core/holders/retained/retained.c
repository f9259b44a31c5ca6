#include "holders/retained/retained.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "holders/graph/dominators.h"
#include "holders/holders.h"
#include "holders/retained/answer.h"
#include "holders/retained/nodes.h"
#include "holders/retained/paths.h"
#include "holders/retained/reach.h"
#include "holders/retained/unfound.h"

static struct gm_error *build(struct gm_retained_builder *builder, struct gm_retained *retained)
{
	struct gm_retained_building root = {0};
	builder->places = calloc((size_t)builder->reach->count + 1, sizeof(*builder->places));
	builder->items = calloc((size_t)builder->reach->count + 1, sizeof(*builder->items));
	if (!builder->places || !builder->items || !gm_array_push(&builder->nodes, root))
		return &gm_error_no_memory;
	gm_retained_place_vertices(builder);
	gm_retained_index_variables(builder);
	if (!builder->no_memory)
		gm_retained_add_devices(builder, retained);
	return builder->no_memory ? &gm_error_no_memory : NULL;
}

static bool find_dominators(const struct gm_reach *reach, uint32_t *ret_dominators)
{
	_cleanup_free_ uint32_t *targets = malloc((reach->edges.count + 1) * sizeof(*targets));
	if (!targets)
		return false;
	for (size_t i = 0; i < reach->edges.count; i++)
		targets[i] = reach->edges.items[i].to;
	return gm_dominators(reach->count, reach->first, targets, 0, ret_dominators);
}

static struct gm_error *ask(struct gm_reach *reach, struct gm_retained *retained)
{
	_cleanup_free_ uint32_t *dominators =
	        malloc(((size_t)reach->count + 1) * sizeof(*dominators));
	struct gm_paths paths = {0};
	struct gm_sharing sharing = {0};
	struct gm_error *error = &gm_error_no_memory;
	struct gm_retained_builder builder = {
	        .reach = reach, .paths = &paths, .sharing = &sharing, .dominators = dominators};
	if (dominators && find_dominators(reach, dominators) && gm_paths_init(&paths, reach) &&
	        gm_sharing_init(&sharing, &paths, reach, dominators))
		error = build(&builder, retained);
	free(builder.places);
	free(builder.items);
	gm_array_deinit(&builder.nodes);
	gm_map_deinit(&builder.children);
	gm_map_deinit(&builder.seen);
	gm_map_deinit(&builder.variables);
	gm_sharing_deinit(&sharing);
	gm_paths_deinit(&paths);
	return error;
}

struct gm_error *gm_holders_retained(
        struct gm_holders *holders, bool host, struct gm_retained *ret_retained)
{
	struct gm_reach *reach;
	struct gm_reach_options options = {.host = host};
	double start = gm_seconds();
	gm_try(gm_reach_create_promoted(holders, &options, &reach));
	struct gm_retained retained = {.storages = reach->storages,
	        .storages_complete = reach->storages_complete,
	        .vertices = reach->count,
	        .references = reach->edges.count};
	struct gm_error *error = ask(reach, &retained);
	gm_reach_destroy(reach);
	retained.seconds = gm_seconds() - start;
	if (error)
		gm_retained_deinit(&retained);
	else
		*ret_retained = retained;
	return error;
}
