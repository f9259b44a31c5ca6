#include "ask/recording/growth.h"

#include "ask/recording/leak.h"
#include "ask/recording/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/search.h"

enum { KNOWN_STACKS = 1 << 16 };

void gm_growth_init(struct gm_growth *growth, const struct gm_model *model, size_t device)
{
	*growth = (struct gm_growth){.model = model, .device = device};
}

void gm_growth_deinit(struct gm_growth *growth)
{
	free(growth->known);
	gm_array_deinit(&growth->parameters);
}

bool gm_growth_site(struct gm_growth *growth, uint32_t stack, uint64_t *ret_site)
{
	struct gm_frame_place place;
	if (!growth->known && !(growth->known = calloc(KNOWN_STACKS, sizeof(*growth->known))))
		return false;
	uint64_t *known = stack < KNOWN_STACKS ? &growth->known[stack] : NULL;
	uint64_t site = known ? *known : 0;
	if (!site) {
		site = 1;
		const struct gm_log *log = gm_model_log(growth->model);
		if (growth->in_packages ? gm_place_in_package(log, stack, &place)
		                        : gm_place_site(log, stack, &place)) {
			site = gm_hash_bytes(place.file, strlen(place.file), place.line);
			site = gm_hash_bytes(place.function, strlen(place.function), site) | 1;
		}
		if (known)
			*known = site;
	}
	*ret_site = site;
	return true;
}

uint32_t gm_level_iteration(
        const struct gm_level *level, const struct gm_model *model, uint32_t event)
{
	if (level->of_steps)
		return gm_model_step(model, event);
	const uint32_t *starts = level->iterations.starts;
	uint32_t iteration = (uint32_t)gm_partition_point(
	        level->iterations.count, middle, starts[middle] <= event);
	bool apart = level->kind == GM_LEAK_LOOP_PHASE || level->kind == GM_LEAK_LOOP_LATER;
	if (apart && iteration && event >= level->iterations.ends[iteration - 1])
		return 0;
	/* A library's loop trains and evaluates: its evaluations are examined, not its steps. */
	if (level->kind == GM_LEAK_LOOP_LATER && gm_model_step(model, event))
		return 0;
	return iteration;
}

bool gm_level_spreads(const struct gm_level *level, uint32_t count, uint32_t first, uint32_t last)
{
	uint32_t iterations = level->to - level->from + 1, margin = iterations / 4;
	return count >= GM_LEAK_STEPS_MIN && first <= level->from + margin &&
	       last + margin >= level->to;
}
