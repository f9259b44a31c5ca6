/*
 * What was allocated after the steps, outside of the loops that were examined: is it the peak, and
 * is it still there at the end? What a later loop accumulates, and the program releases afterwards,
 * is no leak, but may be the peak.
 */
#include "ask/recording/growth_later.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/median.h"

/* The kind of the first loop that an event was examined in; KINDS: of none. */
static enum gm_leak_loop_kind examined_in(
        const struct gm_levels *levels, const struct gm_model *model, uint32_t event)
{
	for (uint32_t i = 0; i < levels->count; i++) {
		const struct gm_level *level = &levels->items[i];
		if (level->from > level->to)
			continue;
		uint32_t iteration = gm_level_iteration(level, model, event);
		/* the last iteration of a loop around the steps goes on until the loop's end */
		if (iteration >= level->from && iteration <= level->to &&
		        (level->of_steps || event < level->iterations.end))
			return level->kind;
	}
	return GM_LEAK_LOOP_KINDS;
}

struct later {
	struct gm_growth *growth;
	struct gm_leaks *leaks;
	GM_ARRAY(uint64_t) sites; /* of the blocks that are kept, but of no parameters */
};

static bool keep_site(struct later *later, size_t index)
{
	const struct gm_model *model = later->leaks->model;
	enum gm_category category = gm_categories_of(later->growth->categories, index);
	uint32_t stack, native;
	uint64_t site;
	if (category == GM_CATEGORY_PARAMETER || category == GM_CATEGORY_BUFFER)
		return true;
	gm_model_stacks(model, gm_model_block(model, index)->alloc, &stack, &native);
	return gm_growth_site(later->growth, stack, &site) && gm_array_push(&later->sites, site);
}

/* Does a line have as many of them as one that accumulates would? */
static bool repeats(struct later *later)
{
	enum { OFTEN = 3 };
	const uint64_t *sites = later->sites.items;
	if (later->sites.count)
		qsort(later->sites.items, later->sites.count, sizeof(*sites), gm_by_number);
	for (size_t i = OFTEN - 1; i < later->sites.count; i++)
		if (sites[i] == sites[i + 1 - OFTEN])
			return true;
	return false;
}

static bool look(struct later *later, const struct gm_levels *levels)
{
	enum { MATTERS = 10 }; /* one part in so many of the peak */
	struct gm_leaks *leaks = later->leaks;
	const struct gm_model_device *device = gm_model_device(leaks->model, leaks->device);
	uint32_t last = levels->after.last, peak = device->peak_event;
	uint64_t at_peak = 0, released = 0, all = device->peak.allocated;
	bool used_before = false;
	if (last == GM_NO_EVENT)
		return true;
	for (size_t i = gm_model_block_count(leaks->model); i-- > 0 && !used_before;) {
		const struct gm_block *block = gm_model_block(leaks->model, i);
		if (block->alloc == GM_NO_EVENT || block->device != leaks->device)
			continue;
		used_before = block->alloc <= last;
		bool in_peak = peak != GM_NO_EVENT && block->alloc <= peak &&
		               gm_block_live_after(block, peak),
		     kept = block->alloc <= levels->after.end &&
		            gm_block_live_after(block, levels->after.end);
		if (used_before || (!in_peak && !kept))
			continue;
		enum gm_leak_loop_kind kind = examined_in(levels, leaks->model, block->alloc);
		if (kind == GM_LEAK_LOOP_LATER && in_peak && !kept)
			released += block->size;
		if (kind != GM_LEAK_LOOP_KINDS)
			continue;
		at_peak += in_peak ? block->size : 0;
		leaks->later_kept += kept ? block->size : 0;
		leaks->later_kept_blocks += kept;
		if (kept && !keep_site(later, i))
			return false;
	}
	if (2 * (at_peak + released) > all) {
		leaks->later_bytes = at_peak + released;
		leaks->later_released = released;
	}
	leaks->later_matters = 2 * at_peak > all || MATTERS * leaks->later_kept > all;
	leaks->later_once = !used_before && !repeats(later);
	return true;
}

bool gm_growth_look_later(
        struct gm_growth *growth, const struct gm_levels *levels, struct gm_leaks *leaks)
{
	struct later later = {.growth = growth, .leaks = leaks};
	bool good = look(&later, levels);
	gm_array_deinit(&later.sites);
	return good;
}
