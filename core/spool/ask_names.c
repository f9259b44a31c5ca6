/*
 * The reader's side of names (agent/format.h, enum gm_agent_names): waits until the program asks,
 * reads the names, and writes them into new extents of the file, in the same way as packing does.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "spool/internal.h"

struct gm_spool_asked {
	char *path;
	int fd;
	struct gm_agent_file_header *header; /* mapped */
};

void gm_spool_asked_close(struct gm_spool_asked *asked)
{
	if (!asked)
		return;
	if (asked->header) {
		gm_spool_asked_go_on(asked);
		gm_mapped_file_close((const uint8_t *)asked->header, GM_AGENT_HEADER_SIZE);
	}
	if (asked->fd >= 0)
		close(asked->fd);
	free(asked->path);
	free(asked);
}

static bool fits(int fd)
{
	struct stat status;
	struct gm_agent_file_header header;
	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       status.st_size >= GM_AGENT_HEADER_SIZE &&
	       pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       memcmp(header.magic, GM_AGENT_MAGIC, sizeof(header.magic)) == 0 &&
	       header.major == GM_AGENT_MAJOR && header.minor >= GM_AGENT_MINOR && !header.ring &&
	       header.header_size == GM_AGENT_HEADER_SIZE &&
	       header.extent_size == GM_AGENT_EXTENT_SIZE && header.state == GM_AGENT_RUNS;
}

struct gm_error *gm_spool_asked_open(const char *path, struct gm_spool_asked **ret_asked)
{
	struct gm_spool_asked *asked = calloc(1, sizeof(*asked));
	*ret_asked = NULL;
	if (!asked)
		return &gm_error_no_memory;
	asked->path = strdup(path);
	asked->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct gm_error *error = asked->path ? NULL : &gm_error_no_memory;
	if (!error && asked->fd < 0)
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", path);
	uint8_t *header = NULL;
	if (!error && fits(asked->fd))
		header = gm_mapped_file_open_shared(asked->fd, 0, GM_AGENT_HEADER_SIZE);
	if (!header) {
		gm_spool_asked_close(asked);
		return error;
	}
	asked->header = (void *)header;
	uint32_t none = GM_AGENT_NAMES_NONE;
	atomic_store(&asked->header->names_reader, (uint32_t)getpid());
	atomic_compare_exchange_strong(&asked->header->names, &none, GM_AGENT_NAMES_WANTED);
	*ret_asked = asked;
	return NULL;
}

enum gm_spool_asked_state gm_spool_asked_wait(struct gm_spool_asked *asked, unsigned milliseconds)
{
	const struct timespec time = {
	        .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
	uint32_t state = atomic_load(&asked->header->names);
	if (state < GM_AGENT_NAMES_ASKED) {
		syscall(SYS_futex, &asked->header->names, FUTEX_WAIT, state, &time, NULL, 0);
		state = atomic_load(&asked->header->names);
	}
	if (state == GM_AGENT_NAMES_ASKED && atomic_compare_exchange_strong(&asked->header->names,
	                                             &state, GM_AGENT_NAMES_READING))
		return GM_SPOOL_ASKED;
	return state < GM_AGENT_NAMES_ASKED && asked->header->state == GM_AGENT_RUNS
	               ? GM_SPOOL_ASKED_NOT
	               : GM_SPOOL_ASKED_OVER;
}

uint64_t gm_spool_asked_sequence_at(const struct gm_spool_asked *asked)
{
	return asked->header->sequence_at;
}

void gm_spool_asked_go_on(struct gm_spool_asked *asked)
{
	atomic_store(&asked->header->names, GM_AGENT_NAMES_DONE);
	syscall(SYS_futex, &asked->header->names, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* An extent in progress, in memory. */
struct extent {
	uint8_t bytes[GM_AGENT_EXTENT_SIZE];
	size_t used; /* of its records */
};

static uint8_t *put_record(
        uint8_t *at, enum gm_agent_record kind, const uint8_t *payload, size_t size)
{
	at = gm_put_varint(at, kind);
	at = gm_put_varint(at, size);
	memcpy(at, payload, size);
	return at + size;
}

static void append(
        struct extent *extent, enum gm_agent_record kind, const uint8_t *payload, size_t size)
{
	uint8_t *at = extent->bytes + GM_AGENT_EXTENT_HEADER + extent->used;
	extent->used += (size_t)(put_record(at, kind, payload, size) - at);
}

static void begin(struct extent *extent, uint64_t sequence)
{
	uint8_t payload[16];
	extent->used = 0;
	append(extent, GM_AGENT_NAMED, payload,
	        (size_t)(gm_put_varint(payload, sequence) - payload));
}

/* The size that makes it valid is written last: a reader finds the extent either empty or complete.
 * */
static struct gm_error *finish(struct gm_spool_asked *asked, struct extent *extent)
{
	uint32_t number = atomic_load(&asked->header->extents);
	while (!atomic_compare_exchange_weak(&asked->header->extents, &number, number + 1))
		;
	const struct gm_agent_extent_header header = {.magic = GM_AGENT_EXTENT_MAGIC,
	        .committed = (uint32_t)extent->used,
	        .kind = GM_AGENT_NAMES,
	        .finished = 1};
	off_t offset = GM_AGENT_HEADER_SIZE + (off_t)number * GM_AGENT_EXTENT_SIZE;
	/* its last byte: gives the file the full size */
	if (pwrite(asked->fd, "", 1, offset + GM_AGENT_EXTENT_SIZE - 1) != 1 ||
	        pwrite(asked->fd, extent->bytes + GM_AGENT_EXTENT_HEADER, extent->used,
	                offset + GM_AGENT_EXTENT_HEADER) != (ssize_t)extent->used ||
	        pwrite(asked->fd, &header, sizeof(header), offset) != (ssize_t)sizeof(header))
		return gm_error_os(GM_TARGET, errno, "%s: no room for names", asked->path);
	return NULL;
}

struct gm_error *gm_spool_asked_write(struct gm_spool_asked *asked, uint64_t sequence,
        const struct gm_spool_name *names, size_t count)
{
	enum { RECORD_MOST = GM_LOG_NAME_MAX + 128 };
	uint8_t payload[RECORD_MOST];
	_cleanup_free_ struct extent *extent = calloc(1, sizeof(*extent));
	if (!extent)
		return &gm_error_no_memory;
	begin(extent, sequence);
	for (size_t i = 0; i < count; i++) {
		const struct gm_spool_name *name = &names[i];
		size_t length = strnlen(name->name, GM_LOG_NAME_MAX);
		uint8_t *at = gm_put_varint(payload, name->kind);
		at = gm_put_varint(at, name->device_type);
		at = gm_put_varint(at, gm_zigzag(name->device));
		at = gm_put_varint(at, name->address);
		at = gm_put_varint(at, name->offset);
		at = gm_put_varint(at, name->size);
		at = gm_put_varint(at, length);
		memcpy(at, name->name, length);
		if (GM_AGENT_RECORD_MAX - extent->used < RECORD_MOST) {
			gm_try(finish(asked, extent));
			begin(extent, sequence);
		}
		append(extent, GM_AGENT_NAME, payload, (size_t)(at - payload) + length);
	}
	return finish(asked, extent);
}
