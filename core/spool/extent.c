/* The records of an extent: directly from the file, or unpacked from the chunk that the extent
 * refers to. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/pack.h"
#include "spool/internal.h"

static uint64_t offset_of(uint32_t number)
{
	return GM_AGENT_HEADER_SIZE + (uint64_t)number * GM_AGENT_EXTENT_SIZE;
}

const struct gm_agent_extent_header *gm_spool_extent_header(
        const struct gm_spool_file *file, uint32_t number)
{
	return (const void *)(file->bytes + offset_of(number));
}

bool gm_spool_may_be_packed(const struct gm_spool_file *file)
{
	return file->header.major >= 2 && !file->header.ring;
}

static struct gm_error *damaged(
        const struct gm_spool_file *file, uint64_t offset, const char *reason)
{
	return gm_error_at_offset(
	        gm_error_create(GM_CORRUPT, "%s: offset %ju: %s: the file is damaged", file->path,
	                (uintmax_t)offset, reason),
	        file->path, offset);
}

struct gm_error *gm_spool_extent_size(
        const struct gm_spool_file *file, uint32_t number, uint32_t *ret_size)
{
	const struct gm_agent_extent_header *extent = gm_spool_extent_header(file, number);
	uint32_t committed = atomic_load_explicit(&extent->committed, memory_order_acquire);
	*ret_size = 0;
	/* allocated but not begun; used by ring.c; or read through other extents */
	if ((extent->magic == 0 && committed == 0) || extent->kind == GM_AGENT_CARRIED ||
	        extent->kind == GM_AGENT_PACKED)
		return NULL;
	if (extent->magic != GM_AGENT_EXTENT_MAGIC || committed > GM_AGENT_RECORD_MAX)
		return damaged(file, offset_of(number), "not an extent of a recording");
	*ret_size = committed;
	return NULL;
}

/* Reads the chunk that an extent's packed_in refers to; the buffer has GM_AGENT_EXTENT_SIZE bytes.
 * */
static struct gm_error *read_chunk(const struct gm_spool_file *file, uint32_t number,
        uint32_t packed_in, struct gm_agent_packed *ret_chunk, uint8_t *ret_bytes)
{
	uint32_t at = gm_spool_extent_header(file, number)->packed_at;
	off_t offset = (off_t)(offset_of(packed_in - 1) + at);
	if (at < GM_AGENT_EXTENT_HEADER || pread(file->fd, ret_chunk, sizeof(*ret_chunk), offset) !=
	                                           (ssize_t)sizeof(*ret_chunk))
		return damaged(file, offset_of(number), "its packed records are missing");
	if (ret_chunk->extent != number || ret_chunk->packed > GM_AGENT_EXTENT_SIZE ||
	        pread(file->fd, ret_bytes, ret_chunk->packed, offset + (off_t)sizeof(*ret_chunk)) !=
	                (ssize_t)ret_chunk->packed ||
	        gm_log_crc(ret_bytes, ret_chunk->packed) != ret_chunk->check)
		return damaged(file, (uint64_t)offset, "not the packed records of an extent");
	return NULL;
}

/* Unpacks the records of an extent into `to`; their size must be `size`. */
static struct gm_error *unpack(const struct gm_spool_file *file, uint32_t number,
        uint32_t packed_in, uint32_t size, uint8_t *to)
{
	struct gm_agent_packed chunk = {0};
	_cleanup_free_ uint8_t *bytes = malloc(GM_AGENT_EXTENT_SIZE);
	struct gm_unpacked unpacked = {0};
	bool no_memory = !bytes;
	if (no_memory)
		return &gm_error_no_memory;
	gm_try(read_chunk(file, number, packed_in, &chunk, bytes));
	const char *reason = gm_unpack(bytes, chunk.packed, &unpacked, &no_memory);
	if (!reason && (unpacked.size != size || chunk.size != size))
		reason = "its packed records have another length";
	if (!reason)
		memcpy(to, unpacked.bytes, size);
	gm_unpacked_deinit(&unpacked);
	if (no_memory)
		return &gm_error_no_memory;
	return reason ? damaged(file, offset_of(number), reason) : NULL;
}

struct gm_error *gm_spool_extent_read_on(const struct gm_spool_file *file, uint32_t number,
        uint8_t *memory, uint32_t *size, bool *ret_finished)
{
	const struct gm_agent_extent_header *extent = gm_spool_extent_header(file, number);
	const uint8_t *records = (const uint8_t *)extent + GM_AGENT_EXTENT_HEADER;
	bool finished = atomic_load_explicit(&extent->finished, memory_order_acquire);
	uint32_t committed;
	gm_try(gm_spool_extent_size(file, number, &committed));
	*ret_finished = finished && committed > 0;
	if (committed <= *size)
		return NULL;
	bool may = gm_spool_may_be_packed(file);
	uint32_t packed_in =
	        may ? atomic_load_explicit(&extent->packed_in, memory_order_acquire) : 0;
	if (!packed_in) { /* otherwise the pages do not exist: on a tmpfs reading them would
		             allocate some */
		memcpy(memory + *size, records + *size, committed - *size);
		atomic_thread_fence(memory_order_acquire);
		packed_in = may ? atomic_load(&extent->packed_in) : 0;
	}
	if (packed_in)
		gm_try(unpack(file, number, packed_in, committed, memory));
	*size = committed;
	return NULL;
}

struct gm_error *gm_spool_extent_open(
        const struct gm_spool_file *file, uint32_t number, struct gm_spool_extent *ret_extent)
{
	const struct gm_agent_extent_header *header = gm_spool_extent_header(file, number);
	struct gm_spool_extent extent = {.thread = header->thread};
	uint32_t size, read = 0;
	bool finished;
	*ret_extent = extent;
	gm_try(gm_spool_extent_size(file, number, &size));
	if (!header->magic || (header->kind >= GM_AGENT_CARRIED && header->kind != GM_AGENT_NAMES))
		return NULL;
	extent.records.at = (const uint8_t *)header + GM_AGENT_EXTENT_HEADER;
	extent.records.size = size;
	if (gm_spool_may_be_packed(file)) {
		extent.memory = malloc(GM_AGENT_RECORD_MAX);
		if (!extent.memory)
			return &gm_error_no_memory;
		struct gm_error *error =
		        gm_spool_extent_read_on(file, number, extent.memory, &read, &finished);
		if (error) {
			free(extent.memory);
			return error;
		}
		extent.records = (struct gm_bytes){extent.memory, read};
	}
	*ret_extent = extent;
	return NULL;
}

struct gm_error *gm_spool_extent_events(
        const struct gm_spool_file *file, uint32_t number, struct gm_spool_extent *ret_extent)
{
	gm_try(gm_spool_extent_open(file, number, ret_extent));
	uint32_t limit = number < file->limited ? file->limits[number] : 0;
	if (ret_extent->records.size > limit)
		ret_extent->records.size = limit;
	return NULL;
}

/* Bytes of an extent up to its first hole; *data_end: there is none before. */
static uint64_t data_of(const struct gm_spool_file *file, uint32_t number, uint64_t *data_end)
{
	uint64_t begin = offset_of(number), end = begin + GM_AGENT_EXTENT_SIZE;
	if (*data_end < end) {
		off_t hole = lseek(file->fd, (off_t)begin, SEEK_HOLE);
		*data_end = hole < 0 ? UINT64_MAX : (uint64_t)hole; /* it cannot tell */
	}
	return *data_end < end ? *data_end - begin : GM_AGENT_EXTENT_SIZE;
}

uint64_t gm_spool_records_size(const struct gm_spool_file *file)
{
	uint64_t plain = 0, packed = 0, chunks = 0, data_end = 0;
	struct stat status;
	for (uint32_t i = 0; i < file->extents; i++) {
		const struct gm_agent_extent_header *extent = gm_spool_extent_header(file, i);
		/* first: packing stores `packed_in`, and then makes the hole */
		uint64_t data = data_of(file, i, &data_end);
		atomic_thread_fence(memory_order_acquire);
		uint64_t committed = extent->committed;
		if (extent->kind == GM_AGENT_PACKED)
			chunks += data;
		else if (extent->packed_in && gm_spool_may_be_packed(file))
			packed += committed < GM_AGENT_RECORD_MAX ? committed : GM_AGENT_RECORD_MAX;
		else
			plain += committed < data ? committed : data;
	}
	/* packing may have added some since, fewer than it packs */
	uint64_t size = fstat(file->fd, &status) == 0 ? (uint64_t)status.st_size : 0;
	for (uint64_t i = file->extents;
	        i < 2 * (uint64_t)file->extents + 64 && offset_of((uint32_t)i + 1) <= size; i++)
		chunks += data_of(file, (uint32_t)i, &data_end);
	return plain + (packed < chunks * GM_PACK_MOST ? packed : chunks * GM_PACK_MOST);
}

void gm_spool_extent_close(struct gm_spool_extent *extent)
{
	free(extent->memory);
	*extent = (struct gm_spool_extent){0};
}
