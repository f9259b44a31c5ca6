#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ask/blocks.h"
#include "ask/info.h"
#include "ask/context.h"
#include "model/live.h"
#include "synthetic.h"

static void the_peak_is_where_allocated_is_greatest_first(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	synthetic_event(&log, GM_SEGMENT_ALLOC, 0x1000, 4000, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	uint32_t peak = synthetic_event(&log, GM_ALLOC, 0x2000, 2000, 0);
	synthetic_free(&log, 0x1000, 1000, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0); /* the same peak again */
	synthetic_free(&log, 0x2000, 2000, 0);
	struct gm_model *model = synthetic_model(&log, &context);
	const struct gm_model_device *device = gm_model_device(model, 0);
	assert_int_equal(device->peak_event, peak);
	assert_int_equal(device->peak.allocated, 3000);
	assert_int_equal(device->peak.requested, 2700);
	assert_int_equal(device->peak.reserved, 4000);
	assert_int_equal(device->now.allocated, 1000);
	gm_context_deinit(&context);
}

static void a_pending_free_is_active_but_not_allocated(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	uint32_t asked = synthetic_event(&log, GM_FREE_REQUESTED, 0x1000, 1000, 0);
	synthetic_event(&log, GM_ALLOC, 0x2000, 500, 0);
	uint32_t done = synthetic_event(&log, GM_FREE_COMPLETED, 0x1000, 1000, 0);
	struct gm_model *model = synthetic_model(&log, &context);
	struct gm_usage usage = gm_model_usage_after(model, 0, asked + 1);
	assert_int_equal(usage.allocated, 500);
	assert_int_equal(usage.active, 1500);
	usage = gm_model_usage_after(model, 0, done);
	assert_int_equal(usage.active, 500);
	assert_int_equal(gm_model_block(model, 0)->free_requested, asked);
	assert_int_equal(gm_model_block(model, 0)->free_completed, done);
	gm_context_deinit(&context);
}

static void an_address_that_is_used_again_has_two_lives(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	uint32_t first = synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	synthetic_free(&log, 0x1000, 1000, 0);
	uint32_t second = synthetic_event(&log, GM_ALLOC, 0x1000, 600, 0);
	synthetic_model(&log, &context);
	const struct gm_model *model;
	uint32_t *blocks;
	size_t count;
	assert_null(gm_ask_history(&context, 0x1010, &model, &blocks, &count));
	assert_int_equal(count, 2);
	assert_int_equal(gm_model_block(model, blocks[0])->alloc, first);
	assert_int_equal(gm_model_block(model, blocks[1])->alloc, second);
	free(blocks);
	uint32_t block;
	assert_null(gm_ask_block(&context, "0x1000", false, 0, &block, &count));
	assert_int_equal(gm_model_block(model, block)->alloc, second);
	assert_null(gm_ask_block(&context, "0x1000", true, first, &block, &count));
	assert_int_equal(gm_model_block(model, block)->alloc, first);
	const char *const wrong[] = {"0x9000", "#99999999999999999999", "#", "# 0", "#+0", "#-1",
	        "0x", "0x0x1000", "0x 1000", "0x-1", "0x10000000000001000"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct gm_error *error = gm_ask_block(&context, wrong[i], false, 0, &block, &count);
		assert_non_null(error);
		assert_int_equal(error->status, GM_USAGE);
		assert_true(i == 0 || strstr(error->message, "is not a number"));
		gm_error_destroy(error);
	}
	gm_context_deinit(&context);
}

static void name(struct synthetic *log, uint64_t event, uint64_t address, uint64_t offset,
        uint64_t size, const char *text)
{
	const struct gm_log_name one = {
	        .event = event,
	        .address = address,
	        .offset = offset,
	        .size = size,
	        .name = gm_log_writer_string(log->writer, text),
	        .kind = GM_NAMED_PARAMETER,
	        .device_type = 1,
	};
	gm_log_writer_name(log->writer, &one);
}

static void a_name_is_of_the_block_that_was_there_when_it_was_read(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	synthetic_free(&log, 0x1000, 1000, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	uint32_t last = synthetic_event(&log, GM_ALLOC, 0x2000, 600, 0);
	name(&log, last + 1, 0x1000, 0, 400, "a");
	name(&log, last + 1, 0x1000, 400, 600, "b");
	name(&log, last + 1, 0x1000, 400, 600, "b");      /* named twice */
	name(&log, last + 1, 0x2000, 100, 501, "longer"); /* than the block */
	name(&log, last + 1, 0x3000, 0, 1, "nowhere");
	name(&log, last + 1, 0x1008, 0, 1, "within");
	synthetic_free(&log, 0x1000, 1000, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	synthetic_free(&log, 0x2000, 600, 0);
	name(&log, UINT64_MAX, 0x2000, 0, 600, "freed");
	struct gm_model *model = synthetic_model(&log, &context);
	struct gm_block_name names[4];
	assert_true(gm_model_has_names(model));
	assert_int_equal(gm_model_names(model, 0, names, 4), 0);
	assert_int_equal(gm_model_names(model, 1, names, 4), 2);
	assert_string_equal(names[0].name, "a");
	assert_string_equal(names[1].name, "b");
	assert_int_equal(names[1].offset, 400);
	assert_int_equal(gm_model_names(model, 2, names, 4), 0);
	assert_int_equal(gm_model_names(model, 3, names, 4), 0);
	gm_context_deinit(&context);
}

static void a_free_of_an_unknown_block_is_a_gap_and_not_negative_bytes(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	log.allocated = 5000;
	synthetic_free(&log, 0x7000, 700, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, 0);
	struct gm_model *model = synthetic_model(&log, &context);
	assert_int_equal(gm_model_device(model, 0)->now.allocated, 1000);
	assert_int_equal(gm_model_device(model, 0)->unknown_free_bytes, 700);
	struct gm_info info;
	assert_null(gm_ask_info(&context, &info));
	assert_false(info.complete);
	assert_int_equal(info.gap_count, 2);
	gm_info_deinit(&info);
	gm_context_deinit(&context);
}

static void groups_add_up_to_what_the_allocator_counts(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	log.allocated = 5000; /* from before the recording */
	uint32_t code = synthetic_code(&log, "train.py", "train", NULL, 0);
	uint32_t a =
	        synthetic_stack(&log, synthetic_frame(&log, code, 10, GM_OP_CALL, NULL), 0, 0, 0);
	uint32_t b =
	        synthetic_stack(&log, synthetic_frame(&log, code, 20, GM_OP_CALL, NULL), 0, 0, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1000, a);
	synthetic_event(&log, GM_ALLOC, 0x2000, 2000, b);
	synthetic_event(&log, GM_ALLOC, 0x5000, 4000, a);
	synthetic_model(&log, &context);
	const struct gm_blocks_options options = {.by = GM_BY_LINE};
	struct gm_blocks blocks;
	assert_null(gm_ask_blocks(&context, &options, &blocks));
	assert_int_equal(blocks.allocated, 12000);
	assert_int_equal(blocks.group_count, 3);
	uint64_t sum = 0;
	for (size_t i = 0; i < blocks.group_count; i++)
		sum += blocks.groups[i].bytes;
	assert_int_equal(sum, 12000);
	assert_string_equal(blocks.groups[0].key, "train.py:10 in train");
	assert_int_equal(blocks.groups[0].blocks, 2);
	gm_blocks_deinit(&blocks);
	gm_context_deinit(&context);
}

static void usage_at_every_event_is_the_sum_of_the_live_blocks(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	uint64_t random = 12345;
	bool live[64] = {0};
	for (unsigned i = 0; i < 3000; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		unsigned slot = (unsigned)(random >> 33) % 64;
		uint64_t address = 0x10000 + slot * 0x1000, size = 100 + slot;
		if (live[slot])
			synthetic_free(&log, address, size, 0);
		else
			synthetic_event(&log, GM_ALLOC, address, size, 0);
		live[slot] = !live[slot];
	}
	struct gm_model *model = synthetic_model(&log, &context);
	uint64_t count = gm_log_event_count(gm_model_log(model));
	for (uint32_t event = 0; event < count; event += 37) {
		uint64_t sum = 0;
		for (size_t i = 0; i < gm_model_block_count(model); i++)
			if (gm_block_live_after(gm_model_block(model, i), event))
				sum += gm_model_block(model, i)->size;
		assert_int_equal(gm_model_usage_after(model, 0, event).allocated, sum);
	}
	gm_context_deinit(&context);
}

static void segments_come_and_go(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	synthetic_event(&log, GM_SEGMENT_ALLOC, 0x200000, 4096, 0);
	synthetic_event(&log, GM_SEGMENT_ALLOC, 0x100000, 8192, 0);
	synthetic_event(&log, GM_SEGMENT_FREE, 0x200000, 4096, 0);
	struct gm_model *model = synthetic_model(&log, &context);
	struct gm_segment *segments;
	size_t count;
	assert_null(gm_model_segments_after(model, 1, &segments, &count));
	assert_int_equal(count, 2);
	assert_int_equal(segments[0].address, 0x100000);
	free(segments);
	assert_null(gm_model_segments_after(model, 2, &segments, &count));
	assert_int_equal(count, 1);
	free(segments);
	gm_context_deinit(&context);
}

static void an_empty_recording_is_answered(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	struct gm_model *model = synthetic_model(&log, &context);
	assert_int_equal(gm_model_main_device(model), SIZE_MAX);
	assert_int_equal(gm_model_step_count(model), 0);
	const struct gm_blocks_options options = {.at_peak = true};
	struct gm_blocks blocks;
	assert_null(gm_ask_blocks(&context, &options, &blocks));
	assert_int_equal(blocks.allocated, 0);
	gm_blocks_deinit(&blocks);
	gm_context_deinit(&context);
}

static void the_live_table_finds_what_was_put_and_not_removed(void **state)
{
	struct gm_live live = {0};
	for (uint32_t i = 0; i < 5000; i++)
		assert_true(gm_live_put(&live, 512 * (uint64_t)i, i % 3, i));
	for (uint32_t i = 0; i < 5000; i += 2)
		gm_live_remove(&live, 512 * (uint64_t)i, i % 3);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(
		        gm_live_get(&live, 512 * (uint64_t)i, i % 3), i % 2 ? i : UINT32_MAX);
	gm_live_deinit(&live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_peak_is_where_allocated_is_greatest_first),
	        cmocka_unit_test(a_pending_free_is_active_but_not_allocated),
	        cmocka_unit_test(an_address_that_is_used_again_has_two_lives),
	        cmocka_unit_test(a_name_is_of_the_block_that_was_there_when_it_was_read),
	        cmocka_unit_test(a_free_of_an_unknown_block_is_a_gap_and_not_negative_bytes),
	        cmocka_unit_test(groups_add_up_to_what_the_allocator_counts),
	        cmocka_unit_test(usage_at_every_event_is_the_sum_of_the_live_blocks),
	        cmocka_unit_test(segments_come_and_go),
	        cmocka_unit_test(an_empty_recording_is_answered),
	        cmocka_unit_test(the_live_table_finds_what_was_put_and_not_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
