/*
 * Snapshots of random allocators, written by the test as JSON and as pickles, whole and with the
 * trace's beginning lost: the events, the blocks that were there before, the sizes and the sums are
 * those of the allocator.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/import.h"
#include "log/log.h"
#include "random.h"

/* --- plain data as JSON, and as pickles of protocol 2 ----------------------------------------- */

enum form { JSON, PICKLE, PICKLE_LONG, FORM_COUNT };

struct writing {
	FILE *out;
	enum form form;
	bool first; /* the next value needs no comma */
};

static void comma(struct writing *writing)
{
	if (writing->form == JSON && !writing->first)
		putc(',', writing->out);
	writing->first = false;
}

static void put_length(struct writing *writing, uint32_t length)
{
	fwrite(&length, 4, 1, writing->out); /* little endian, as this machine */
}

static void put_text(struct writing *writing, const char *text)
{
	if (writing->form == JSON) {
		fprintf(writing->out, "\"%s\"", text);
		return;
	}
	putc('X', writing->out);
	put_length(writing, (uint32_t)strlen(text));
	fputs(text, writing->out);
}

static void begin_value(struct writing *writing, const char *key)
{
	comma(writing);
	if (!key)
		return;
	put_text(writing, key);
	if (writing->form == JSON)
		putc(':', writing->out);
}

static void put_number(struct writing *writing, const char *key, uint64_t number)
{
	begin_value(writing, key);
	if (writing->form == JSON) {
		fprintf(writing->out, "%ju", (uintmax_t)number);
	} else if (number < 256 && writing->form == PICKLE) {
		putc('K', writing->out);
		putc((int)number, writing->out);
	} else if (number <= INT32_MAX && writing->form == PICKLE) {
		putc('J', writing->out);
		put_length(writing, (uint32_t)number);
	} else { /* LONG1 of nine bytes, so that the sign is never set */
		fputs("\x8a\x09", writing->out);
		fwrite(&number, 8, 1, writing->out);
		putc(0, writing->out);
	}
}

static void put_string(struct writing *writing, const char *key, const char *text)
{
	begin_value(writing, key);
	put_text(writing, text);
}

static void open_value(struct writing *writing, const char *key, char kind)
{
	begin_value(writing, key);
	putc(writing->form == JSON ? kind : kind == '{' ? '}' : ']', writing->out);
	if (writing->form != JSON)
		putc('(', writing->out);
	writing->first = true;
}

static void close_value(struct writing *writing, char kind)
{
	putc(writing->form == JSON ? (kind == '{' ? '}' : ']')
	        : kind == '{'      ? 'u'
	                           : 'e',
	        writing->out);
	writing->first = false;
}

/* --- an allocator ----------------------------------------------------------------------------- */

enum {
	MOST_ENTRIES = 600,
	MOST_BLOCKS = 256,
	SEGMENT = 2 << 20,
	SEGMENTS = 4,
	STEP = 512, /* the allocator rounds up to */
	STACKS = 6,
	MOST_FRAMES = 4,
};
#define FIRST_SEGMENT UINT64_C(0x7f0000000000)

struct entry {
	enum gm_action action;
	uint64_t address, size, time_us;
	uint32_t stack;
	uint64_t allocated, reserved; /* behind it */
};

struct block {
	uint64_t address, size, requested;
	uint32_t stack;
	bool pending; /* its free was requested */
};

struct allocator {
	struct entry entries[MOST_ENTRIES];
	size_t entry_count, cut; /* entries in front of `cut` are lost */
	struct block blocks[MOST_BLOCKS], before[MOST_BLOCKS];
	size_t block_count, before_count;
	size_t segment_count, segments_before;
	uint64_t allocated;
};

static void add_entry(struct allocator *allocator, enum gm_action action, uint64_t address,
        uint64_t size, uint32_t stack)
{
	struct entry *entry = &allocator->entries[allocator->entry_count];
	*entry = (struct entry){action, address, size, 1000000 + allocator->entry_count, stack,
	        allocator->allocated, allocator->segment_count * SEGMENT};
	allocator->entry_count++;
}

static bool is_free(const struct allocator *allocator, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < allocator->block_count; i++)
		if (allocator->blocks[i].address < address + size &&
		        address < allocator->blocks[i].address + allocator->blocks[i].size)
			return false;
	return true;
}

static void allocate(struct allocator *allocator, struct random *random)
{
	uint64_t requested = 1 + random_below(random, random_once_in(random, 4) ? 200000 : 3000);
	uint64_t size = (requested + STEP - 1) / STEP * STEP;
	uint64_t segment = random_below(random, (uint32_t)allocator->segment_count);
	uint64_t address =
	        FIRST_SEGMENT + segment * SEGMENT +
	        STEP * (uint64_t)random_below(random, (uint32_t)((SEGMENT - size) / STEP));
	if (allocator->block_count == MOST_BLOCKS || !is_free(allocator, address, size))
		return;
	uint32_t stack = random_below(random, STACKS);
	allocator->blocks[allocator->block_count++] =
	        (struct block){address, size, requested, stack, false};
	allocator->allocated += size;
	add_entry(allocator, GM_ALLOC, address, requested, stack);
}

static void release(struct allocator *allocator, struct random *random)
{
	if (allocator->block_count == 0)
		return;
	size_t which = random_below(random, (uint32_t)allocator->block_count);
	struct block *block = &allocator->blocks[which];
	uint32_t stack = random_below(random, STACKS);
	if (!block->pending) {
		block->pending = true;
		allocator->allocated -= block->size;
		add_entry(allocator, GM_FREE_REQUESTED, block->address, block->requested, stack);
		if (random_once_in(random, 4))
			return; /* a stream still uses it */
	}
	add_entry(allocator, GM_FREE_COMPLETED, block->address, block->requested, stack);
	*block = allocator->blocks[--allocator->block_count];
}

static void run_allocator(struct allocator *allocator, uint64_t round)
{
	struct random random = random_of_round(round);
	size_t length = 20 + random_below(&random, MOST_ENTRIES - 40);
	bool loses = random_once_in(&random, 2);
	memset(allocator, 0, sizeof(*allocator));
	while (allocator->entry_count < length) {
		bool cuts = loses && allocator->cut == 0 && allocator->entry_count > length / 3;
		if (cuts) {
			allocator->cut = allocator->entry_count;
			memcpy(allocator->before, allocator->blocks, sizeof(allocator->before));
			allocator->before_count = allocator->block_count;
			allocator->segments_before = allocator->segment_count;
		}
		if (allocator->segment_count == 0 ||
		        (allocator->segment_count < SEGMENTS && random_once_in(&random, 50))) {
			allocator->segment_count++;
			add_entry(allocator, GM_SEGMENT_ALLOC,
			        FIRST_SEGMENT + (allocator->segment_count - 1) * SEGMENT, SEGMENT,
			        random_below(&random, STACKS));
		} else if (random_once_in(&random, 2)) {
			allocate(allocator, &random);
		} else {
			release(allocator, &random);
		}
	}
}

/* --- its snapshot ----------------------------------------------------------------------------- */

/* Stack `number` has as many frames as its number says; the first has none. */
static size_t frames_of(uint32_t stack)
{
	return stack < MOST_FRAMES ? stack : MOST_FRAMES;
}

static void frame_of(uint32_t stack, size_t frame, char name[32], uint32_t *ret_line)
{
	snprintf(name, 32, "f%u_%zu", stack, frame);
	*ret_line = 10 * stack + (uint32_t)frame + 1;
}

static void put_frames(struct writing *writing, uint32_t stack)
{
	open_value(writing, "frames", '[');
	for (size_t i = 0; i < frames_of(stack); i++) {
		char name[32];
		uint32_t line;
		frame_of(stack, i, name, &line);
		open_value(writing, NULL, '{');
		put_string(writing, "filename", "/srv/train.py");
		put_number(writing, "line", line);
		put_string(writing, "name", name);
		close_value(writing, '{');
	}
	close_value(writing, '[');
}

static void put_block(struct writing *writing, uint64_t address, uint64_t size, const char *state,
        const struct block *block)
{
	open_value(writing, NULL, '{');
	put_number(writing, "address", address);
	put_number(writing, "size", size);
	put_number(writing, "requested_size", block ? block->requested : 0);
	put_string(writing, "state", state);
	if (block)
		put_frames(writing, block->stack);
	close_value(writing, '{');
}

static void put_segment(struct writing *writing, const struct allocator *allocator, uint64_t start)
{
	uint64_t allocated = 0, active = 0;
	for (size_t i = 0; i < allocator->block_count; i++) {
		const struct block *block = &allocator->blocks[i];
		if (block->address - start < SEGMENT) {
			active += block->size;
			allocated += block->pending ? 0 : block->size;
		}
	}
	open_value(writing, NULL, '{');
	put_number(writing, "device", 0);
	put_number(writing, "address", start);
	put_number(writing, "total_size", SEGMENT);
	put_number(writing, "allocated_size", allocated);
	put_number(writing, "active_size", active);
	put_number(writing, "stream", 0);
	put_string(writing, "segment_type", "small");
	open_value(writing, "blocks", '[');
	for (uint64_t at = start; at < start + SEGMENT;) {
		const struct block *next = NULL;
		for (size_t i = 0; i < allocator->block_count; i++) {
			const struct block *block = &allocator->blocks[i];
			if (block->address >= at && block->address < start + SEGMENT &&
			        (!next || block->address < next->address))
				next = block;
		}
		uint64_t end = next ? next->address : start + SEGMENT;
		if (end > at)
			put_block(writing, at, end - at, "inactive", NULL);
		if (next)
			put_block(writing, next->address, next->size,
			        next->pending ? "active_pending_free" : "active_allocated", next);
		at = next ? next->address + next->size : end;
	}
	close_value(writing, '[');
	close_value(writing, '{');
}

static void put_trace(struct writing *writing, const struct allocator *allocator)
{
	open_value(writing, "device_traces", '[');
	open_value(writing, NULL, '[');
	for (size_t i = allocator->cut; i < allocator->entry_count; i++) {
		const struct entry *entry = &allocator->entries[i];
		open_value(writing, NULL, '{');
		put_string(writing, "action", gm_action_name(entry->action));
		put_number(writing, "addr", entry->address);
		put_number(writing, "size", entry->size);
		put_number(writing, "stream", 0);
		put_number(writing, "time_us", entry->time_us);
		put_frames(writing, entry->stack);
		close_value(writing, '{');
	}
	close_value(writing, '[');
	close_value(writing, '[');
}

static void write_snapshot(const struct allocator *allocator, enum form form, char *path)
{
	strcpy(path, "/tmp/gpumem-import-XXXXXX");
	struct writing writing = {fdopen(mkstemp(path), "w"), form, true};
	assert_non_null(writing.out);
	if (form != JSON)
		fputs("\x80\x02", writing.out);
	open_value(&writing, NULL, '{');
	open_value(&writing, "segments", '[');
	for (size_t i = 0; i < allocator->segment_count; i++)
		put_segment(&writing, allocator, FIRST_SEGMENT + i * SEGMENT);
	close_value(&writing, '[');
	put_trace(&writing, allocator);
	close_value(&writing, '{');
	if (form != JSON)
		putc('.', writing.out);
	assert_int_equal(fclose(writing.out), 0);
}

/* --- comparisons ------------------------------------------------------------------------------ */

static void check_stack(uint64_t round, const struct gm_log *log, uint32_t id, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, id, &count);
	check_in_round(round, count == frames_of(stack));
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code;
		char name[32];
		uint32_t line;
		frame_of(stack, i, name, &line);
		assert_true(gm_log_frame(log, frames[i], &frame));
		assert_true(gm_log_code(log, frame.code, &code));
		check_in_round(round, frame.line == line);
		check_in_round(round, strcmp(gm_log_string(log, code.name), name) == 0);
		check_in_round(round, strcmp(gm_log_string(log, code.file), "/srv/train.py") == 0);
	}
}

/* The size of the block that an entry is of, which only the allocator knows. */
static uint64_t block_size(const struct entry *entry)
{
	return entry->action == GM_SEGMENT_ALLOC ? entry->size
	                                         : (entry->size + STEP - 1) / STEP * STEP;
}

static void check_trace(
        uint64_t round, const struct allocator *allocator, const struct gm_log *log, size_t first)
{
	for (size_t i = allocator->cut; i < allocator->entry_count; i++) {
		const struct entry *entry = &allocator->entries[i];
		struct gm_event event;
		gm_log_event(log, first + i - allocator->cut, &event);
		check_in_round(round, event.action == entry->action);
		check_in_round(round, event.address == entry->address);
		check_in_round(round, event.size == block_size(entry));
		check_in_round(
		        round, entry->action == GM_SEGMENT_ALLOC || event.requested == entry->size);
		check_in_round(round, event.time_ns == entry->time_us * 1000);
		check_in_round(round, event.device == 0 && event.device_type == 1);
		check_in_round(round, !(event.flags & GM_EVENT_PREEXISTING));
		check_stack(round, log, event.python_stack, entry->stack);
	}
}

/* What was there before: each block and segment once, and what frees had been requested. */
static size_t check_before(
        uint64_t round, const struct allocator *allocator, const struct gm_log *log)
{
	bool seen[MOST_BLOCKS] = {0}, freed[MOST_BLOCKS] = {0};
	size_t segments = 0, number = 0, blocks = 0, pending = 0, expected = 0;
	struct gm_event event;
	for (; number < gm_log_event_count(log); number++) {
		gm_log_event(log, number, &event);
		if (!(event.flags & GM_EVENT_PREEXISTING))
			break;
		if (event.action == GM_SEGMENT_ALLOC) {
			check_in_round(round, event.size == SEGMENT);
			check_in_round(round,
			        event.address <
			                FIRST_SEGMENT + allocator->segments_before * SEGMENT);
			segments++;
			continue;
		}
		for (size_t i = 0; i < allocator->before_count; i++) {
			const struct block *block = &allocator->before[i];
			if (block->address != event.address)
				continue;
			check_in_round(round, block->size == event.size);
			if (event.action == GM_ALLOC) {
				check_in_round(round, !seen[i]);
				seen[i] = true;
				blocks++;
			} else {
				check_in_round(round, event.action == GM_FREE_REQUESTED);
				check_in_round(round, seen[i] && !freed[i] && block->pending);
				freed[i] = true;
				pending++;
			}
		}
	}
	for (size_t i = 0; i < allocator->before_count; i++)
		expected += allocator->before[i].pending;
	check_in_round(round, segments == allocator->segments_before);
	check_in_round(round, blocks == allocator->before_count);
	check_in_round(round, pending == expected);
	check_in_round(round, number == blocks + segments + pending);
	return number;
}

/* What the events themselves add up to is, at each of them, what the allocator had. */
static void check_sums(
        uint64_t round, const struct allocator *allocator, const struct gm_log *log, size_t first)
{
	uint64_t allocated = 0, reserved = 0;
	for (size_t number = 0; number < gm_log_event_count(log); number++) {
		struct gm_event event;
		gm_log_event(log, number, &event);
		allocated += event.action == GM_ALLOC ? event.size : 0;
		allocated -= event.action == GM_FREE_REQUESTED ? event.size : 0;
		reserved += event.action == GM_SEGMENT_ALLOC ? event.size : 0;
		if (number < first)
			continue;
		const struct entry *entry = &allocator->entries[allocator->cut + number - first];
		check_in_round(round, allocated == entry->allocated);
		check_in_round(round, reserved == entry->reserved);
	}
	check_in_round(round, allocated == allocator->allocated);
}

/* At the last event stands what the segments say, in which a block whose free waits for a stream is
 * not allocated. The trace and the segments agree about each block. */
static void check_end(uint64_t round, const struct allocator *allocator, const struct gm_log *log)
{
	struct gm_event last;
	gm_log_event(log, gm_log_event_count(log) - 1, &last);
	check_in_round(round, last.allocated == allocator->allocated);
	check_in_round(round, last.reserved == allocator->segment_count * SEGMENT);
	for (size_t i = 0; i < gm_log_gap_count(log); i++)
		check_in_round(round, !strstr(gm_log_gap(log, i), "free in the trace"));
}

static void a_snapshot_says_what_the_allocator_did(void **state)
{
	static struct allocator allocator;
	size_t before = 0, cut = 0;
	for (uint64_t round = 0; round < random_rounds(150); round++) {
		run_allocator(&allocator, round);
		cut += allocator.cut > 0;
		for (int form = 0; form < FORM_COUNT; form++) {
			for (int plainly = 0; plainly < 2; plainly++) {
				char path[64];
				struct gm_log *log;
				write_snapshot(&allocator, (enum form)form, path);
				assert_true(gm_import_is_snapshot(path));
				struct gm_error *error =
				        plainly ? gm_import_snapshot_plainly(path, &log)
				                : gm_import_snapshot(path, &log);
				assert_null(error);
				size_t first = check_before(round, &allocator, log);
				check_in_round(round,
				        gm_log_event_count(log) ==
				                first + allocator.entry_count - allocator.cut);
				check_trace(round, &allocator, log, first);
				check_in_round(round,
				        gm_log_start_ns(log) ==
				                1000 * allocator.entries[allocator.cut].time_us);
				check_sums(round, &allocator, log, first);
				check_end(round, &allocator, log);
				before += first;
				gm_log_close(log);
				unlink(path);
			}
		}
	}
	assert_true(before > 1000 && cut > 30);
}

/* --- frees that wait for a stream ------------------------------------------------------------- */

/* Of one segment: two blocks, of which the first is freed. */
static void free_one_of_two(struct allocator *allocator, bool waits)
{
	memset(allocator, 0, sizeof(*allocator));
	allocator->segment_count = 1;
	add_entry(allocator, GM_SEGMENT_ALLOC, FIRST_SEGMENT, SEGMENT, 0);
	for (size_t i = 0; i < 2; i++) {
		uint64_t address = FIRST_SEGMENT + i * 4 * STEP;
		allocator->blocks[allocator->block_count++] =
		        (struct block){address, 2 * STEP, 2 * STEP, 1, false};
		allocator->allocated += 2 * STEP;
		add_entry(allocator, GM_ALLOC, address, 2 * STEP, 1);
	}
	allocator->allocated -= 2 * STEP;
	add_entry(allocator, GM_FREE_REQUESTED, FIRST_SEGMENT, 2 * STEP, 1);
	if (waits)
		allocator->blocks[0].pending = true;
	else
		allocator->blocks[0] = allocator->blocks[--allocator->block_count];
}

static struct gm_event last_event_of(
        const struct allocator *allocator, enum form form, size_t *ret_gaps)
{
	struct gm_event event;
	struct gm_log *log;
	char path[64];
	write_snapshot(allocator, form, path);
	assert_null(gm_import_snapshot(path, &log));
	assert_int_equal(gm_log_event_count(log), allocator->entry_count);
	gm_log_event(log, allocator->entry_count - 1, &event);
	*ret_gaps = gm_log_gap_count(log);
	gm_log_close(log);
	unlink(path);
	return event;
}

/* A trace without any free_completed is one of two things. Does a block of the segments wait, then
 * the frees do; else the tool that wrote the trace leaves these entries out. */
static void a_free_is_pending_if_the_segments_say_so(void **state)
{
	static struct allocator allocator;
	for (int form = 0; form < FORM_COUNT; form++) {
		size_t gaps;
		free_one_of_two(&allocator, true);
		struct gm_event event = last_event_of(&allocator, (enum form)form, &gaps);
		assert_int_equal(event.action, GM_FREE_REQUESTED);
		assert_false(event.flags & GM_EVENT_COMPLETES);
		assert_int_equal(event.allocated, 2 * STEP);
		assert_int_equal(gaps, 0);
		free_one_of_two(&allocator, false);
		event = last_event_of(&allocator, (enum form)form, &gaps);
		assert_int_equal(event.action, GM_FREE_REQUESTED);
		assert_true(event.flags & GM_EVENT_COMPLETES);
		assert_int_equal(gaps, 1);
	}
}

/* --- what is no snapshot ---------------------------------------------------------------------- */

/* Cut at any byte, a pickle or JSON is an error, and no crash. */
static void a_snapshot_that_is_cut_is_refused(void **state)
{
	static struct allocator allocator;
	run_allocator(&allocator, 3);
	allocator.cut = allocator.entry_count - 6;
	for (int form = 0; form < FORM_COUNT; form++) {
		char path[64];
		write_snapshot(&allocator, (enum form)form, path);
		FILE *file = fopen(path, "r");
		static char bytes[1 << 20];
		size_t size = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		assert_true(size > 100 && size < sizeof(bytes));
		size_t stride = 1 + size / 300;
		for (size_t cut = 1; cut < size; cut += cut + stride < size ? stride : 1) {
			struct gm_log *log = NULL;
			assert_int_equal(truncate(path, (off_t)(size - cut)), 0);
			struct gm_error *error = gm_import_snapshot(path, &log);
			assert_non_null(error);
			assert_null(log);
			gm_error_destroy(error);
		}
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_snapshot_says_what_the_allocator_did),
	        cmocka_unit_test(a_free_is_pending_if_the_segments_say_so),
	        cmocka_unit_test(a_snapshot_that_is_cut_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
