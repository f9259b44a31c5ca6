/*
 * Packs extents that no thread writes any more, within their file. If the process is killed at any
 * moment, nothing is lost: a chunk is written where nothing was, and is on the disk before the
 * extent refers to it; only then are the extent's own pages released. Of the pages that the program
 * has mapped, only the first of each extent is changed, in words that belong to the reader.
 *
 * Readers need not know when this happens: see gm_spool_extent.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "log/pack.h"
#include "spool/internal.h"

/* An offset without data of any recording, to test whether the file system can do it; within the
 * size of every file. */
enum { BEYOND_SHIFT = 39 };

struct gm_spool_packer {
	char *path;
	int fd;
	struct gm_agent_file_header *header; /* mapped */
	struct gm_packer *zstd;
	uint8_t *records;        /* of one extent */
	GM_ARRAY(bool) done;     /* by extent: packed, or there is nothing to pack */
	size_t from;             /* all extents before are done */
	uint32_t into;           /* number of the extent for chunks, plus 1; 0: none yet */
	uint32_t used;           /* bytes of it */
	uint64_t packed, gained; /* counts: extents; bytes of the disk */
};

static off_t offset_of(uint32_t number)
{
	return GM_AGENT_HEADER_SIZE + (off_t)number * GM_AGENT_EXTENT_SIZE;
}

static bool punch(int fd, off_t from, off_t size)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, size) == 0;
}

void gm_spool_packer_close(struct gm_spool_packer *packer)
{
	if (!packer)
		return;
	gm_mapped_file_close((const uint8_t *)packer->header, GM_AGENT_HEADER_SIZE);
	if (packer->fd >= 0)
		close(packer->fd);
	gm_packer_destroy(packer->zstd);
	gm_array_deinit(&packer->done);
	free(packer->records);
	free(packer->path);
	free(packer);
}

/* Whether there is something to do: the file has this format and is complete, no other process
 * packs it, and its file system can punch holes. */
static bool fits(struct gm_spool_packer *packer)
{
	struct stat status;
	struct gm_agent_file_header header;
	if (fstat(packer->fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	        status.st_size < GM_AGENT_HEADER_SIZE ||
	        pread(packer->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return false;
	if (memcmp(header.magic, GM_AGENT_MAGIC, sizeof(header.magic)) != 0 ||
	        header.major != GM_AGENT_MAJOR || header.ring ||
	        header.header_size != GM_AGENT_HEADER_SIZE ||
	        header.extent_size != GM_AGENT_EXTENT_SIZE)
		return false;
	return flock(packer->fd, LOCK_EX | LOCK_NB) == 0 &&
	       punch(packer->fd, (off_t)1 << BEYOND_SHIFT, GM_AGENT_PAGE);
}

struct gm_error *gm_spool_packer_open(const char *path, struct gm_spool_packer **ret_packer)
{
	struct gm_spool_packer *packer = calloc(1, sizeof(*packer));
	*ret_packer = NULL;
	if (!packer)
		return &gm_error_no_memory;
	packer->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct gm_error *error = NULL;
	if (packer->fd < 0)
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be packed", path);
	else if (fits(packer)) {
		packer->header =
		        (void *)gm_mapped_file_open_shared(packer->fd, 0, GM_AGENT_HEADER_SIZE);
		packer->path = strdup(path);
		packer->zstd = gm_packer_create();
		packer->records = malloc(GM_AGENT_RECORD_MAX);
		if (packer->header && packer->path && packer->zstd && packer->records) {
			*ret_packer = packer;
			return NULL;
		}
		error = &gm_error_no_memory;
	}
	gm_spool_packer_close(packer);
	return error;
}

/* Allocates an extent of the file for chunks. Nobody has touched its bytes, so they take no space
 * before they are written. */
static bool take_extent(struct gm_spool_packer *packer)
{
	uint32_t number = atomic_load(&packer->header->extents);
	while (!atomic_compare_exchange_weak(&packer->header->extents, &number, number + 1))
		;
	const struct gm_agent_extent_header header = {
	        .magic = GM_AGENT_EXTENT_MAGIC, .kind = GM_AGENT_PACKED, .finished = 1};
	off_t offset = offset_of(number);
	/* its last byte: gives the file the full size */
	if (pwrite(packer->fd, "", 1, offset + GM_AGENT_EXTENT_SIZE - 1) != 1 ||
	        pwrite(packer->fd, &header, sizeof(header), offset) != (ssize_t)sizeof(header)) {
		/* this is tried again and again while the disk is full: the extent is given back,
		 * unless the program has taken the next one */
		uint32_t next = number + 1;
		atomic_compare_exchange_strong(&packer->header->extents, &next, number);
		return false;
	}
	packer->into = number + 1;
	packer->used = GM_AGENT_EXTENT_HEADER;
	return true;
}

/* Writes the chunk to the disk. False: probably the disk is full. */
static bool write_chunk(struct gm_spool_packer *packer, uint32_t number, uint32_t size,
        const uint8_t *packed, size_t packed_size)
{
	const struct gm_agent_packed chunk = {
	        number, size, (uint32_t)packed_size, gm_log_crc(packed, packed_size)};
	size_t whole = sizeof(chunk) + packed_size;
	if ((!packer->into || whole > GM_AGENT_EXTENT_SIZE - packer->used) && !take_extent(packer))
		return false;
	off_t offset = offset_of(packer->into - 1) + packer->used;
	return pwrite(packer->fd, &chunk, sizeof(chunk), offset) == (ssize_t)sizeof(chunk) &&
	       pwrite(packer->fd, packed, packed_size, offset + (off_t)sizeof(chunk)) ==
	               (ssize_t)packed_size &&
	       sync_file_range(packer->fd, offset, (off_t)whole,
	               SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	                       SYNC_FILE_RANGE_WAIT_AFTER) == 0;
}

static void give_back(struct gm_spool_packer *packer, uint32_t number)
{
	if (punch(packer->fd, offset_of(number) + GM_AGENT_PAGE,
	            GM_AGENT_EXTENT_SIZE - GM_AGENT_PAGE))
		packer->gained += GM_AGENT_EXTENT_SIZE - GM_AGENT_PAGE;
}

/* Packs one extent; *ret_done: nothing is left to do with it. False: no chunk can be written. */
static bool pack(struct gm_spool_packer *packer, uint32_t number,
        struct gm_agent_extent_header *extent, bool *ret_done)
{
	uint32_t size = atomic_load_explicit(&extent->committed, memory_order_acquire);
	size_t packed_size;
	*ret_done = true;
	if (atomic_load(&extent->packed_in)) { /* the process that did it may have been killed
		                                  before this */
		give_back(packer, number);
		return true;
	}
	if (size < GM_AGENT_PAGE || size > GM_AGENT_RECORD_MAX ||
	        pread(packer->fd, packer->records, size,
	                offset_of(number) + GM_AGENT_EXTENT_HEADER) != (ssize_t)size)
		return true;
	const uint8_t *packed = gm_packer_pack(packer->zstd, packer->records, size, &packed_size);
	if (!packed)
		return true;
	if (!write_chunk(packer, number, size, packed, packed_size)) {
		*ret_done = false;
		return false;
	}
	extent->packed_at = packer->used;
	atomic_store_explicit(&extent->packed_in, packer->into, memory_order_release);
	packer->used += (uint32_t)((sizeof(struct gm_agent_packed) + packed_size + 7) & ~(size_t)7);
	packer->packed++;
	give_back(packer, number);
	return true;
}

/* False: the same. */
static bool look_at(struct gm_spool_packer *packer, uint32_t number, bool *ret_done)
{
	struct stat status;
	*ret_done = false;
	if (fstat(packer->fd, &status) != 0 ||
	        status.st_size < offset_of(number) + GM_AGENT_EXTENT_SIZE)
		return true;
	uint8_t *page = gm_mapped_file_open_shared(packer->fd, offset_of(number), GM_AGENT_PAGE);
	struct gm_agent_extent_header *extent = (void *)page;
	if (!page)
		return false;
	bool good = true;
	if (extent->magic == GM_AGENT_EXTENT_MAGIC) {
		if (extent->kind != GM_AGENT_EVENTS)
			*ret_done = true;
		else if (atomic_load_explicit(&extent->finished, memory_order_acquire))
			good = pack(packer, number, extent, ret_done);
	}
	gm_mapped_file_close(page, GM_AGENT_PAGE);
	return good;
}

bool gm_spool_packer_step(struct gm_spool_packer *packer)
{
	uint32_t extents = atomic_load(&packer->header->extents);
	while (packer->done.count < extents)
		if (!gm_array_push(&packer->done, false))
			return false;
	for (size_t i = packer->from; i < extents; i++) {
		bool *done = &packer->done.items[i];
		if (!*done && !look_at(packer, (uint32_t)i, done))
			return false;
		if (*done && i == packer->from)
			packer->from++;
	}
	return true;
}

void gm_spool_packer_count(
        const struct gm_spool_packer *packer, uint64_t *ret_extents, uint64_t *ret_bytes)
{
	*ret_extents = packer->packed;
	*ret_bytes = packer->gained;
}

bool gm_spool_packer_runs(const struct gm_spool_packer *packer)
{
	struct stat ours, there;
	return packer->header->state <= GM_AGENT_EXITED && fstat(packer->fd, &ours) == 0 &&
	       stat(packer->path, &there) == 0 && ours.st_dev == there.st_dev &&
	       ours.st_ino == there.st_ino;
}
