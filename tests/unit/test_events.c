/* The coding of events: random ones come back, wherever their numbers end, and a payload that is
 * cut is refused. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "log/format.h"
#include "random.h"

enum { COUNT = 40, ID_MAX = 100000 };

/* A number of any length. */
static uint64_t number(struct random *random)
{
	unsigned bits = random_below(random, 65);
	return bits ? random_word(random) >> (64 - bits) : 0;
}

static uint32_t id(struct random *random)
{
	return random_below(random, random_once_in(random, 2) ? 100 : ID_MAX + 1);
}

/* An event after another one: much of it is the same most often, as in a recording. */
static struct gm_event event_after(struct random *random, const struct gm_event *before)
{
	struct gm_event event = *before;
	event.action = (uint8_t)(1 + random_below(random, GM_ACTION_COUNT - 1));
	event.time_ns += random_once_in(random, 4) ? number(random) : 900;
	event.address = number(random);
	event.size = number(random);
	event.requested = random_once_in(random, 2) ? number(random) : event.size;
	event.evidence = random_once_in(random, 4) ? id(random) : 0;
	event.tensor = random_once_in(random, 4) ? id(random) : 0;
	if (random_once_in(random, 3))
		event.python_stack = id(random);
	if (random_once_in(random, 3))
		event.native_stack = id(random);
	if (random_once_in(random, 8)) {
		event.device_type = (uint8_t)random_below(random, 256);
		event.device = (int16_t)random_below(random, 65536);
	}
	if (random_once_in(random, 8))
		event.thread = number(random);
	if (random_once_in(random, 8))
		event.stream = number(random);
	if (random_once_in(random, 8)) {
		event.flags = random_below(random, 256);
		event.owner = random_below(random, 1 << 24);
	}
	if (random_once_in(random, 8))
		event.allocated = random_once_in(random, 3) ? UINT64_MAX : number(random);
	if (random_once_in(random, 8))
		event.reserved = random_once_in(random, 3) ? UINT64_MAX : number(random);
	return event;
}

static const struct gm_event most = {
        .python_stack = ID_MAX, .native_stack = ID_MAX, .evidence = ID_MAX, .tensor = ID_MAX};

static size_t encode(const struct gm_event *events, uint8_t *bytes)
{
	struct gm_event state;
	uint8_t *at = bytes;
	gm_event_state_reset(&state);
	for (size_t i = 0; i < COUNT; i++)
		at = gm_event_encode(&state, &events[i], at);
	return (size_t)(at - bytes);
}

static void make(struct random *random, struct gm_event *events)
{
	struct gm_event before = {.allocated = UINT64_MAX, .reserved = UINT64_MAX};
	for (size_t i = 0; i < COUNT; i++)
		before = events[i] = event_after(random, &before);
}

static void random_events_come_back(void **state)
{
	for (uint64_t round = 0; round < random_rounds(2000); round++) {
		struct random random = random_of_round(round);
		struct gm_event events[COUNT], got[COUNT];
		uint8_t bytes[COUNT * GM_LOG_EVENT_BYTES_MAX];
		make(&random, events);
		struct gm_cursor cursor = {bytes, bytes + encode(events, bytes), false};
		check_in_round(round, gm_events_decode(&cursor, COUNT, &most, got) == NULL);
		check_in_round(round, memcmp(events, got, sizeof(got)) == 0);
	}
}

/* In memory of its own, so that a reader that goes beyond its end is seen by the sanitizers. */
static void events_that_are_cut_are_refused(void **state)
{
	for (uint64_t round = 0; round < random_rounds(20); round++) {
		struct random random = random_of_round(round);
		struct gm_event events[COUNT], got[COUNT];
		uint8_t bytes[COUNT * GM_LOG_EVENT_BYTES_MAX];
		make(&random, events);
		size_t size = encode(events, bytes);
		for (size_t cut = 0; cut < size; cut++) {
			uint8_t *part = malloc(cut + !cut);
			memcpy(part, bytes, cut);
			struct gm_cursor cursor = {part, part + cut, false};
			check_in_round(round, gm_events_decode(&cursor, COUNT, &most, got) != NULL);
			free(part);
		}
	}
}

static void what_refers_to_no_stack_or_tensor_is_refused(void **state)
{
	for (uint64_t round = 0; round < random_rounds(200); round++) {
		struct random random = random_of_round(round);
		struct gm_event events[COUNT], got[COUNT];
		uint8_t bytes[COUNT * GM_LOG_EVENT_BYTES_MAX];
		make(&random, events);
		struct gm_event *one = &events[random_below(&random, COUNT)];
		uint32_t *const ids[] = {
		        &one->python_stack, &one->native_stack, &one->evidence, &one->tensor};
		*ids[random_below(&random, 4)] = ID_MAX + 1 + random_below(&random, 1000);
		struct gm_cursor cursor = {bytes, bytes + encode(events, bytes), false};
		const char *reason = gm_events_decode(&cursor, COUNT, &most, got);
		check_in_round(round, reason != NULL);
		assert_string_equal(
		        reason, "an event refers to a stack or a tensor that does not exist");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(random_events_come_back),
	        cmocka_unit_test(events_that_are_cut_are_refused),
	        cmocka_unit_test(what_refers_to_no_stack_or_tensor_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
