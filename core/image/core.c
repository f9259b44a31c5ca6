/*
 * A core dump as an image. An address is in one of four states: not mapped; saved, and there; saved, but the
 * file ends before it (the core was cut short); mapped but not saved. In the last case a mapped file's bytes
 * are read from the file on disk, provided that its first page equals the one in the core: there the ELF
 * header and the build-id are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "image/core_file.h"
#include "image/internal.h"

/* Why a read ended, where it is not EFAULT (not mapped). */
enum { NOT_SAVED = ENODATA, CUT_SHORT = EOVERFLOW };

/* A file that is needed from disk. */
struct disk_file {
	const char *path; /* in the core's notes */
	int fd;           /* -1: not there, or another one by now */
};

struct core {
	struct gm_image image; /* first */
	char *path;
	struct gm_core_file file;
	pthread_mutex_t lock; /* for the following */
	struct disk_file *disk;
	size_t disk_count, disk_capacity;
};

static struct core *core_of(const struct gm_image *image)
{
	return (struct core *)image;
}

static const struct gm_core_segment *find_segment(const struct gm_core_file *file, uint64_t address)
{
	size_t low = 0, high = file->segment_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (file->segments[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < file->segment_count && file->segments[low].start <= address
	               ? &file->segments[low]
	               : NULL;
}

static const struct gm_core_mapped *find_mapped(const struct gm_core_file *file, uint64_t address)
{
	size_t low = 0, high = file->mapped_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (file->mapped[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < file->mapped_count && file->mapped[low].start <= address ? &file->mapped[low]
	                                                                      : NULL;
}

/* --- files on disk --------------------------------------------------------------------------------- */

/* Is the file's first page the one that was mapped? Not known to be: no. */
static bool same_first_page(const struct core *core, const char *path, int fd)
{
	uint8_t ours[GM_PAGE_SIZE], theirs[GM_PAGE_SIZE];
	ssize_t size = pread(fd, ours, sizeof(ours), 0);
	for (size_t i = 0; size > 0 && i < core->file.mapped_count; i++) {
		const struct gm_core_mapped *mapped = &core->file.mapped[i];
		const struct gm_core_segment *segment = find_segment(&core->file, mapped->start);
		if (mapped->file_offset != 0 || strcmp(mapped->path, path) != 0 || !segment)
			continue;
		uint64_t skip = mapped->start - segment->start;
		if (segment->present >= skip && segment->present - skip >= (uint64_t)size &&
		        gm_core_file_read(
		                &core->file, segment->offset + skip, theirs, (size_t)size))
			return memcmp(ours, theirs, (size_t)size) == 0;
	}
	return false;
}

/* The descriptor of a mapped file, or -1. Each is opened and compared once. */
static int disk_file(struct core *core, const char *path)
{
	for (size_t i = 0; i < core->disk_count; i++) {
		if (strcmp(core->disk[i].path, path) == 0)
			return core->disk[i].fd;
	}
	struct disk_file entry = {path, -1};
	struct stat status;
	if (path[0] == '/')
		entry.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (entry.fd >= 0 && (fstat(entry.fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	                             !same_first_page(core, path, entry.fd))) {
		close(entry.fd);
		entry.fd = -1;
	}
	if (!gm_array_grow((void **)&core->disk, &core->disk_capacity, core->disk_count, 1,
	            sizeof(entry))) {
		if (entry.fd >= 0)
			close(entry.fd);
		return -1;
	}
	core->disk[core->disk_count++] = entry;
	return entry.fd;
}

/* Bytes of a mapping that only the mapped file has; never past it. */
static size_t read_disk(struct core *core, uint64_t address, void *buffer, size_t size)
{
	const struct gm_core_mapped *mapped = find_mapped(&core->file, address);
	if (!mapped)
		return 0;
	pthread_mutex_lock(&core->lock);
	int fd = disk_file(core, mapped->path);
	pthread_mutex_unlock(&core->lock);
	if (fd < 0)
		return 0;
	if (size > mapped->end - address)
		size = (size_t)(mapped->end - address);
	ssize_t got =
	        pread(fd, buffer, size, (off_t)(mapped->file_offset + (address - mapped->start)));
	return got > 0 ? (size_t)got : 0;
}

/* --- reading --------------------------------------------------------------------------------------- */

/* Some bytes from `address` on, at least one; 0: *ret_errno says why. */
static size_t read_piece(
        struct core *core, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	const struct gm_core_segment *segment = find_segment(&core->file, address);
	if (segment) {
		uint64_t skip = address - segment->start;
		if (size > segment->end - address)
			size = (size_t)(segment->end - address);
		if (skip < segment->present) {
			if (size > segment->present - skip)
				size = (size_t)(segment->present - skip);
			if (gm_core_file_read(&core->file, segment->offset + skip, buffer, size))
				return size;
			*ret_errno = CUT_SHORT; /* since we opened it */
			return 0;
		}
		if (skip < segment->saved) {
			*ret_errno = CUT_SHORT;
			return 0;
		}
		if (segment->zero_tail) {
			memset(buffer, 0, size);
			return size;
		}
		/* A file may have changed in memory only where it was writable, and that is saved. */
	} else if (!find_mapped(&core->file, address)) {
		*ret_errno = EFAULT;
		return 0;
	}
	size_t got = read_disk(core, address, buffer, size);
	if (got == 0)
		*ret_errno = NOT_SAVED;
	return got;
}

static size_t core_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	size_t done = 0;
	while (done < size) {
		size_t got = read_piece(core_of(image), address + done, (char *)buffer + done,
		        size - done, ret_errno);
		if (got == 0)
			break;
		done += got;
	}
	return done;
}

static void core_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int os_error;
		reads[i].failed = core_read(image, reads[i].address, reads[i].buffer, reads[i].size,
		                          &os_error) != reads[i].size;
	}
}

static struct gm_error *core_explain(struct gm_image *image, uint64_t address, int os_error)
{
	const char *path = core_of(image)->path;
	const struct gm_mapping *mapping = gm_image_find_mapping(image, address);
	const char *what = mapping && *mapping->path ? mapping->path : "anonymous memory";
	if (os_error == CUT_SHORT)
		return gm_error_create(GM_CORRUPT,
		        "%s: address 0x%jx: the core was cut short before it (%s): write it again, "
		        "with "
		        "room on the disk and `ulimit -c unlimited`",
		        path, (uintmax_t)address, what);
	if (os_error == NOT_SAVED)
		return gm_error_create(GM_TARGET,
		        "%s: address 0x%jx: mapped but not saved in the core (%s): put that very "
		        "file "
		        "back, or write the core with more in it (/proc/PID/coredump_filter)",
		        path, (uintmax_t)address, what);
	return gm_error_create(GM_TARGET,
	        "%s: address 0x%jx: not mapped in the process: check the address", path,
	        (uintmax_t)address);
}

/* --- mappings -------------------------------------------------------------------------------------- */

static void name_mapping(const struct core *core, struct gm_mapping *mapping)
{
	const struct gm_core_mapped *mapped = find_mapped(&core->file, mapping->start);
	mapping->path = "";
	if (mapped) {
		mapping->path = mapped->path;
		mapping->file_offset = mapped->file_offset + (mapping->start - mapped->start);
		/* A core has no inode numbers; equal for the same path is what they are used for. */
		mapping->inode = gm_hash_bytes(mapped->path, strlen(mapped->path), 0) | 1;
	} else if (core->file.vdso >= mapping->start && core->file.vdso < mapping->end) {
		mapping->path = "[vdso]";
	}
	if (strncmp(mapping->path, "/memfd:gpumem-sim-device", 24) == 0)
		mapping->flags |= GM_MAPPING_DEVICE;
}

/* The segments, and the mapped files that gcore leaves out altogether, merged by address. */
static struct gm_error *core_refresh(struct gm_image *image, struct gm_maps *ret_maps)
{
	const struct core *core = core_of(image);
	const struct gm_core_file *file = &core->file;
	struct gm_maps maps = {0};
	maps.items = calloc(file->segment_count + file->mapped_count + 1, sizeof(*maps.items));
	if (!maps.items)
		return &gm_error_no_memory;
	uint64_t last_end = 0;
	for (size_t i = 0, j = 0; i < file->segment_count || j < file->mapped_count;) {
		bool segment_first = j == file->mapped_count ||
		                     (i < file->segment_count &&
		                             file->segments[i].start <= file->mapped[j].start);
		struct gm_mapping mapping;
		if (segment_first) {
			mapping = (struct gm_mapping){.start = file->segments[i].start,
			        .end = file->segments[i].end,
			        .flags = file->segments[i].flags};
			i++;
		} else {
			/* Its permissions are not known; it was not written to, or it would be saved. */
			mapping = (struct gm_mapping){.start = file->mapped[j].start,
			        .end = file->mapped[j].end,
			        .flags = GM_MAPPING_READ | GM_MAPPING_EXEC};
			j++;
			if (i < file->segment_count && mapping.end > file->segments[i].start)
				mapping.end = file->segments[i].start;
		}
		if (mapping.start < last_end || mapping.end <= mapping.start)
			continue;
		name_mapping(core, &mapping);
		last_end = mapping.end;
		maps.items[maps.count++] = mapping;
	}
	*ret_maps = maps;
	return NULL;
}

/* --- threads --------------------------------------------------------------------------------------- */

static struct gm_error *core_threads(struct gm_image *image, pid_t **ret_threads, size_t *ret_count)
{
	const struct gm_core_file *file = &core_of(image)->file;
	pid_t *threads = calloc(file->thread_count + 1, sizeof(*threads));
	if (!threads)
		return &gm_error_no_memory;
	for (size_t i = 0; i < file->thread_count; i++)
		threads[i] = file->threads[i].id;
	*ret_threads = threads;
	*ret_count = file->thread_count;
	return NULL;
}

/* The process's own number is its first thread's; where the core has no such thread it has ended, and the one that
 * the core names first (the one that crashed, or was selected) stands for it. */
static pid_t main_thread(const struct gm_core_file *file)
{
	for (size_t i = 0; i < file->thread_count; i++) {
		if (file->threads[i].id == file->process)
			return file->process;
	}
	return file->thread_count > 0 ? file->threads[0].id : 0;
}

static struct gm_error *core_check_whole(const struct gm_image *image)
{
	const struct core *core = core_of(image);
	uint64_t missing = 0, all = 0;
	for (size_t i = 0; i < core->file.segment_count; i++) {
		all += core->file.segments[i].saved;
		missing += core->file.segments[i].saved - core->file.segments[i].present;
	}
	if (missing == 0)
		return NULL;
	return gm_error_create(GM_CORRUPT,
	        "%s: offset 0x%jx: the core was cut short: %ju of its %ju bytes of memory are "
	        "missing: "
	        "write it again, with room on the disk and `ulimit -c unlimited`",
	        core->path, (uintmax_t)core->file.size, (uintmax_t)missing, (uintmax_t)all);
}

static struct gm_error *core_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers)
{
	const struct gm_core_file *file = &core_of(image)->file;
	for (size_t i = 0; i < file->thread_count; i++) {
		if (file->threads[i].id == thread) {
			*ret_registers = file->threads[i].registers;
			return NULL;
		}
	}
	return gm_error_create(GM_TARGET,
	        "%s: thread %d: there is none so numbered in the core: ask for one "
	        "that it has",
	        core_of(image)->path, thread);
}

static struct gm_error *core_file_path(
        const struct gm_image *image, const char *path, char **ret_path)
{
	(void)image;
	return (*ret_path = strdup(path)) ? NULL : &gm_error_no_memory;
}

/* --- open and close -------------------------------------------------------------------------------- */

static void core_close(struct gm_image *image)
{
	struct core *core = core_of(image);
	gm_image_deinit(image);
	for (size_t i = 0; i < core->disk_count; i++) {
		if (core->disk[i].fd >= 0)
			close(core->disk[i].fd);
	}
	free(core->disk);
	gm_core_file_deinit(&core->file);
	pthread_mutex_destroy(&core->lock);
	free(core->path);
	free(core);
}

static const struct gm_image_kind core_kind = {
        .read = core_read,
        .read_many = core_read_many,
        .explain = core_explain,
        .refresh = core_refresh,
        .check_whole = core_check_whole,
        .threads = core_threads,
        .registers = core_registers,
        .file_path = core_file_path,
        .close = core_close,
};

struct gm_error *gm_image_open_core(const char *path, struct gm_image **ret_image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return gm_error_os(GM_TARGET, errno, "%s: the core cannot be opened", path);
	struct core *core = calloc(1, sizeof(*core));
	if (!core) {
		close(fd);
		return &gm_error_no_memory;
	}
	pthread_mutex_init(&core->lock, NULL);
	core->image.kind = &core_kind;
	struct gm_error *error = gm_core_file_init(&core->file, fd, path);
	if (!error && !(core->path = strdup(path)))
		error = &gm_error_no_memory;
	if (!error)
		error = gm_image_init(&core->image, &core_kind, 0);
	if (error) {
		core_close(&core->image);
		return error;
	}
	core->image.main_thread = main_thread(&core->file);
	*ret_image = &core->image;
	return NULL;
}
