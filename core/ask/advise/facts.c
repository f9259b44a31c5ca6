#include "ask/advise/facts.h"

#include <string.h>

#include "ask/recording/place.h"

static void widen(uint32_t *first, uint32_t *end, const struct gm_model_run *run)
{
	if (*first == GM_NO_EVENT)
		*first = run->first;
	*end = run->end;
}

static void take_run(struct gm_step_bounds *step, const struct gm_model_run *run)
{
	widen(&step->first, &step->end, run);
	switch (run->phase) {
	case GM_PHASE_FORWARD:
		widen(&step->forward, &step->forward_end, run);
		break;
	case GM_PHASE_BACKWARD:
	case GM_PHASE_RECOMPUTE:
		widen(&step->backward, &step->backward_end, run);
		break;
	case GM_PHASE_OPTIMIZER:
		widen(&step->optimizer, &step->optimizer_end, run);
		break;
	default:
		break;
	}
}

/* What the recording has of the blocks of the device. Some have no Python stack in any recording,
 * as those of backward without one. */
static void find_lacks(struct gm_advise_facts *facts)
{
	bool python = false, native = false, tensors = false;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_event event;
		if (!gm_advise_counts(facts, i))
			continue;
		gm_log_event(facts->log, gm_model_block(facts->model, i)->alloc, &event);
		python |= event.python_stack != 0;
		native |= event.native_stack != 0;
		tensors |= event.tensor != 0;
		if (python && native && tensors)
			break;
	}
	facts->lacks = (python ? 0 : GM_NEED_STACKS) | (native ? 0 : GM_NEED_NATIVE) |
	               (tensors ? 0 : GM_NEED_SHAPES) | (facts->step_count ? 0 : GM_NEED_STEPS);
}

/* torch/distributed/fsdp, torch/distributed/optim (2.0 to 2.15), deepspeed/runtime/zero (0.19) */
static bool is_sharding_on_stack(const struct gm_advise_facts *facts, uint32_t stack)
{
	static const char *const files[] = {"/torch/distributed/fsdp/", "deepspeed/runtime/zero/",
	        "/torch/distributed/optim/zero_redundancy_optimizer.py"};
	struct gm_frame_place place;
	for (size_t i = 0; gm_place_frame(facts->log, stack, i, &place); i++)
		for (size_t j = 0; j < sizeof(files) / sizeof(*files); j++)
			if (place.file && strstr(place.file, files[j]))
				return true;
	return false;
}

/* Has the program sharded something already? What FSDP and DeepSpeed gather, reduce or shard, and
 * the state that ZeroRedundancyOptimizer makes of this rank's parameters, has their frames. */
static void find_sharding(struct gm_advise_facts *facts)
{
	static const enum gm_category categories[] = {GM_CATEGORY_COMMUNICATION,
	        GM_CATEGORY_PARAMETER, GM_CATEGORY_GRADIENT, GM_CATEGORY_OPTIMIZER_STATE};
	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
		uint32_t last = 0;
		gm_advise_each(facts, categories[i], block)
		{
			uint32_t python, native;
			gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc,
			        &python, &native);
			if (python != last && is_sharding_on_stack(facts, python)) {
				facts->lacks |= GM_NEED_WHOLE;
				return;
			}
			last = python;
		}
	}
}

/* Steps and phases of all blocks: each measure asks for them. */
static bool find_blocks(struct gm_advise_facts *facts)
{
	size_t count = gm_model_block_count(facts->model);
	facts->blocks = calloc(count + 1, sizeof(*facts->blocks));
	for (uint32_t i = 0; i < count && facts->blocks; i++) {
		const struct gm_block *block = gm_model_block(facts->model, i);
		uint32_t end = gm_block_end(block);
		struct gm_advise_block *of = &facts->blocks[i];
		of->counts = block->device == facts->device && block->alloc != GM_NO_EVENT;
		if (!of->counts)
			continue;
		of->step = gm_model_step(facts->model, block->alloc);
		of->last_step = end == GM_NO_EVENT ? 0 : gm_model_step(facts->model, end);
		of->phase = (uint8_t)gm_model_phase(facts->model, block->alloc);
		of->category = (uint8_t)gm_categories_of(facts->categories, i);
	}
	return facts->blocks != NULL;
}

struct gm_error *gm_advise_facts_init(struct gm_advise_facts *facts, const struct gm_model *model,
        const struct gm_categories *categories, size_t device)
{
	*facts = (struct gm_advise_facts){
	        .model = model,
	        .log = gm_model_log(model),
	        .categories = categories,
	        .device = device,
	        .event_count = (uint32_t)gm_log_event_count(gm_model_log(model)),
	        .step_count = gm_model_step_count(model),
	};
	facts->steps = calloc((size_t)facts->step_count + 1, sizeof(*facts->steps));
	if (!facts->steps)
		return &gm_error_no_memory;
	for (uint32_t i = 0; i <= facts->step_count; i++)
		facts->steps[i] = (struct gm_step_bounds){
		        GM_NO_EVENT, 0, GM_NO_EVENT, 0, GM_NO_EVENT, 0, GM_NO_EVENT, 0};
	for (size_t i = 0; i < gm_model_run_count(model); i++) {
		struct gm_model_run run = gm_model_run(model, i);
		if (run.step && run.step <= facts->step_count)
			take_run(&facts->steps[run.step], &run);
	}
	facts->signs = calloc(1, sizeof(*facts->signs));
	if (!facts->signs || !find_blocks(facts)) {
		gm_advise_facts_deinit(facts);
		return &gm_error_no_memory;
	}
	find_lacks(facts);
	find_sharding(facts);
	return NULL;
}

void gm_advise_facts_deinit(struct gm_advise_facts *facts)
{
	free(facts->steps);
	free(facts->blocks);
	if (facts->signs)
		gm_array_deinit(&facts->signs->items);
	free(facts->signs);
	facts->signs = NULL;
	facts->steps = NULL;
	facts->blocks = NULL;
}

bool gm_advise_waits_for_backward(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t step = gm_advise_step(facts, block),
	         end = gm_block_end(gm_model_block(facts->model, block));
	const struct gm_step_bounds *bounds = &facts->steps[step];
	return gm_advise_category(facts, block) == GM_CATEGORY_ACTIVATION && end != GM_NO_EVENT &&
	       bounds->backward != GM_NO_EVENT && end >= bounds->backward &&
	       end < bounds->backward_end + 1;
}

bool gm_advise_tensor(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_log_tensor *ret_tensor)
{
	struct gm_event event;
	gm_log_event(facts->log, gm_model_block(facts->model, block)->alloc, &event);
	return event.tensor && gm_log_tensor(facts->log, event.tensor, ret_tensor);
}

uint8_t gm_advise_sign(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t python, native;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	return native ? gm_advise_signs_of(facts->signs, facts->log, native) : 0;
}

/* FNV-1a */
uint64_t gm_advise_shape(const struct gm_log_tensor *tensor, bool reversed)
{
	uint64_t value = 0xcbf29ce484222325;
	for (uint32_t i = 0; i < tensor->dimensions; i++) {
		value ^= (uint64_t)tensor->sizes[reversed ? tensor->dimensions - 1 - i : i];
		value *= 0x100000001b3;
		value ^= value >> 29;
	}
	return value;
}

uint64_t gm_advise_elements(const struct gm_log_tensor *tensor)
{
	uint64_t elements = 1;
	for (uint32_t i = 0; i < tensor->dimensions; i++)
		if (tensor->sizes[i] < 0 ||
		        __builtin_mul_overflow(elements, (uint64_t)tensor->sizes[i], &elements) ||
		        elements >> 62)
			return 0;
	return elements;
}

bool gm_advise_site(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_frame_place *ret_place)
{
	uint32_t python, native;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	return gm_place_site(facts->log, python, ret_place);
}

bool gm_advise_on_stack(
        const struct gm_advise_facts *facts, uint32_t block, const char *name, bool begins)
{
	uint32_t python, native;
	struct gm_frame_place place;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	for (size_t i = 0; gm_place_frame(facts->log, python, i, &place); i++) {
		const char *dot = strrchr(place.function, '.');
		const char *last = dot ? dot + 1 : place.function;
		if (begins ? strncmp(last, name, strlen(name)) == 0 : strcmp(last, name) == 0)
			return true;
	}
	return false;
}
