/*
 * Exports of random recordings: read back, each form says what the recording says. Snapshots by
 * core/import, JSON by jansson, the database by SQLite, lines by the test.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <jansson.h>
#include <sqlite3.h>

#include "export/export.h"
#include "render/category.h"
#include "import/import.h"
#include "import/pickle_read.h"
#include "import/values.h"
#include "random.h"
#include "synthetic.h"

enum { MOST_EVENTS = 400, MOST_BLOCKS = 128, SEGMENT = 2 << 20, STEP = 512, STACKS = 5 };
#define FIRST_SEGMENT UINT64_C(0x7f0000000000)

/* Names that each form has to quote. */
static const char *const names[STACKS] = {
        "plain", "semi;colon", "quote\"d, with a comma", "=formula()", "back\\slash"};

struct recording {
	struct synthetic log;
	struct gm_context context;
	struct gm_model *model;
	struct gm_event events[MOST_EVENTS]; /* as they were written */
	size_t count;
	uint32_t stacks[STACKS], depths[STACKS];
};

static void put_event(struct recording *recording, struct gm_event event)
{
	struct synthetic *log = &recording->log;
	log->allocated += event.action == GM_ALLOC ? event.size : 0;
	log->allocated -= event.action == GM_FREE_REQUESTED ? event.size : 0;
	log->reserved += event.action == GM_SEGMENT_ALLOC ? event.size : 0;
	event.device_type = 1;
	event.thread = 1;
	event.time_ns = log->time += 1000;
	event.allocated = log->allocated;
	event.reserved = log->reserved;
	assert_true(recording->count < MOST_EVENTS);
	recording->events[recording->count++] = event;
	gm_log_writer_event(log->writer, &event);
}

static void put_stacks(struct recording *recording)
{
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t code = synthetic_code(&recording->log, "/srv/train.py", names[i], NULL, 0);
		uint32_t inner = synthetic_frame(&recording->log, code, 10 * i + 1, 0, NULL);
		uint32_t outer = synthetic_frame(&recording->log, code, 10 * i + 2, 0, NULL);
		recording->depths[i] = 1 + i % 2;
		recording->stacks[i] =
		        synthetic_stack(&recording->log, inner, i % 2 ? outer : 0, 0, 0);
	}
}

static bool is_free(const struct gm_event *blocks, size_t count, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < count; i++)
		if (blocks[i].address < address + size &&
		        address < blocks[i].address + blocks[i].size)
			return false;
	return true;
}

/* A recording of a program whose command line has to be quoted. */
static void begin_recording(struct recording *recording)
{
	const struct gm_log_writer_options options = {.source = "python \"train.py\" \\ \t x"};
	synthetic_begin(&recording->log);
	assert_null(gm_log_writer_close(recording->log.writer));
	assert_null(gm_log_writer_create(recording->log.path, &options, &recording->log.writer));
}

static void make_recording(struct recording *recording, uint64_t round)
{
	struct random random = random_of_round(round);
	struct gm_event blocks[MOST_BLOCKS];
	size_t block_count = 0, segments = 0, length = 10 + random_below(&random, 300);
	memset(recording, 0, sizeof(*recording));
	begin_recording(recording);
	put_stacks(recording);
	while (recording->count < length) {
		uint32_t stack = recording->stacks[random_below(&random, STACKS)];
		if (random_once_in(&random, 30)) {
			const struct gm_log_mark mark = {
			        .event = recording->count, .thread = 1, .kind = GM_MARK_STEP};
			gm_log_writer_mark(recording->log.writer, &mark);
		}
		if (segments == 0 || (segments < 3 && random_once_in(&random, 60))) {
			put_event(
			        recording, (struct gm_event){.action = GM_SEGMENT_ALLOC,
			                           .address = FIRST_SEGMENT + segments++ * SEGMENT,
			                           .size = SEGMENT,
			                           .requested = SEGMENT,
			                           .python_stack = stack});
			continue;
		}
		if (block_count && random_once_in(&random, 2)) {
			size_t which = random_below(&random, (uint32_t)block_count);
			struct gm_event event = blocks[which];
			event.action = GM_FREE_REQUESTED;
			event.python_stack = stack;
			put_event(recording, event);
			event.action = GM_FREE_COMPLETED;
			put_event(recording, event);
			blocks[which] = blocks[--block_count];
			continue;
		}
		uint64_t size = STEP * (1 + (uint64_t)random_below(&random, 40));
		struct gm_event event = {.action = GM_ALLOC,
		        .address = FIRST_SEGMENT +
		                   random_below(&random, (uint32_t)segments) * SEGMENT +
		                   STEP * (uint64_t)random_below(
		                                  &random, (SEGMENT - 40 * STEP) / STEP),
		        .size = size,
		        .requested = size - random_below(&random, STEP),
		        .python_stack = stack};
		if (block_count == MOST_BLOCKS ||
		        !is_free(blocks, block_count, event.address, size))
			continue;
		blocks[block_count++] = event;
		put_event(recording, event);
	}
	recording->model = synthetic_model(&recording->log, &recording->context);
}

static uint32_t stack_number(const struct recording *recording, uint32_t stack)
{
	uint32_t number = 0;
	while (recording->stacks[number] != stack)
		number++;
	return number;
}

/* --- PyTorch's snapshot ----------------------------------------------------------------------- */

static void check_frames(uint64_t round, const struct recording *recording,
        const struct gm_log *log, const struct gm_event *event, uint32_t read_stack)
{
	uint32_t number = stack_number(recording, event->python_stack);
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, read_stack, &count);
	check_in_round(round, count == recording->depths[number]);
	for (uint32_t i = 0; i < count; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code;
		assert_true(gm_log_frame(log, frames[i], &frame));
		assert_true(gm_log_code(log, frame.code, &code));
		check_in_round(round, frame.line == 10 * number + 1 + i);
		check_in_round(round, strcmp(gm_log_string(log, code.name), names[number]) == 0);
	}
}

static void a_snapshot_that_is_exported_and_imported_has_the_same_events(void **state)
{
	static struct recording recording;
	for (uint64_t round = 0; round < random_rounds(200); round++) {
		char path[] = "/tmp/gpumem-export-XXXXXX";
		struct gm_log *log;
		make_recording(&recording, round);
		FILE *out = fdopen(mkstemp(path), "w");
		assert_null(gm_export_pytorch(recording.model, out));
		assert_int_equal(fclose(out), 0);
		assert_null(gm_import_snapshot(path, &log));
		check_in_round(round, gm_log_event_count(log) == recording.count);
		for (size_t i = 0; i < recording.count; i++) {
			const struct gm_event *event = &recording.events[i];
			struct gm_event read;
			gm_log_event(log, i, &read);
			check_in_round(round, read.action == event->action);
			check_in_round(round, read.address == event->address);
			check_in_round(round, read.size == event->size);
			check_in_round(round, read.requested == event->requested);
			check_in_round(round, read.time_ns == event->time_ns);
			check_frames(round, &recording, log, event, read.python_stack);
		}
		gm_log_close(log);
		unlink(path);
		gm_context_deinit(&recording.context);
	}
}

/* --- the segments of a snapshot --------------------------------------------------------------- */

enum { DEVICES = 2, SEGMENTS = 3 };

/* A block that is not free at the end. */
struct left {
	struct gm_event event;
	bool pending;
};

static bool is_free_of(const struct left *blocks, size_t count, const struct gm_event *event)
{
	for (size_t i = 0; i < count; i++)
		if (blocks[i].event.device == event->device &&
		        !is_free(&blocks[i].event, 1, event->address, event->size))
			return false;
	return true;
}

/* Two devices whose segments have the same addresses. Some frees are never completed. */
static size_t make_devices(struct recording *recording, uint64_t round, struct left *blocks)
{
	struct random random = random_of_round(round);
	size_t count = 0, length = 2 * SEGMENTS + 10 + random_below(&random, 200);
	memset(recording, 0, sizeof(*recording));
	begin_recording(recording);
	put_stacks(recording);
	for (uint32_t i = 0; i < DEVICES * SEGMENTS; i++)
		put_event(recording,
		        (struct gm_event){.action = GM_SEGMENT_ALLOC,
		                .device = (int16_t)(i % DEVICES),
		                .address = FIRST_SEGMENT + (SEGMENTS - 1 - i / DEVICES) * SEGMENT,
		                .size = SEGMENT,
		                .requested = SEGMENT,
		                .python_stack = recording->stacks[0]});
	/* one whose segment was there before the recording began */
	if (random_once_in(&random, 2))
		put_event(
		        recording, (struct gm_event){.action = GM_ALLOC,
		                           .address = random_once_in(&random, 2)
		                                              ? FIRST_SEGMENT - SEGMENT
		                                              : FIRST_SEGMENT + SEGMENTS * SEGMENT,
		                           .size = STEP,
		                           .requested = STEP,
		                           .python_stack = recording->stacks[0]});
	while (recording->count < length) {
		if (count && random_once_in(&random, 3)) {
			struct left *one = &blocks[random_below(&random, (uint32_t)count)];
			struct gm_event event = one->event;
			event.action = one->pending ? GM_FREE_COMPLETED : GM_FREE_REQUESTED;
			put_event(recording, event);
			if (one->pending)
				*one = blocks[--count];
			else
				one->pending = true;
			continue;
		}
		uint64_t size = STEP * (1 + (uint64_t)random_below(&random, 40));
		uint64_t steps = SEGMENTS * SEGMENT / STEP - 40;
		struct gm_event event = {.action = GM_ALLOC,
		        .device = (int16_t)random_below(&random, DEVICES),
		        .address = FIRST_SEGMENT +
		                   STEP * (uint64_t)random_below(&random, (uint32_t)steps),
		        .size = size,
		        .requested = size - random_below(&random, STEP),
		        .python_stack = recording->stacks[random_below(&random, STACKS)]};
		bool crosses = event.address / SEGMENT != (event.address + size - 1) / SEGMENT;
		if (crosses || count == MOST_BLOCKS || !is_free_of(blocks, count, &event))
			continue;
		blocks[count++] = (struct left){event, false};
		put_event(recording, event);
	}
	recording->model = synthetic_model(&recording->log, &recording->context);
	return count;
}

static uint64_t field(const struct gm_pickle *pickle, gm_value dict, enum gm_key key)
{
	uint64_t number;
	assert_true(gm_pickle_number(pickle, gm_pickle_get(pickle, dict, key), &number));
	return number;
}

/* The blocks of a segment lie one behind the other, from its first byte to its last. Returns how
 * many of them are not free. */
static size_t check_segment(uint64_t round, const struct gm_pickle *pickle, gm_value segment,
        const struct left *blocks, size_t count)
{
	uint64_t device = field(pickle, segment, GM_KEY_DEVICE);
	uint64_t at = field(pickle, segment, GM_KEY_ADDRESS);
	uint64_t end = at + field(pickle, segment, GM_KEY_TOTAL_SIZE);
	size_t active = 0;
	bool was_free = false;
	gm_value block;
	struct gm_pickle_place place =
	        gm_pickle_first(pickle, gm_pickle_get(pickle, segment, GM_KEY_BLOCKS));
	while (gm_pickle_next(pickle, &place, &block)) {
		gm_value state = gm_pickle_get(pickle, block, GM_KEY_STATE);
		const struct left *found = NULL;
		check_in_round(round, field(pickle, block, GM_KEY_ADDRESS) == at);
		uint64_t size = field(pickle, block, GM_KEY_SIZE);
		at += size;
		for (size_t i = 0; i < count && !found; i++)
			if (blocks[i].event.device == (int16_t)device &&
			        blocks[i].event.address == at - size)
				found = &blocks[i];
		if (!found) {
			check_in_round(round, gm_pickle_text_is(pickle, state, "inactive"));
			check_in_round(round, !was_free); /* two free neighbours are one block */
			was_free = true;
			continue;
		}
		check_in_round(round, size == found->event.size);
		check_in_round(round,
		        field(pickle, block, GM_KEY_REQUESTED_SIZE) == found->event.requested);
		check_in_round(round,
		        gm_pickle_text_is(pickle, state,
		                found->pending ? "active_pending_free" : "active_allocated"));
		was_free = false;
		active++;
	}
	check_in_round(round, at == end);
	return active;
}

static void the_blocks_of_a_snapshot_tile_its_segments(void **state)
{
	static struct recording recording;
	size_t all = 0, pending = 0;
	for (uint64_t round = 0; round < random_rounds(100); round++) {
		char path[] = "/tmp/gpumem-export-XXXXXX";
		struct left blocks[MOST_BLOCKS];
		struct gm_pickle pickle;
		gm_value root, segment;
		size_t count = make_devices(&recording, round, blocks), active = 0, segments = 0;
		FILE *out = fdopen(mkstemp(path), "w");
		assert_null(gm_export_pytorch(recording.model, out));
		assert_int_equal(fclose(out), 0);
		assert_null(gm_pickle_read(&pickle, path, true, &root));
		struct gm_pickle_place place =
		        gm_pickle_first(&pickle, gm_pickle_get(&pickle, root, GM_KEY_SEGMENTS));
		for (; gm_pickle_next(&pickle, &place, &segment); segments++)
			active += check_segment(round, &pickle, segment, blocks, count);
		check_in_round(round, segments == DEVICES * SEGMENTS);
		check_in_round(round, active == count);
		for (size_t i = 0; i < count; i++)
			pending += blocks[i].pending;
		all += count;
		gm_pickle_deinit(&pickle);
		unlink(path);
		gm_context_deinit(&recording.context);
	}
	assert_true(pending > 100 && all > 3 * pending);
}

/* --- lines ------------------------------------------------------------------------------------ */

static char *export_text(
        struct gm_model *model, struct gm_error *(*form)(struct gm_model *, FILE *))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	assert_null(form(model, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

/* The next field of RFC 4180; *at is behind it and what ends it. */
static void take_field(const char **at, char *ret_field, size_t room)
{
	size_t length = 0;
	const char *text = *at;
	bool quoted = *text == '"';
	for (text += quoted;; text++) {
		if (quoted && text[0] == '"' && text[1] != '"')
			break;
		if (!quoted && (*text == ',' || *text == '\r' || *text == 0))
			break;
		text += quoted && *text == '"';
		assert_true(*text && length + 1 < room);
		ret_field[length++] = *text;
	}
	ret_field[length] = 0;
	text += quoted;
	*at = text + (*text == '\r' ? 2 : 1);
}

static uint64_t take_number(const char **at, int base)
{
	char field[64], *end;
	take_field(at, field, sizeof(field));
	assert_true(field[0]);
	uint64_t number = strtoull(field, &end, base);
	assert_int_equal(*end, 0);
	return number;
}

static void check_line(
        uint64_t round, const struct recording *recording, size_t number, const char **at)
{
	const struct gm_event *event = &recording->events[number];
	uint32_t stack = stack_number(recording, event->python_stack);
	uint32_t block = gm_model_event_block(recording->model, number);
	char field[128], expected[128];
	check_in_round(round, take_number(at, 10) == number);
	take_field(at, field, sizeof(field));
	check_in_round(round, strcmp(field, gm_action_name((enum gm_action)event->action)) == 0);
	take_field(at, field, sizeof(field));
	snprintf(expected, sizeof(expected), "%u", block);
	check_in_round(round, strcmp(field, block == GM_NO_BLOCK ? "" : expected) == 0);
	take_field(at, field, sizeof(field));
	check_in_round(round, strcmp(field, "cuda:0") == 0);
	check_in_round(round, take_number(at, 16) == event->address);
	check_in_round(round, take_number(at, 10) == event->size);
	check_in_round(round, take_number(at, 10) == event->requested);
	check_in_round(round, take_number(at, 10) == event->stream);
	check_in_round(round, take_number(at, 10) == event->time_ns);
	check_in_round(round, take_number(at, 10) == event->thread);
	check_in_round(round, take_number(at, 10) == gm_model_step(recording->model, number));
	take_field(at, field, sizeof(field));
	check_in_round(
	        round, strcmp(field, gm_phase_name(gm_model_phase(recording->model, number))) == 0);
	take_field(at, field, sizeof(field));
	check_in_round(round, strcmp(field, "/srv/train.py") == 0);
	check_in_round(round, take_number(at, 10) == 10 * stack + 1);
	take_field(at, field, sizeof(field));
	snprintf(expected, sizeof(expected), "%s%s", names[stack][0] == '=' ? "'" : "",
	        names[stack]);
	check_in_round(round, strcmp(field, expected) == 0);
	take_field(at, field, sizeof(field)); /* no names were read */
	check_in_round(round, field[0] == 0);
}

static void lines_of_csv_are_the_events(void **state)
{
	static struct recording recording;
	for (uint64_t round = 0; round < random_rounds(200); round++) {
		make_recording(&recording, round);
		char *text = export_text(recording.model, gm_export_csv);
		const char *at = strchr(text, '\n');
		assert_non_null(at);
		at++;
		for (size_t i = 0; i < recording.count; i++)
			check_line(round, &recording, i, &at);
		check_in_round(round, *at == 0);
		free(text);
		gm_context_deinit(&recording.context);
	}
}

/* Bytes by stack of the blocks that are there after the first of the events with the most bytes. */
static uint64_t bytes_at_peak(const struct recording *recording, uint64_t by_stack[STACKS])
{
	size_t peak = 0;
	for (size_t i = 0; i < recording->count; i++)
		if (recording->events[i].allocated > recording->events[peak].allocated)
			peak = i;
	memset(by_stack, 0, STACKS * sizeof(*by_stack));
	for (size_t i = 0; i <= peak; i++) {
		const struct gm_event *event = &recording->events[i];
		bool freed = false;
		for (size_t k = i + 1; k <= peak && !freed; k++)
			freed = recording->events[k].action == GM_FREE_REQUESTED &&
			        recording->events[k].address == event->address;
		if (event->action == GM_ALLOC && !freed)
			by_stack[stack_number(recording, event->python_stack)] += event->size;
	}
	return recording->events[peak].allocated;
}

static void folded_stacks_add_up_to_the_peak(void **state)
{
	static struct recording recording;
	for (uint64_t round = 0; round < random_rounds(200); round++) {
		uint64_t by_stack[STACKS], sum = 0, lines = 0;
		make_recording(&recording, round);
		uint64_t peak = bytes_at_peak(&recording, by_stack);
		char *text = export_text(recording.model, gm_export_folded);
		for (uint32_t i = 0; i < STACKS; i++) {
			char line[256], inner[100];
			const char *name = i == 1 ? "semi_colon" : names[i];
			snprintf(inner, sizeof(inner), "%s (/srv/train.py:%u)", name, 10 * i + 1);
			if (recording.depths[i] == 2)
				snprintf(line, sizeof(line),
				        "%s (/srv/train.py:%u);%s %" PRIu64 "\n", name, 10 * i + 2,
				        inner, by_stack[i]);
			else
				snprintf(
				        line, sizeof(line), "%s %" PRIu64 "\n", inner, by_stack[i]);
			if (by_stack[i])
				check_in_round(round, strstr(text, line) != NULL);
			lines += by_stack[i] > 0;
			sum += by_stack[i];
		}
		check_in_round(round, sum == peak);
		for (const char *at = text; (at = strchr(at, '\n')); at++)
			lines--;
		check_in_round(round, lines == 0);
		free(text);
		gm_context_deinit(&recording.context);
	}
}

/* --- JSON ------------------------------------------------------------------------------------- */

static double number_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	assert_true(json_is_number(value));
	return json_number_value(value);
}

/* A step's slice goes from its first event to the first one of what comes behind it. */
static void check_step(
        uint64_t round, const struct recording *recording, const json_t *slice, uint32_t step)
{
	size_t first = 0, end;
	char name[32];
	while (gm_model_step(recording->model, first) != step)
		first++;
	for (end = first; end < recording->count && gm_model_step(recording->model, end) == step;)
		end++;
	end -= end == recording->count;
	snprintf(name, sizeof(name), "step %u", step);
	check_in_round(round, strcmp(json_string_value(json_object_get(slice, "name")), name) == 0);
	check_in_round(
	        round, number_at(slice, "ts") * 1000 == (double)recording->events[first].time_ns);
	check_in_round(round, (number_at(slice, "ts") + number_at(slice, "dur")) * 1000 ==
	                              (double)recording->events[end].time_ns);
}

static void perfettos_counters_and_slices_are_the_models(void **state)
{
	static struct recording recording;
	uint32_t all_steps = 0;
	for (uint64_t round = 0; round < random_rounds(100); round++) {
		uint32_t steps = 0;
		size_t counters = 0, phases = 0, index;
		double end = 0;
		json_t *one;
		make_recording(&recording, round);
		char *text = export_text(recording.model, gm_export_perfetto);
		json_t *root = json_loads(text, 0, NULL);
		assert_non_null(root);
		json_array_foreach(json_object_get(root, "traceEvents"), index, one)
		{
			const char *kind = json_string_value(json_object_get(one, "ph"));
			if (strcmp(kind, "C") == 0) {
				const struct gm_event *event = &recording.events[counters++];
				const json_t *args = json_object_get(one, "args");
				check_in_round(round, counters <= recording.count);
				check_in_round(round,
				        number_at(args, "allocated") == (double)event->allocated);
				check_in_round(round,
				        number_at(args, "cached") ==
				                (double)(event->reserved - event->allocated));
				check_in_round(round,
				        number_at(one, "ts") * 1000 == (double)event->time_ns);
			} else if (strcmp(kind, "X") == 0 && number_at(one, "tid") == 1) {
				check_step(round, &recording, one, ++steps);
			} else if (strcmp(kind, "M") == 0 && number_at(one, "pid") == 1 &&
			           strcmp(json_string_value(json_object_get(one, "name")),
			                   "process_name") == 0) {
				check_in_round(round,
				        strcmp(json_string_value(json_object_get(
				                       json_object_get(one, "args"), "name")),
				                "python \"train.py\" \\ \t x") == 0);
			} else if (strcmp(kind, "X") == 0 && number_at(one, "tid") == 2) {
				const struct gm_model_run run =
				        gm_model_run(recording.model, phases++);
				double from = number_at(one, "ts");
				check_in_round(round,
				        from * 1000 == (double)recording.events[run.first].time_ns);
				check_in_round(round, phases == 1 || from == end);
				end = from + number_at(one, "dur");
			}
		}
		check_in_round(round, counters == recording.count);
		check_in_round(round, phases == gm_model_run_count(recording.model));
		check_in_round(round, steps == gm_model_step_count(recording.model));
		all_steps += steps;
		check_in_round(
		        round, end * 1000 == (double)recording.events[recording.count - 1].time_ns);
		json_decref(root);
		free(text);
		gm_context_deinit(&recording.context);
	}
	assert_true(all_steps > 100);
}

/* --- a database ------------------------------------------------------------------------------- */

static uint64_t asked(sqlite3 *database, const char *query)
{
	sqlite3_stmt *statement;
	assert_int_equal(sqlite3_prepare_v2(database, query, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	uint64_t number = (uint64_t)sqlite3_column_int64(statement, 0);
	assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
	sqlite3_finalize(statement);
	return number;
}

static void check_rows(uint64_t round, const struct recording *recording, sqlite3 *database)
{
	sqlite3_stmt *statement;
	size_t number = 0;
	assert_int_equal(
	        sqlite3_prepare_v2(database,
	                "SELECT action, address, size, requested, time_ns, allocated, reserved, "
	                "(SELECT group_concat(function || ':' || line, '|') FROM (SELECT * FROM "
	                "stack_frame JOIN frame ON id = frame WHERE stack_frame.stack = event.stack"
	                " ORDER BY depth)) FROM event ORDER BY id",
	                -1, &statement, NULL),
	        SQLITE_OK);
	for (; sqlite3_step(statement) == SQLITE_ROW; number++) {
		const struct gm_event *event = &recording->events[number];
		const uint64_t expected[] = {event->address, event->size, event->requested,
		        event->time_ns, event->allocated, event->reserved};
		uint32_t stack = stack_number(recording, event->python_stack);
		char frames[256];
		size_t used = (size_t)snprintf(
		        frames, sizeof(frames), "%s:%u", names[stack], 10 * stack + 1);
		if (recording->depths[stack] == 2)
			snprintf(frames + used, sizeof(frames) - used, "|%s:%u", names[stack],
			        10 * stack + 2);
		check_in_round(round, number < recording->count);
		check_in_round(round, strcmp((const char *)sqlite3_column_text(statement, 0),
		                              gm_action_name((enum gm_action)event->action)) == 0);
		for (int i = 0; i < 6; i++)
			check_in_round(round,
			        (uint64_t)sqlite3_column_int64(statement, 1 + i) == expected[i]);
		check_in_round(round,
		        strcmp((const char *)sqlite3_column_text(statement, 7), frames) == 0);
	}
	check_in_round(round, number == recording->count);
	sqlite3_finalize(statement);
}

static void the_database_has_the_events_and_blocks(void **state)
{
	static struct recording recording;
	for (uint64_t round = 0; round < random_rounds(40); round++) {
		char path[] = "/tmp/gpumem-export-XXXXXX";
		uint64_t by_stack[STACKS], allocs = 0, live = 0;
		sqlite3 *database;
		make_recording(&recording, round);
		close(mkstemp(path));
		unlink(path);
		assert_null(gm_export_sqlite(recording.model, gm_category_reason_text, path));
		assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
		check_rows(round, &recording, database);
		for (size_t i = 0; i < recording.count; i++)
			allocs += recording.events[i].action == GM_ALLOC;
		live = recording.events[recording.count - 1].allocated;
		check_in_round(round, asked(database, "SELECT count(*) FROM block") == allocs);
		check_in_round(
		        round, asked(database, "SELECT ifnull(sum(size), 0) FROM block WHERE "
		                               "free_requested IS NULL") == live);
		check_in_round(round, asked(database, "SELECT peak_allocated FROM device") ==
		                              bytes_at_peak(&recording, by_stack));
		sqlite3_close(database);
		unlink(path);
		gm_context_deinit(&recording.context);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_snapshot_that_is_exported_and_imported_has_the_same_events),
	        cmocka_unit_test(the_blocks_of_a_snapshot_tile_its_segments),
	        cmocka_unit_test(lines_of_csv_are_the_events),
	        cmocka_unit_test(folded_stacks_add_up_to_the_peak),
	        cmocka_unit_test(perfettos_counters_and_slices_are_the_models),
	        cmocka_unit_test(the_database_has_the_events_and_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
