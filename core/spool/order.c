/*
 * Merges the events of all threads into one sequence. Within an extent numbers ascend. So the
 * extents are merged, and each is opened when the sequence reaches its first event: only extents of
 * threads that ran at the same time are open.
 */
#include <string.h>

#include "spool/internal.h"

struct open_extent {
	struct gm_spool_extent extent;
	struct gm_spool_cursor cursor; /* positioned after its next event, which is cursor.event */
};

struct first_event {
	uint64_t sequence;
	uint32_t extent;
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
			good = gm_spool_tables_add(tables, &record, file->size);
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

/* Moves to the next event from `beginning` on, and passes on the iterations and marks before it.
 * False: the end of the extent. */
static bool advance(struct open_extent *extent, uint64_t beginning, struct gm_spool_replay *replay)
{
	struct gm_spool_record record;
	while (gm_spool_next(&extent->cursor, &record)) {
		if (record.kind == 0 && extent->cursor.event.sequence >= beginning)
			return true;
		if (record.kind == 0)
			gm_spool_replay_skip(replay, extent->cursor.event.thread);
		if (record.kind == GM_AGENT_ITERATION)
			gm_spool_replay_iteration(
			        replay, extent->cursor.event.thread, record.payload);
		else if (record.kind == GM_AGENT_MARK)
			gm_spool_replay_mark(replay, extent->cursor.event.thread, record.payload);
		else if (record.kind == GM_AGENT_AMP)
			gm_spool_replay_amp(replay, extent->cursor.event.thread, record.payload);
		else if (record.kind == GM_AGENT_COLLECTIVE)
			gm_spool_replay_collective(
			        replay, extent->cursor.event.thread, record.payload);
	}
	return false;
}

static int by_sequence(const void *a, const void *b)
{
	const struct first_event *x = a, *y = b;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* The first event of each extent, in order. */
static struct gm_error *find_first(
        const struct gm_spool_file *file, struct first_event *ret_first, size_t *ret_count)
{
	size_t count = 0;
	for (uint32_t i = 0; i < file->extents; i++) {
		_cleanup_extent_ struct gm_spool_extent extent = {0};
		gm_try(gm_spool_extent_events(file, i, &extent));
		struct gm_spool_cursor cursor;
		struct gm_spool_record record;
		gm_spool_cursor_init(&cursor, extent.records, extent.thread);
		while (gm_spool_next(&cursor, &record))
			if (record.kind == 0 && cursor.event.sequence >= file->beginning) {
				ret_first[count++] = (struct first_event){cursor.event.sequence, i};
				break;
			}
	}
	qsort(ret_first, count, sizeof(*ret_first), by_sequence);
	*ret_count = count;
	return NULL;
}

struct open_extents {
	struct open_extent *items;
	size_t count, capacity;
};

/* The sequence has reached an extent's first event. */
static struct gm_error *begin(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_replay *replay, struct open_extents *open)
{
	struct open_extent one = {0};
	gm_try(gm_spool_extent_events(file, number, &one.extent));
	gm_spool_cursor_init(&one.cursor, one.extent.records, one.extent.thread);
	bool some = advance(&one, file->beginning, replay);
	if (some && gm_array_push(open, one))
		return NULL;
	gm_spool_extent_close(&one.extent);
	return some ? &gm_error_no_memory : NULL;
}

static struct gm_error *merge(const struct gm_spool_file *file, const struct first_event *first,
        size_t count, struct gm_spool_replay *replay)
{
	struct open_extents open = {0};
	struct gm_error *error = NULL;
	for (size_t next = 0; (next < count || open.count > 0) && !error;) {
		size_t least = 0;
		for (size_t i = 1; i < open.count; i++)
			if (open.items[i].cursor.event.sequence <
			        open.items[least].cursor.event.sequence)
				least = i;
		if (next < count &&
		        (open.count == 0 ||
		                first[next].sequence < open.items[least].cursor.event.sequence)) {
			error = begin(file, first[next].extent, replay, &open);
			next++;
			continue;
		}
		gm_spool_replay_event(replay, &open.items[least].cursor.event);
		if (!advance(&open.items[least], file->beginning, replay)) {
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
	_cleanup_free_ struct first_event *first = calloc(file->extents + 1u, sizeof(*first));
	size_t count;
	if (!first)
		return &gm_error_no_memory;
	gm_try(gm_spool_ring_replay(file, replay));
	gm_try(find_first(file, first, &count));
	return merge(file, first, count, replay);
}
