/* What is said of a recording that is not closed: it still runs, or the recorder was killed. Until
 * it is closed nothing is known to hold. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ask/assert.h"
#include "ask/info.h"
#include "render/answers.h"
#include "render/assert.h"
#include "synthetic.h"

enum { MIB = 1 << 20 };

/* A recording with a peak of 3 MiB, of which 1 MiB is still allocated. */
static void record(struct synthetic *log)
{
	synthetic_begin(log);
	synthetic_event(log, GM_SEGMENT_ALLOC, 0x1000000, 4 * MIB, 0);
	synthetic_event(log, GM_ALLOC, 0x1000000, MIB, 0);
	synthetic_event(log, GM_ALLOC, 0x1100000, 2 * MIB, 0);
	synthetic_free(log, 0x1100000, 2 * MIB, 0);
	assert_null(gm_log_writer_flush(log->writer));
}

static struct gm_assert_check ask(
        struct gm_context *context, enum gm_assert_kind kind, uint64_t limit, bool gaps_allowed)
{
	struct gm_assert_limits limits = {.device = -1, .gaps_allowed = gaps_allowed};
	struct gm_assert_answer answer;
	struct gm_assert_baseline baseline;
	limits.of[kind] = (struct gm_assert_limit){.set = true, .bytes = limit};
	assert_null(gm_assert_baseline(context, &baseline));
	assert_null(gm_ask_assert(context, &limits, &baseline, &answer));
	assert_int_equal(answer.count, 1);
	struct gm_assert_check check = answer.items[0];
	gm_assert_answer_deinit(&answer);
	gm_assert_baseline_deinit(&baseline);
	return check;
}

static bool is_complete(struct gm_context *context)
{
	struct gm_info info;
	char *text = NULL;
	size_t size;
	const struct gm_style style = {0};
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	assert_null(gm_ask_info(context, &info));
	assert_null(gm_render_info_text(&info, &style, out));
	assert_int_equal(fclose(out), 0);
	bool complete = info.complete;
	assert_int_equal(info.gap_count, 0);
	assert_true(!strstr(text, "  complete: no gaps are known\n") == !complete);
	assert_true(!strstr(text, "the recording is not closed") == complete);
	assert_true(!strstr(text, "  not complete") == complete);
	gm_info_deinit(&info);
	free(text);
	return complete;
}

static void test_a_limit_is_not_known_to_hold_until_the_recording_is_closed(void **state)
{
	struct synthetic log;
	struct gm_context context;
	record(&log);
	gm_context_init(&context);
	assert_null(gm_context_set_log(&context, log.path));
	assert_false(is_complete(&context));
	const enum gm_assert_kind kinds[] = {GM_ASSERT_PEAK, GM_ASSERT_OOM, GM_ASSERT_GROWTH};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct gm_assert_check check = ask(&context, kinds[i], 3 * MIB, false);
		assert_int_equal(check.verdict, GM_ASSERT_UNKNOWN);
		assert_int_equal(check.reason, kinds[i] == GM_ASSERT_GROWTH ? GM_ASSERT_NO_BASELINE
		                                                            : GM_ASSERT_NOT_CLOSED);
		check = ask(&context, kinds[i], 3 * MIB, true);
		assert_int_equal(check.verdict, GM_ASSERT_HOLDS);
	}
	assert_int_equal(ask(&context, GM_ASSERT_PEAK, 2 * MIB, false).verdict, GM_ASSERT_FAILS);
	/* as gdb asks about its own recording again when the program has ended */
	assert_null(gm_log_writer_close(log.writer));
	gm_context_invalidate(&context);
	assert_true(is_complete(&context));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		assert_int_equal(ask(&context, kinds[i], 3 * MIB, false).verdict, GM_ASSERT_HOLDS);
	gm_context_deinit(&context);
	unlink(log.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_limit_is_not_known_to_hold_until_the_recording_is_closed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
