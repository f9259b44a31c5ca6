/*
 * The loops that `leaks` examines, and which of their iterations.
 *
 *   STEPS   All but the first, which makes what all later ones use, and the last, whose blocks may
 *           still be released.
 *   AROUND  All that begin after the first step: there are few. What the last one has not released
 *           yet is left out by growth_latest.c. The same applies to LATER.
 *   PHASE   If several loops have the steps (a warm-up, then a training), what one of them alone
 *           accumulates does not spread over all steps. So each is examined by itself, without its
 *           first iteration and its last.
 *   LATER   A loop that calls modules after the last step. Its iterations before that count as
 *           well: what an evaluation after each epoch releases is no growth in the last one.
 *
 * What a loop of the last two kinds left must still be there at the program's end (after_steps.h).
 */
#include "ask/recording/growth_levels.h"

#include "base/cleanup.h"

uint32_t gm_first_of_steps(const struct gm_model *model)
{
	for (size_t i = 0; i < gm_model_run_count(model); i++)
		if (gm_model_run(model, i).step)
			return gm_model_run(model, i).first;
	return GM_NO_EVENT;
}

struct gm_level gm_level_of_steps(const struct gm_model *model, size_t device)
{
	struct gm_level level = {.of_steps = true, .from = 2, .to = 1, .end = GM_NO_EVENT};
	uint32_t steps = gm_model_step_count(model);
	if (device != SIZE_MAX && steps > GM_LEAK_STEPS_MIN + 1)
		level.to = steps - 1;
	for (size_t i = gm_model_run_count(model); i-- > 0;) {
		struct gm_model_run run = gm_model_run(model, i);
		if (!run.step)
			continue;
		level.end = run.end - 1;
		break;
	}
	return level;
}

/* Is a loop seen to iterate until its end, from iteration `from` on? In a snapshot one may be told
 * by a line that allocates at first only: all that follows is then in its last iteration. */
static bool goes_on(const struct gm_model_iterations *iterations, uint32_t from)
{
	uint64_t count = iterations->count - from + 1u;
	if (iterations->count < from || count < GM_LEAK_STEPS_MIN)
		return false;
	uint64_t all = iterations->end - iterations->starts[from - 1],
	         last = iterations->end - iterations->starts[iterations->count - 1];
	return last * count <= 2 * all;
}

static void choose_around(const struct gm_model *model, struct gm_level *level)
{
	uint32_t first = gm_first_of_steps(model);
	level->end = level->iterations.end ? level->iterations.end - 1 : GM_NO_EVENT;
	while (level->from < level->iterations.count &&
	        level->iterations.starts[level->from] <= first)
		level->from++;
	if (goes_on(&level->iterations, level->from))
		level->to = level->iterations.count;
}

static void choose_phase(struct gm_level *level)
{
	level->from = 2;
	if (level->iterations.count > GM_LEAK_STEPS_MIN + 1 && goes_on(&level->iterations, 2))
		level->to = level->iterations.count - 1;
}

/* Keeps the iterations that are not steps and not before them. */
static void choose_later(const struct gm_model *model, struct gm_level *level)
{
	struct gm_model_iterations *iterations = &level->iterations;
	uint32_t first = gm_first_of_steps(model), kept = 0;
	for (uint32_t i = 0; i < iterations->count; i++) {
		if (iterations->starts[i] < first || gm_model_step(model, iterations->starts[i]))
			continue;
		iterations->starts[kept] = iterations->starts[i];
		iterations->ends[kept++] = iterations->ends[i];
	}
	iterations->count = kept;
	if (kept >= GM_LEAK_STEPS_MIN)
		level->to = kept;
}

static struct gm_error *add(const struct gm_model *model, struct gm_levels *levels,
        const struct gm_step_loop *loops, size_t count, enum gm_leak_loop_kind kind)
{
	for (size_t i = 0; i < count && i < GM_LEAK_LOOPS_OF_KIND_MAX; i++) {
		struct gm_level level = {
		        .loop = loops[i], .kind = kind, .from = 1, .end = levels->after.end};
		gm_try(gm_model_iterations(model, &loops[i], &level.iterations));
		if (kind == GM_LEAK_LOOP_AROUND)
			choose_around(model, &level);
		else if (kind == GM_LEAK_LOOP_PHASE)
			choose_phase(&level);
		else
			choose_later(model, &level);
		levels->items[levels->count++] = level;
	}
	return NULL;
}

static struct gm_error *find(const struct gm_model *model, struct gm_levels *levels)
{
	struct gm_step_loop loops[GM_LEAK_LOOPS_OF_KIND_MAX];
	const struct gm_step_plan *plan = gm_model_step_plan(model);
	gm_try(gm_after_steps(model, &levels->after));
	size_t count = gm_model_loops_around(model, loops, GM_LEAK_LOOPS_OF_KIND_MAX);
	gm_try(add(model, levels, loops, count, GM_LEAK_LOOP_AROUND));
	if (levels->after.last == GM_NO_EVENT)
		return NULL;
	if (plan->loop_count > 1)
		gm_try(add(model, levels, plan->loops, plan->loop_count, GM_LEAK_LOOP_PHASE));
	if (levels->after.end == levels->after.last)
		return NULL;
	count = gm_model_loops_later(model, levels->after.last, loops, GM_LEAK_LOOPS_OF_KIND_MAX);
	return add(model, levels, loops, count, GM_LEAK_LOOP_LATER);
}

struct gm_error *gm_levels_find(
        const struct gm_model *model, size_t device, struct gm_levels *ret_levels)
{
	struct gm_levels levels = {.after = {GM_NO_EVENT, GM_NO_EVENT}};
	levels.items[levels.count++] = gm_level_of_steps(model, device);
	struct gm_error *error = device == SIZE_MAX ? NULL : find(model, &levels);
	if (error)
		gm_levels_deinit(&levels);
	*ret_levels = levels;
	return error;
}

void gm_levels_deinit(struct gm_levels *levels)
{
	for (uint32_t i = 0; i < levels->count; i++)
		gm_model_iterations_deinit(&levels->items[i].iterations);
	*levels = (struct gm_levels){0};
}
