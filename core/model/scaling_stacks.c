#include "model/scaling_stacks.h"

#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "model/marks.h"
#include "model/phase.h"

enum { FRAMES_MAX = 512 };

/* The meaning of a stack. */
enum sign {
	LOOKED_AT = 1,
	CHECKS = 2,    /* GradScaler unscales gradients and checks them */
	STEPS = 4,     /* GradScaler.step() has called the optimizer's */
	ON_DEVICE = 8, /* ... which is a fused one, called regardless of the check's result */
	CALLED = 16,   /* the check is within GradScaler.step() */
};

static bool in_scaler(const char *file)
{
	/* until 2.2 torch/cuda/amp/grad_scaler.py */
	return gm_text_ends_with(file, "/amp/grad_scaler.py");
}

static bool frame_at(const struct gm_log *log, uint32_t id, struct gm_step_frame *ret)
{
	struct gm_log_frame frame;
	struct gm_log_code code = {0};
	if (!gm_log_frame(log, id, &frame) || !gm_log_code(log, frame.code, &code))
		return false;
	*ret = (struct gm_step_frame){
	        .file = gm_log_string(log, code.file), .name = gm_log_string(log, code.name)};
	return true;
}

/* "GradScaler._maybe_opt_step.<locals>.<genexpr>" counts as _maybe_opt_step too. */
static bool is_function(const char *qualified, const char *name)
{
	const char *found = strstr(qualified, name);
	size_t length = strlen(name);
	return found && (found == qualified || found[-1] == '.') &&
	       (found[length] == '\0' || found[length] == '.');
}

bool gm_scaling_function(const struct gm_log *log, uint32_t stack, const char *name)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	struct gm_step_frame frame;
	/* Not a read by the optimizer within the scaler's step(): it may read a tensor that was
	 * allocated in the memory of a found_inf. */
	for (size_t i = 0; i < count && i < FRAMES_MAX && frame_at(log, frames[i], &frame) &&
	                   in_scaler(frame.file);
	        i++)
		if (is_function(frame.name, name))
			return true;
	return false;
}

static uint8_t signs_of(const struct gm_log *log, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	struct gm_step_frame frame, inner = {0};
	uint8_t signs = LOOKED_AT;
	for (size_t i = 0; i < count && i < FRAMES_MAX; i++) {
		if (!frame_at(log, frames[i], &frame))
			continue;
		if (in_scaler(frame.file)) {
			const char *name = gm_plain_name(frame.name);
			bool calls = inner.file && !in_scaler(inner.file);
			bool steps = calls && strcmp(gm_plain_name(inner.name), "get") != 0;
			if (strcmp(name, "unscale_") == 0 ||
			        strcmp(name, "_check_inf_per_device") == 0)
				signs |= CHECKS;
			else if (strcmp(name, "_maybe_opt_step") == 0 && steps)
				signs |= STEPS;
			else if (strcmp(name, "step") == 0 && steps)
				signs |= STEPS | ON_DEVICE;
			if (strcmp(name, "step") == 0 && signs & CHECKS)
				signs |= CALLED;
		}
		inner = frame;
	}
	return signs;
}

struct seen {
	uint8_t signs;
	bool ranges;
	uint32_t event, stack; /* of the last check */
};

static struct gm_error *look(const struct gm_model *model, struct seen *seen, bool *ret_ranges)
{
	const struct gm_log *log = gm_model_log(model);
	GM_ARRAY(uint8_t) known = {0};
	uint64_t count = gm_log_event_count(log);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t stack, native;
		gm_model_stacks(model, i, &stack, &native);
		if (!stack)
			continue;
		if (!gm_array_reach(&known, stack)) {
			gm_array_deinit(&known);
			return &gm_error_no_memory;
		}
		if (!known.items[stack])
			known.items[stack] = signs_of(log, stack);
		uint8_t signs = known.items[stack];
		if (signs == LOOKED_AT)
			continue;
		struct seen *step = &seen[gm_model_step(model, i)];
		step->signs |= signs;
		if (signs & CHECKS) {
			step->event = i;
			step->stack = stack;
		}
	}
	gm_array_deinit(&known);
	*ret_ranges = false;
	for (size_t i = 0; i < gm_log_mark_count(log); i++) {
		struct gm_log_mark mark;
		gm_log_mark(log, i, &mark);
		if (!gm_marks_begins_optimizer_step(log, &mark))
			continue;
		*ret_ranges = true;
		uint64_t before = mark.event ? mark.event - 1 : 0;
		if (before < count)
			seen[gm_model_step(model, before)].ranges = true;
	}
	return NULL;
}

/* `ranges`: the recording has those of Optimizer.step(). */
static void judge(const struct seen *seen, bool ranges, struct gm_scaled_step *step)
{
	step->on_device = seen->signs & ON_DEVICE;
	if (step->on_device)
		return; /* the device decides */
	if (seen->signs & STEPS) {
		step->outcome = GM_SCALED_TAKEN;
		step->evidence = GM_SCALED_BY_ALLOCATIONS;
	} else if (ranges && seen->ranges) {
		step->outcome = GM_SCALED_TAKEN;
		step->evidence = GM_SCALED_BY_RANGE;
	} else if (ranges && seen->signs & CALLED) {
		step->outcome = GM_SCALED_SKIPPED;
		step->evidence = GM_SCALED_BY_RANGE;
	}
	if (step->outcome != GM_SCALED_UNKNOWN) {
		step->found_known = true;
		step->found = step->outcome == GM_SCALED_SKIPPED;
	}
}

/* Is any code of the scaler in the recording? If not, which is the usual case, no stack is
 * examined. */
static bool has_scaler(const struct gm_log *log)
{
	struct gm_log_code code;
	for (uint32_t id = 1; gm_log_code(log, id, &code); id++)
		if (in_scaler(gm_log_string(log, code.file)))
			return true;
	return false;
}

struct gm_error *gm_scaling_find_by_stacks(
        const struct gm_model *model, struct gm_scaling *ret_scaling)
{
	*ret_scaling = (struct gm_scaling){0};
	if (!has_scaler(gm_model_log(model)))
		return NULL;
	uint32_t count = gm_model_step_count(model);
	struct seen *seen = calloc((size_t)count + 1, sizeof(*seen));
	GM_ARRAY(struct gm_scaled_step) steps = {0};
	bool ranges, good = seen != NULL;
	struct gm_error *error = good ? look(model, seen, &ranges) : NULL;
	for (uint32_t i = 0; good && !error && i <= count; i++) {
		/* a scaler that is disabled calls the optimizer, and checks nothing */
		bool checks = seen[i].signs & CHECKS;
		if (!checks && (!(seen[i].signs & STEPS) || seen[i].signs & ON_DEVICE))
			continue;
		struct gm_scaled_step step = {
		        .step = i, .event = seen[i].event, .python_stack = seen[i].stack};
		judge(&seen[i], ranges, &step);
		good = gm_array_push(&steps, step);
	}
	free(seen);
	if (!good || error) {
		gm_array_deinit(&steps);
		return error ? error : &gm_error_no_memory;
	}
	*ret_scaling = (struct gm_scaling){.steps = steps.items, .step_count = steps.count};
	return NULL;
}
