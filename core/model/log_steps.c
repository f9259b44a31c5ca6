#include "model/log_steps.h"

#include <stdio.h>
#include <string.h>

#include "model/phase.h"

size_t gm_log_step_frames(
        void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max)
{
	const struct gm_log *log = context;
	size_t count;
	const uint32_t *ids = gm_log_python_stack(log, stack, &count);
	count = count < max ? count : max;
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame = {0};
		struct gm_log_code code = {0};
		gm_log_frame(log, ids[i], &frame);
		gm_log_code(log, frame.code, &code);
		ret_frames[i] = (struct gm_step_frame){
		        .code = frame.code,
		        .lasti = frame.lasti,
		        .line = frame.line,
		        .iterates = frame.op == GM_LOG_OP_FOR_ITER,
		        .loop_count = code.loop_count,
		        .loops = code.loops,
		        .file = gm_log_string(log, code.file),
		        .name = gm_log_string(log, code.name),
		};
	}
	return count;
}

enum { STACK_MAX = 512 };

static enum gm_phase phase_of(const struct gm_step_frame *frames, size_t count)
{
	enum gm_phase phase = GM_PHASE_OTHER;
	for (size_t i = count; i-- > 0;) {
		phase = gm_phase_around(phase, &frames[i], i + 1 < count ? &frames[i + 1] : NULL);
		phase = gm_phase_within(phase, gm_frame_phase(&frames[i]));
	}
	return phase;
}

enum gm_phase gm_log_stack_phase(const struct gm_log *log, uint32_t stack)
{
	struct gm_step_frame frames[STACK_MAX];
	return phase_of(
	        frames, gm_log_step_frames((void *)(uintptr_t)log, stack, frames, STACK_MAX));
}

/* deepspeed/runtime/engine.py, zero/stage_1_and_2.py and others, 0.19.8 */
enum gm_phase gm_log_collective_phase(const struct gm_log *log, uint32_t stack)
{
	struct gm_step_frame frames[STACK_MAX];
	size_t count = gm_log_step_frames((void *)(uintptr_t)log, stack, frames, STACK_MAX);
	enum gm_phase phase = phase_of(frames, count);
	for (size_t i = 0; i < count && phase == GM_PHASE_OTHER; i++) {
		const char *name = gm_plain_name(frames[i].name);
		if (!strstr(frames[i].file, "deepspeed/runtime/"))
			continue;
		if (strcmp(name, "backward") == 0)
			phase = GM_PHASE_BACKWARD;
		else if (strcmp(name, "step") == 0)
			phase = GM_PHASE_OPTIMIZER;
	}
	return phase;
}

bool gm_log_begins_thread(const struct gm_log *log, uint32_t stack)
{
	size_t count = 0;
	const uint32_t *ids = stack ? gm_log_python_stack(log, stack, &count) : NULL;
	if (!count)
		return false;
	struct gm_log_frame frame = {0};
	struct gm_log_code code = {0};
	gm_log_frame(log, ids[count - 1], &frame);
	gm_log_code(log, frame.code, &code);
	const struct gm_step_frame outermost = {
	        .file = gm_log_string(log, code.file),
	        .name = gm_log_string(log, code.name),
	};
	return gm_frame_begins_thread(&outermost);
}

struct gm_steps *gm_log_steps_create(const struct gm_log *log)
{
	return gm_steps_create(gm_log_step_frames, (void *)(uintptr_t)log);
}

/* The work that a mark shows: PyTorch puts a range around each step() and zero_grad() of an
 * optimizer. */
static unsigned work_of(const struct gm_log *log, const struct gm_log_mark *mark)
{
	const char *name = mark->kind == GM_MARK_PUSH ? gm_log_string(log, mark->name) : "";
	if (strncmp(name, "Optimizer.", 10) != 0)
		return 0;
	return strncmp(name + 10, "step#", 5) == 0         ? GM_LANDMARK_OPTIMIZER
	       : strncmp(name + 10, "zero_grad#", 10) == 0 ? GM_LANDMARK_ZERO_GRAD
	                                                   : 0;
}

static void read_task(
        const struct gm_log *log, struct gm_steps *steps, const struct gm_log_mark *mark)
{
	unsigned task = 0, depth = 0;
	if (mark->name && sscanf(gm_log_string(log, mark->name), "%u %u", &task, &depth) != 2)
		task = 0;
	gm_steps_task(steps, mark->thread, task, depth);
}

void gm_log_steps_mark(
        const struct gm_log *log, struct gm_steps *steps, const struct gm_log_mark *mark)
{
	unsigned work = work_of(log, mark);
	if (work)
		gm_steps_mark(steps, mark->thread, work);
	if (mark->kind == GM_MARK_TASK)
		read_task(log, steps, mark);
}
