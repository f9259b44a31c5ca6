#include "render/amp.h"

#include <inttypes.h>

#include "base/put.h"
#include "render/tensor.h"

enum { STEPS_SHOWN = 32, LINES_SHOWN = 16 };

static void put_bytes(uint64_t bytes, FILE *out)
{
	char size[GM_SIZE_TEXT];
	gm_put(out, "%s", gm_text_size(bytes, size));
}

static void put_blocks(uint64_t bytes, uint64_t blocks, FILE *out)
{
	put_bytes(bytes, out);
	gm_put(out, " in %" PRIu64 " block%s", blocks, gm_text_s(blocks));
}

/* "train.py:23 in train" */
static bool put_place(const struct gm_frame_place *place, FILE *out)
{
	if (!place->code)
		return false;
	gm_put(out, "%s:%u in %s()", gm_place_base_name(place->file), place->line, place->function);
	return true;
}

static void put_site(const struct gm_log *log, uint32_t stack, const char *before, FILE *out)
{
	struct gm_frame_place place;
	if (gm_place_site(log, stack, &place)) {
		gm_put(out, "%s", before);
		put_place(&place, out);
	}
}

/* The evidence for whether an optimizer stepped. */
static const char *evidence_text(enum gm_scaled_evidence evidence)
{
	switch (evidence) {
	case GM_SCALED_BY_HOST_READ:
		return "found_inf, as step() read it";
	case GM_SCALED_BY_DEVICE:
		return "found_inf in the device's memory";
	case GM_SCALED_BY_SCALE:
		return "the scale before and after";
	case GM_SCALED_BY_RANGE:
		return "the range of Optimizer.step()";
	case GM_SCALED_BY_ALLOCATIONS:
		return "the optimizer's allocations";
	default:
		return "";
	}
}

static const char *outcome_text(enum gm_amp_outcome outcome)
{
	switch (outcome) {
	case GM_AMP_STEP_TAKEN:
		return "taken";
	case GM_AMP_STEP_SKIPPED:
		return "skipped: found inf";
	case GM_AMP_STEP_PARTLY:
		return "partly skipped: found inf";
	case GM_AMP_STEP_NOT_ASKED:
		return "none";
	default:
		return "unknown";
	}
}

/* ---- head and steps ---- */

static size_t count_outcome(const struct gm_amp *amp, enum gm_amp_outcome outcome)
{
	size_t count = 0;
	for (size_t i = 0; i < amp->step_count; i++)
		count += amp->steps[i].outcome == outcome;
	return count;
}

static void put_head(const struct gm_amp *amp, FILE *out)
{
	const struct gm_model_device *device = gm_model_device(amp->model, amp->device);
	char name[GM_SIZE_TEXT];
	size_t skipped =
	        count_outcome(amp, GM_AMP_STEP_SKIPPED) + count_outcome(amp, GM_AMP_STEP_PARTLY);
	size_t unknown = count_outcome(amp, GM_AMP_STEP_UNKNOWN);
	gm_put(out, "%s: ", gm_text_device(device->type, device->index, name));
	if (amp->autocast)
		gm_put(out, "autocast to %s, ",
		        amp->casts[0] && amp->casts[1] ? "float16 and bfloat16"
		        : amp->casts[0]                ? "float16"
		        : amp->casts[1]                ? "bfloat16"
		                                       : "a dtype that was not recorded");
	else
		fputs("no autocast seen, ", out);
	gm_put(out, "%s", amp->scaling.step_count ? "with a GradScaler" : "no GradScaler seen");
	gm_put(out, ": %zu step%s", amp->step_count, gm_text_s(amp->step_count));
	if (amp->scaling.step_count || skipped)
		gm_put(out, ", %zu skipped", skipped);
	if (unknown)
		gm_put(out, ", of %zu it is not known whether the optimizer stepped", unknown);
	fputc('\n', out);
}

static void put_scaler(const struct gm_amp *amp, FILE *out)
{
	const struct gm_scale_update *last = NULL;
	if (amp->scaling.update_count)
		last = &amp->scaling.updates[amp->scaling.update_count - 1];
	if (!last)
		return;
	gm_put(out,
	        "The scale grows by %.10g after %.10g steps without inf or NaN, and shrinks by "
	        "%.10g after "
	        "one with. ",
	        last->growth_factor, last->growth_interval, last->backoff_factor);
	if (last->scale_known)
		gm_put(out, "It ends at %.10g.\n", last->scale);
	else
		fputs("Its value is on the device, and was not recorded.\n", out);
}

static bool is_shown(const struct gm_amp *amp, const struct gm_amp_step *step, size_t *left)
{
	if (amp->step_count > STEPS_SHOWN && step->outcome == GM_AMP_STEP_TAKEN)
		return false;
	if (!*left)
		return false;
	--*left;
	return true;
}

static struct gm_error *put_steps(const struct gm_amp *amp, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "step", "optimizer's step", "scale after", "tracker", "known by"};
	struct gm_table *table = gm_table_create(heads, "rlrrl");
	size_t left = STEPS_SHOWN, shown = 0;
	for (size_t i = 0; i < amp->step_count; i++) {
		const struct gm_amp_step *step = &amp->steps[i];
		if (!is_shown(amp, step, &left))
			continue;
		shown++;
		gm_table_cell(table, "%u", step->step);
		if (step->outcome == GM_AMP_STEP_PARTLY && step->skipped < step->calls)
			gm_table_cell(table, "%s (%u of %u)", outcome_text(step->outcome),
			        step->skipped, step->calls);
		else
			gm_table_cell(table, "%s", outcome_text(step->outcome));
		if (step->update && step->update->scale_known)
			gm_table_cell(table, "%.10g", step->update->scale);
		else
			gm_table_cell(table, "%s", "");
		if (step->update && step->update->tracker_known)
			gm_table_cell(table, "%.10g", step->update->tracker);
		else
			gm_table_cell(table, "%s", "");
		gm_table_cell(table, "%s", evidence_text(step->evidence));
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (shown < amp->step_count)
		gm_put(out, "%zu more step%s, most of them not skipped: --json has all of them.\n",
		        amp->step_count - shown, gm_text_s(amp->step_count - shown));
	return NULL;
}

static void put_tensor(const struct gm_amp *amp, uint32_t block, FILE *out)
{
	const struct gm_log *log = gm_model_log(amp->model);
	const struct gm_block *about = gm_model_block(amp->model, block);
	char text[GM_TENSOR_TEXT];
	struct gm_event event = {0};
	if (about->alloc == GM_NO_EVENT) {
		fputs("a block from before the recording", out);
		return;
	}
	gm_log_event(log, about->alloc, &event);
	gm_put(out, "#%u %s", about->alloc, gm_text_tensor(log, event.tensor, text));
}

/* "layers.0.weight.grad", "gradient 3 of 8", with its block, shape and counts */
static void put_gradient(
        const struct gm_amp *amp, const struct gm_amp_gradient *gradient, FILE *out)
{
	if (gradient->name)
		gm_put(out, "%s", gradient->name);
	else
		gm_put(out, "gradient %u of %u", gradient->index + 1, gradient->count);
	fputs(" (", out);
	if (gradient->block != GM_NO_BLOCK) {
		put_tensor(amp, gradient->block, out);
		fputs(", ", out);
	}
	gm_put(out, "%" PRIu64 " of %" PRIu64 " elements", gradient->not_finite,
	        gradient->elements);
	if (gradient->nan)
		gm_put(out, ", %" PRIu64 " NaN", gradient->nan);
	fputc(')', out);
}

/* The parameter in which it was first, or why that is not known. */
static void put_first(const struct gm_amp *amp, const struct gm_scaled_step *call, FILE *out)
{
	enum { GRADIENTS_SHOWN = 4 };
	const struct gm_amp_looked *looked = &amp->looked[call - amp->scaling.steps];
	const struct gm_amp_gradient *items = amp->not_finite + looked->first;
	if (!looked->count && looked->read == 0 && call->gradients == 1) {
		fputs("  It was the one gradient that the scaler checked.\n", out);
		return;
	}
	if (!looked->looked) {
		fputs("  The parameter is not known: GradScaler keeps one value for all gradients, "
		      "and gpumem copies nothing from a GPU.\n",
		        out);
		return;
	}
	if (!looked->count) {
		if (looked->read == looked->gradients)
			fputs("  All gradients are finite: the overflow is the simulated device's "
			      "(--overflow-at).\n",
			        out);
		else
			gm_put(out,
			        "  The parameter is not known: the simulated device computed "
			        "%" PRIu64 " of the %" PRIu64
			        " gradients, and GradScaler keeps one value for all.\n",
			        looked->read, looked->gradients);
		return;
	}
	fputs(looked->ordered ? "  It came first in " : "  It came in ", out);
	for (size_t i = 0; i < looked->count && i < (looked->ordered ? 1 : GRADIENTS_SHOWN); i++) {
		fputs(i ? ", " : "", out);
		put_gradient(amp, &items[i], out);
	}
	if (!looked->ordered && looked->not_finite > GRADIENTS_SHOWN)
		fputs(" and others; which was the first is not known", out);
	else if (!looked->ordered && looked->not_finite > 1)
		fputs("; which was the first is not known", out);
	gm_put(out, ". Of %" PRIu64 " gradients %" PRIu64 " %s inf or NaN", looked->gradients,
	        looked->not_finite, looked->not_finite == 1 ? "has" : "have");
	if (looked->read < looked->gradients)
		gm_put(out, ", and %" PRIu64 " could not be read",
		        looked->gradients - looked->read);
	fputs(".\n", out);
}

/* Why nothing changed. */
static void put_skipped(const struct gm_amp *amp, FILE *out)
{
	const struct gm_log *log = gm_model_log(amp->model);
	size_t shown = 0;
	for (size_t i = 0; i < amp->step_count && shown < LINES_SHOWN; i++) {
		const struct gm_amp_step *step = &amp->steps[i];
		for (uint32_t k = 0; k < step->calls; k++) {
			const struct gm_scaled_step *call =
			        &amp->scaling.steps[step->first_call + k];
			if (call->outcome != GM_SCALED_SKIPPED || shown++ >= LINES_SHOWN)
				continue;
			gm_put(out, "Step %u", step->step);
			put_site(log, call->python_stack, " at ", out);
			fputs(": a gradient was inf or NaN, so ", out);
			fputs(call->on_device ? "the fused optimizer changed nothing"
			                      : "scaler.step() did not call optimizer.step()",
			        out);
			if (step->outcome == GM_AMP_STEP_SKIPPED)
				fputs(": no parameter and no moment changed", out);
			fputs(".\n", out);
			put_first(amp, call, out);
		}
	}
}

static void put_state(const struct gm_amp *amp, FILE *out)
{
	if (!amp->state_blocks) {
		fputs("Optimizer state: none is in the recording", out);
		if (amp->step_count && count_outcome(amp, GM_AMP_STEP_SKIPPED) == amp->step_count)
			fputs(": an optimizer makes it in its first step that is not skipped", out);
		fputs(".\n", out);
		return;
	}
	fputs("Optimizer state: ", out);
	put_blocks(amp->state_bytes, amp->state_blocks, out);
	if (amp->state_step)
		gm_put(out, ", made from step %u on", amp->state_step);
	gm_put(out, " (#%u-%u)", amp->state_first, amp->state_last);
	bool skipped_before = amp->state_step > 1;
	for (size_t i = 0; i < amp->step_count && amp->steps[i].step < amp->state_step; i++)
		skipped_before &= amp->steps[i].outcome == GM_AMP_STEP_SKIPPED;
	if (skipped_before)
		gm_put(out,
		        ". Step%s skipped, and an optimizer makes its state when it first "
		        "steps",
		        amp->state_step == 2 ? " 1 was" : "s before it were");
	fputs(".\n", out);
}

/* ---- tensors ---- */

static void put_end(const struct gm_amp_parameter *parameter, FILE *out)
{
	static const char *const texts[GM_AMP_END_COUNT] = {
	        [GM_AMP_KEPT] = "still there",
	        [GM_AMP_BY_CACHE] = "kept by autocast's cache until autocast exited",
	        [GM_AMP_BY_GRAPH] = "kept by the graph until backward had used it",
	        [GM_AMP_BY_OTHERS] = "released by something else",
	};
	const char *between = "";
	for (int i = 0; i < GM_AMP_END_COUNT; i++) {
		if (!parameter->ends[i])
			continue;
		gm_put(out, "%s", between);
		if (parameter->ends[i] != parameter->copies)
			gm_put(out, "%u ", parameter->ends[i]);
		gm_put(out, "%s", texts[i]);
		between = ", ";
	}
}

static void put_copies(const struct gm_amp *amp, FILE *out)
{
	fputs("Parameters: ", out);
	put_blocks(amp->parameter_bytes, amp->parameter_blocks, out);
	fputs("\n", out);
	for (size_t i = 0; i < amp->parameter_count && i < LINES_SHOWN; i++) {
		const struct gm_amp_parameter *parameter = &amp->parameters[i];
		fputs("  ", out);
		put_tensor(amp, parameter->block, out);
		gm_put(out, ": %u cop%s by autocast, the first ", parameter->copies,
		        parameter->copies == 1 ? "y" : "ies");
		put_tensor(amp, parameter->first_copy, out);
		fputs(", ", out);
		put_bytes(parameter->copy_bytes, out);
		fputs("; ", out);
		put_end(parameter, out);
		fputc('\n', out);
	}
	if (amp->parameter_count > LINES_SHOWN)
		gm_put(out, "  and %zu more parameters with copies: --json has all of them\n",
		        amp->parameter_count - LINES_SHOWN);
	if (amp->autocast && !amp->has_casts)
		fputs("  The recording does not show which parameters autocast copied: `gpumem "
		      "run` records it.\n",
		        out);
}

static void put_maker(const char *operator, const char * node, FILE *out)
{
	if (*operator)
		gm_put(out, " by %s", operator);
	if (*node)
		gm_put(out, " in %s", node);
}

static void put_gradients(const struct gm_amp *amp, FILE *out)
{
	const struct gm_log *log = gm_model_log(amp->model);
	for (size_t i = 0; i < amp->gradient_count && i < LINES_SHOWN; i++) {
		const struct gm_amp_gradients *group = &amp->gradients[i];
		const struct gm_block *half = gm_model_block(amp->model, group->first_half);
		const struct gm_block *full = gm_model_block(amp->model, group->first_full);
		char text[GM_TENSOR_TEXT];
		struct gm_event event;
		gm_log_event(log, half->alloc, &event);
		gm_put(out, "%s%u of ", i ? "  " : "Gradients: ", group->count);
		gm_put(out, "%s", gm_text_tensor(log, event.tensor, text));
		put_maker(group->operator, group->node, out);
		gm_put(out, " (first #%u), converted to float32", half->alloc);
		put_maker(group->full_operator, group->full_node, out);
		gm_put(out, " (#%u)\n", full->alloc);
	}
	if (amp->gradient_count > LINES_SHOWN)
		gm_put(out, "  and %zu more kinds: --json has all of them\n",
		        amp->gradient_count - LINES_SHOWN);
}

/* --- the release of gradients ----------------------------------------------------------------- */

static const struct gm_amp_step *step_at(const struct gm_amp *amp, uint32_t step)
{
	return step && step <= amp->step_count ? &amp->steps[step - 1] : NULL;
}

static bool was_skipped(const struct gm_amp *amp, uint32_t step)
{
	const struct gm_amp_step *found = step_at(amp, step);
	return found && found->outcome == GM_AMP_STEP_SKIPPED;
}

static void put_release(const struct gm_amp *amp, const struct gm_amp_release *release, FILE *out)
{
	gm_put(out, "  of step %u: ", release->step);
	put_blocks(release->bytes, release->blocks, out);
	if (was_skipped(amp, release->step))
		fputs(", not used by the optimizer", out);
	if (release->never) {
		fputs("; kept to the end of the recording\n", out);
		return;
	}
	gm_put(out, "; released (#%u", release->first);
	if (release->last != release->first)
		gm_put(out, "-%u", release->last);
	fputc(')', out);
	if (release->released == release->step)
		fputs(" in the same step", out);
	else if (release->released)
		gm_put(out, " in step %u", release->released);
	if (release->by_zero_grad)
		fputs(" by zero_grad()", out);
	if (release->statement.code) {
		fputs(" at ", out);
		put_place(&release->statement, out);
	}
	if (release->before != GM_PHASE_OTHER)
		gm_put(out, ", after %s", gm_phase_name(release->before));
	if (release->after != GM_PHASE_OTHER)
		gm_put(out, "%s before %s", release->before != GM_PHASE_OTHER ? " and" : ",",
		        gm_phase_name(release->after));
	fputc('\n', out);
}

static void put_releases(const struct gm_amp *amp, FILE *out)
{
	size_t shown = 0;
	if (!amp->release_count)
		return;
	fputs("Gradients that backward kept:\n", out);
	for (size_t i = 0; i < amp->release_count && shown < LINES_SHOWN; i++, shown++)
		put_release(amp, &amp->releases[i], out);
	if (shown < amp->release_count)
		gm_put(out, "  and %zu more: --json has %s of them\n", amp->release_count - shown,
		        amp->truncated ? "many" : "all");
}

static void put_peak(const struct gm_amp *amp, FILE *out)
{
	const struct gm_amp_bytes *bytes = &amp->bytes;
	if (bytes->event == GM_NO_EVENT || !amp->has_tensors)
		return;
	gm_put(out, "At the peak, #%u: ", bytes->event);
	put_bytes(bytes->allocated, out);
	fputs(", of which ", out);
	put_bytes(bytes->half, out);
	fputs(" in half precision", out);
	if (bytes->copies) {
		fputs(" (", out);
		put_bytes(bytes->copies, out);
		fputs(" are copies of parameters)", out);
	}
	fputs(". The same in float32 would be about ", out);
	put_bytes(bytes->full, out);
	fputs(": an estimate, without the copies and with all other half-precision tensors twice "
	      "as large",
	        out);
	if (bytes->unknown) {
		fputs("; ", out);
		put_bytes(bytes->unknown, out);
		fputs(" of unknown dtype stay as they are", out);
	}
	fputs(".\n", out);
}

struct gm_error *gm_render_amp_text(
        const struct gm_amp *amp, const struct gm_style *style, FILE *out)
{
	if (amp->device == SIZE_MAX) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	put_head(amp, out);
	put_scaler(amp, out);
	if (amp->step_count) {
		struct gm_error *error = put_steps(amp, style, out);
		if (error)
			return error;
	}
	put_skipped(amp, out);
	if (amp->scaling.step_count && !amp->scaling.recorded)
		fputs("The recording does not contain the values that the scaler read: `gpumem "
		      "run` records them.\n",
		        out);
	put_state(amp, out);
	put_copies(amp, out);
	put_gradients(amp, out);
	put_releases(amp, out);
	put_peak(amp, out);
	return NULL;
}
