/*
 * A core dump as an image. An address is in one of four states: not mapped; saved; saved, but the
 * file ends before it (the core was truncated); mapped but not saved. In the last case a mapped
 * file's bytes are read from the file on disk, if that is the same file (core_disk.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "image/core_inside.h"
#include "image/core_unpack.h"

/* A file that becomes shorter while it is read reads as zeros, or cannot be read. */
static struct gm_error *core_check_there(const struct gm_image *image)
{
	const struct core *core = core_of(image);
	struct stat status;
	if (fstat(core->file.fd, &status) == 0 && (uint64_t)status.st_size >= core->file.size)
		return NULL;
	return gm_error_at_offset(gm_error_create(GM_CORRUPT,
	                                  "%s: offset 0x%jx: the core was truncated while it was "
	                                  "read: write it again",
	                                  core->path, (uintmax_t)status.st_size),
	        core->path, (uint64_t)status.st_size);
}

/* --- states ----------------------------------------------------------------------------------- */

/* Why a mapped file's bytes are not available from disk either. */
static struct gm_error *error_library(const struct core *core, uint64_t address, const char *path)
{
	struct gm_disk_file file;
	if (!gm_core_disk_file((struct gm_core_disk *)&core->disk, path, &file))
		return &gm_error_no_memory;
	char ours[GM_BUILD_ID_TEXT], theirs[GM_BUILD_ID_TEXT];
	const char *why = "which no longer has these bytes";
	_cleanup_free_ char *builds = NULL;
	if (file.state == GM_FILE_MISSING)
		why = "which is not on this disk";
	else if (file.state == GM_FILE_UNKNOWN)
		why = "whose first page is not in the core, so the builds cannot be compared";
	else if (file.state == GM_FILE_DIFFERENT && file.core.size > 0 && file.disk.size > 0 &&
	         asprintf(&builds, "which is another build on this disk: build-id %s, not %s",
	                 gm_build_id_text(&file.disk, theirs),
	                 gm_build_id_text(&file.core, ours)) > 0)
		why = builds;
	else if (file.state == GM_FILE_DIFFERENT)
		why = "which is another build on this disk";
	return gm_error_at_address(
	        gm_error_create(GM_TARGET,
	                "%s: address 0x%jx: mapped but not saved in the core (%s, %s): restore "
	                "that file, or name the folder that has it with --sysroot DIR",
	                core->path, (uintmax_t)address, path, why),
	        core->path, address);
}

static struct gm_error *core_explain(struct gm_image *image, uint64_t address, int os_error)
{
	const char *path = core_of(image)->path;
	const struct gm_mapping *mapping = gm_image_find_mapping(image, address);
	const char *what = mapping && *mapping->path ? mapping->path : "anonymous memory";
	if (os_error == CUT_SHORT)
		return gm_error_at_address(
		        gm_error_create(GM_CORRUPT,
		                "%s: address 0x%jx: the core is truncated before it (%s): write it "
		                "again, with space on the disk and `ulimit -c unlimited`",
		                path, (uintmax_t)address, what),
		        path, address);
	if (os_error == NOT_SAVED && mapping && mapping->path[0] == '/' &&
	        !(mapping->flags & GM_MAPPING_DEVICE))
		return error_library(core_of(image), address, mapping->path);
	if (os_error == NOT_SAVED)
		return gm_error_at_address(gm_error_create(GM_TARGET,
		                                   "%s: address 0x%jx: mapped but not saved in the "
		                                   "core (%s): write the core "
		                                   "with "
		                                   "more in it (/proc/PID/coredump_filter)",
		                                   path, (uintmax_t)address, what),
		        path, address);
	return gm_error_at_address(
	        gm_error_create(GM_TARGET,
	                "%s: address 0x%jx: not mapped in the process: check the address", path,
	                (uintmax_t)address),
	        path, address);
}

/* --- mappings --------------------------------------------------------------------------------- */

static void name_mapping(const struct core *core, struct gm_mapping *mapping)
{
	const struct gm_core_mapped *mapped = gm_core_file_mapped(&core->file, mapping->start);
	mapping->path = "";
	if (mapped) {
		mapping->path = mapped->path;
		mapping->file_offset = mapped->file_offset + (mapping->start - mapped->start);
		/* A core has no inode numbers; equal for the same path is all that they are needed
		 * for. */
		mapping->inode = gm_hash_bytes(mapped->path, strlen(mapped->path), 0) | 1;
	} else if (core->file.vdso >= mapping->start && core->file.vdso < mapping->end) {
		mapping->path = "[vdso]";
	}
	if (strncmp(mapping->path, "/memfd:gpumem-sim-device", 24) == 0)
		mapping->flags |= GM_MAPPING_DEVICE;
}

/* The segments, and the mapped files that gcore omits completely, merged by address. */
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
			/* Its permissions are not known; it was not writable, or it would be saved.
			 * */
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

/* --- threads ---------------------------------------------------------------------------------- */

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

/* The process's own number is its first thread's. If the core has no such thread, it has ended, and
 * the thread that the core names first (the one that crashed, or was selected) replaces it. */
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
	return gm_error_at_offset(
	        gm_error_create(GM_CORRUPT,
	                "%s: offset 0x%jx: the core is truncated: %ju of its %ju bytes of memory "
	                "are missing: write it again, with space on the disk and `ulimit -c "
	                "unlimited`",
	                core->path, (uintmax_t)core->file.size, (uintmax_t)missing, (uintmax_t)all),
	        core->path, core->file.size);
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
	        "%s: thread %d: the core has no thread of this number: name one that it has",
	        core_of(image)->path, thread);
}

/* --- files ------------------------------------------------------------------------------------ */

/* For a mapped file at its path, if it is the same; otherwise that of the sysroot, if there is one.
 * */
static struct gm_error *core_file_path(
        const struct gm_image *image, const char *path, char **ret_path)
{
	struct core *core = core_of(image);
	char *result = NULL;
	struct gm_disk_file file = {0};
	for (size_t i = 0; i < core->file.mapped_count && !file.path; i++) {
		if (strcmp(core->file.mapped[i].path, path) == 0 &&
		        !gm_core_disk_file(&core->disk, core->file.mapped[i].path, &file))
			return &gm_error_no_memory;
	}
	if (file.found) {
		result = strdup(file.found);
	} else if (core->disk.sysroot && path[0] == '/') {
		if (asprintf(&result, "%s%s", core->disk.sysroot, path) < 0)
			return &gm_error_no_memory;
		if (access(result, F_OK) != 0)
			free(gm_take(result));
	}
	if (!result && !(result = strdup(path)))
		return &gm_error_no_memory;
	*ret_path = result;
	return NULL;
}

static bool is_library(const struct gm_core_mapped *mapped)
{
	return mapped->file_offset == 0 && gm_core_is_as_on_disk(mapped);
}

/* Every mapped library of which the core lacks a part, once. */
static struct gm_error *core_files(
        struct gm_image *image, struct gm_image_file **ret_files, size_t *ret_count)
{
	struct core *core = core_of(image);
	struct gm_image_file *files = calloc(core->file.mapped_count + 1, sizeof(*files));
	size_t count = 0;
	if (!files)
		return &gm_error_no_memory;
	for (size_t i = 0; i < core->file.mapped_count; i++) {
		const struct gm_core_mapped *mapped = &core->file.mapped[i];
		struct gm_disk_file file;
		bool known = !is_library(mapped);
		for (size_t j = 0; j < count && !known; j++)
			known = strcmp(files[j].path, mapped->path) == 0;
		if (known)
			continue;
		if (!gm_core_disk_file(&core->disk, mapped->path, &file)) {
			free(files);
			return &gm_error_no_memory;
		}
		files[count++] = (struct gm_image_file){mapped->path, file.state, file.found};
	}
	*ret_files = files;
	*ret_count = count;
	return NULL;
}

static bool has_id(struct gm_image *image, const struct gm_core_thread *thread, pid_t inside)
{
	uint32_t id;
	uint64_t record = thread->registers.thread_pointer;
	return record && gm_image_try_u32(image, record + GM_PTHREAD_TID, &id) &&
	       id == (uint32_t)inside;
}

/* gcore outside of a container writes the ids that threads have there. glibc's record of a thread
 * has the id inside. */
static pid_t core_thread_of(struct gm_image *image, pid_t inside)
{
	const struct gm_core_file *file = &core_of(image)->file;
	for (size_t i = 0; i < file->thread_count; i++)
		if (file->threads[i].id == inside && has_id(image, &file->threads[i], inside))
			return inside;
	for (size_t i = 0; i < file->thread_count; i++)
		if (has_id(image, &file->threads[i], inside))
			return file->threads[i].id;
	return inside;
}

static struct gm_error *core_set_sysroot(struct gm_image *image, const char *sysroot)
{
	return gm_core_disk_set_sysroot(&core_of(image)->disk, sysroot);
}

/* --- open and close --------------------------------------------------------------------------- */

static void core_close(struct gm_image *image)
{
	struct core *core = core_of(image);
	gm_image_deinit(image);
	gm_core_disk_deinit(&core->disk);
	gm_core_file_deinit(&core->file);
	free(core->path);
	free(core);
}

static const struct gm_image_kind core_kind = {
        .read = gm_core_read,
        .read_many = gm_core_read_many,
        .check_there = core_check_there,
        .borrow_begin = gm_core_borrow_begin,
        .borrow = gm_core_borrow,
        .borrow_end = gm_core_borrow_end,
        .touched = gm_core_touched,
        .next_touched = gm_core_next_touched,
        .resident = gm_core_resident,
        .explain = core_explain,
        .refresh = core_refresh,
        .check_whole = core_check_whole,
        .threads = core_threads,
        .thread_of = core_thread_of,
        .registers = core_registers,
        .file_path = core_file_path,
        .files = core_files,
        .set_sysroot = core_set_sysroot,
        .close = core_close,
};

struct gm_error *gm_image_open_core(const char *path, struct gm_image **ret_image)
{
	return gm_image_open_core_showing(path, NULL, ret_image);
}

struct gm_error *gm_image_open_core_showing(
        const char *path, const struct gm_progress *progress, struct gm_image **ret_image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return gm_error_os(GM_TARGET, errno, "%s: the core cannot be opened", path);
	struct core *core = calloc(1, sizeof(*core));
	struct gm_error *error = core ? gm_core_unpack(&fd, path, progress) : &gm_error_no_memory;
	if (error) {
		free(core);
		close(fd);
		return error;
	}
	gm_core_disk_init(&core->disk, &core->file);
	core->image.kind = &core_kind;
	error = gm_core_file_init(&core->file, fd, path);
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
