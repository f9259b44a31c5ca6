/*
 * The iteration of the training loop to which an event belongs, during the recording: the model's
 * own detector gets the frames that were just read, so that `gpumem until step=N` stops where the
 * model will say that iteration N begins.
 */
#include "record/steps.h"

#include <string.h>

#include "model/steps.h"
#include "record/recorder.h"
#include "record/codes.h"

_Static_assert(
        (int)GM_LOG_OP_FOR_ITER == (int)GM_OP_FOR_ITER, "the numbers are part of the format");

/* The detector calls this for a new stack, which is that of the current event. */
static size_t current_frames(
        void *context, uint32_t stack, struct gm_step_frame *frames, size_t max)
{
	struct gm_recorder *recorder = context;
	(void)stack;
	size_t count = recorder->fed_count < max ? recorder->fed_count : max;
	for (size_t i = 0; i < count; i++) {
		const struct gm_python_frame *frame = &recorder->fed_frames[i];
		struct gm_code_id *code = gm_record_code(recorder, frame->code);
		struct gm_instruction instruction = {0};
		gm_python_instruction(recorder->python, frame->code, frame->lasti, &instruction);
		frames[i] = (struct gm_step_frame){
		        .code = code ? code->id : 0,
		        .lasti = frame->lasti,
		        .line = frame->line,
		        .iterates = instruction.op == GM_OP_FOR_ITER,
		        .loop_count = code ? frame->code->loop_count : 0,
		        .loops = code ? code->loops : NULL,
		        .file = frame->code->file,
		        .name = frame->code->name,
		};
	}
	return count;
}

bool gm_record_steps_begin(struct gm_recorder *recorder)
{
	recorder->steps = gm_steps_create(current_frames, recorder);
	return recorder->steps != NULL;
}

void gm_record_steps_end(struct gm_recorder *recorder)
{
	gm_steps_destroy(recorder->steps);
	recorder->steps = NULL;
}

void gm_record_steps_feed(struct gm_recorder *recorder, const struct gm_event *event)
{
	if (!recorder->steps || (event->flags & GM_EVENT_PREEXISTING))
		return;
	const struct gm_step_event fed = gm_step_event_of(event);
	uint32_t step = gm_steps_feed(recorder->steps, &fed);
	if (recorder->stop_step && step >= recorder->stop_step &&
	        recorder->last_step < recorder->stop_step) {
		recorder->stop_step = 0;
		recorder->stop_due = true;
	}
	recorder->last_step = step;
}
