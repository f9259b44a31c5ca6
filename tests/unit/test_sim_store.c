/* The store of a job of which one rank is there: c10d's requests, byte by byte, and what absent
 * ranks answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/store.h"

enum { RANK = 3, WORLD = 8 };
/* torch/csrc/distributed/c10d/TCPStoreBackend.hpp, enum QueryType */
enum {
	VALIDATE,
	SET,
	COMPARE_SET,
	GET,
	ADD,
	CHECK,
	WAIT,
	NUMBER,
	DELETE,
	APPEND,
	MULTI_GET,
	MULTI_SET,
	CANCEL,
	PING,
	PUSH,
	POP,
	LENGTH
};

struct peer {
	struct gm_sim_store *store;
	struct gm_sim_store_client client;
};

static int make(void **state)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	peer->store = gm_sim_store_new(RANK, WORLD);
	*state = peer;
	return peer->store ? 0 : 1;
}

static int end(void **state)
{
	struct peer *peer = *state;
	free(peer->client.in.data);
	free(peer->client.out.data);
	free(peer->client.awaited.data);
	gm_sim_store_free(peer->store);
	free(peer);
	return 0;
}

static void bytes(struct peer *peer, const void *data, size_t size)
{
	assert_true(gm_sim_store_append(&peer->client.in, data, size));
}

static void command(struct peer *peer, unsigned char which)
{
	bytes(peer, &which, 1);
}

static void word(struct peer *peer, uint64_t value)
{
	bytes(peer, &value, 8);
}

static void text(struct peer *peer, const char *value)
{
	word(peer, strlen(value));
	bytes(peer, value, strlen(value));
}

static void serve(struct peer *peer)
{
	assert_true(gm_sim_store_serve(peer->store, &peer->client));
	assert_int_equal(peer->client.in.size, 0);
}

static uint64_t take(struct peer *peer, size_t size)
{
	uint64_t value = 0;
	struct gm_sim_store_buffer *out = &peer->client.out;
	assert_true(out->size >= size && size <= 8);
	memcpy(&value, out->data, size);
	out->size -= size;
	memmove(out->data, out->data + size, out->size);
	return value;
}

static void expect_text(struct peer *peer, const char *value)
{
	size_t length = strlen(value);
	struct gm_sim_store_buffer *out = &peer->client.out;
	assert_int_equal(take(peer, 8), length);
	assert_true(out->size >= length);
	assert_memory_equal(out->data, value, length);
	out->size -= length;
	memmove(out->data, out->data + length, out->size);
}

static void expect_nothing(struct peer *peer)
{
	assert_int_equal(peer->client.out.size, 0);
}

static void set(struct peer *peer, const char *key, const char *value)
{
	command(peer, SET);
	text(peer, key);
	text(peer, value);
	serve(peer);
	expect_nothing(peer);
}

static void get(struct peer *peer, const char *key)
{
	command(peer, GET);
	text(peer, key);
	serve(peer);
}

static void what_is_set_is_there_until_it_is_deleted(void **state)
{
	struct peer *peer = *state;
	set(peer, "a", "one");
	set(peer, "a", "two");
	get(peer, "a");
	expect_text(peer, "two");
	command(peer, NUMBER);
	serve(peer);
	assert_int_equal(take(peer, 8), 1);
	for (int there = 1; there >= 0; there--) {
		command(peer, DELETE);
		text(peer, "a");
		serve(peer);
		assert_int_equal(take(peer, 8), there);
	}
	get(peer, "a");
	expect_text(peer, "");
}

static void a_count_goes_up_as_if_every_rank_had_counted(void **state)
{
	struct peer *peer = *state;
	for (int i = 1; i <= 2; i++) {
		command(peer, ADD);
		text(peer, "arrived");
		word(peer, 1);
		serve(peer);
		assert_int_equal(take(peer, 8), i * WORLD);
	}
	get(peer, "arrived");
	expect_text(peer, "16");
}

static void a_request_may_come_in_any_parts(void **state)
{
	struct peer *peer = *state;
	struct gm_sim_store_buffer whole = {0}, in;
	command(peer, VALIDATE);
	uint32_t magic = 0x3C85F7CE, nonce = 77;
	bytes(peer, &magic, 4);
	command(peer, PING);
	bytes(peer, &nonce, 4);
	command(peer, MULTI_SET);
	word(peer, 2);
	text(peer, "x");
	text(peer, "1");
	text(peer, "y");
	text(peer, "2");
	command(peer, MULTI_GET);
	word(peer, 2);
	text(peer, "y");
	text(peer, "x");
	in = peer->client.in;
	assert_true(gm_sim_store_append(&whole, in.data, in.size));
	peer->client.in.size = 0;
	for (size_t i = 0; i < whole.size; i++) {
		bytes(peer, whole.data + i, 1);
		assert_true(gm_sim_store_serve(peer->store, &peer->client));
	}
	free(whole.data);
	assert_int_equal(peer->client.in.size, 0);
	assert_int_equal(take(peer, 4), 77);
	expect_text(peer, "2");
	expect_text(peer, "1");
	expect_nothing(peer);
}

static void compare_and_set_changes_what_is_as_expected(void **state)
{
	struct peer *peer = *state;
	static const struct {
		const char *expected, *desired, *answer;
	} steps[] = {{"", "first", "first"}, {"other", "second", "first"},
	        {"first", "second", "second"}};
	for (size_t i = 0; i < 3; i++) {
		command(peer, COMPARE_SET);
		text(peer, "k");
		text(peer, steps[i].expected);
		text(peer, steps[i].desired);
		serve(peer);
		expect_text(peer, steps[i].answer);
	}
}

static void appended_values_follow_each_other(void **state)
{
	struct peer *peer = *state;
	for (int i = 0; i < 3; i++) {
		command(peer, APPEND);
		text(peer, "log");
		text(peer, "ab");
		serve(peer);
	}
	get(peer, "log");
	expect_text(peer, "ababab");
}

static void another_rank_s_key_is_answered_with_this_rank_s(void **state)
{
	struct peer *peer = *state;
	set(peer, "address/rank_3", "here");
	get(peer, "address/rank_5");
	expect_text(peer, "here");
	/* Nothing beyond the world, and no other name. */
	get(peer, "address/rank_8");
	expect_text(peer, "");
	get(peer, "port/rank_5");
	expect_text(peer, "");
}

static void a_communicator_s_id_and_barriers_are_there(void **state)
{
	struct peer *peer = *state;
	/* As ProcessGroupNCCL and, in PyTorch 2.15, c10d's nccl2 name it; the latter also with
	 * several roots. */
	for (const char *const *key = (const char *const[]){"default_pg/0//cuda//0",
	             "/default_pg/0//cuda//0/nccl_storekey_0_0", "x/0/nccl_storekey_1", NULL};
	        *key; key++) {
		get(peer, *key);
		assert_int_equal(take(peer, 8), 128);
		peer->client.out.size = 0;
	}
	get(peer, "default_pg/0//cuda//0/secret_0_0");
	expect_text(peer, "");
	command(peer, WAIT);
	word(peer, 2);
	text(peer, "store_based_barrier_key:1:last_worker");
	text(peer, "default_pg/0//cuda//1");
	serve(peer);
	assert_int_equal(take(peer, 1), 0);
}

static void a_key_that_nobody_knows_is_waited_for_until_it_is_set(void **state)
{
	struct peer *peer = *state;
	command(peer, CHECK);
	word(peer, 1);
	text(peer, "secret");
	serve(peer);
	assert_int_equal(take(peer, 1), 1);
	command(peer, WAIT);
	word(peer, 1);
	text(peer, "secret");
	serve(peer);
	expect_nothing(peer);
	assert_false(gm_sim_store_wake(peer->store, &peer->client));
	assert_true(gm_sim_store_set(peer->store, "secret", 6, "x", 1));
	assert_true(gm_sim_store_wake(peer->store, &peer->client));
	assert_int_equal(take(peer, 1), 0);
	assert_false(gm_sim_store_wake(peer->store, &peer->client));
	/* Or given up. */
	command(peer, WAIT);
	word(peer, 1);
	text(peer, "never");
	command(peer, CANCEL);
	serve(peer);
	assert_int_equal(take(peer, 1), 1);
	assert_false(gm_sim_store_wake(peer->store, &peer->client));
}

static void a_queue_gives_in_order_and_makes_the_next_wait(void **state)
{
	struct peer *peer = *state;
	for (const char *const *value = (const char *const[]){"a", "bb", NULL}; *value; value++) {
		command(peer, PUSH);
		text(peer, "q");
		text(peer, *value);
	}
	command(peer, LENGTH);
	text(peer, "q");
	command(peer, POP);
	text(peer, "q");
	command(peer, POP);
	text(peer, "q");
	command(peer, POP);
	text(peer, "q");
	serve(peer);
	assert_int_equal(take(peer, 8), 2);
	expect_text(peer, "a");
	expect_text(peer, "bb");
	expect_nothing(peer);
	command(peer, PUSH);
	text(peer, "q");
	text(peer, "late");
	serve(peer);
	assert_true(gm_sim_store_wake(peer->store, &peer->client));
	expect_text(peer, "late");
}

static void refused(struct peer *peer)
{
	assert_false(gm_sim_store_serve(peer->store, &peer->client));
	peer->client.in.size = 0;
}

static void a_malformed_request_closes_the_connection(void **state)
{
	struct peer *peer = *state;
	command(peer, 200);
	refused(peer);
	command(peer, VALIDATE);
	bytes(peer, "\1\2\3\4", 4);
	refused(peer);
	command(peer, GET);
	word(peer, 8193); /* a key longer than c10d's */
	refused(peer);
	command(peer, SET);
	text(peer, "k");
	word(peer, UINT64_MAX);
	refused(peer);
	for (size_t i = 0; i < 4; i++) {
		command(peer, (unsigned char[]){CHECK, WAIT, MULTI_GET, MULTI_SET}[i]);
		word(peer, UINT64_MAX);
		refused(peer);
	}
	expect_nothing(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(what_is_set_is_there_until_it_is_deleted),
	        TEST(a_count_goes_up_as_if_every_rank_had_counted),
	        TEST(a_request_may_come_in_any_parts),
	        TEST(compare_and_set_changes_what_is_as_expected),
	        TEST(appended_values_follow_each_other),
	        TEST(another_rank_s_key_is_answered_with_this_rank_s),
	        TEST(a_communicator_s_id_and_barriers_are_there),
	        TEST(a_key_that_nobody_knows_is_waited_for_until_it_is_set),
	        TEST(a_queue_gives_in_order_and_makes_the_next_wait),
	        TEST(a_malformed_request_closes_the_connection),
	};
	setenv("GPUMEM_SIM_QUIET", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
