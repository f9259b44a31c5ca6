/* A model that follows a log as it grows: it is what a model made of the whole would be, and a look
 * costs what came. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ask/top.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "synthetic.h"

#define TORCH "/usr/lib/python3/dist-packages/torch/"

enum { STACKS = 6, SLOTS = 200 };

/* A training script, of which each iteration allocates in all its phases; what it keeps and frees
 * is chance. */
struct script {
	struct synthetic log;
	uint64_t random;
	uint32_t loop_code;
	uint32_t stacks[STACKS];
	bool live[SLOTS];
	bool modes; /* the events tell the grad mode */
	uint64_t iterations;
};

static unsigned chance(struct script *script, unsigned below)
{
	script->random = script->random * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(script->random >> 33) % below;
}

static void begin(struct script *script, uint64_t seed)
{
	static const struct gm_log_loop loops[] = {{10, 200, 10, 199}, {20, 90, 20, 89}};
	*script = (struct script){.random = seed};
	struct synthetic *log = &script->log;
	synthetic_begin(log);
	uint32_t code = script->loop_code = synthetic_code(log, "train.py", "train", loops, 2);
	uint32_t module =
	        synthetic_code(log, TORCH "nn/modules/module.py", "Module._call_impl", NULL, 0);
	uint32_t backward = synthetic_code(log, TORCH "_tensor.py", "Tensor.backward", NULL, 0);
	uint32_t optimizer = synthetic_code(log, TORCH "optim/sgd.py", "SGD.step", NULL, 0);
	const struct {
		uint32_t at, within;
	} places[STACKS] = {
	        {2, 0}, {30, 0}, {60, module}, {100, backward}, {150, optimizer}, {180, 0}};
	for (int i = 0; i < STACKS; i++) {
		uint32_t frame = synthetic_frame(log, code, places[i].at, GM_OP_CALL, NULL);
		uint32_t inner = places[i].within ? synthetic_frame(log, places[i].within, 8,
		                                            GM_OP_CALL, NULL)
		                                  : 0;
		script->stacks[i] = inner ? synthetic_stack(log, inner, frame, 0, 0)
		                          : synthetic_stack(log, frame, 0, 0, 0);
	}
}

static void go_on(struct script *script, int stack)
{
	struct synthetic *log = &script->log;
	if (script->modes)
		log->flags = chance(script, 3) ? GM_EVENT_GRAD : GM_EVENT_NO_GRAD;
	for (unsigned n = 1 + chance(script, 4); n > 0; n--) {
		unsigned slot = chance(script, SLOTS);
		uint64_t address = 0x10000 + slot * 0x1000ull, size = 512 * (1 + slot % 7);
		if (script->live[slot])
			synthetic_free(log, address, size, script->stacks[stack]);
		else
			synthetic_event(log, GM_ALLOC, address, size, script->stacks[stack]);
		script->live[slot] = !script->live[slot];
	}
}

/* An iteration of the loop; by some the program itself marks its steps, or an iterator tells. */
static void one_pass(struct script *script, uint64_t events, bool marks, bool iterations)
{
	if (iterations)
		gm_log_writer_iteration(
		        script->log.writer, &(struct gm_log_iteration){events, script->loop_code, 0,
		                                    script->iterations});
	if (marks)
		gm_log_writer_mark(
		        script->log.writer, &(struct gm_log_mark){events, 1, GM_MARK_STEP, 0});
	script->iterations++;
	go_on(script, 1);
	for (unsigned micro = 1 + chance(script, 3); micro > 0; micro--) {
		go_on(script, 2);
		go_on(script, 3);
		go_on(script, 1);
	}
	go_on(script, 4);
	go_on(script, 5);
}

static void assert_same(const struct gm_model *a, const struct gm_model *b)
{
	assert_int_equal(gm_model_run_count(a), gm_model_run_count(b));
	assert_int_equal(gm_model_step_count(a), gm_model_step_count(b));
	for (size_t i = 0; i < gm_model_run_count(a); i++) {
		struct gm_model_run x = gm_model_run(a, i), y = gm_model_run(b, i);
		assert_int_equal(x.first, y.first);
		assert_int_equal(x.end, y.end);
		assert_int_equal(x.step, y.step);
		assert_int_equal(x.phase, y.phase);
	}
	assert_int_equal(gm_model_device_count(a), gm_model_device_count(b));
	for (size_t i = 0; i < gm_model_device_count(a);
	        i++) { /* padding is before `events` alone */
		const size_t from = offsetof(struct gm_model_device, events);
		assert_memory_equal((const char *)gm_model_device(a, i) + from,
		        (const char *)gm_model_device(b, i) + from,
		        offsetof(struct gm_model_device, peak_event) + sizeof(uint32_t) - from);
	}
	assert_int_equal(gm_model_block_count(a), gm_model_block_count(b));
	for (size_t i = 0; i < gm_model_block_count(a); i++)
		assert_memory_equal(
		        gm_model_block(a, i), gm_model_block(b, i), sizeof(struct gm_block));
	uint64_t events = gm_log_event_count(gm_model_log(a));
	for (uint64_t i = 0; i < events; i += 37) {
		uint32_t x[2], y[2];
		assert_int_equal(gm_model_event_block(a, i), gm_model_event_block(b, i));
		gm_model_stacks(a, i, &x[0], &x[1]);
		gm_model_stacks(b, i, &y[0], &y[1]);
		assert_int_equal(x[0], y[0]);
		assert_int_equal(
		        gm_model_usage_after(a, 0, i).active, gm_model_usage_after(b, 0, i).active);
	}
}

static void a_followed_file_gives_the_same_as_a_complete_one(void **state)
{
	for (unsigned kind = 0; kind < 8; kind++) {
		struct script script;
		struct gm_log *log;
		struct gm_model *followed = NULL, *whole;
		begin(&script, 99 + kind);
		script.modes = kind & 4;
		go_on(&script, 0);
		for (unsigned look = 0; look < 60; look++) {
			assert_null(gm_log_writer_flush(script.log.writer));
			if (!followed) {
				assert_null(gm_log_open(script.log.path, &log));
				assert_null(gm_model_follow(log, &followed));
			}
			assert_null(gm_log_refresh(log));
			assert_null(gm_model_read_on(followed));
			assert_null(gm_model_create(log, &whole));
			assert_same(followed, whole);
			gm_model_destroy(whole);
			/* looks come at any place of an iteration */
			for (unsigned n = chance(&script, 4); n > 0; n--)
				one_pass(&script, gm_log_event_count(log),
				        (kind & 1) && look > 9 && n == 1, kind & 2 && n == 1);
			for (unsigned n = chance(&script, 5); n > 1; n--)
				go_on(&script, (int)n);
		}
		assert_true(gm_model_step_count(followed) > 5);
		gm_model_destroy(followed);
		gm_log_close(log);
		gm_error_destroy(gm_log_writer_close(script.log.writer));
		unlink(script.log.path);
	}
}

static void a_refresh_of_top_reads_only_the_new_events(void **state)
{
	struct script script;
	struct gm_context context;
	struct gm_top top;
	gm_context_init(&context);
	begin(&script, 7);
	go_on(&script, 0);
	assert_null(gm_log_writer_flush(script.log.writer));
	assert_null(gm_context_set_log(&context, script.log.path));
	uint64_t before = 0, last = 0;
	for (unsigned look = 0; look < 400; look++) {
		assert_null(gm_ask_top(&context, &top));
		assert_true(top.blocks_read <= SLOTS);
		/* at first it is not clear which loop is the one */
		if (look > 5)
			assert_int_equal(top.events_read, 2 * (top.events - before));
		/* and it says what asking for all of it says */
		if (look % 50 == 0 && top.events) {
			const struct gm_blocks_options by_line = {.by = GM_BY_LINE};
			struct gm_blocks blocks;
			assert_null(gm_ask_blocks(&context, &by_line, &blocks));
			assert_int_equal(top.blocks.allocated, blocks.allocated);
			assert_int_equal(top.blocks.group_count, blocks.group_count);
			for (size_t i = 0; i < blocks.group_count; i++)
				assert_string_equal(top.blocks.groups[i].key, blocks.groups[i].key);
			assert_memory_equal(
			        top.blocks.by_phase, blocks.by_phase, sizeof(blocks.by_phase));
			gm_blocks_deinit(&blocks);
		}
		last = top.events - before;
		before = top.events;
		gm_top_deinit(&top);
		for (int i = 0; i < 5; i++)
			one_pass(&script, before, false, false);
		assert_null(gm_log_writer_flush(script.log.writer));
	}
	assert_true(before > 50 * last && last > 0);
	gm_context_deinit(&context);
	gm_error_destroy(gm_log_writer_close(script.log.writer));
	unlink(script.log.path);
}

static void lines_that_grow_are_seen_while_they_do(void **state)
{
	struct script script;
	struct gm_context context;
	struct gm_top top;
	gm_context_init(&context);
	begin(&script, 5);
	enum { LEFT = 1 << 20 }; /* bytes */
	const uint64_t base = 0x100000000;
	uint64_t address = base;
	for (unsigned i = 0; i < 12; i++) {
		one_pass(&script, 0, false, false);
		synthetic_event(&script.log, GM_ALLOC, address, LEFT, script.stacks[5]);
		address += LEFT;
	}
	assert_null(gm_log_writer_flush(script.log.writer));
	assert_null(gm_context_set_log(&context, script.log.path));
	assert_null(gm_ask_top(&context, &top));
	bool found = false;
	for (size_t i = 0; i < top.growing.count; i++)
		found |= top.growing.items[i].bytes >= 10 * LEFT;
	assert_true(found);
	gm_top_deinit(&top);
	for (; address > base; address -= LEFT)
		synthetic_free(&script.log, address - LEFT, LEFT, script.stacks[1]);
	assert_null(gm_log_writer_flush(script.log.writer));
	assert_null(gm_ask_top(&context, &top));
	for (size_t i = 0; i < top.growing.count; i++)
		assert_true(top.growing.items[i].bytes < LEFT);
	gm_top_deinit(&top);
	gm_context_deinit(&context);
	gm_error_destroy(gm_log_writer_close(script.log.writer));
	unlink(script.log.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_followed_file_gives_the_same_as_a_complete_one),
	        cmocka_unit_test(a_refresh_of_top_reads_only_the_new_events),
	        cmocka_unit_test(lines_that_grow_are_seen_while_they_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
