/* Files of the agent made in a test: a header, and extents of which each record is put by hand. */
#ifndef GM_TESTS_SPOOL_FILE_H
#define GM_TESTS_SPOOL_FILE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/format.h"
#include "base/varint.h"

struct spool_file {
	char path[64];
	int fd;
	uint32_t extents;
};

static inline off_t spool_offset(uint32_t number)
{
	return GM_AGENT_HEADER_SIZE + (off_t)number * GM_AGENT_EXTENT_SIZE;
}

static inline void spool_write(
        const struct spool_file *file, const void *bytes, size_t size, off_t at)
{
	if (pwrite(file->fd, bytes, size, at) != (ssize_t)size)
		abort();
}

/* Of this process, which records from now on. */
static inline struct gm_agent_file_header spool_header(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct gm_agent_file_header header = {.magic = GM_AGENT_MAGIC,
	        .major = GM_AGENT_MAJOR,
	        .minor = GM_AGENT_MINOR,
	        .header_size = GM_AGENT_HEADER_SIZE,
	        .extent_size = GM_AGENT_EXTENT_SIZE,
	        .pid = (uint32_t)getpid(),
	        .rank = UINT32_MAX,
	        .id = 7,
	        .start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec};
	return header;
}

static inline void spool_begin(struct spool_file *file, enum gm_agent_end state)
{
	struct gm_agent_file_header header = spool_header();
	header.state = state;
	*file = (struct spool_file){0};
	strcpy(file->path, "/tmp/gpumem-test-spool-XXXXXX");
	file->fd = mkstemp(file->path);
	if (file->fd < 0 || ftruncate(file->fd, GM_AGENT_HEADER_SIZE) != 0)
		abort();
	spool_write(file, &header, sizeof(header), 0);
}

static inline void spool_end(struct spool_file *file)
{
	close(file->fd);
	unlink(file->path);
}

/* An extent in the making. */
struct spool_extent {
	uint8_t bytes[GM_AGENT_EXTENT_SIZE];
	uint8_t *at;
	uint64_t last; /* the number of its last event */
	uint32_t number;
};

static inline void spool_extent_begin(struct spool_file *file, struct spool_extent *extent,
        uint32_t thread, uint64_t first_sequence)
{
	memset(extent, 0, sizeof(*extent));
	struct gm_agent_extent_header header = {
	        .magic = GM_AGENT_EXTENT_MAGIC, .thread = thread, .first_sequence = first_sequence};
	memcpy(extent->bytes, &header, sizeof(header));
	extent->at = extent->bytes + GM_AGENT_EXTENT_HEADER;
	extent->number = file->extents++;
}

/* Its records so far are in the file. */
static inline void spool_extent_commit(struct spool_file *file, struct spool_extent *extent)
{
	struct gm_agent_extent_header *header = (void *)extent->bytes;
	header->committed = (uint32_t)(extent->at - extent->bytes - GM_AGENT_EXTENT_HEADER);
	spool_write(file, extent->bytes, sizeof(extent->bytes), spool_offset(extent->number));
	spool_write(file, &file->extents, sizeof(file->extents),
	        offsetof(struct gm_agent_file_header, extents));
}

static inline void spool_put(
        struct spool_extent *extent, enum gm_agent_record kind, const void *payload, size_t size)
{
	extent->at = gm_put_varint(extent->at, kind);
	extent->at = gm_put_varint(extent->at, size);
	memcpy(extent->at, payload, size);
	extent->at += size;
}

static inline void spool_put_mark(
        struct spool_extent *extent, enum gm_agent_mark kind, const char *name)
{
	uint8_t payload[128], *at = gm_put_varint(payload, kind);
	at = gm_put_varint(at, strlen(name));
	memcpy(at, name, strlen(name));
	spool_put(extent, GM_AGENT_MARK, payload, (size_t)(at - payload) + strlen(name));
}

/* An allocation on the CPU of as many bytes as the event's number, at its own address. */
static inline void spool_put_event(struct spool_extent *extent, uint64_t sequence)
{
	const uint32_t bits = GM_AGENT_HAS_SEQUENCE | GM_AGENT_HAS_DEVICE;
	uint8_t *at = extent->at;
	*at++ = 0x80 | GM_AGENT_ALLOC;
	*at++ = (uint8_t)bits;
	*at++ = (uint8_t)(bits >> 8);
	at = gm_put_varint(at, gm_zigzag((int64_t)(sequence - extent->last)));
	at = gm_put_varint(at, gm_zigzag((int64_t)(sequence - extent->last) * 4096));
	at = gm_put_varint(at, sequence);
	at = gm_put_varint(at, sequence - extent->last - 1);
	at = gm_put_varint(at, 0); /* the CPU */
	at = gm_put_varint(at, gm_zigzag(0));
	extent->last = sequence;
	extent->at = at;
}

#endif
