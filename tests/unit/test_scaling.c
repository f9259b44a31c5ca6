/* The steps of a GradScaler from the agent's records. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/scaling.h"
#include "synthetic.h"

enum { CHECKS = 50000 };

struct records {
	struct synthetic log;
	uint32_t reader; /* a stack of GradScaler.step() that reads found_inf */
	uint64_t events;
};

static void begin(struct records *records)
{
	synthetic_begin(&records->log);
	uint32_t code = synthetic_code(&records->log, "/lib/torch/amp/grad_scaler.py",
	        "GradScaler._maybe_opt_step", NULL, 0);
	records->reader = synthetic_stack(
	        &records->log, synthetic_frame(&records->log, code, 1, 0, NULL), 0, 0, 0);
	records->events = 1;
	synthetic_event(&records->log, GM_ALLOC, 0x1000, 512, records->reader);
}

static void put(struct records *records, enum gm_amp_kind kind, uint32_t number, double value,
        uint32_t count)
{
	const struct gm_log_amp record = {.event = records->events,
	        .thread = 1,
	        .python_stack = kind == GM_AMP_FOUND ? records->reader : 0,
	        .kind = kind,
	        .number = number,
	        .count = count,
	        .values = {value, 0.5, 2000}};
	gm_log_writer_amp(records->log.writer, &record);
}

static void check_steps(struct records *records, size_t count, enum gm_scaled_outcome outcome)
{
	struct gm_context context;
	struct gm_scaling scaling;
	struct gm_model *model = synthetic_model(&records->log, &context);
	assert_null(gm_scaling_find(model, &scaling));
	assert_int_equal(scaling.step_count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(scaling.steps[i].outcome, outcome);
	gm_scaling_deinit(&scaling);
	gm_context_deinit(&context);
}

static void each_check_has_one_step_that_its_read_decides(void **state)
{
	struct records records;
	begin(&records);
	for (uint32_t i = 0; i < CHECKS; i++)
		put(&records, GM_AMP_CHECK, i, 1, 1);
	for (uint32_t i = CHECKS; i-- > 0;)
		put(&records, GM_AMP_FOUND, i, 1, 1);
	put(&records, GM_AMP_UPDATE, 0, 2, 3);
	check_steps(&records, CHECKS, GM_SCALED_SKIPPED);
}

/* The scale of another scaler is updated in between. */
static void a_read_after_an_update_replaces_what_was_said_of_its_check(void **state)
{
	struct records records;
	begin(&records);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < CHECKS / 2; i++)
			put(&records, GM_AMP_CHECK, i, 1, 1);
		put(&records, GM_AMP_UPDATE, 0, 2, 3);
	}
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < CHECKS / 2; i++)
			put(&records, GM_AMP_FOUND, i, 1, 1);
	check_steps(&records, CHECKS, GM_SCALED_SKIPPED);
}

static void checks_without_a_read_stay_unknown(void **state)
{
	struct records records;
	begin(&records);
	for (uint32_t i = 0; i < 4; i++)
		put(&records, GM_AMP_CHECK, 7, 1, 1); /* gradients of one check */
	put(&records, GM_AMP_UPDATE, 0, 2, 3);
	put(&records, GM_AMP_CHECK, 7, 1, 1);
	check_steps(&records, 2, GM_SCALED_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_check_has_one_step_that_its_read_decides),
	        cmocka_unit_test(a_read_after_an_update_replaces_what_was_said_of_its_check),
	        cmocka_unit_test(checks_without_a_read_stay_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
