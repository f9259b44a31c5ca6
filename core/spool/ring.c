/*
 * A recording of limited size (agent/ring.h). Its extents are reused while it is read, so it is
 * copied at one moment and read from the copy. The live blocks at its beginning are derived from
 * the carried-over records and the remaining older extents.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spool/internal.h"

enum { TRIES = 50 };

/* ---- the copy -------------------------------------------------------------------------------- */

static const struct gm_agent_extent_header *extent_of(const uint8_t *bytes, uint32_t number)
{
	return (const void *)(bytes + GM_AGENT_HEADER_SIZE +
	                      (uint64_t)number * GM_AGENT_EXTENT_SIZE);
}

struct moment {
	uint32_t turn, committed;
};

/* Copies bytes from the beginning of a page on; from NULL: zeros. A page of zeros takes no memory:
 * the file may be sparse. */
static void copy_pages(void *to, const void *from, size_t size)
{
	static const uint8_t zeros[GM_AGENT_PAGE];
	for (size_t at = 0; at < size; at += GM_AGENT_PAGE) {
		size_t some = size - at < GM_AGENT_PAGE ? size - at : GM_AGENT_PAGE;
		const uint8_t *page = from ? (const uint8_t *)from + at : zeros;
		if (memcmp(page, zeros, some) != 0 || memcmp((uint8_t *)to + at, zeros, some) != 0)
			memcpy((uint8_t *)to + at, page, some);
	}
}

/* Copies one extent up to `most`; nothing if it was reused meanwhile. */
static void copy_extent(
        const struct gm_spool_file *file, uint8_t *to, uint32_t number, const struct moment *moment)
{
	const struct gm_agent_extent_header *from = extent_of(file->bytes, number);
	struct gm_agent_extent_header *copy = (void *)(uintptr_t)extent_of(to, number);
	uint32_t committed = moment ? moment->committed
	                            : atomic_load_explicit(&from->committed, memory_order_acquire);
	if (committed > GM_AGENT_RECORD_MAX)
		committed = GM_AGENT_RECORD_MAX;
	copy_pages(copy, from, GM_AGENT_EXTENT_HEADER + committed);
	atomic_thread_fence(memory_order_acquire);
	if (moment && atomic_load_explicit(&from->turn, memory_order_relaxed) != moment->turn)
		copy_pages(copy, NULL, GM_AGENT_EXTENT_HEADER + committed);
	else
		atomic_store(&copy->committed, committed);
}

/* The current carried-over records: their extent and its turn, since extents are reused. */
static uint64_t carried_now(const struct gm_spool_file *file)
{
	const struct gm_agent_file_header *header = (const void *)file->bytes;
	atomic_thread_fence(memory_order_acquire);
	uint32_t first = atomic_load(&header->carried);
	if (!first || first > file->extents)
		return 0;
	return (uint64_t)atomic_load(&extent_of(file->bytes, first - 1)->turn) << 32 | first;
}

/* Reads the carried-over records. */
static void copy_carried(const struct gm_spool_file *file, uint8_t *to)
{
	uint32_t count = 0;
	for (uint32_t at = file->carried; at && at <= file->extents && count < file->extents;
	        count++) {
		copy_extent(file, to, at - 1, NULL);
		at = extent_of(to, at - 1)->next;
	}
}

/* False: the beginning moved meanwhile, and the carried-over records are newer than the copied
 * extents. */
static bool copy_all(struct gm_spool_file *file, uint8_t *to, struct moment *moments)
{
	const uint64_t carried = carried_now(file);
	file->carried = (uint32_t)carried;
	for (uint32_t i = 0; i < file->extents; i++) {
		const struct gm_agent_extent_header *extent = extent_of(file->bytes, i);
		moments[i].turn = atomic_load_explicit(&extent->turn, memory_order_acquire);
		moments[i].committed =
		        atomic_load_explicit(&extent->committed, memory_order_acquire);
		file->limits[i] = moments[i].committed;
	}
	for (uint32_t i = 0; i < file->extents; i++)
		if (extent_of(file->bytes, i)->kind == GM_AGENT_EVENTS)
			copy_extent(file, to, i, &moments[i]);
	/* after those whose records were added meanwhile */
	for (uint32_t i = 0; i < file->extents; i++)
		if (extent_of(file->bytes, i)->kind == GM_AGENT_KEPT)
			copy_extent(file, to, i, NULL);
	copy_carried(file, to);
	memcpy(to, file->bytes, GM_AGENT_HEADER_SIZE);
	return carried_now(file) == carried;
}

struct gm_error *gm_spool_ring_copy(struct gm_spool_file *file, const uint8_t **ret_bytes)
{
	_cleanup_free_ struct moment *moments = calloc(file->extents + 1u, sizeof(*moments));
	file->limits = calloc(file->extents + 1u, sizeof(*file->limits));
	if (!moments || !file->limits)
		return &gm_error_no_memory;
	uint8_t *copy = mmap(NULL, file->size, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (copy == MAP_FAILED)
		return &gm_error_no_memory;
	for (int i = 0; i < TRIES && !copy_all(file, copy, moments); i++)
		file->torn = i == TRIES - 1;
	file->limited = file->extents;
	if (file->carried && file->carried <= file->extents) {
		const struct gm_agent_extent_header *extent = extent_of(copy, file->carried - 1);
		file->beginning = extent->beginning;
		file->dropped = extent->dropped;
	}
	*ret_bytes = copy;
	return NULL;
}

/* --- live blocks at the beginning ------------------------------------------------------------- */

struct last_event {
	uint64_t key[2]; /* address; kind of memory */
	struct gm_spool_event event;
	UT_hash_handle hh;
};

static bool is_segment(const struct gm_spool_event *event)
{
	return event->action >= GM_AGENT_SEGMENT_ALLOC && event->action <= GM_AGENT_SEGMENT_UNMAP;
}

static struct gm_error *put(struct last_event **all, const struct gm_spool_event *event)
{
	const uint64_t key[2] = {event->address, event->source != GM_AGENT_C10 ? 3
	                                         : is_segment(event)           ? 2
	                                                             : event->device_type == 1};
	struct last_event *known;
	if (event->action >= GM_AGENT_OOM)
		return NULL;
	HASH_FIND(hh, *all, key, sizeof(key), known);
	if (!known) {
		known = calloc(1, sizeof(*known));
		if (!known)
			return &gm_error_no_memory;
		memcpy(known->key, key, sizeof(key));
		HASH_ADD(hh, *all, key, sizeof(known->key), known);
	}
	/* the same event in another record may have more data: the device of a segment */
	if (known->event.sequence <= event->sequence)
		known->event = *event;
	return NULL;
}

static struct gm_error *add_extent(
        struct last_event **all, struct gm_bytes records, uint32_t thread, uint64_t beginning)
{
	struct gm_spool_cursor cursor;
	struct gm_spool_record record;
	struct gm_spool_event segment = {0};
	gm_spool_cursor_init(&cursor, records, thread);
	while (gm_spool_next(&cursor, &record)) {
		const struct gm_spool_event *event = &cursor.event;
		if (record.kind != 0)
			continue;
		if (event->sequence >= beginning)
			break;
		/* the owner of a segment follows from its first block */
		if (segment.size && event->action == GM_AGENT_ALLOC &&
		        event->address - segment.address < segment.size) {
			segment.device = event->device;
			segment.stream = event->stream;
			gm_try(put(all, &segment));
		}
		segment.size = 0;
		if (is_segment(event) && event->device < 0)
			segment = *event;
		gm_try(put(all, event));
	}
	return NULL;
}

static struct gm_error *add_all(const struct gm_spool_file *file, struct last_event **all)
{
	struct gm_bytes records;
	uint32_t chain = 0;
	for (uint32_t at = file->carried; at && at <= file->extents && chain < file->extents;
	        chain++) {
		const struct gm_agent_extent_header *extent = extent_of(file->bytes, at - 1);
		records = (struct gm_bytes){
		        (const uint8_t *)extent + GM_AGENT_EXTENT_HEADER, extent->committed};
		gm_try(add_extent(all, records, extent->thread, file->beginning));
		at = extent->next;
	}
	for (uint32_t i = 0; i < file->extents; i++) {
		_cleanup_extent_ struct gm_spool_extent one = {0};
		gm_try(gm_spool_extent_events(file, i, &one));
		gm_try(add_extent(all, one.records, one.thread, file->beginning));
	}
	return NULL;
}

static int by_sequence(const struct last_event *a, const struct last_event *b)
{
	return (a->event.sequence > b->event.sequence) - (a->event.sequence < b->event.sequence);
}

struct gm_error *gm_spool_ring_replay(
        const struct gm_spool_file *file, struct gm_spool_replay *replay)
{
	struct last_event *all = NULL, *last, *next;
	if (!file->beginning)
		return NULL;
	struct gm_error *error = add_all(file, &all);
	if (!error)
		HASH_SORT(all, by_sequence);
	HASH_ITER(hh, all, last, next)
	{
		enum gm_agent_action action = last->event.action;
		bool alive = action == GM_AGENT_ALLOC || action == GM_AGENT_SEGMENT_ALLOC ||
		             action == GM_AGENT_SEGMENT_MAP;
		if (alive && !error)
			gm_spool_replay_carried(replay, &last->event);
		HASH_DEL(all, last);
		free(last);
	}
	if (!error)
		gm_spool_replay_from(replay, file->beginning);
	return error;
}
