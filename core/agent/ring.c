#include "agent/ring.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/carried.h"
#include "base/varint.h"

enum state { NEW = 0, OWNED, FINISHED, FREE, KEPT, CARRIED };
enum {
	BATCH = 8,   /* extents that are reused at once */
	RESERVE = 4, /* extents that stay free for carried-over records, in addition to as many as
	                those took before */
};

struct extent {
	uint64_t first, last; /* the smallest and the greatest number of its events */
	uint8_t state;
};

/* Writes records into extents that it takes as needed. */
struct writer {
	const struct gm_agent_ring_file *file;
	enum state kind;
	struct gm_agent_extent_header *extent;
	uint32_t number, first, count, used; /* `first`: number of the first extent plus 1 */
};

static struct {
	struct extent *extents; /* `total` of them; NULL: no ring */
	uint64_t total, mapped;
	uint32_t kept; /* the extent for interned records, plus 1 */
	uint32_t carried_count;
} ring;

bool gm_agent_ring_begin(uint64_t total)
{
	if (ring.extents)
		munmap(ring.extents, ring.mapped * sizeof(*ring.extents));
	memset(&ring, 0, sizeof(ring));
	if (total < GM_AGENT_RING_LEAST || total > UINT32_MAX / 2)
		return false;
	void *memory = mmap(NULL, total * sizeof(*ring.extents), PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	ring.extents = memory;
	ring.total = ring.mapped = total;
	return true;
}

bool gm_agent_ring_is_on(void)
{
	return ring.extents != NULL;
}

void gm_agent_ring_finish(uint32_t number, uint64_t last)
{
	if (!ring.extents || number >= ring.total)
		return;
	ring.extents[number].state = FINISHED;
	ring.extents[number].last = last;
}

/* An unused one; UINT32_MAX: none. */
static uint32_t find_free(const struct gm_agent_ring_file *file)
{
	uint32_t handed = atomic_load(&file->header->extents);
	if (handed < ring.total)
		return handed;
	for (uint32_t i = 0; i < handed; i++)
		if (ring.extents[i].state == FREE)
			return i;
	return UINT32_MAX;
}

static uint64_t count_free(const struct gm_agent_ring_file *file)
{
	uint32_t handed = atomic_load(&file->header->extents);
	uint64_t count = ring.total - handed;
	for (uint32_t i = 0; i < handed; i++)
		count += ring.extents[i].state == FREE;
	return count;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_down(struct writer *writer)
{
	if (writer->extent)
		munmap(writer->extent, GM_AGENT_EXTENT_SIZE);
	writer->extent = NULL;
}

/* A further extent, after the full one. */
static bool next_extent(struct writer *writer)
{
	const struct gm_agent_ring_file *file = writer->file;
	uint32_t number = find_free(file);
	struct gm_agent_extent_header *extent =
	        number == UINT32_MAX ? NULL : file->map(file->context, number);
	if (!extent)
		return false;
	extent->kind = writer->kind == KEPT ? GM_AGENT_KEPT : GM_AGENT_CARRIED;
	extent->thread = 0;
	extent->next = 0;
	extent->magic = GM_AGENT_EXTENT_MAGIC;
	if (number == atomic_load(&file->header->extents))
		atomic_store(&file->header->extents, number + 1);
	ring.extents[number].state = (uint8_t)writer->kind;
	ring.extents[number].last = UINT64_MAX; /* until the extent is valid */
	if (writer->extent && writer->kind == CARRIED)
		writer->extent->next = number + 1;
	put_down(writer);
	writer->extent = extent;
	writer->number = number;
	writer->used = 0;
	if (!writer->count++)
		writer->first = number + 1;
	return true;
}

/* Space for a record; NULL: none. */
static uint8_t *reserve(struct writer *writer, size_t size)
{
	if ((!writer->extent || writer->used + size > GM_AGENT_RECORD_MAX) && !next_extent(writer))
		return NULL;
	return (uint8_t *)writer->extent + GM_AGENT_EXTENT_HEADER + writer->used;
}

static void commit(struct writer *writer, size_t size)
{
	writer->used += (uint32_t)size;
	atomic_store_explicit(&writer->extent->committed, writer->used, memory_order_release);
}

static bool keep(void *context, const uint8_t *record, size_t size)
{
	struct writer *writer = context;
	uint8_t *at = reserve(writer, size);
	if (!at)
		return false;
	memcpy(at, record, size);
	commit(writer, size);
	return true;
}

/* Continues in the extent of the last call. */
static void open_kept(struct writer *writer, const struct gm_agent_ring_file *file)
{
	*writer = (struct writer){.file = file, .kind = KEPT};
	if (!ring.kept || !(writer->extent = file->map(file->context, ring.kept - 1)))
		return;
	writer->number = ring.kept - 1;
	writer->used = atomic_load(&writer->extent->committed);
	writer->count = 1;
}

/* --- reusing extents -------------------------------------------------------------------------- */

/* The oldest that are finished; returns their number. */
static uint32_t choose(uint32_t chosen[BATCH])
{
	uint64_t most = ring.total / 8 < BATCH ? ring.total / 8 : BATCH;
	uint32_t count = 0;
	while (count < most) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < ring.total; i++)
			if (ring.extents[i].state == FINISHED &&
			        (best == UINT32_MAX ||
			                ring.extents[i].last < ring.extents[best].last))
				best = i;
		if (best == UINT32_MAX)
			break;
		/* undone below */
		ring.extents[best].state = NEW;
		chosen[count++] = best;
	}
	for (uint32_t i = 0; i < count; i++)
		ring.extents[chosen[i]].state = FINISHED;
	return count;
}

/* No remaining event has a smaller number. */
static uint64_t least_left(const uint32_t *chosen, uint32_t count, uint64_t now)
{
	uint64_t least = now;
	for (uint32_t i = 0; i < ring.total; i++) {
		const struct extent *extent = &ring.extents[i];
		bool goes = false;
		for (uint32_t j = 0; j < count; j++)
			goes |= chosen[j] == i;
		if (!goes && (extent->state == FINISHED || extent->state == OWNED) &&
		        extent->first < least)
			least = extent->first;
	}
	return least;
}

static void add_extent(struct gm_agent_carried *carried, const struct gm_agent_ring_file *file,
        uint32_t number, struct writer *kept, uint32_t *ret_next)
{
	struct gm_agent_extent_header *extent = file->map(file->context, number);
	if (!extent) {
		carried->failed = true;
		return;
	}
	gm_agent_carried_add(carried, (const uint8_t *)extent + GM_AGENT_EXTENT_HEADER,
	        atomic_load(&extent->committed), extent->thread, kept ? keep : NULL, kept);
	if (ret_next)
		*ret_next = extent->next;
	munmap(extent, GM_AGENT_EXTENT_SIZE);
}

static void release(const struct gm_agent_ring_file *file, uint32_t number)
{
	struct gm_agent_extent_header *extent = file->map(file->context, number);
	if (!extent)
		return; /* it is lost to the ring; nothing wrong can be read from it */
	atomic_fetch_add(&extent->turn, 1);
	atomic_store(&extent->committed, 0);
	extent->kind = GM_AGENT_EVENTS;
	ring.extents[number].state = FREE;
	munmap(extent, GM_AGENT_EXTENT_SIZE);
}

/* Records that are carried over from now on, in extents of their own. False: no space. */
static bool write_carried(struct writer *writer, struct gm_agent_carried *carried, uint64_t least,
        uint64_t beginning, uint64_t dropped)
{
	size_t count = gm_agent_carried_sort(carried, least);
	struct gm_agent_carried_event before = {0};
	for (size_t i = 0; i <= count; i++) {
		const uint32_t extents = writer->count;
		uint8_t *at = reserve(writer, GM_AGENT_EVENT_MAX + 16);
		if (!at)
			return false;
		if (writer->count != extents) {
			writer->extent->beginning = beginning;
			writer->extent->dropped = dropped;
			memset(&before, 0, sizeof(before));
		}
		if (i == count)
			break;
		uint8_t *end = gm_agent_carried_put(at, &carried->table[i], &before);
		before = carried->table[i];
		commit(writer, (size_t)(end - at));
	}
	return true;
}

/* Discards what was written. */
static void give_up(struct writer *writer)
{
	put_down(writer);
	for (uint32_t i = 0; i < ring.total && writer->kind == CARRIED; i++)
		if (ring.extents[i].state == CARRIED && ring.extents[i].last == UINT64_MAX)
			release(writer->file, i);
}

/* Drops the oldest extents. False: there are none, or there is no space for the carried-over
 * records. */
static bool drop_oldest(const struct gm_agent_ring_file *file, uint64_t now)
{
	uint32_t chosen[BATCH], old = atomic_load(&file->header->carried);
	uint32_t count = choose(chosen);
	struct gm_agent_carried carried;
	uint64_t beginning = 0, dropped = 0;
	if (!count || !gm_agent_carried_init(&carried))
		return false;
	for (uint32_t at = old; at && !carried.failed;) {
		struct gm_agent_extent_header *extent = file->map(file->context, at - 1);
		if (extent) {
			beginning = extent->beginning;
			dropped = extent->dropped;
			munmap(extent, GM_AGENT_EXTENT_SIZE);
		}
		uint32_t number = at - 1;
		at = 0;
		add_extent(&carried, file, number, NULL, &at);
	}
	carried.walked = 0;
	struct writer kept, writer = {.file = file, .kind = CARRIED};
	open_kept(&kept, file);
	for (uint32_t i = 0; i < count; i++)
		add_extent(&carried, file, chosen[i], &kept, NULL);
	if (kept.extent)
		ring.kept = kept.number + 1;
	put_down(&kept);
	if (carried.last + 1 > beginning)
		beginning = carried.last + 1;
	bool good =
	        !carried.failed && write_carried(&writer, &carried, least_left(chosen, count, now),
	                                   beginning, dropped + carried.walked);
	gm_agent_carried_deinit(&carried);
	if (!good) {
		give_up(&writer);
		return false;
	}
	put_down(&writer);
	atomic_store(&file->header->carried, writer.first);
	/* From here on nothing is read from the old ones. */
	for (uint32_t i = 0; i < ring.total; i++) {
		bool fresh = ring.extents[i].last == UINT64_MAX;
		if (ring.extents[i].state == CARRIED && !fresh)
			release(file, i);
		else if (ring.extents[i].state == CARRIED)
			ring.extents[i].last = 0;
	}
	for (uint32_t i = 0; i < count; i++)
		release(file, chosen[i]);
	ring.carried_count = writer.count;
	return true;
}

uint32_t gm_agent_ring_take(const struct gm_agent_ring_file *file, uint64_t first)
{
	while (count_free(file) <= RESERVE + ring.carried_count)
		if (!drop_oldest(file, first))
			return UINT32_MAX;
	uint32_t number = find_free(file);
	if (number != UINT32_MAX)
		ring.extents[number] = (struct extent){.first = first, .state = OWNED};
	return number;
}
