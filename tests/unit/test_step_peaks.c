/* The peaks of model and optimizer, and where they meet, against all moments of random records,
 * gone through one by one. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "model/step_peaks.h"
#include "synthetic.h"

#define TORCH "/venv/lib/python3.11/site-packages/torch/"
enum { BLOCKS = 200, EVENTS = 3000 };

static uint64_t next(uint64_t *random)
{
	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *random >> 33;
}

/* A loop whose passes go through a module, backward and an optimizer, each allocating and freeing
 * at random. */
static void write_random(struct synthetic *log, uint64_t random)
{
	const struct gm_log_loop loop = {20, 80, 20, 79};
	static const struct {
		const char *file, *name;
	} places[] = {{TORCH "nn/modules/module.py", "Module._call_impl"},
	        {TORCH "autograd/graph.py", "_engine_run_backward"},
	        {TORCH "optim/adamw.py", "AdamW.step"}};
	uint32_t code = synthetic_code(log, "train.py", "<module>", &loop, 1), stacks[3];
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t inner = synthetic_code(log, places[i].file, places[i].name, NULL, 0);
		stacks[i] = synthetic_stack(log, synthetic_frame(log, inner, 5, 0, NULL),
		        synthetic_frame(log, code, 30 + 10 * i, 0, NULL), 0, 0);
	}
	uint64_t sizes[BLOCKS] = {0};
	for (uint32_t i = 0; i < EVENTS; i++) {
		uint32_t place = i / 50 % 3;
		uint64_t at = next(&random) % BLOCKS, address = 0x10000000 + (at << 24);
		if (sizes[at]) {
			synthetic_free(log, address, sizes[at], stacks[place]);
			sizes[at] = 0;
		} else {
			sizes[at] = 512 * (1 + next(&random) % (place == 2 ? 3000 : 1500));
			synthetic_event(log, GM_ALLOC, address, sizes[at], stacks[place]);
		}
	}
}

static bool follows_batch(
        const struct gm_model *model, const struct gm_categories *categories, uint32_t index)
{
	enum gm_category category = gm_categories_of(categories, index);
	return category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_INPUT ||
	       (category == GM_CATEGORY_TEMPORARY &&
	               gm_peak_class_of(gm_model_phase(
	                       model, gm_model_block(model, index)->alloc)) == GM_PEAK_MODEL);
}

struct truth {
	struct gm_step_peak moments[2 * EVENTS];
	enum gm_peak_class classes[2 * EVENTS];
	size_t count;
};

static void find_truth(
        const struct gm_model *model, const struct gm_categories *categories, struct truth *truth)
{
	struct gm_state_walk walk = gm_state_walk_begin(model, 0);
	uint64_t growing = 0;
	while (gm_state_walk_next(&walk)) {
		const struct gm_block *block = gm_model_block(model, walk.block);
		if (follows_batch(model, categories, walk.block)) {
			if (walk.number == block->alloc)
				growing += block->size;
			else if (walk.number == gm_block_end(block))
				growing -= block->size;
		}
		truth->classes[truth->count] = gm_peak_class_of(gm_state_walk_run(&walk).phase);
		truth->moments[truth->count++] =
		        (struct gm_step_peak){walk.number, walk.usage.allocated, growing};
	}
}

static void step_peaks_are_those_of_all_moments(void **state)
{
	size_t met = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct synthetic log;
		synthetic_begin(&log);
		write_random(&log, seed);
		struct gm_context context;
		struct gm_model *model = synthetic_model(&log, &context);
		const struct gm_categories *categories;
		assert_null(gm_model_categories(model, &categories));
		struct gm_step_peak peaks[GM_PEAK_COUNT];
		double equal_at, from = 0, to = INFINITY;
		assert_null(gm_model_step_peaks(model, categories, 0, peaks, &equal_at));
		static struct truth truth;
		truth = (struct truth){.count = 0};
		find_truth(model, categories, &truth);
		struct gm_step_peak best[GM_PEAK_COUNT] = {0};
		for (size_t i = 0; i < truth.count; i++)
			if (truth.moments[i].allocated > best[truth.classes[i]].allocated)
				best[truth.classes[i]] = truth.moments[i];
		for (int side = GM_PEAK_MODEL; side < GM_PEAK_COUNT; side++) {
			assert_int_equal(peaks[side].event, best[side].event);
			assert_int_equal(peaks[side].allocated, best[side].allocated);
			assert_int_equal(peaks[side].growing, best[side].growing);
		}
		const struct gm_step_peak *optimizer = &best[GM_PEAK_OPTIMIZER];
		/* where the optimizer's line is above all others */
		for (size_t i = 0; i < truth.count; i++) {
			const struct gm_step_peak *one = &truth.moments[i];
			double faster = (double)one->growing - (double)optimizer->growing,
			       lower = (double)(optimizer->allocated - optimizer->growing) -
			               (double)(one->allocated - one->growing);
			if (truth.classes[i] != GM_PEAK_MODEL)
				continue;
			if (faster > 0)
				to = fmin(to, lower / faster);
			else if (faster < 0)
				from = fmax(from, lower / faster);
			else if (lower <= 0)
				to = 0;
		}
		if (from < to && to < INFINITY)
			assert_true(fabs(equal_at - to) < 1e-9 * to);
		else
			assert_true(equal_at == 0);
		met += equal_at > 0;
		gm_context_deinit(&context);
	}
	assert_true(met >= 10); /* else the last lines have shown nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(step_peaks_are_those_of_all_moments)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
