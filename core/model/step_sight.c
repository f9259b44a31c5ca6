#include "model/step_sight.h"

#include <stdlib.h>

#include "base/hash.h"

enum { CONTEXTS_MAX = 4096 };

const struct summary *gm_sight_next_stack(const struct step_sight *sight, uint32_t *stack)
{
	while (*stack < sight->thread->seen.count * 8) {
		uint32_t at = (*stack)++;
		if (sight->thread->seen.items[at / 8] & 1u << (at & 7))
			return &sight->steps->summaries.items[at];
	}
	return NULL;
}

static bool add_context(
        struct step_sight *sight, const struct standing *standing, uint32_t count, unsigned work)
{
	uint64_t hash = count;
	for (uint32_t i = 0; i < count; i++)
		hash = gm_hash_mix(hash ^ standing[i].known) + 1;
	for (size_t i = 0; i < sight->contexts.count; i++) {
		if (sight->contexts.items[i].hash != hash)
			continue;
		sight->contexts.items[i].work |= work;
		return true;
	}
	const struct step_context fresh = {standing, count, work, hash};
	return sight->contexts.count == CONTEXTS_MAX || gm_array_push(&sight->contexts, fresh);
}

const struct step_thread *gm_sight_thread(
        const struct gm_steps *steps, const struct gm_step_plan *plan)
{
	for (size_t i = 0; i < steps->threads.count; i++) {
		const struct step_thread *thread = &steps->threads.items[i];
		if (thread->id == plan->thread && thread->task == plan->task &&
		        (plan->thread || thread->outermost == plan->outermost))
			return thread;
	}
	return NULL;
}

void gm_sight_deinit(struct step_sight *sight)
{
	gm_array_deinit(&sight->contexts);
	free(sight->ignored);
	free(sight->chosen);
}

bool gm_sight_init(
        struct step_sight *sight, const struct gm_steps *steps, const struct step_thread *thread)
{
	*sight = (struct step_sight){.steps = steps, .thread = thread};
	sight->ignored = calloc(steps->known.count + 1, 1);
	sight->chosen = calloc(steps->known.count + 1, 1);
	bool fits = sight->ignored && sight->chosen;
	const struct summary *summary;
	for (uint32_t stack = 0; fits && (summary = gm_sight_next_stack(sight, &stack));) {
		uint32_t first = gm_steps_first_loop(thread, summary);
		/* a stack without loops has no array of them */
		const struct standing *standing = summary->count ? summary->standing + first : NULL;
		fits = add_context(
		        sight, standing, summary->count - first, summary->landmarks & GM_STEP_WORK);
		for (uint32_t i = first; fits && summary->marked && i <= summary->count; i++)
			if (summary->marked[i] & GM_STEP_WORK)
				fits = add_context(sight, standing, i - first,
				        summary->marked[i] & GM_STEP_WORK);
	}
	for (size_t i = 0; i < sight->contexts.count; i++)
		sight->work |= sight->contexts.items[i].work;
	return fits;
}

/* The place of a loop among those of a context; count: it is not one of them. */
static uint32_t find(const struct step_context *context, uint32_t loop)
{
	uint32_t i = 0;
	while (i < context->count && context->standing[i].known != loop)
		i++;
	return i;
}

unsigned gm_sight_work_in(const struct step_sight *sight, uint32_t loop, const uint8_t *without)
{
	unsigned work = 0;
	for (size_t i = 0; i < sight->contexts.count; i++) {
		const struct step_context *context = &sight->contexts.items[i];
		uint32_t at = find(context, loop);
		bool left_out = at == context->count;
		for (uint32_t j = at + 1; without && j < context->count; j++)
			left_out |= without[context->standing[j].known];
		work |= left_out ? 0 : context->work;
	}
	return work;
}

uint32_t gm_sight_iterations(const struct step_sight *sight, uint32_t loop)
{
	const struct followed *followed = gm_steps_followed(sight->thread, loop);
	return followed ? followed->iterations : 0;
}

uint32_t gm_sight_updates(const struct step_sight *sight, uint32_t loop)
{
	const struct followed *followed = gm_steps_followed(sight->thread, loop);
	return followed ? followed->updates : 0;
}

bool gm_sight_is_within(const struct step_sight *sight, uint32_t inner, uint32_t outer)
{
	for (size_t i = 0; inner != outer && i < sight->contexts.count; i++) {
		const struct step_context *context = &sight->contexts.items[i];
		uint32_t at = find(context, outer);
		for (uint32_t j = at + 1; j < context->count; j++)
			if (context->standing[j].known == inner)
				return true;
	}
	return false;
}
