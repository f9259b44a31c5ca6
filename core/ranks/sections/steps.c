#include "ranks/sections/steps.h"

#include <stdlib.h>
#include <string.h>

#include "ask/phases.h"
#include "ask/steps.h"

/* Of the stretches: those before `first`, the highest step, and those from `last` on. */
struct kept_range {
	size_t first, highest, last;
};

static struct kept_range range_of(const struct gm_steps_answer *answer)
{
	struct kept_range range = {.highest = SIZE_MAX};
	size_t steps = 0, count = answer->step_count;
	for (size_t i = 0; i < count; i++) {
		const struct gm_stretch *one = &answer->steps[i];
		steps += one->step != 0;
		if (steps <= GM_STEPS_FIRST && i < GM_STEPS_MOST - GM_STEPS_LAST - 1)
			range.first = i + 1;
		if (one->step && (range.highest == SIZE_MAX ||
		                         one->peak > answer->steps[range.highest].peak))
			range.highest = i;
	}
	range.last = count > GM_STEPS_LAST ? count - GM_STEPS_LAST : 0;
	return range;
}

static struct gm_error *read_steps(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_steps_section *steps = section;
	struct gm_steps_answer answer;
	struct gm_error *error = gm_ask_steps(context, &answer);
	if (error)
		return error;
	const struct kept_range kept = range_of(&answer);
	*ret_cut = false;
	steps->growth = answer.growth;
	steps->leaks = answer.leaks;
	steps->few = answer.few;
	steps->even = answer.even;
	for (size_t i = 0; i < answer.step_count; i++)
		if (answer.steps[i].step > steps->steps)
			steps->steps = answer.steps[i].step;
	for (size_t i = 0; i < answer.step_count && !error; i++) {
		if (i >= kept.first && i != kept.highest && i < kept.last) {
			*ret_cut = true;
			continue;
		}
		struct gm_kept_stretch one = {answer.steps[i], 0};
		one.stretch.phase = one.stretch.events
		                            ? gm_model_phase(answer.model, one.stretch.peak_event)
		                            : GM_PHASE_OTHER;
		if (!gm_array_push(&steps->items, one))
			error = &gm_error_no_memory;
	}
	gm_steps_answer_deinit(&answer);
	return error;
}

static struct gm_error *read_phases(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_phases_section *kept = section;
	struct gm_phases phases;
	struct gm_error *error = gm_ask_phases(context, 0, &phases);
	for (unsigned i = 0; i < GM_PHASE_COUNT && !error; i++) {
		struct gm_kept_stretch one = {phases.items[i], 0};
		if (!one.stretch.events)
			continue;
		one.stretch.phase = i;
		one.peak_step = gm_model_step(phases.model, one.stretch.peak_event);
		if (!gm_array_push(&kept->items, one))
			error = &gm_error_no_memory;
	}
	return error;
}

/* Stretches that follow one another are mostly alike: as differences they are mostly 0. */
static void code_stretch(
        struct gm_codec *codec, struct gm_kept_stretch *one, struct gm_kept_stretch *last)
{
	struct gm_stretch *stretch = &one->stretch, *before = &last->stretch;
	uint64_t *const values[] = {&stretch->events, &stretch->start, &stretch->end,
	        &stretch->peak, &stretch->blocks, &stretch->bytes, &stretch->kept_blocks,
	        &stretch->kept, &stretch->replaced};
	uint64_t *const befores[] = {&before->events, &before->start, &before->end, &before->peak,
	        &before->blocks, &before->bytes, &before->kept_blocks, &before->kept,
	        &before->replaced};
	uint32_t length = stretch->last - stretch->first;
	uint32_t peak = stretch->peak_event - stretch->first;
	unsigned phase = stretch->phase;
	gm_code_u32(codec, &stretch->step);
	gm_code_enum(codec, &phase, GM_PHASE_COUNT - 1);
	stretch->phase = phase;
	gm_code_u32(codec, &stretch->first);
	gm_code_u32(codec, &length);
	gm_code_u32(codec, &peak);
	stretch->last = stretch->first + length;
	stretch->peak_event = stretch->first + peak;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		gm_code_difference(codec, values[i], befores[i]);
	gm_code_bool(codec, &stretch->followed);
	gm_code_u32(codec, &one->peak_step);
}

#define CODE_STRETCHES(codec, section, most)                                                  \
	do {                                                                                  \
		struct gm_kept_stretch last_ = {0};                                           \
		gm_code_array_with((codec), &(section)->items, (most), code_stretch, &last_); \
	} while (0)

static void code_steps(struct gm_codec *codec, void *section)
{
	struct gm_steps_section *steps = section;
	gm_code_u32(codec, &steps->steps);
	gm_code_u64(codec, &steps->growth);
	gm_code_bool(codec, &steps->leaks);
	gm_code_bool(codec, &steps->few);
	gm_code_bool(codec, &steps->even);
	CODE_STRETCHES(codec, steps, GM_STEPS_MOST);
}

static void code_phases(struct gm_codec *codec, void *section)
{
	struct gm_phases_section *phases = section;
	CODE_STRETCHES(codec, phases, GM_PHASE_COUNT);
}

static void deinit_steps(void *section)
{
	gm_array_deinit(&((struct gm_steps_section *)section)->items);
}

static void deinit_phases(void *section)
{
	gm_array_deinit(&((struct gm_phases_section *)section)->items);
}

const struct gm_section_kind gm_section_steps = {
        sizeof(struct gm_steps_section), read_steps, code_steps, deinit_steps};
const struct gm_section_kind gm_section_phases = {
        sizeof(struct gm_phases_section), read_phases, code_phases, deinit_phases};
