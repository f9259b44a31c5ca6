/*
 * Any bytes as a file of the agent: it is read or refused, and the log that it becomes can be
 * looked at; while its process writes on too. The first byte chooses: odd, the rest is the file's
 * bytes; even, it is put together to a header and extents of few bytes each, plain, of a ring, or
 * packed, as a file of less than a quarter of a MiB has none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/format.h"
#include "log/format.h"
#include "look_at_log.h"
#include "spool/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EXTENTS = 5, CHUNK_SHIFT = 13 /* of an extent's chunk in the one that has them all */ };
/* Bits of the first byte. */
enum { PLAIN = 1, RING = 2, OLD = 4, RUNS = 8, PACK = 16 };

/* Bytes of the input, zeros behind its end. */
struct input {
	const uint8_t *data;
	size_t size;
};

static void take(struct input *input, void *bytes, size_t size)
{
	size_t there = size < input->size ? size : input->size;
	memset(bytes, 0, size);
	if (there > 0)
		memcpy(bytes, input->data, there);
	input->data += there;
	input->size -= there;
}

static void put(int fd, const void *bytes, size_t size, off_t offset)
{
	if (pwrite(fd, bytes, size, offset) != (ssize_t)size)
		abort();
}

static off_t offset_of(uint32_t number)
{
	return GM_AGENT_HEADER_SIZE + (off_t)number * GM_AGENT_EXTENT_SIZE;
}

/* An extent's description; its records follow, `size` bytes of them. */
struct described {
	uint8_t kind, bits, thread, next;
	uint16_t size, sequence;
};
/* Bits of one. */
enum { FINISHED = 1, GONE = 2, PACKED = 4, FRAME = 8, OTHER_SIZE = 16, NO_MAGIC = 32 };

/* What is packed: a zstd frame of one block that is not compressed (RFC 8878, 3.1.1), or the
 * input's own bytes. */
static size_t frame_of(const uint8_t *records, uint32_t size, bool own, uint8_t *frame)
{
	if (own) {
		memcpy(frame, records, size);
		return size;
	}
	const uint32_t block = size << 3 | 1;
	memcpy(frame, "\x28\xb5\x2f\xfd\xa0", 5);
	memcpy(frame + 5, &size, 4);
	memcpy(frame + 9, &block, 3);
	memcpy(frame + 12, records, size);
	return 12 + size;
}

static void put_extent(int fd, uint32_t number, uint32_t chunks, struct input *input)
{
	struct described from;
	uint8_t bytes[2048], frame[sizeof(bytes) + 12];
	take(input, &from, sizeof(from));
	uint32_t size = from.size % sizeof(bytes);
	take(input, bytes, size);
	struct gm_agent_extent_header header = {
	        .magic = from.bits & NO_MAGIC ? 0 : GM_AGENT_EXTENT_MAGIC,
	        .committed = from.bits & OTHER_SIZE ? from.size * 4u : size,
	        .thread = from.thread,
	        .owner_gone = from.bits & GONE ? 1 : 0,
	        .first_sequence = from.sequence,
	        .kind = from.kind % 5,
	        .next = from.next % 8,
	        .finished = from.bits & FINISHED,
	        .beginning = from.sequence,
	        .dropped = from.thread};
	if (from.bits & PACKED) {
		struct gm_agent_packed chunk = {.extent = number, .size = header.committed};
		chunk.packed = (uint32_t)frame_of(bytes, size, from.bits & FRAME, frame);
		chunk.check = gm_log_crc(frame, chunk.packed);
		header.packed_in = chunks + 1;
		header.packed_at = GM_AGENT_EXTENT_HEADER + (number << CHUNK_SHIFT);
		put(fd, &chunk, sizeof(chunk), offset_of(chunks) + header.packed_at);
		put(fd, frame, chunk.packed,
		        offset_of(chunks) + header.packed_at + (off_t)sizeof(chunk));
	} else {
		put(fd, bytes, size, offset_of(number) + (off_t)sizeof(header));
	}
	put(fd, &header, sizeof(header), offset_of(number));
}

static void put_file(int fd, uint8_t choice, struct input *input)
{
	struct {
		uint8_t extents, state, carried, rank, features, limit;
		uint16_t lost;
	} shape;
	take(input, &shape, sizeof(shape));
	uint32_t count = 1 + shape.extents % EXTENTS;
	struct gm_agent_file_header header = {.magic = GM_AGENT_MAGIC,
	        .major = choice & OLD ? 1 : 2,
	        .minor = choice & OLD ? 2 : 1,
	        .header_size = GM_AGENT_HEADER_SIZE,
	        .extent_size = GM_AGENT_EXTENT_SIZE,
	        .pid = choice & RUNS ? (uint32_t)getpid() : 0,
	        .rank = shape.rank,
	        .id = 7,
	        .start_ns = UINT64_MAX / 2, /* its process began before */
	        .features = shape.features,
	        .state = choice & RUNS ? GM_AGENT_RUNS : shape.state % 16,
	        .extents = shape.limit ? count : UINT32_MAX,
	        .lost = shape.lost,
	        .last_sequence = shape.lost,
	        .carried = shape.carried % 8,
	        .ring = choice & RING ? count : 0};
	if (ftruncate(fd, offset_of(count + 1)) != 0)
		abort();
	for (uint32_t i = 0; i < count; i++)
		put_extent(fd, i, count, input);
	take(input, header.command, 32);
	put(fd, &header, sizeof(header), 0);
}

/* The number of events; UINT64_MAX: it was refused. */
static uint64_t import(const char *path)
{
	struct gm_log *log;
	struct gm_error *error = gm_spool_import(path, &log);
	if (error) {
		if (error->status != GM_CORRUPT)
			abort();
		gm_error_destroy(error);
		return UINT64_MAX;
	}
	look_at_all(log);
	uint64_t count = gm_log_event_count(log);
	gm_log_close(log);
	return count;
}

static void read_on(const char *path)
{
	struct gm_spool_live *live = NULL;
	struct gm_log *log = NULL;
	struct gm_error *error = gm_spool_live_open(path, &live, &log);
	bool ended = false;
	if (!error && live) {
		look_at_all(log);
		error = gm_spool_live_update(live, &ended);
		gm_error_destroy(gm_log_refresh(log));
		look_at_all(log);
		gm_log_close(log);
		gm_spool_live_close(live);
	}
	gm_error_destroy(error);
}

static void pack(const char *path)
{
	struct gm_spool_packer *packer;
	struct gm_error *error = gm_spool_packer_open(path, &packer);
	for (int i = 0; !error && packer && i < 3; i++)
		gm_spool_packer_step(packer);
	if (!error)
		gm_spool_packer_close(packer);
	gm_error_destroy(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	if (size == 0)
		return 0;
	if (fd < 0) {
		fd = memfd_create("spool", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	struct input input = {data + 1, size - 1};
	if (fd < 0 || ftruncate(fd, 0) != 0)
		abort();
	if (data[0] & PLAIN)
		put(fd, input.data, input.size, 0);
	else
		put_file(fd, data[0], &input);
	gm_spool_is(path);
	gm_spool_is_final(path);
	uint64_t count = import(path);
	if (data[0] & RUNS)
		read_on(path);
	if (!(data[0] & PACK))
		return 0;
	pack(path);
	if (import(path) != count && count != UINT64_MAX)
		abort();
	return 0;
}
