#include "ask/oom/oom_growth.h"

#include <stdlib.h>
#include <string.h>

#include "ask/leaks.h"
#include "ask/recording/growth.h"
#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "model/wrapper_frames.h"

enum { LOOPS_MAX = 4 };

static char *copy(const char *text, bool *failed)
{
	char *copied = strdup(text);
	*failed |= !copied;
	return copied;
}

/* The line that left most, and the loop. False: no memory. */
static bool take_places(const struct gm_model *model, const struct gm_leak *most,
        const struct gm_level *level, struct gm_oom_growth *growth)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_frame_place place;
	struct gm_log_code code;
	bool failed = false;
	if (level->in_packages ? gm_place_in_package(log, most->stack, &place)
	                       : gm_place_site(log, most->stack, &place))
		growth->at = (struct gm_oom_place){.file = copy(place.file, &failed),
		        .function = copy(place.function, &failed),
		        .line = place.line};
	if (gm_log_code(log, level->loop.code, &code))
		growth->loop =
		        (struct gm_oom_place){.file = copy(gm_log_string(log, code.file), &failed),
		                .function = copy(gm_log_string(log, code.name), &failed),
		                .line = level->loop.line};
	return !failed;
}

static int by_index(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool is_first_of_line(const struct gm_leaks *leaks, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (leaks->items[i].site == leaks->items[index].site)
			return false;
	return true;
}

/* What one loop shows, in *ret_growth; `lines` 0: nothing. */
static struct gm_error *look(const struct gm_model *model, size_t device,
        const struct gm_level *level, struct gm_oom_growth *ret_growth)
{
	struct gm_leaks leaks;
	struct gm_oom_growth growth = {.iterations = level->to - level->from + 1};
	_cleanup_free_ struct gm_share *shares = NULL;
	size_t count;
	*ret_growth = growth;
	gm_try(gm_leaks_of_loop(model, device, level, &leaks, &shares, &count));
	const struct gm_leak *most = NULL;
	uint64_t each = 0;
	for (size_t i = 0; i < leaks.count; i++) {
		const struct gm_leak *leak = &leaks.items[i];
		if (!most || leak->bytes > most->bytes)
			most = leak;
		/* what is joined begins where there is a block to join to */
		uint64_t own = leak->bytes / (leak->joined ? leak->steps : growth.iterations);
		each += own;
		/* the old block is still there while the new one is made */
		growth.each_needs += (leak->joined ? 2 : 1) * own;
		growth.joined |= leak->joined;
		growth.lines += is_first_of_line(&leaks, i);
	}
	bool fits = true;
	if (!each)
		growth.lines = 0;
	if (growth.lines) {
		growth.each = each;
		growth.indices = calloc(count ? count : 1, sizeof(*growth.indices));
		fits = growth.indices && take_places(model, most, level, &growth);
		for (size_t i = 0; fits && i < count; i++) {
			growth.indices[growth.blocks++] = shares[i].block;
			growth.bytes += shares[i].bytes;
		}
	}
	if (growth.blocks)
		qsort(growth.indices, growth.blocks, sizeof(*growth.indices), by_index);
	gm_leaks_deinit(&leaks);
	*ret_growth = growth;
	return fits ? NULL : &gm_error_no_memory;
}

static bool is_of_package(const struct gm_log *log, const struct gm_step_loop *loop)
{
	struct gm_log_code code;
	const char *package;
	size_t length;
	return gm_log_code(log, loop->code, &code) &&
	       gm_code_owner(gm_log_string(log, code.file), &package, &length) == GM_CODE_PACKAGE;
}

void gm_oom_growth_deinit(struct gm_oom_growth *growth)
{
	free(growth->at.file);
	free(growth->at.function);
	free(growth->loop.file);
	free(growth->loop.function);
	free(growth->indices);
	*growth = (struct gm_oom_growth){0};
}

struct gm_error *gm_oom_find_growth(
        const struct gm_model *model, uint32_t event, struct gm_oom *oom)
{
	struct gm_step_plan plans[LOOPS_MAX];
	size_t count = event ? gm_model_plans_of_event(model, event, plans, LOOPS_MAX) : 0;
	for (size_t i = 0; i < count; i++) {
		struct gm_level level = {.loop = plans[i].loops[0],
		        .kind = GM_LEAK_LOOP_AROUND,
		        .from = 1,
		        .end = event - 1};
		level.in_packages = is_of_package(gm_model_log(model), &level.loop);
		struct gm_oom_growth growth = {0};
		gm_try(gm_model_iterations_of(model, &plans[i], &level.iterations));
		uint32_t at = gm_level_iteration(&level, model, event);
		/* the iteration that failed is not complete */
		level.to = at ? at - 1 : 0;
		struct gm_error *error = NULL;
		/* A block that others are joined to may be the second iteration's: then the third
		 * is the first that joins, which few iterations do not count as the beginning. */
		for (; level.from <= 2 && level.to >= level.from + GM_LEAK_STEPS_MIN - 1 &&
		        !error && !growth.lines;
		        level.from++)
			error = look(model, oom->memory.model_device, &level, &growth);
		gm_model_iterations_deinit(&level.iterations);
		if (!error && growth.lines && growth.bytes > oom->growth.bytes) {
			gm_oom_growth_deinit(&oom->growth);
			oom->growth = growth;
		} else {
			gm_oom_growth_deinit(&growth);
		}
		gm_try(error);
	}
	return NULL;
}
