#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "synthetic.h"

#define TORCH "/venv/lib/python3.11/site-packages/torch/"

static uint64_t next_address = 0x1000;

static uint32_t alloc(struct synthetic *log, uint32_t stack)
{
	next_address += 0x1000;
	return synthetic_event(log, GM_ALLOC, next_address, 512, stack);
}

/* The steps of all events, in order. */
static void expect_steps(struct synthetic *log, const uint32_t *steps, size_t count)
{
	struct gm_context context;
	struct gm_model *model = synthetic_model(log, &context);
	assert_int_equal(gm_log_event_count(gm_model_log(model)), count);
	for (size_t i = 0; i < count; i++)
		if (gm_model_step(model, i) != steps[i])
			fail_msg("event %zu is in step %u, not %u", i, gm_model_step(model, i),
			        steps[i]);
	gm_context_deinit(&context);
}

static void a_step_begins_each_time_control_moves_to_an_earlier_line(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", &loop, 1);
	uint32_t before = synthetic_stack(&log, synthetic_frame(&log, code, 10, 0, NULL), 0, 0, 0);
	uint32_t a = synthetic_stack(&log, synthetic_frame(&log, code, 30, 0, NULL), 0, 0, 0);
	uint32_t b = synthetic_stack(&log, synthetic_frame(&log, code, 60, 0, NULL), 0, 0, 0);
	uint32_t after = synthetic_stack(&log, synthetic_frame(&log, code, 90, 0, NULL), 0, 0, 0);
	const uint32_t stacks[] = {before, a, b, a, a, b, a, b, after};
	for (size_t i = 0; i < 9; i++)
		alloc(&log, stacks[i]);
	expect_steps(&log, (const uint32_t[]){0, 1, 1, 2, 2, 2, 3, 3, 0}, 9);
}

static void an_inner_loop_makes_no_steps_of_the_outer(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loops[] = {{20, 80, 20, 79}, {30, 50, 30, 49}};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", loops, 2);
	uint32_t a = synthetic_stack(&log, synthetic_frame(&log, code, 32, 0, NULL), 0, 0, 0);
	uint32_t b = synthetic_stack(&log, synthetic_frame(&log, code, 40, 0, NULL), 0, 0, 0);
	uint32_t c = synthetic_stack(&log, synthetic_frame(&log, code, 60, 0, NULL), 0, 0, 0);
	const uint32_t stacks[] = {a, b, a, b, c, a, b, c};
	for (size_t i = 0; i < 8; i++)
		alloc(&log, stacks[i]);
	expect_steps(&log, (const uint32_t[]){1, 1, 1, 1, 1, 2, 2, 2}, 8);
}

static void a_loop_of_one_line_is_recognized_by_its_allocation_coming_again(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "infer.py", "<module>", &loop, 1);
	uint32_t call =
	        synthetic_stack(&log, synthetic_frame(&log, code, 40, GM_OP_CALL, NULL), 0, 0, 0);
	uint32_t store = synthetic_stack(
	        &log, synthetic_frame(&log, code, 60, GM_OP_STORE_NAME, "outputs"), 0, 0, 0);
	uint32_t matmul = synthetic_native(&log, (const char *const[]){"at::matmul", NULL});
	uint32_t workspace = synthetic_native(&log, (const char *const[]){"cublasCreate", NULL});
	log.native = matmul;
	synthetic_event(&log, GM_ALLOC, 0x1000, 512, call); /* #0 output 1 */
	log.native = workspace;
	synthetic_event(&log, GM_ALLOC, 0x9000, 512, call); /* #1 of the same call */
	log.native = matmul;
	synthetic_event(&log, GM_ALLOC, 0x2000, 512, call); /* #2 output 2 */
	synthetic_free(&log, 0x1000, 512, store);           /* #3, #4 */
	synthetic_event(&log, GM_ALLOC, 0x1000, 512, call); /* #5 output 3 */
	synthetic_free(&log, 0x2000, 512, store);           /* #6, #7 */
	expect_steps(&log, (const uint32_t[]){1, 1, 2, 2, 2, 3, 3, 3}, 8);
}

static void tell(struct synthetic *log, uint64_t event, uint32_t code, uint64_t position)
{
	const struct gm_log_iteration iteration = {event, code, 0, position};
	gm_log_writer_iteration(log->writer, &iteration);
}

static void equal_layers_of_one_line_make_one_step_where_the_iterator_is_known(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "infer.py", "<module>", &loop, 1);
	uint32_t call =
	        synthetic_stack(&log, synthetic_frame(&log, code, 40, GM_OP_CALL, NULL), 0, 0, 0);
	uint32_t before = synthetic_stack(&log, synthetic_frame(&log, code, 10, 0, NULL), 0, 0, 0);
	log.native = synthetic_native(&log, (const char *const[]){"at::matmul", NULL});
	alloc(&log, before);
	for (uint64_t pass = 0; pass < 3; pass++) {
		tell(&log, 1 + 2 * pass, code, pass + 1);
		alloc(&log, call), alloc(&log, call);
	}
	/* a generator instead of the range: the repeated allocation shows the iteration */
	tell(&log, 7, code, GM_LOG_NO_POSITION);
	alloc(&log, call), alloc(&log, call);
	expect_steps(&log, (const uint32_t[]){0, 1, 1, 2, 2, 3, 3, 4, 5}, 9);
}

static void an_iteration_of_the_iterator_is_one_step_although_control_moves_up_twice(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", &loop, 1);
	uint32_t a = synthetic_stack(&log, synthetic_frame(&log, code, 30, 0, NULL), 0, 0, 0);
	uint32_t b = synthetic_stack(&log, synthetic_frame(&log, code, 60, 0, NULL), 0, 0, 0);
	const uint32_t stacks[] = {b, a, b, a, b};
	tell(&log, 0, code, 1);
	tell(&log, 3, code, 2);
	for (size_t i = 0; i < 5; i++)
		alloc(&log, stacks[i]);
	expect_steps(&log, (const uint32_t[]){1, 1, 1, 2, 2}, 5);
}

static void the_loop_with_backward_and_optimizer_is_the_training_loop(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	/* module-level: a loop that builds layers, then epochs (outer) with batches (inner) in
	 * train() */
	const struct gm_log_loop epochs = {100, 300, 100, 299}, build = {20, 60, 20, 59},
	                         batches = {10, 90, 10, 89}, params = {5, 50, 5, 49};
	const struct gm_log_loop main_loops[] = {build, epochs};
	uint32_t top = synthetic_code(&log, "main.py", "<module>", main_loops, 2);
	uint32_t train = synthetic_code(&log, "main.py", "train", &batches, 1);
	uint32_t backward = synthetic_code(&log, TORCH "_tensor.py", "Tensor.backward", NULL, 0);
	uint32_t step = synthetic_code(&log, TORCH "optim/adamw.py", "AdamW.step", &params, 1);
	uint32_t epoch = synthetic_frame(&log, top, 200, GM_OP_CALL, NULL);
	uint32_t layer = synthetic_stack(&log, synthetic_frame(&log, top, 40, 0, NULL), 0, 0, 0);
	uint32_t layer2 = synthetic_stack(&log, synthetic_frame(&log, top, 30, 0, NULL), 0, 0, 0);
	uint32_t forward =
	        synthetic_stack(&log, synthetic_frame(&log, train, 20, 0, NULL), epoch, 0, 0);
	uint32_t back = synthetic_stack(&log, synthetic_frame(&log, backward, 4, 0, NULL),
	        synthetic_frame(&log, train, 40, 0, NULL), epoch, 0);
	uint32_t optimize = synthetic_stack(&log, synthetic_frame(&log, step, 10, 0, NULL),
	        synthetic_frame(&log, train, 60, 0, NULL), epoch, 0);
	uint32_t optimize2 = synthetic_stack(&log, synthetic_frame(&log, step, 8, 0, NULL),
	        synthetic_frame(&log, train, 60, 0, NULL), epoch, 0);
	alloc(&log, layer), alloc(&log, layer2), alloc(&log, layer);
	const uint32_t pass[] = {forward, back, optimize, optimize2};
	uint32_t want[3 + 5 * 4] = {0};
	for (uint32_t i = 0; i < 5; i++) {
		for (uint32_t j = 0; j < 4; j++) {
			alloc(&log, pass[j]);
			want[3 + 4 * i + j] = i + 1;
		}
	}
	expect_steps(&log, want, sizeof(want) / sizeof(*want));
}

static void a_loop_in_a_constructor_is_no_training_loop(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t top = synthetic_code(&log, "main.py", "<module>", NULL, 0);
	uint32_t init = synthetic_code(&log, "main.py", "Model.__init__", &loop, 1);
	uint32_t frame = synthetic_frame(&log, top, 10, GM_OP_CALL, NULL);
	uint32_t a = synthetic_stack(&log, synthetic_frame(&log, init, 40, 0, NULL), frame, 0, 0);
	uint32_t b = synthetic_stack(&log, synthetic_frame(&log, init, 30, 0, NULL), frame, 0, 0);
	alloc(&log, a), alloc(&log, b), alloc(&log, a), alloc(&log, b);
	expect_steps(&log, (const uint32_t[]){0, 0, 0, 0}, 4);
}

static void phases_follow_the_frames(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t top = synthetic_code(&log, "main.py", "<module>", &loop, 1);
	uint32_t call =
	        synthetic_code(&log, TORCH "nn/modules/module.py", "Module._call_impl", NULL, 0);
	uint32_t backward = synthetic_code(&log, TORCH "_tensor.py", "Tensor.backward", NULL, 0);
	uint32_t step = synthetic_code(&log, TORCH "optim/sgd.py", "SGD.step", NULL, 0);
	uint32_t zero =
	        synthetic_code(&log, TORCH "optim/optimizer.py", "Optimizer.zero_grad", NULL, 0);
#define AT(code, lasti)                                                \
	synthetic_stack(&log,                                          \
	        (code) ? synthetic_frame(&log, (code), 2, 0, NULL)     \
	               : synthetic_frame(&log, top, (lasti), 0, NULL), \
	        (code) ? synthetic_frame(&log, top, (lasti), 0, NULL) : 0, 0, 0)
	alloc(&log, AT(0, 10));
	alloc(&log, AT(0, 30));
	alloc(&log, AT(call, 40));
	alloc(&log, AT(0, 45));
	alloc(&log, AT(backward, 50));
	alloc(&log, AT(step, 60));
	alloc(&log, AT(zero, 70));
	alloc(&log, AT(0, 90));
	struct gm_context context;
	struct gm_model *model = synthetic_model(&log, &context);
	const enum gm_phase want[] = {GM_PHASE_INIT, GM_PHASE_DATA, GM_PHASE_FORWARD,
	        GM_PHASE_FORWARD, GM_PHASE_BACKWARD, GM_PHASE_OPTIMIZER, GM_PHASE_ZERO_GRAD,
	        GM_PHASE_OTHER};
	for (size_t i = 0; i < 8; i++)
		assert_string_equal(
		        gm_phase_name(gm_model_phase(model, i)), gm_phase_name(want[i]));
	gm_context_deinit(&context);
}

static void what_enumerate_releases_after_its_move_begins_no_iteration(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", &loop, 1);
	uint32_t loader = synthetic_code(&log, "data.py", "batches", NULL, 0);
	uint32_t at_head = synthetic_frame(&log, code, 20, GM_OP_FOR_ITER, NULL);
	uint32_t head = synthetic_stack(&log, at_head, 0, 0, 0);
	uint32_t fetch =
	        synthetic_stack(&log, synthetic_frame(&log, loader, 10, 0, NULL), at_head, 0, 0);
	uint32_t body = synthetic_stack(&log, synthetic_frame(&log, code, 40, 0, NULL), 0, 0, 0);
	enum { PASSES = 5 };
	uint32_t want[PASSES * 6], count = 0;
	tell(&log, 0, code, 0);
	for (uint32_t pass = 0; pass < PASSES; pass++) {
		alloc(&log, fetch);
		want[count++] = pass + 1;
		tell(&log, count, code, pass + 1);
		/* from the third on, the tuple of enumerate() is one that is not in use */
		for (uint32_t i = 0; pass > 1 && i < 2; i++) {
			synthetic_free(&log, 0x1000 * (i + 1), 512, head);
			want[count++] = pass + 1;
			want[count++] = pass + 1;
		}
		alloc(&log, body);
		want[count++] = pass + 1;
	}
	expect_steps(&log, want, count);
}

static void an_evaluation_by_the_same_loop_is_known_by_its_caller(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t fit = synthetic_code(&log, "main.py", "fit", NULL, 0);
	uint32_t run = synthetic_code(&log, "main.py", "run", &loop, 1);
	uint32_t module =
	        synthetic_code(&log, TORCH "nn/modules/module.py", "Module._call_impl", NULL, 0);
	uint32_t backward = synthetic_code(&log, TORCH "_tensor.py", "Tensor.backward", NULL, 0);
	uint32_t forwards[2], back = 0;
	for (uint32_t line = 0; line < 2; line++) {
		uint32_t caller = synthetic_frame(&log, fit, 10 + 10 * line, GM_OP_CALL, NULL);
		forwards[line] = synthetic_stack(&log, synthetic_frame(&log, module, 2, 0, NULL),
		        synthetic_frame(&log, run, 40, 0, NULL), caller, 0);
		if (line == 0)
			back = synthetic_stack(&log, synthetic_frame(&log, backward, 4, 0, NULL),
			        synthetic_frame(&log, run, 60, 0, NULL), caller, 0);
	}
	uint32_t want[] = {1, 1, 2, 2, 0, 0, 3, 3, 4, 4, 0, 0};
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		for (uint32_t i = 0; i < 2; i++)
			alloc(&log, forwards[0]), alloc(&log, back);
		alloc(&log, forwards[1]), alloc(&log, forwards[1]);
	}
	expect_steps(&log, want, sizeof(want) / sizeof(*want));
}

/* Epochs of some updates, each with micro-batches that are fetched before the loop over them; and a
 * validation. */
static void accumulate(uint32_t epochs, uint32_t updates)
{
	struct synthetic log;
	synthetic_begin(&log);
	const struct gm_log_loop loops[] = {
	        {10, 120, 10, 119}, {20, 100, 20, 99}, {50, 90, 50, 89}};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", loops, 3);
	uint32_t torch_codes[] = {
	        synthetic_code(&log, TORCH "nn/modules/module.py", "Module._call_impl", NULL, 0),
	        synthetic_code(&log, TORCH "_tensor.py", "Tensor.backward", NULL, 0),
	        synthetic_code(&log, TORCH "optim/adamw.py", "AdamW.step", NULL, 0),
	};
	uint32_t fetch = synthetic_stack(&log, synthetic_frame(&log, code, 30, 0, NULL), 0, 0, 0);
	uint32_t module = synthetic_frame(&log, torch_codes[0], 2, 0, NULL);
	uint32_t validate =
	        synthetic_stack(&log, module, synthetic_frame(&log, code, 110, 0, NULL), 0, 0);
	uint32_t work[3];
	for (uint32_t i = 0; i < 3; i++)
		work[i] = synthetic_stack(&log, synthetic_frame(&log, torch_codes[i], 2, 0, NULL),
		        synthetic_frame(&log, code, 60 + 10 * i, 0, NULL), 0, 0);
	enum { MICRO = 3 };
	uint32_t want[64], count = 0, step = 0;
	for (uint32_t epoch = 0; epoch < epochs; epoch++) {
		for (uint32_t update = 0; update < updates; update++) {
			alloc(&log, fetch);
			want[count++] = ++step;
			for (uint32_t i = 0; i < 2 * MICRO; i++) {
				alloc(&log, work[i % 2]);
				want[count++] = step;
			}
			alloc(&log, work[2]);
			want[count++] = step;
		}
		alloc(&log, validate);
		want[count++] = 0;
	}
	expect_steps(&log, want, count);
}

static void a_step_has_the_micro_batches_that_are_fetched_before_the_loop_over_them(void **state)
{
	accumulate(2, 3);
}

static void an_epoch_of_one_update_is_no_step(void **state)
{
	accumulate(4, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_step_begins_each_time_control_moves_to_an_earlier_line),
	        cmocka_unit_test(an_inner_loop_makes_no_steps_of_the_outer),
	        cmocka_unit_test(a_loop_of_one_line_is_recognized_by_its_allocation_coming_again),
	        cmocka_unit_test(
	                equal_layers_of_one_line_make_one_step_where_the_iterator_is_known),
	        cmocka_unit_test(
	                an_iteration_of_the_iterator_is_one_step_although_control_moves_up_twice),
	        cmocka_unit_test(the_loop_with_backward_and_optimizer_is_the_training_loop),
	        cmocka_unit_test(a_loop_in_a_constructor_is_no_training_loop),
	        cmocka_unit_test(what_enumerate_releases_after_its_move_begins_no_iteration),
	        cmocka_unit_test(an_evaluation_by_the_same_loop_is_known_by_its_caller),
	        cmocka_unit_test(
	                a_step_has_the_micro_batches_that_are_fetched_before_the_loop_over_them),
	        cmocka_unit_test(an_epoch_of_one_update_is_no_step),
	        cmocka_unit_test(phases_follow_the_frames),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
