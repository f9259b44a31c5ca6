/* What a call of NCCL reads and fills on one rank: nccl.h's words for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log/log.h"

enum { BYTES = 96, RANKS = 4 };

static void assert_moves(
        enum gm_collective_kind kind, bool root, bool in_place, uint64_t send, uint64_t receive)
{
	const struct gm_collective_bytes bytes =
	        gm_collective_bytes(kind, BYTES, RANKS, root, in_place);
	assert_int_equal(bytes.send, send);
	assert_int_equal(bytes.receive, receive);
}

static void calls_without_a_root_are_the_same_on_each_rank(void **state)
{
	for (int root = 0; root < 2; root++) {
		assert_moves(GM_COLLECTIVE_ALL_REDUCE, root, true, BYTES, BYTES);
		assert_moves(GM_COLLECTIVE_ALL_REDUCE, root, false, BYTES, BYTES);
		assert_moves(GM_COLLECTIVE_ALL_GATHER, root, false, BYTES, RANKS * BYTES);
		assert_moves(GM_COLLECTIVE_REDUCE_SCATTER, root, false, RANKS * BYTES, BYTES);
		assert_moves(GM_COLLECTIVE_ALL_TO_ALL, root, false, RANKS * BYTES, RANKS * BYTES);
		assert_moves(GM_COLLECTIVE_SEND, root, false, BYTES, 0);
		assert_moves(GM_COLLECTIVE_RECEIVE, root, false, 0, BYTES);
	}
}

static void the_root_alone_fills_or_reads_a_buffer_of_all_ranks(void **state)
{
	assert_moves(GM_COLLECTIVE_REDUCE, true, false, BYTES, BYTES);
	assert_moves(GM_COLLECTIVE_REDUCE, false, false, BYTES, 0);
	assert_moves(GM_COLLECTIVE_GATHER, true, false, BYTES, RANKS * BYTES);
	assert_moves(GM_COLLECTIVE_GATHER, false, false, BYTES, 0);
	assert_moves(GM_COLLECTIVE_SCATTER, true, false, RANKS * BYTES, BYTES);
	assert_moves(GM_COLLECTIVE_SCATTER, false, false, 0, BYTES);
}

/* "Copies count values from root to all other devices"; the root's receive buffer gets them too
 * where it is not the send buffer. */
static void a_root_that_broadcasts_to_another_buffer_fills_that(void **state)
{
	assert_moves(GM_COLLECTIVE_BROADCAST, false, true, 0, BYTES);
	assert_moves(GM_COLLECTIVE_BROADCAST, false, false, 0, BYTES);
	assert_moves(GM_COLLECTIVE_BROADCAST, true, true, BYTES, 0);
	assert_moves(GM_COLLECTIVE_BROADCAST, true, false, BYTES, BYTES);
}

static void values_out_of_bounds_overflow_nothing(void **state)
{
	const struct gm_collective_bytes most =
	        gm_collective_bytes(GM_COLLECTIVE_ALL_TO_ALL, UINT64_MAX / 2, 3, false, false);
	assert_int_equal(most.send, UINT64_MAX);
	assert_int_equal(most.receive, UINT64_MAX);
	assert_moves((enum gm_collective_kind)GM_COLLECTIVE_COUNT, true, true, 0, 0);
	assert_moves(0, true, true, 0, 0);
}

static void each_kind_has_a_name(void **state)
{
	for (unsigned kind = 1; kind < GM_COLLECTIVE_COUNT; kind++)
		assert_non_null(gm_collective_kind_name(kind));
	assert_null(gm_collective_kind_name(GM_COLLECTIVE_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(calls_without_a_root_are_the_same_on_each_rank),
	        cmocka_unit_test(the_root_alone_fills_or_reads_a_buffer_of_all_ranks),
	        cmocka_unit_test(a_root_that_broadcasts_to_another_buffer_fills_that),
	        cmocka_unit_test(values_out_of_bounds_overflow_nothing),
	        cmocka_unit_test(each_kind_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
