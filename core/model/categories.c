#include "model/categories.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "model/evaluation_inputs.h"
#include "model/internal.h"
#include "model/provenance.h"
#include "model/reasons.h"
#include "model/runs.h"
#include "model/statements.h"
#include "torch/allocator.h"

/* The category of each reason. */
static const uint8_t categories_of[GM_REASON_COUNT] = {
        [GM_REASON_NO_RULE] = GM_CATEGORY_UNKNOWN,
        [GM_REASON_BEFORE_RECORD] = GM_CATEGORY_UNKNOWN,
        [GM_REASON_NO_STACK] = GM_CATEGORY_UNKNOWN,
        [GM_REASON_MOVED_PARAMETER] = GM_CATEGORY_PARAMETER,
        [GM_REASON_MOVED_BUFFER] = GM_CATEGORY_BUFFER,
        [GM_REASON_MADE_BY_MODULE] = GM_CATEGORY_PARAMETER,
        [GM_REASON_REGISTERED_BUFFER] = GM_CATEGORY_BUFFER,
        [GM_REASON_LOADED] = GM_CATEGORY_PARAMETER,
        [GM_REASON_SHARDED] = GM_CATEGORY_PARAMETER,
        [GM_REASON_TRAINED] = GM_CATEGORY_PARAMETER,
        [GM_REASON_AUTOCAST_WEIGHT] = GM_CATEGORY_PARAMETER,
        [GM_REASON_AMBIGUOUS] = GM_CATEGORY_UNKNOWN,
        [GM_REASON_INFERRED_PARAMETER] = GM_CATEGORY_PARAMETER,
        [GM_REASON_INFERRED_STATE] = GM_CATEGORY_OPTIMIZER_STATE,
        [GM_REASON_INFERRED_GRADIENT] = GM_CATEGORY_GRADIENT,
        [GM_REASON_INFERRED_ACTIVATION] = GM_CATEGORY_ACTIVATION,
        [GM_REASON_OPTIMIZER_KEEPS] = GM_CATEGORY_OPTIMIZER_STATE,
        [GM_REASON_OPTIMIZER_TEMPORARY] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_GRADIENT_KEPT] = GM_CATEGORY_GRADIENT,
        [GM_REASON_GRADIENT_REDUCED] = GM_CATEGORY_GRADIENT,
        [GM_REASON_BACKWARD_TEMPORARY] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_BACKWARD_ADDED] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_BACKWARD_GATHERED] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_BACKWARD_CAST] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_FORWARD_KEPT] = GM_CATEGORY_ACTIVATION,
        [GM_REASON_FORWARD_TEMPORARY] = GM_CATEGORY_TEMPORARY,
        [GM_REASON_RECOMPUTED] = GM_CATEGORY_ACTIVATION,
        [GM_REASON_DATA_INPUT] = GM_CATEGORY_INPUT,
        [GM_REASON_EVALUATION_INPUT] = GM_CATEGORY_INPUT,
        [GM_REASON_SIZED_AS_WEIGHTS] = GM_CATEGORY_UNKNOWN,
        [GM_REASON_DATA_LOADER] = GM_CATEGORY_INPUT,
        [GM_REASON_WORKSPACE_NAMED] = GM_CATEGORY_WORKSPACE,
        [GM_REASON_WORKSPACE_SIZED] = GM_CATEGORY_WORKSPACE,
        [GM_REASON_WORKSPACE_AT_ONCE] = GM_CATEGORY_WORKSPACE,
        [GM_REASON_COLLECTIVE] = GM_CATEGORY_COMMUNICATION,
        [GM_REASON_CACHE] = GM_CATEGORY_KV_CACHE,
        [GM_REASON_SHORT_LIVED] = GM_CATEGORY_TEMPORARY,
};

/* The meaning of a stack, computed once. */
struct origin {
	bool known;
	uint32_t flags, apply_line;
};

struct origins {
	struct origin *items;
	size_t count, capacity;
};

struct working {
	const struct gm_model *model;
	struct gm_categories *categories;
	struct origins python, native;
	struct origin *sites; /* by site, computed when first needed */
	uint32_t param_line;  /* of Module._apply, in which parameters are converted; buffers come
	                         further down */
	uint64_t *parameter_sizes; /* sorted; requested bytes */
	uint64_t *gathered_sizes;  /* memory through which collectives transferred data, in order */
	size_t gathered_count;
	size_t parameter_count;
	bool casts; /* autocast has converted a parameter */
	struct gm_evaluation_inputs inputs;
	struct gm_statements statements;
};

const char *gm_category_name(enum gm_category category)
{
	static const char *const names[GM_CATEGORY_COUNT] = {
	        [GM_CATEGORY_UNKNOWN] = "unknown",
	        [GM_CATEGORY_PARAMETER] = "parameter",
	        [GM_CATEGORY_BUFFER] = "buffer",
	        [GM_CATEGORY_GRADIENT] = "gradient",
	        [GM_CATEGORY_OPTIMIZER_STATE] = "optimizer_state",
	        [GM_CATEGORY_ACTIVATION] = "activation",
	        [GM_CATEGORY_INPUT] = "input",
	        [GM_CATEGORY_TEMPORARY] = "temporary",
	        [GM_CATEGORY_WORKSPACE] = "workspace",
	        [GM_CATEGORY_COMMUNICATION] = "communication",
	        [GM_CATEGORY_KV_CACHE] = "kv_cache",
	};
	return (unsigned)category < GM_CATEGORY_COUNT ? names[category] : "unknown";
}

static struct origin *origin_at(struct origins *origins, uint32_t stack)
{
	return gm_array_reach(origins, stack) ? &origins->items[stack] : NULL;
}

/* The flags of an allocation's stacks; false: out of memory. */
static bool origin_of(
        struct working *working, const struct gm_site *site, struct origin *ret_origin)
{
	struct origin *python = origin_at(&working->python, site->python_stack);
	struct origin *native = origin_at(&working->native, site->native_stack);
	if (!python || !native)
		return false;
	const struct gm_log *log = working->model->log;
	if (!python->known) {
		python->flags = gm_provenance_python(log, site->python_stack, &python->apply_line);
		python->known = true;
	}
	if (!native->known) {
		native->flags = gm_provenance_native(log, site->native_stack);
		native->known = true;
	}
	*ret_origin = (struct origin){true, python->flags | native->flags, python->apply_line};
	return true;
}

/* The same for an event's site, which many events share; NULL: out of memory. */
static const struct origin *origin_of_event(struct working *working, uint32_t event)
{
	uint32_t site = working->model->event_sites[event];
	struct origin *origin = &working->sites[site];
	if (!origin->known && !origin_of(working, &working->model->sites.items.items[site], origin))
		return NULL;
	return origin;
}

/* Where a block was released: the run of its free, or SIZE_MAX if the recording has none. */
static size_t run_of_free(const struct gm_model *model, const struct gm_block *block,
        struct gm_model_run born, size_t born_index)
{
	uint32_t end = gm_block_end(block);
	if (end == GM_NO_EVENT)
		return SIZE_MAX;
	return end < born.end ? born_index : gm_model_run_at(model, end);
}

static int compare_sizes(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

static bool is_workspace_size(uint64_t size)
{
	return size == GM_TORCH_WORKSPACE_HOPPER || size == GM_TORCH_WORKSPACE ||
	       size == GM_TORCH_LT_WORKSPACE || size == GM_TORCH_LT_WORKSPACE_LARGE;
}

/* Can it be a workspace by its size, and could a library have requested it? A library gets its
 * workspace from the allocator while it is called, or as bytes in one dimension. */
static bool may_be_workspace(
        const struct working *working, const struct gm_block *block, const struct origin *origin)
{
	enum { BYTE = 0 }; /* c10::ScalarType */
	struct gm_event event;
	struct gm_log_tensor tensor;
	if (!is_workspace_size(gm_block_requested(block)) ||
	        (origin->flags & GM_FROM_ATEN && !(origin->flags & GM_FROM_BLAS)))
		return false;
	if (block->alloc == GM_NO_EVENT || !gm_log_has_tensors(working->model->log))
		return true;
	gm_log_event(working->model->log, block->alloc, &event);
	return !gm_log_tensor(working->model->log, event.tensor, &tensor) ||
	       (tensor.type == BYTE && tensor.dimensions == 1);
}

static bool has_size(const uint64_t *sizes, size_t count, uint64_t size)
{
	return count && bsearch(&size, sizes, count, sizeof(size), compare_sizes) != NULL;
}

static bool is_parameter_size(const struct working *working, uint64_t requested)
{
	return has_size(working->parameter_sizes, working->parameter_count, requested);
}

/*
 * Since torch 2.15 a matrix product gets its workspace from the allocator each time and releases it
 * at once. If no native frames show its purpose, the large sizes do: the next node reads a gradient
 * before it is freed. A gradient that is added to a parameter's is not read, so sizes of parameters
 * are excluded.
 */
static bool is_workspace_of_one_call(const struct working *working, const struct gm_block *block,
        const struct gm_site *site, const struct origin *origin, enum gm_phase phase)
{
	uint64_t size = gm_block_requested(block);
	bool computes = phase == GM_PHASE_FORWARD || phase == GM_PHASE_RECOMPUTE ||
	                phase == GM_PHASE_BACKWARD || phase == GM_PHASE_EVALUATION ||
	                phase == GM_PHASE_PREFILL || phase == GM_PHASE_DECODE;
	return computes && !site->native_stack && may_be_workspace(working, block, origin) &&
	       size > GM_TORCH_LT_WORKSPACE_LARGE && block->free_requested == block->alloc + 1 &&
	       !is_parameter_size(working, size);
}

static enum gm_category_reason in_init(const struct working *working, const struct origin *origin)
{
	if (origin->flags & GM_FROM_SHARDING)
		return GM_REASON_SHARDED;
	if (origin->flags & GM_FROM_BUFFER)
		return GM_REASON_REGISTERED_BUFFER;
	if (origin->flags & GM_FROM_APPLY)
		return origin->apply_line > working->param_line ? GM_REASON_MOVED_BUFFER
		                                                : GM_REASON_MOVED_PARAMETER;
	if (origin->flags & GM_FROM_LOADING)
		return GM_REASON_LOADED;
	if (origin->flags & GM_FROM_MODULE_INIT)
		return GM_REASON_MADE_BY_MODULE;
	return GM_REASON_NO_RULE;
}

/* Is its size that of a parameter in half of the parameter's precision? */
static bool is_half_size(const struct working *working, uint64_t requested)
{
	return requested <= UINT64_MAX / 2 && is_parameter_size(working, requested * 2);
}

static enum gm_category_reason freed_in_backward(
        const struct working *working, const struct gm_block *block)
{
	if (is_parameter_size(working, gm_block_requested(block)))
		return GM_REASON_BACKWARD_ADDED;
	if (has_size(working->gathered_sizes, working->gathered_count, gm_block_requested(block)))
		return GM_REASON_BACKWARD_GATHERED;
	return working->casts && is_half_size(working, gm_block_requested(block))
	               ? GM_REASON_BACKWARD_CAST
	               : GM_REASON_BACKWARD_TEMPORARY;
}

static enum gm_category_reason in_backward(const struct working *working,
        const struct gm_block *block, const struct origin *origin, struct gm_model_run born,
        const struct gm_model_run *died)
{
	/* checkpoints alternate between backward and recomputation: all of it is one backward pass
	 * */
	bool kept = !died || died->step != born.step ||
	            (died->phase != GM_PHASE_BACKWARD && died->phase != GM_PHASE_RECOMPUTE &&
	                    died->first >= born.end);
	if (!kept)
		return born.phase == GM_PHASE_RECOMPUTE ? GM_REASON_RECOMPUTED
		                                        : freed_in_backward(working, block);
	if (origin->flags & GM_FROM_REDUCE)
		return GM_REASON_GRADIENT_REDUCED;
	bool fits = is_parameter_size(working, gm_block_requested(block));
	if (!died && !fits && may_be_workspace(working, block, origin))
		return GM_REASON_WORKSPACE_SIZED;
	if (fits || (died && died->phase == GM_PHASE_ZERO_GRAD) || !working->parameter_count)
		return GM_REASON_GRADIENT_KEPT;
	return GM_REASON_NO_RULE;
}

/* Was a block freed in the pass that created it: in the same phase, without a backward pass in
 * between? */
static bool in_one_pass(const struct gm_model *model, size_t born, size_t died)
{
	if (died == SIZE_MAX)
		return false;
	struct gm_model_run first = gm_run_at_index(model, born);
	struct gm_model_run last = gm_run_at_index(model, died);
	if (last.step != first.step || last.phase != first.phase)
		return false;
	for (size_t i = born + 1; i < died; i++)
		if (gm_run_at_index(model, i).phase == GM_PHASE_BACKWARD)
			return false;
	return true;
}

static enum gm_category_reason in_forward(const struct working *working,
        const struct gm_block *block, const struct origin *origin, struct gm_model_run born,
        const struct gm_model_run *died, bool in_pass)
{
	if (!died && born.step <= 1 && may_be_workspace(working, block, origin))
		return GM_REASON_WORKSPACE_SIZED;
	if (origin->flags & GM_FROM_CACHE)
		return GM_REASON_CACHE;
	if (origin->flags & GM_FROM_AUTOCAST && is_half_size(working, gm_block_requested(block)))
		return GM_REASON_AUTOCAST_WEIGHT;
	if (in_pass)
		return GM_REASON_FORWARD_TEMPORARY;
	return GM_REASON_FORWARD_KEPT;
}

/* No backward pass follows: what modules leave behind is their output, and what they read is input.
 * */
static uint32_t statement_of(struct working *working, const struct gm_block *block)
{
	return gm_statement_of(&working->statements, working->model->event_sites[block->alloc]);
}

static enum gm_category_reason in_evaluation(struct working *working, const struct gm_block *block,
        const struct origin *origin, const struct gm_model_run *died, bool same_run)
{
	uint32_t end = gm_block_end(block);
	if (origin->flags & GM_FROM_CACHE)
		return GM_REASON_CACHE;
	if (origin->flags & GM_FROM_AUTOCAST && is_half_size(working, gm_block_requested(block)))
		return GM_REASON_AUTOCAST_WEIGHT;
	if (end == GM_NO_EVENT && origin->flags & GM_FROM_MODULE_CALL &&
	        may_be_workspace(working, block, origin))
		return GM_REASON_WORKSPACE_SIZED;
	enum gm_inputs_answer answer =
	        origin->flags & GM_FROM_MODULE_CALL
	                ? GM_INPUTS_UNREAD
	                : gm_inputs_of_block(&working->inputs, block, statement_of(working, block));
	if (answer != GM_INPUTS_UNREAD)
		return answer == GM_INPUTS_READ ? GM_REASON_EVALUATION_INPUT : GM_REASON_NO_RULE;
	if (same_run)
		return GM_REASON_SHORT_LIVED;
	return died || origin->flags & GM_FROM_MODULE_CALL ? GM_REASON_FORWARD_KEPT
	                                                   : GM_REASON_NO_RULE;
}

static enum gm_category_reason judge(struct working *working, const struct gm_block *block,
        const struct gm_site *site, const struct origin *origin, struct gm_model_run born,
        const struct gm_model_run *died, bool in_pass)
{
	if (site->flags & GM_EVENT_PREEXISTING && !site->python_stack)
		return GM_REASON_BEFORE_RECORD;
	if (origin->flags & GM_FROM_WORKSPACE)
		return GM_REASON_WORKSPACE_NAMED;
	if (origin->flags & GM_FROM_COLLECTIVE)
		return GM_REASON_COLLECTIVE;
	if (is_workspace_of_one_call(working, block, site, origin, born.phase))
		return GM_REASON_WORKSPACE_AT_ONCE;
	if (!site->python_stack && !site->native_stack)
		return GM_REASON_NO_STACK;
	bool same_run = died && died->first == born.first;
	if (site->foreign) /* a tensor's categories do not apply */
		return same_run ? GM_REASON_SHORT_LIVED : GM_REASON_NO_RULE;
	if (origin->flags & GM_FROM_OPTIMIZER || born.phase == GM_PHASE_OPTIMIZER) {
		bool within = died && died->step == born.step && died->phase == GM_PHASE_OPTIMIZER;
		return within ? GM_REASON_OPTIMIZER_TEMPORARY : GM_REASON_OPTIMIZER_KEEPS;
	}
	enum gm_category_reason made = in_init(working, origin);
	if (made != GM_REASON_NO_RULE)
		return same_run && made != GM_REASON_MOVED_PARAMETER ? GM_REASON_SHORT_LIVED : made;
	switch (born.phase) {
	case GM_PHASE_BACKWARD:
	case GM_PHASE_RECOMPUTE:
		return in_backward(working, block, origin, born, died);
	case GM_PHASE_FORWARD:
		return in_forward(working, block, origin, born, died, in_pass);
	case GM_PHASE_EVALUATION:
	case GM_PHASE_PREFILL:
	case GM_PHASE_DECODE:
		return in_evaluation(working, block, origin, died, same_run);
	case GM_PHASE_DATA:
		return origin->flags & GM_FROM_DATA_LOADER ? GM_REASON_DATA_LOADER
		                                           : GM_REASON_DATA_INPUT;
	default:
		return same_run ? GM_REASON_SHORT_LIVED : GM_REASON_NO_RULE;
	}
}

/* The run of an event, from that of the previous one: events come in order. */
static size_t run_of(const struct gm_model *model, size_t run, uint32_t event)
{
	struct gm_model_run now = gm_run_at_index(model, run);
	if (event >= now.first && event < now.end)
		return run;
	if (event >= now.end && run + 1 < gm_model_run_count(model) &&
	        event < gm_run_at_index(model, run + 1).end)
		return run + 1;
	return gm_model_run_at(model, event);
}

static bool is_without_gradients(enum gm_phase phase)
{
	return phase == GM_PHASE_EVALUATION || phase == GM_PHASE_PREFILL ||
	       phase == GM_PHASE_DECODE;
}

/* Properties of other blocks that judging one block needs: the sizes of parameters, where in
 * Module._apply they are converted (before the buffers), and when modules ran without gradients. */
static bool look_at_all(struct working *working)
{
	const struct gm_model *model = working->model;
	GM_ARRAY(uint64_t) sizes = {0};
	GM_ARRAY(uint64_t) gathered = {0};
	const uint32_t made =
	        GM_FROM_APPLY | GM_FROM_MODULE_INIT | GM_FROM_LOADING | GM_FROM_SHARDING;
	size_t run = 0;
	bool fits = true;
	working->param_line = UINT32_MAX;
	for (size_t i = 0; fits && i < working->categories->count; i++) {
		const struct gm_block *block = &model->blocks.items[i];
		if (block->alloc == GM_NO_EVENT)
			continue;
		const struct origin *origin = origin_of_event(working, block->alloc);
		if (!origin)
			fits = false;
		if (origin && origin->flags & GM_FROM_COLLECTIVE)
			fits = gm_array_push(&gathered, gm_block_requested(block));
		if (!origin || !(origin->flags & (made | GM_FROM_MODULE_CALL | GM_FROM_AUTOCAST)))
			continue;
		run = run_of(model, run, block->alloc);
		working->casts |= (origin->flags & GM_FROM_AUTOCAST) != 0;
		if (origin->flags & GM_FROM_MODULE_CALL &&
		        is_without_gradients(gm_run_at_index(model, run).phase))
			fits = fits && gm_inputs_see_module(&working->inputs, block->alloc);
		if (!fits || !(origin->flags & made))
			continue;
		if (origin->apply_line && origin->apply_line < working->param_line)
			working->param_line = origin->apply_line;
		fits = gm_array_push(&sizes, gm_block_requested(block));
	}
	if (sizes.count)
		qsort(sizes.items, sizes.count, sizeof(*sizes.items), compare_sizes);
	if (gathered.count)
		qsort(gathered.items, gathered.count, sizeof(*gathered.items), compare_sizes);
	working->gathered_sizes = gathered.items;
	working->gathered_count = gathered.count;
	working->parameter_sizes = sizes.items;
	working->parameter_count = sizes.count;
	return fits;
}

/* Before any is judged: what is kept from evaluation to evaluation. */
static void look_at_inputs(struct working *working)
{
	const struct gm_model *model = working->model;
	size_t run = 0;
	for (size_t i = 0; i < working->categories->count; i++) {
		const struct gm_block *block = &model->blocks.items[i];
		if (block->alloc == GM_NO_EVENT)
			continue;
		uint32_t site = model->event_sites[block->alloc];
		run = run_of(model, run, block->alloc);
		if (is_without_gradients(gm_run_at_index(model, run).phase) &&
		        !(working->sites[site].flags & GM_FROM_MODULE_CALL))
			gm_inputs_see_block(&working->inputs, block, statement_of(working, block));
	}
}

static struct gm_error *work(struct working *working)
{
	const struct gm_model *model = working->model;
	size_t run = 0;
	if (!gm_inputs_init(&working->inputs, model) || !look_at_all(working))
		return &gm_error_no_memory;
	look_at_inputs(working);
	for (size_t i = 0; i < working->categories->count; i++) {
		const struct gm_block *block = &model->blocks.items[i];
		if (block->alloc == GM_NO_EVENT) {
			working->categories->reasons[i] = GM_REASON_BEFORE_RECORD;
			continue;
		}
		const struct gm_site *site = gm_model_site(model, block->alloc);
		const struct origin *origin = origin_of_event(working, block->alloc);
		if (!origin)
			return &gm_error_no_memory;
		run = run_of(model, run, block->alloc);
		struct gm_model_run born = gm_run_at_index(model, run);
		size_t end = run_of_free(model, block, born, run);
		struct gm_model_run died = end == SIZE_MAX ? born : gm_run_at_index(model, end);
		working->categories->reasons[i] = (uint8_t)judge(working, block, site, origin, born,
		        end == SIZE_MAX ? NULL : &died, in_one_pass(model, run, end));
	}
	bool good = gm_reasons_infer(model, working->categories) &&
	            gm_reasons_compare_weights(model, working->categories, &working->statements);
	return good ? NULL : &gm_error_no_memory;
}

static struct gm_error *create(const struct gm_model *model, struct gm_categories **ret_categories)
{
	struct gm_categories *categories = calloc(1, sizeof(*categories));
	struct working working = {
	        .model = model, .categories = categories, .statements.model = model};
	if (!categories)
		return &gm_error_no_memory;
	categories->count = model->blocks.count;
	categories->reasons = calloc(categories->count + 1, 1);
	working.sites = calloc(model->sites.items.count + 1, sizeof(*working.sites));
	struct gm_error *error =
	        categories->reasons && working.sites ? work(&working) : &gm_error_no_memory;
	free(working.sites);
	gm_array_deinit(&working.python);
	gm_array_deinit(&working.native);
	gm_inputs_deinit(&working.inputs);
	gm_statements_deinit(&working.statements);
	free(working.parameter_sizes);
	free(working.gathered_sizes);
	if (error)
		gm_categories_destroy(categories);
	else
		*ret_categories = categories;
	return error;
}

void gm_categories_destroy(struct gm_categories *categories)
{
	if (!categories)
		return;
	free(categories->reasons);
	free(categories);
}

enum gm_category gm_categories_of(const struct gm_categories *categories, size_t block)
{
	return (enum gm_category)categories_of[categories->reasons[block]];
}

enum gm_category_reason gm_categories_reason(const struct gm_categories *categories, size_t block)
{
	return (enum gm_category_reason)categories->reasons[block];
}

struct gm_error *gm_model_categories(
        struct gm_model *model, const struct gm_categories **ret_categories)
{
	if (!model->categories)
		gm_try(create(model, &model->categories));
	*ret_categories = model->categories;
	return NULL;
}
