/*
 * Merges the events of all threads into one sequence. Within an extent numbers ascend. So the
 * extents are merged, and each is opened when the sequence reaches the number that was the next one
 * when its thread began it: only extents of threads that ran at the same time are open. An extent
 * may have no event at all, if its thread filled it with marks or collectives.
 */
#include <string.h>

#include "spool/internal.h"

struct open_extent {
	struct gm_spool_extent extent;
	struct gm_spool_step next;
};

static struct gm_error *damaged(
        const struct gm_spool_file *file, uint32_t number, const struct gm_spool_cursor *cursor)
{
	uint64_t records = GM_AGENT_HEADER_SIZE + (uint64_t)number * GM_AGENT_EXTENT_SIZE +
	                   GM_AGENT_EXTENT_HEADER;
	return gm_error_create(GM_CORRUPT,
	        "%s: offset %ju (extent %u): no record: the file is damaged", file->path,
	        (uintmax_t)(records + (uint64_t)(cursor->in.at - cursor->base)), number);
}

/* A string of the file, cut to the array's size; false: it reaches beyond the record. */
static bool get_text(struct gm_cursor *in, char *ret_text, size_t size)
{
	uint64_t length = gm_get_varint(in);
	if (in->bad || length > (uint64_t)(in->end - in->at))
		return false;
	size_t kept = length < size - 1 ? (size_t)length : size - 1;
	memcpy(ret_text, in->at, kept);
	ret_text[kept] = 0;
	in->at += length;
	return true;
}

static bool put_setting(struct gm_log_writer *log, struct gm_bytes payload)
{
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	char name[256], value[4200];
	if (!get_text(&in, name, sizeof(name)) || !get_text(&in, value, sizeof(value)))
		return false;
	if (strcmp(name, GM_AGENT_SETTING_OUT) != 0) /* the log lies there, or will */
		gm_log_writer_setting(log, name, value);
	return true;
}

static bool put_text(struct gm_log_writer *log, struct gm_bytes payload, uint32_t kind)
{
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	char text[1024];
	if (!get_text(&in, text, sizeof(text)))
		return false;
	if (kind == GM_AGENT_GAP)
		gm_log_writer_gap(log, text);
	else
		gm_log_writer_counter(log, text, gm_get_varint(&in));
	return !in.bad;
}

struct gm_error *gm_spool_read_extent_tables(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_cursor *cursor, struct gm_spool_tables *tables)
{
	struct gm_spool_record record;
	while (gm_spool_next(cursor, &record)) {
		bool good = true;
		if (record.kind == 0)
			tables->has_c10 |= cursor->event.source == GM_AGENT_C10 &&
			                   cursor->event.device_type == 1 &&
			                   cursor->event.action <= GM_AGENT_FREE_COMPLETED;
		else if (gm_agent_has_id(record.kind))
			good = gm_spool_tables_add(tables, &record, file);
		else if (record.kind == GM_AGENT_GAP || record.kind == GM_AGENT_COUNTER)
			good = put_text(tables->log, record.payload, record.kind);
		else if (record.kind == GM_AGENT_SETTING)
			good = put_setting(tables->log, record.payload);
		else if (record.kind == GM_AGENT_NAMED || record.kind == GM_AGENT_NAME)
			good = gm_spool_named_read(&tables->named, &record);
		if (!good)
			return damaged(file, number, cursor);
	}
	return cursor->in.bad ? damaged(file, number, cursor) : NULL;
}

struct gm_error *gm_spool_read_tables(
        const struct gm_spool_file *file, struct gm_spool_tables *tables)
{
	for (uint32_t i = 0; i < file->extents; i++) {
		_cleanup_extent_ struct gm_spool_extent extent = {0};
		gm_try(gm_spool_extent_open(file, i, &extent));
		struct gm_spool_cursor cursor;
		gm_spool_cursor_init(&cursor, extent.records, extent.thread);
		gm_try(gm_spool_read_extent_tables(file, i, &cursor, tables));
	}
	return NULL;
}

static bool is_replayed(uint32_t kind)
{
	return kind == GM_AGENT_ITERATION || kind == GM_AGENT_MARK || kind == GM_AGENT_AMP ||
	       kind == GM_AGENT_COLLECTIVE;
}

/* What a thread recorded besides events, in its place among them. */
static void replay_record(
        struct gm_spool_replay *replay, uint32_t thread, const struct gm_spool_record *record)
{
	if (record->kind == GM_AGENT_ITERATION)
		gm_spool_replay_iteration(replay, thread, record->payload);
	else if (record->kind == GM_AGENT_MARK)
		gm_spool_replay_mark(replay, thread, record->payload);
	else if (record->kind == GM_AGENT_AMP)
		gm_spool_replay_amp(replay, thread, record->payload);
	else if (record->kind == GM_AGENT_COLLECTIVE)
		gm_spool_replay_collective(replay, thread, record->payload);
}

/* The number of the next event; 0: there is none. */
static uint64_t next_event(struct gm_spool_cursor cursor)
{
	struct gm_spool_record record;
	while (gm_spool_next(&cursor, &record))
		if (record.kind == 0)
			return cursor.event.sequence;
	return 0;
}

bool gm_spool_advance(
        struct gm_spool_step *step, uint64_t beginning, struct gm_spool_replay *replay)
{
	struct gm_spool_cursor *cursor = &step->cursor;
	struct gm_spool_record record;
	bool none = false; /* no event follows in what is there now */
	while (gm_spool_next(cursor, &record)) {
		uint32_t thread = cursor->event.thread;
		step->is_event = record.kind == 0;
		step->sequence = cursor->event.sequence;
		if (step->is_event) {
			step->coming = 0;
			if (step->sequence >= beginning)
				return true;
			gm_spool_replay_skip(replay, thread);
		} else {
			replay_record(replay, thread, &record);
		}
		if (record.kind != GM_AGENT_THREAD || none)
			continue;
		if (!step->coming)
			step->coming = next_event(*cursor);
		none = !step->coming;
		step->sequence = step->coming;
		if (!none)
			return true;
	}
	return false;
}

bool gm_spool_place_of(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_cursor cursor, struct gm_spool_place *ret_place)
{
	/* 0 in a file of before 1.1 */
	struct gm_spool_place place = {
	        .sequence = gm_spool_extent_header(file, number)->first_sequence, .extent = number};
	struct gm_spool_record record;
	bool some = false;
	while (!place.has_event && gm_spool_next(&cursor, &record)) {
		place.has_event = record.kind == 0;
		some |= place.has_event || is_replayed(record.kind);
	}
	uint64_t first = cursor.event.sequence;
	if (place.has_event && (!place.sequence || place.sequence > first))
		place.sequence = first;
	*ret_place = place;
	return some;
}

int gm_spool_by_place(const void *a, const void *b)
{
	const struct gm_spool_place *x = a, *y = b;
	if (x->sequence != y->sequence)
		return x->sequence > y->sequence ? 1 : -1;
	/* Of one thread, only the last one of the moment can have an event. */
	if (x->has_event != y->has_event)
		return x->has_event ? 1 : -1;
	return (x->extent > y->extent) - (x->extent < y->extent);
}

/* The extents that have something to replay, in order. */
static struct gm_error *find_places(
        const struct gm_spool_file *file, struct gm_spool_place *ret_places, size_t *ret_count)
{
	size_t count = 0;
	for (uint32_t i = 0; i < file->extents; i++) {
		_cleanup_extent_ struct gm_spool_extent extent = {0};
		gm_try(gm_spool_extent_events(file, i, &extent));
		struct gm_spool_cursor cursor;
		gm_spool_cursor_init(&cursor, extent.records, extent.thread);
		count += gm_spool_place_of(file, i, cursor, &ret_places[count]);
	}
	qsort(ret_places, count, sizeof(*ret_places), gm_spool_by_place);
	*ret_count = count;
	return NULL;
}

struct open_extents {
	struct open_extent *items;
	size_t count, capacity;
};

/* The sequence has reached an extent. */
static struct gm_error *begin(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_replay *replay, struct open_extents *open)
{
	struct open_extent one = {0};
	gm_try(gm_spool_extent_events(file, number, &one.extent));
	gm_spool_cursor_init(&one.next.cursor, one.extent.records, one.extent.thread);
	bool some = gm_spool_advance(&one.next, file->beginning, replay);
	if (some && gm_array_push(open, one))
		return NULL;
	gm_spool_extent_close(&one.extent);
	return some ? &gm_error_no_memory : NULL;
}

static struct gm_error *merge(const struct gm_spool_file *file, const struct gm_spool_place *places,
        size_t count, struct gm_spool_replay *replay)
{
	struct open_extents open = {0};
	struct gm_error *error = NULL;
	for (size_t next = 0; (next < count || open.count > 0) && !error;) {
		size_t least = 0;
		if (gm_spool_replay_failed(replay))
			break; /* gm_log_writer_close() gives the error */
		for (size_t i = 1; i < open.count; i++)
			if (open.items[i].next.sequence < open.items[least].next.sequence)
				least = i;
		if (next < count && (open.count == 0 || places[next].sequence <=
		                                                open.items[least].next.sequence)) {
			error = begin(file, places[next].extent, replay, &open);
			next++;
			continue;
		}
		struct gm_spool_step *step = &open.items[least].next;
		if (step->is_event)
			gm_spool_replay_event(replay, &step->cursor.event);
		if (!gm_spool_advance(step, file->beginning, replay)) {
			gm_spool_extent_close(&open.items[least].extent);
			open.items[least] = open.items[--open.count];
		}
	}
	for (size_t i = 0; i < open.count; i++)
		gm_spool_extent_close(&open.items[i].extent);
	gm_array_deinit(&open);
	return error;
}

struct gm_error *gm_spool_each(const struct gm_spool_file *file, struct gm_spool_replay *replay)
{
	_cleanup_free_ struct gm_spool_place *places = calloc(file->extents + 1u, sizeof(*places));
	size_t count;
	if (!places)
		return &gm_error_no_memory;
	gm_try(gm_spool_ring_replay(file, replay));
	gm_try(find_places(file, places, &count));
	return merge(file, places, count, replay);
}
