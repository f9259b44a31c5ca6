#include "image/core_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/mapped_file.h"
#include "image/page_cache.h"

/* --- is it the same file? --------------------------------------------------------------------- */

/* The first mapping of a file in the core, as far as its bytes were saved. */
struct saved_start {
	const struct gm_core_file *core;
	const struct gm_core_segment *segment;
	uint64_t skip; /* from the segment's start to the mapping's */
};

static bool find_start(
        const struct gm_core_file *core, const char *path, struct saved_start *ret_start)
{
	for (size_t i = 0; i < core->mapped_count; i++) {
		const struct gm_core_mapped *mapped = &core->mapped[i];
		if (mapped->file_offset != 0 || strcmp(mapped->path, path) != 0)
			continue;
		const struct gm_core_segment *segment = gm_core_file_segment(core, mapped->start);
		if (!segment || segment->present <= mapped->start - segment->start)
			continue;
		*ret_start = (struct saved_start){core, segment, mapped->start - segment->start};
		return true;
	}
	return false;
}

static bool core_bytes(void *context, uint64_t offset, void *buffer, size_t size)
{
	const struct saved_start *start = context;
	uint64_t there = start->segment->present - start->skip;
	return offset <= there && size <= there - offset &&
	       gm_core_file_read(
	               start->core, start->segment->offset + start->skip + offset, buffer, size);
}

static bool disk_bytes(void *context, uint64_t offset, void *buffer, size_t size)
{
	return offset <= INT64_MAX &&
	       pread(*(int *)context, buffer, size, (off_t)offset) == (ssize_t)size;
}

static bool same_first_page(struct saved_start *start, int fd)
{
	uint8_t ours[GM_PAGE_SIZE], theirs[GM_PAGE_SIZE];
	ssize_t size = pread(fd, ours, sizeof(ours), 0);
	return size > 0 && core_bytes(start, 0, theirs, (size_t)size) &&
	       memcmp(ours, theirs, (size_t)size) == 0;
}

static enum gm_file_state compare(
        const struct gm_core_file *core, struct gm_disk_file *file, int fd)
{
	struct saved_start start;
	if (!find_start(core, file->path, &start))
		return GM_FILE_UNKNOWN;
	file->core.size = file->disk.size = 0;
	bool known = gm_build_id_read(core_bytes, &start, &file->core);
	if (gm_build_id_read(disk_bytes, &fd, &file->disk) && known)
		return gm_build_id_equal(&file->core, &file->disk) ? GM_FILE_SAME
		                                                   : GM_FILE_DIFFERENT;
	return same_first_page(&start, fd) ? GM_FILE_SAME : GM_FILE_DIFFERENT;
}

/* --- where is the file? ----------------------------------------------------------------------- */

static char *join(const char *folder, const char *name)
{
	char *path;
	return asprintf(&path, "%s%s%s", folder, name[0] == '/' ? "" : "/", name) < 0 ? NULL : path;
}

/* Tries one path; true: found. The best state so far is kept. */
static bool try_place(const struct gm_core_disk *disk, struct gm_disk_file *file,
        const char *folder, const char *name)
{
	_cleanup_free_ char *place = join(folder, name);
	_cleanup_close_ int fd = place ? gm_regular_file_open(place) : -1;
	if (fd < 0)
		return false;
	file->state = compare(disk->core, file, fd);
	if (file->state != GM_FILE_SAME)
		return false;
	file->found = gm_take(place);
	return true;
}

static void look_for(const struct gm_core_disk *disk, struct gm_disk_file *file)
{
	if (file->path[0] != '/')
		return;
	if (disk->sysroot &&
	        (try_place(disk, file, disk->sysroot, file->path) ||
	                try_place(disk, file, disk->sysroot, strrchr(file->path, '/') + 1)))
		return;
	try_place(disk, file, "", file->path);
}

/* Call with the lock held. Its path, valid until another one is searched for; NULL: out of memory.
 * */
static struct gm_disk_file *file_at(struct gm_core_disk *disk, const char *path)
{
	for (size_t i = 0; i < disk->count; i++)
		if (strcmp(disk->files[i].path, path) == 0)
			return &disk->files[i];
	struct gm_disk_file file = {.path = path, .fd = -1, .state = GM_FILE_MISSING};
	if (!gm_array_grow((void **)&disk->files, &disk->capacity, disk->count, 1, sizeof(file)))
		return NULL;
	look_for(disk, &file);
	disk->files[disk->count++] = file;
	return &disk->files[disk->count - 1];
}

bool gm_core_disk_file(struct gm_core_disk *disk, const char *path, struct gm_disk_file *ret_file)
{
	pthread_mutex_lock(&disk->lock);
	const struct gm_disk_file *file = file_at(disk, path);
	if (file)
		*ret_file = *file;
	pthread_mutex_unlock(&disk->lock);
	return file != NULL;
}

/* Opened when it is first read: a process has hundreds of files, and a question needs a few. */
static int open_file(struct gm_disk_file *file)
{
	if (file && file->found && file->fd < 0)
		file->fd = gm_regular_file_open(file->found);
	return file ? file->fd : -1;
}

static int descriptor(struct gm_core_disk *disk, const char *path)
{
	pthread_mutex_lock(&disk->lock);
	int fd = open_file(file_at(disk, path));
	pthread_mutex_unlock(&disk->lock);
	return fd;
}

/* Call with the lock held. */
static struct gm_disk_file *file_of(struct gm_core_disk *disk, const struct gm_core_mapped *mapped)
{
	size_t number = (size_t)(mapped - disk->core->mapped);
	if (!disk->file_of)
		disk->file_of = calloc(disk->core->mapped_count + 1, sizeof(*disk->file_of));
	if (!disk->file_of)
		return NULL;
	if (disk->file_of[number] == 0) {
		const struct gm_disk_file *file = file_at(disk, mapped->path);
		disk->file_of[number] = file ? (uint32_t)(file - disk->files) + 1 : 0;
	}
	return disk->file_of[number] ? &disk->files[disk->file_of[number] - 1] : NULL;
}

static void map(struct gm_disk_file *file)
{
	struct stat status;
	int fd = open_file(file);
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
		file->size = (uint64_t)status.st_size;
		file->bytes = gm_mapped_file_open(fd, file->size);
	}
	file->refused = !file->bytes;
}

const uint8_t *gm_core_disk_borrow(
        struct gm_core_disk *disk, const struct gm_core_mapped *mapped, uint64_t *ret_size)
{
	const uint8_t *bytes = NULL;
	pthread_mutex_lock(&disk->lock);
	struct gm_disk_file *file = file_of(disk, mapped);
	if (file && !file->bytes && !file->refused)
		map(file);
	if (file && file->bytes && mapped->file_offset < file->size) {
		bytes = file->bytes + mapped->file_offset;
		*ret_size = file->size - mapped->file_offset;
		if (*ret_size > mapped->end - mapped->start)
			*ret_size = mapped->end - mapped->start;
	}
	pthread_mutex_unlock(&disk->lock);
	return bytes;
}

void gm_core_disk_borrow_end(struct gm_core_disk *disk)
{
	for (size_t i = 0; i < disk->count; i++) {
		gm_mapped_file_close(disk->files[i].bytes, disk->files[i].size);
		disk->files[i].bytes = NULL;
		disk->files[i].refused = false;
	}
}

size_t gm_core_disk_read(struct gm_core_disk *disk, const struct gm_core_mapped *mapped,
        uint64_t address, void *buffer, size_t size)
{
	int fd = descriptor(disk, mapped->path);
	if (fd < 0)
		return 0;
	if (size > mapped->end - address)
		size = (size_t)(mapped->end - address);
	uint64_t offset = mapped->file_offset + (address - mapped->start);
	ssize_t got = offset <= INT64_MAX ? pread(fd, buffer, size, (off_t)offset) : 0;
	return got > 0 ? (size_t)got : 0;
}

/* --- init and deinit -------------------------------------------------------------------------- */

static void forget(struct gm_core_disk *disk)
{
	gm_core_disk_borrow_end(disk);
	free(disk->file_of);
	disk->file_of = NULL;
	for (size_t i = 0; i < disk->count; i++) {
		if (disk->files[i].fd >= 0)
			close(disk->files[i].fd);
		free(disk->files[i].found);
	}
	disk->count = 0;
}

void gm_core_disk_init(struct gm_core_disk *disk, const struct gm_core_file *core)
{
	*disk = (struct gm_core_disk){.core = core};
	pthread_mutex_init(&disk->lock, NULL);
}

void gm_core_disk_deinit(struct gm_core_disk *disk)
{
	forget(disk);
	free(disk->files);
	free(disk->sysroot);
	pthread_mutex_destroy(&disk->lock);
}

struct gm_error *gm_core_disk_set_sysroot(struct gm_core_disk *disk, const char *sysroot)
{
	char *copy = sysroot ? strdup(sysroot) : NULL;
	if (sysroot && !copy)
		return &gm_error_no_memory;
	forget(disk);
	free(disk->sysroot);
	disk->sysroot = copy;
	return NULL;
}
