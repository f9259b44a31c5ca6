#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "base/regular_file.h"
#include "spool/internal.h"

bool gm_spool_is(const char *path)
{
	_cleanup_close_ int fd = gm_regular_file_open(path);
	char magic[8];
	return fd >= 0 && pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       memcmp(magic, GM_AGENT_MAGIC, sizeof(magic)) == 0;
}

struct gm_error *gm_spool_check(struct gm_spool_file *file)
{
	const struct gm_agent_file_header *header = &file->header;
	memcpy(&file->header, file->bytes, sizeof(file->header));
	if (memcmp(header->magic, GM_AGENT_MAGIC, sizeof(header->magic)) != 0)
		return gm_error_at_offset(
		        gm_error_create(GM_CORRUPT,
		                "%s: offset 0: not a file of gpumem's agent: name a recording",
		                file->path),
		        file->path, 0);
	if (header->major > GM_AGENT_MAJOR)
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: its format is %u.%u, newer than this gpumem, which reads %d: "
		                "read it "
		                "with the gpumem "
		                "that recorded it",
		                file->path, header->major, header->minor, GM_AGENT_MAJOR),
		        file->path);
	if (header->header_size != GM_AGENT_HEADER_SIZE ||
	        header->extent_size != GM_AGENT_EXTENT_SIZE)
		return gm_error_at_offset(
		        gm_error_create(GM_CORRUPT,
		                "%s: offset 12: sizes of header and extents (%u, %u) are not those "
		                "of the "
		                "format: the file "
		                "is damaged",
		                file->path, header->header_size, header->extent_size),
		        file->path, offsetof(struct gm_agent_file_header, header_size));
	file->header.command[sizeof(header->command) - 1] = 0;
	uint64_t whole = (file->size - GM_AGENT_HEADER_SIZE) / GM_AGENT_EXTENT_SIZE;
	file->extents = header->extents < whole ? header->extents : (uint32_t)whole;
	return NULL;
}

void gm_spool_source(const struct gm_spool_file *file, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%s", file->header.command);
	size_t used = strlen(ret_text);
	if (file->header.parent)
		snprintf(ret_text + used, size - used, " [forked by process %u]",
		        file->header.parent);
}

bool gm_spool_is_final(const char *path)
{
	struct gm_agent_file_header header;
	_cleanup_close_ int fd = gm_regular_file_open(path);
	return fd >= 0 && pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       header.state != GM_AGENT_RUNS && !gm_spool_runs(&header);
}

/*
 * Packing leaves holes. On a tmpfs, reading a hole through a mapping allocates a page, and if the
 * disk is full the reader gets SIGBUS. So zero pages of our own are mapped there.
 */
static void fill_holes(uint8_t *bytes, off_t size, int fd)
{
	struct statfs system;
	if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
		return;
	for (off_t at = 0; at < size;) {
		off_t hole = lseek(fd, at, SEEK_HOLE);
		if (hole < 0 || hole >= size)
			return;
		off_t data = lseek(fd, hole, SEEK_DATA); /* -1: no more */
		at = data < 0 || data > size ? size : data;
		off_t from = (hole + GM_AGENT_PAGE - 1) / GM_AGENT_PAGE * GM_AGENT_PAGE;
		if (from < at && mmap(bytes + from, (size_t)(at - from), PROT_READ,
		                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		                         -1, 0) == MAP_FAILED)
			return; /* then the file system decides */
	}
}

static void unmap(struct gm_spool_file *file)
{
	if (file->mapped)
		gm_mapped_file_close(file->bytes, file->mapped);
	else if (file->bytes)
		munmap((void *)(uintptr_t)file->bytes, file->size);
	file->bytes = NULL;
	file->mapped = 0;
}

static struct gm_error *map(struct gm_spool_file *file, int fd)
{
	struct stat status;
	if (fstat(fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", file->path);
	if (status.st_size < GM_AGENT_HEADER_SIZE)
		return gm_error_create(GM_CORRUPT,
		        "%s: %jd bytes are less than the header of a recording: the file is "
		        "truncated",
		        file->path, (intmax_t)status.st_size);
	const uint8_t *bytes = gm_mapped_file_open(fd, (size_t)status.st_size);
	if (!bytes)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be mapped", file->path);
	fill_holes((uint8_t *)(uintptr_t)bytes, status.st_size, fd);
	unmap(file);
	file->bytes = bytes;
	file->size = file->mapped = (size_t)status.st_size;
	return gm_spool_check(file);
}

bool gm_spool_was_cut(const struct gm_spool_file *file)
{
	struct stat status;
	return fstat(file->fd, &status) == 0 && (uint64_t)status.st_size < file->size;
}

static struct gm_error *open_file(struct gm_spool_file *file)
{
	file->fd = gm_regular_file_open(file->path);
	if (file->fd < 0 && errno == EINVAL)
		return gm_error_create(GM_CORRUPT, "%s: cannot be read: %s", file->path,
		        gm_regular_file_why(errno));
	if (file->fd < 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", file->path);
	gm_try(map(file, file->fd));
	if (file->header.ring) {
		const uint8_t *copy;
		gm_try(gm_spool_ring_copy(file, &copy));
		unmap(file);
		file->bytes = copy;
		return NULL;
	}
	file->limits = calloc(file->extents + 1u, sizeof(*file->limits));
	if (!file->limits)
		return &gm_error_no_memory;
	for (uint32_t i = 0; i < file->extents; i++)
		gm_try(gm_spool_extent_size(file, i, &file->limits[i]));
	file->limited = file->extents;
	return map(file, file->fd);
}

struct gm_error *gm_spool_open(const char *path, struct gm_spool_file *ret_file)
{
	*ret_file = (struct gm_spool_file){.path = path, .fd = -1};
	struct gm_error *error = open_file(ret_file);
	if (error)
		gm_spool_close(ret_file);
	return error;
}

void gm_spool_close(struct gm_spool_file *file)
{
	unmap(file);
	if (file->fd >= 0)
		close(file->fd);
	free(file->limits);
	file->fd = -1;
	file->limits = NULL;
}
