/*
 * Iterations of loops, by their iterators: for the outermost few loops of the program's own frames,
 * and of frames of installed packages, but not PyTorch's; written when one is in another iteration
 * than at the previous event. Stacks alone do not show the iterations of a loop whose allocations
 * all come from one line.
 */
#include "record/loops.h"

#include <string.h>

#include "base/packages.h"
#include "model/steps.h"
#include "record/recorder.h"
#include "record/codes.h"

static struct gm_known_loop *known_loop(struct gm_recorder *recorder, uint32_t code, uint32_t loop)
{
	for (size_t i = 0; i < recorder->loop_count; i++)
		if (recorder->loops[i].code == code && recorder->loops[i].loop == loop)
			return &recorder->loops[i];
	if (recorder->loop_count == GM_RECORD_LOOPS_MAX)
		return NULL;
	struct gm_known_loop *known = &recorder->loops[recorder->loop_count++];
	*known = (struct gm_known_loop){code, loop, GM_LOG_NO_POSITION};
	return known;
}

static void see_loop(
        struct gm_recorder *recorder, const struct gm_python_frame *frame, uint32_t loop)
{
	struct gm_code_id *code = gm_record_code(recorder, frame->code);
	struct gm_known_loop *known = code ? known_loop(recorder, code->id, loop) : NULL;
	if (!known)
		return;
	uint64_t position;
	if (!gm_python_loop_position(recorder->python, frame, loop, &position))
		position = GM_LOG_NO_POSITION;
	if (position == known->position)
		return;
	known->position = position;
	const struct gm_log_iteration iteration = {
	        .event = recorder->event_count,
	        .code = code->id,
	        .loop = loop,
	        .position = position,
	};
	gm_log_writer_iteration(recorder->writer, &iteration);
	if (recorder->steps)
		gm_steps_turn(recorder->steps, code->id, loop, position);
}

void gm_record_loops(struct gm_recorder *recorder, size_t count)
{
	if (count == 0)
		return;
	/* For one thread only, the first one: iterations of other threads are not steps of the
	 * program. */
	const struct gm_code *outermost = recorder->frames[count - 1].code;
	if (!recorder->main_code)
		recorder->main_code = outermost->id;
	if (recorder->main_code != outermost->id)
		return;
	unsigned seen = 0, seen_of_packages = 0;
	for (size_t i = count; i-- > 0;) {
		const struct gm_python_frame *frame = &recorder->frames[i];
		const char *file = frame->code->file;
		bool own = !gm_file_is_library(file);
		if (!frame->code->loop_count || (!own && !gm_packages_other(file, strlen(file))))
			continue;
		unsigned *count_of = own ? &seen : &seen_of_packages;
		unsigned most = own ? GM_LOOPS_FOLLOWED : GM_PACKAGE_LOOPS_FOLLOWED;
		for (uint32_t j = 0; j < frame->code->loop_count && *count_of < most; j++) {
			const struct gm_loop *loop = &frame->code->loops[j];
			if (!gm_loop_contains(loop, frame->lasti, frame->line))
				continue;
			see_loop(recorder, frame, j);
			++*count_of;
		}
	}
}
