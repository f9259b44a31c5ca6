#include "model/evaluation_inputs.h"

#include <stdlib.h>

#include "base/search.h"
#include "model/internal.h"
#include "model/runs.h"

bool gm_inputs_init(struct gm_evaluation_inputs *inputs, const struct gm_model *model)
{
	inputs->sites = calloc(model->sites.items.count + 1, sizeof(*inputs->sites));
	bool fits = inputs->sites != NULL;
	for (size_t i = 0; fits && i < gm_model_run_count(model); i++) {
		struct gm_model_run run = gm_run_at_index(model, i);
		if (run.phase == GM_PHASE_BACKWARD)
			fits = gm_array_push(&inputs->backwards, run.first);
	}
	return fits;
}

void gm_inputs_deinit(struct gm_evaluation_inputs *inputs)
{
	gm_array_deinit(&inputs->modules);
	gm_array_deinit(&inputs->backwards);
	free(inputs->sites);
}

bool gm_inputs_see_module(struct gm_evaluation_inputs *inputs, uint32_t event)
{
	return gm_array_push(&inputs->modules, event);
}

/* The first of ascending events that is after `from`; GM_NO_EVENT: there is none. */
static uint32_t first_after(const uint32_t *events, size_t count, uint32_t from)
{
	size_t low = gm_partition_point(count, middle, events[middle] <= from);
	return low < count ? events[low] : GM_NO_EVENT;
}

static bool modules_run(const struct gm_evaluation_inputs *inputs, uint32_t from, uint32_t to)
{
	return first_after(inputs->modules.items, inputs->modules.count, from) < to;
}

void gm_inputs_see_block(
        struct gm_evaluation_inputs *inputs, const struct gm_block *block, uint32_t site)
{
	struct gm_inputs_of_site *of = &inputs->sites[site];
	if (of->keeps)
		return;
	uint32_t oldest = of->count % GM_INPUTS_WAITING;
	bool keeps = of->count >= GM_INPUTS_WAITING && of->ends[oldest] > block->alloc;
	uint32_t to = block->alloc;
	for (uint32_t i = 1; keeps && i <= GM_INPUTS_WAITING; i++) {
		uint32_t from = of->allocs[(of->count - i) % GM_INPUTS_WAITING];
		keeps = modules_run(inputs, from, to);
		to = from;
	}
	of->keeps = keeps;
	of->allocs[oldest] = block->alloc;
	of->ends[oldest] = gm_block_end(block);
	of->count++;
}

enum gm_inputs_answer gm_inputs_of_block(
        const struct gm_evaluation_inputs *inputs, const struct gm_block *block, uint32_t site)
{
	uint32_t read = first_after(inputs->modules.items, inputs->modules.count, block->alloc);
	uint32_t backward =
	        first_after(inputs->backwards.items, inputs->backwards.count, block->alloc);
	if (inputs->sites[site].keeps)
		return GM_INPUTS_OUTLIVES;
	if (read >= gm_block_end(block))
		return GM_INPUTS_UNREAD;
	return backward < read ? GM_INPUTS_OUTLIVES : GM_INPUTS_READ;
}
