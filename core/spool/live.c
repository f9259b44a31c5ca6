/*
 * A growing file, read from the point that the last read reached: new records are appended to a log
 * in memory. Each extent has two positions: one up to which interned records were read, and one up
 * to which events were replayed. What is read is a copy until the extent is finished, because the
 * extent may be packed meanwhile.
 *
 * Threads write at the same time, so an event may exist before one with a smaller number does. The
 * smaller one is waited for until the next read, and is taken as lost only if it is not there then.
 * If it comes even later, the file must be read again from its beginning.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "base/regular_file.h"
#include "spool/replay_state.h"

/* Reserved address space; none of it is used before the file has grown that far. */
enum { GROWTH_SHIFT = 36 };

struct live_extent {
	struct gm_spool_cursor tables;
	struct gm_spool_step next; /* of its events */
	uint32_t number;
	uint8_t *memory; /* its records; owned */
	uint32_t size;   /* the number of bytes read */
	bool finished;   /* no thread will write it any more */
	bool begun;      /* the sequence has reached it */
	bool waits;      /* `next` is to be replayed */
};

struct gm_spool_live {
	char *path;
	struct gm_spool_file file;
	int memory; /* the log */
	struct gm_log_writer *writer;
	struct gm_spool_tables tables;
	struct gm_spool_replay *replay;
	uint32_t seen; /* extents of the file that were begun, or are waited for */
	GM_ARRAY(struct live_extent) extents; /* from which records may still come */
	uint64_t waited_for;                  /* the number of a missing event; 0: none */
	bool nameless;
	uint64_t sought, from, to; /* the number of an event, and its number in the log */
	bool found;
};

void gm_spool_live_close(struct gm_spool_live *live)
{
	if (!live)
		return;
	gm_spool_replay_destroy(live->replay);
	gm_spool_tables_deinit(&live->tables);
	if (live->writer)
		gm_error_destroy(gm_log_writer_close(live->writer));
	gm_mapped_file_close(live->file.bytes, live->file.mapped);
	if (live->file.fd >= 0)
		close(live->file.fd);
	if (live->memory >= 0)
		close(live->memory);
	for (size_t i = 0; i < live->extents.count; i++)
		free(live->extents.items[i].memory);
	gm_array_deinit(&live->extents);
	free(live->path);
	free(live);
}

void gm_spool_live_name(struct gm_spool_live *live, bool names)
{
	live->nameless = !names;
}

void gm_spool_live_seek(struct gm_spool_live *live, uint64_t sequence)
{
	live->sought = sequence;
	live->found = false;
}

bool gm_spool_live_found(const struct gm_spool_live *live, uint64_t *ret_from, uint64_t *ret_to)
{
	if (!live->found)
		return false;
	*ret_from = live->from;
	*ret_to = live->to;
	return true;
}

/* --- new records ------------------------------------------------------------------------------ */

static struct gm_error *see_extents(struct gm_spool_live *live)
{
	struct stat status;
	if (fstat(live->file.fd, &status) != 0 || (size_t)status.st_size < live->file.size)
		return gm_error_create(
		        GM_CORRUPT, "%s: the file became shorter while it was read", live->path);
	live->file.size = (size_t)status.st_size < live->file.mapped ? (size_t)status.st_size
	                                                             : live->file.mapped;
	gm_try(gm_spool_check(&live->file));
	for (; live->seen < live->file.extents; live->seen++)
		if (!gm_array_push(&live->extents, ((struct live_extent){.number = live->seen})))
			return &gm_error_no_memory;
	return NULL;
}

/* Continues reading an extent. The copy stays at its address, because cursors point into it. */
static struct gm_error *see_extent(struct gm_spool_live *live, struct live_extent *extent)
{
	const struct gm_agent_extent_header *header =
	        gm_spool_extent_header(&live->file, extent->number);
	uint32_t size;
	gm_try(gm_spool_extent_size(&live->file, extent->number, &size));
	if (!extent->memory && (!size || !(extent->memory = malloc(GM_AGENT_RECORD_MAX)))) {
		extent->finished = header->kind == GM_AGENT_PACKED;
		return size ? &gm_error_no_memory : NULL;
	}
	if (!extent->next.cursor.base) {
		const struct gm_bytes none = {extent->memory, 0};
		gm_spool_cursor_init(&extent->tables, none, header->thread);
		gm_spool_cursor_init(&extent->next.cursor, none, header->thread);
	}
	return gm_spool_extent_read_on(
	        &live->file, extent->number, extent->memory, &extent->size, &extent->finished);
}

/* How far each extent was written. Interned records may have been written further: they are read
 * after the events. */
static struct gm_error *see_events(struct gm_spool_live *live)
{
	for (size_t i = 0; i < live->extents.count; i++) {
		struct live_extent *extent = &live->extents.items[i];
		gm_try(see_extent(live, extent));
		if (extent->memory)
			extent->next.cursor.in.end = extent->memory + extent->size;
	}
	return NULL;
}

static struct gm_error *see_tables(struct gm_spool_live *live)
{
	/* including those allocated meanwhile */
	gm_try(see_extents(live));
	for (size_t i = 0; i < live->extents.count; i++) {
		struct live_extent *extent = &live->extents.items[i];
		gm_try(see_extent(live, extent));
		if (!extent->memory)
			continue;
		extent->tables.in.end = extent->memory + extent->size;
		gm_try(gm_spool_read_extent_tables(
		        &live->file, extent->number, &extent->tables, &live->tables));
	}
	return NULL;
}

/* Extents from which nothing will come any more. */
static void forget_extents(struct gm_spool_live *live)
{
	size_t kept = 0;
	for (size_t i = 0; i < live->extents.count; i++) {
		struct live_extent *extent = &live->extents.items[i];
		bool done = extent->finished && !extent->waits &&
		            (!extent->memory ||
		                    extent->next.cursor.in.at == extent->memory + extent->size);
		if (done)
			free(extent->memory);
		else
			live->extents.items[kept++] = *extent;
	}
	live->extents.count = kept;
}

/* Moves to the extent's next step; false: there is none yet. */
static bool move_on(struct gm_spool_live *live, struct live_extent *extent)
{
	extent->waits = gm_spool_advance(&extent->next, 0, live->replay);
	return extent->waits;
}

/* Extents whose next step is known, and those that the sequence has not reached yet, in order. */
struct merge {
	GM_ARRAY(struct live_extent *) open;
	GM_ARRAY(struct gm_spool_place) places; /* `extent` is an index */
	size_t begun;                           /* of the places */
};

static void merge_deinit(struct merge *merge)
{
	gm_array_deinit(&merge->open);
	gm_array_deinit(&merge->places);
}

static bool add_extent(struct gm_spool_live *live, struct merge *merge, size_t index)
{
	struct live_extent *extent = &live->extents.items[index];
	struct gm_spool_place place;
	if (!extent->next.cursor.base)
		return true;
	if (extent->begun)
		return (!extent->waits && !move_on(live, extent)) ||
		       gm_array_push(&merge->open, extent);
	if (!gm_spool_place_of(&live->file, extent->number, extent->next.cursor, &place)) {
		if (extent->finished) /* it has only what is interned */
			move_on(live, extent);
		return true;
	}
	place.extent = (uint32_t)index;
	return gm_array_push(&merge->places, place);
}

/* The open extent with the least event; begins those that come before it. NULL: there is none. */
static struct gm_error *find_least(
        struct gm_spool_live *live, struct merge *merge, struct live_extent ***ret_least)
{
	for (;;) {
		struct live_extent **least = NULL;
		for (size_t i = 0; i < merge->open.count; i++)
			if (!least || merge->open.items[i]->next.sequence < (*least)->next.sequence)
				least = &merge->open.items[i];
		*ret_least = least;
		if (merge->begun == merge->places.count ||
		        (least && merge->places.items[merge->begun].sequence >
		                          (*least)->next.sequence))
			return NULL;
		uint32_t index = merge->places.items[merge->begun++].extent;
		struct live_extent *extent = &live->extents.items[index];
		extent->begun = true;
		if (move_on(live, extent) && !gm_array_push(&merge->open, extent))
			return &gm_error_no_memory;
	}
}

static void replay_event(struct gm_spool_live *live, const struct gm_spool_event *event)
{
	uint64_t before = live->replay->written;
	gm_spool_replay_event(live->replay, event);
	if (live->sought && event->sequence == live->sought) {
		live->found = true;
		live->from = before;
		live->to = live->replay->written;
	}
}

static struct gm_error *merge_events(
        struct gm_spool_live *live, struct merge *merge, bool *ret_late)
{
	struct live_extent **least;
	bool waits = false;
	for (size_t i = 0; i < live->extents.count; i++)
		if (!add_extent(live, merge, i))
			return &gm_error_no_memory;
	if (merge->places.count)
		qsort(merge->places.items, merge->places.count, sizeof(*merge->places.items),
		        gm_spool_by_place);
	gm_try(find_least(live, merge, &least));
	uint64_t known = live->replay->next_sequence - 1;
	*ret_late = least && known && (*least)->next.sequence <= known;
	while (least && !*ret_late && !waits) {
		struct live_extent *extent = *least;
		uint64_t next = live->replay->next_sequence;
		if (extent->next.sequence > next && live->waited_for != next) {
			live->waited_for = next;
			waits = true;
			break;
		}
		if (extent->next.is_event)
			replay_event(live, &extent->next.cursor.event);
		if (!move_on(live, extent))
			*least = merge->open.items[--merge->open.count];
		gm_try(find_least(live, merge, &least));
	}
	if (!waits)
		live->waited_for = 0;
	return NULL;
}

/* *ret_late: there is an event that was taken as lost. */
static struct gm_error *replay_events(struct gm_spool_live *live, bool *ret_late)
{
	struct merge merge = {0};
	struct gm_error *error = merge_events(live, &merge, ret_late);
	merge_deinit(&merge);
	return error;
}

struct gm_error *gm_spool_live_update(struct gm_spool_live *live, bool *ret_ended)
{
	*ret_ended = false;
	gm_try(see_extents(live));
	if (!gm_spool_runs(&live->file.header)) {
		*ret_ended = true; /* then it is read completely, with the data at its end */
		return NULL;
	}
	gm_try(see_events(live));
	gm_try(see_tables(live));
	if (gm_spool_named_is_late(&live->tables.named, live->replay->next_sequence)) {
		*ret_ended = true; /* names of a moment that was replayed already */
		return NULL;
	}
	gm_try(replay_events(live, ret_ended));
	if (*ret_ended)
		return NULL;
	forget_extents(live);
	if (!live->nameless)
		gm_try(gm_spool_names(&live->tables));
	return gm_log_writer_flush(live->writer);
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct gm_error *open_live(struct gm_spool_live *live, struct gm_log **ret_log)
{
	char memory[40];
	bool ended;
	live->memory = memfd_create("gpumem-recording", MFD_CLOEXEC);
	if (live->memory < 0)
		return gm_error_os(
		        GM_INTERNAL, errno, "%s: not enough memory for its events", live->path);
	snprintf(memory, sizeof(memory), "/proc/self/fd/%d", live->memory);
	char source[sizeof(live->file.header.command) + 64];
	gm_spool_source(&live->file, source, sizeof(source));
	const struct gm_log_writer_options options = {.source = source,
	        .pid = live->file.header.pid,
	        .start_ns = live->file.header.start_ns};
	gm_try(gm_log_writer_create(memory, &options, &live->writer));
	live->tables.log = live->writer;
	gm_try(gm_spool_replay_create(&live->file, &live->tables, live->writer, &live->replay));
	gm_log_writer_gap(live->writer, "the process still runs: this is its recording so far");
	gm_try(gm_spool_live_update(live, &ended));
	if (ended)
		gm_try(gm_log_writer_flush(live->writer));
	return gm_log_open_named(memory, live->path, ret_log);
}

struct gm_error *gm_spool_live_open(
        const char *path, struct gm_spool_live **ret_live, struct gm_log **ret_log)
{
	return gm_spool_live_open_at(path, 0, ret_live, ret_log);
}

struct gm_error *gm_spool_live_open_at(const char *path, uint64_t sequence,
        struct gm_spool_live **ret_live, struct gm_log **ret_log)
{
	struct gm_spool_live *live = calloc(1, sizeof(*live));
	*ret_live = NULL;
	if (!live || !(live->path = strdup(path))) {
		free(live);
		return &gm_error_no_memory;
	}
	gm_spool_live_seek(live, sequence);
	live->file.path = live->path;
	live->memory = -1;
	live->file.fd = gm_regular_file_open(path);
	const size_t most = (size_t)1 << GROWTH_SHIFT;
	struct stat status;
	if (live->file.fd >= 0 && fstat(live->file.fd, &status) == 0 &&
	        status.st_size >= GM_AGENT_HEADER_SIZE && (size_t)status.st_size < most / 2)
		live->file.bytes = gm_mapped_file_open(live->file.fd, most);
	if (live->file.bytes) {
		live->file.mapped = most;
		live->file.size = (size_t)status.st_size;
	}
	struct gm_error *error = NULL;
	bool fits = live->file.bytes && !(error = gm_spool_check(&live->file)) &&
	            !live->file.header.ring && gm_spool_runs(&live->file.header);
	if (fits)
		error = open_live(live, ret_log);
	if (!fits || error)
		gm_spool_live_close(live);
	else
		*ret_live = live;
	return error;
}
