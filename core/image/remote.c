#include "image/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/build_id.h"
#include "image/fetched.h"
#include "image/internal.h"

enum { MAPS_MAX = 256 << 20, PATH_CAPACITY = 4096 };

/* The local path of a file of the target. */
struct known_file {
	char *path, *here;
};

struct remote {
	struct gm_image image; /* first */
	struct gm_remote given;
	struct gm_progress progress;
	char *maps;
	pid_t *threads;
	char *sysroot; /* NULL: none */
	struct gm_fetched fetched;
	uint64_t reported, all; /* bytes: those of which progress was reported; those of a search */
	GM_ARRAY(struct known_file) files;
};

static struct remote *remote_of(const struct gm_image *image)
{
	return (struct remote *)image;
}

/* --- memory ----------------------------------------------------------------------------------- */

static size_t fetch(void *context, uint64_t address, void *buffer, size_t size)
{
	struct remote *remote = context;
	size_t got = remote->given.read(remote->given.context, address, buffer, size);
	if (remote->progress.show && remote->fetched.bytes - remote->reported > 4 << 20) {
		remote->reported = remote->fetched.bytes;
		remote->progress.show(remote->progress.context, GM_PROGRESS_READING_REMOTE,
		        remote->reported, remote->reported < remote->all ? remote->all : 0);
	}
	return got;
}

static size_t remote_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	size_t got = gm_fetched_read(&remote_of(image)->fetched, address, buffer, size);
	if (got < size)
		*ret_errno = EFAULT;
	return got;
}

static void remote_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	for (size_t i = 0; i < count; i++)
		reads[i].failed = gm_fetched_read(&remote_of(image)->fetched, reads[i].address,
		                          reads[i].buffer, reads[i].size) != reads[i].size;
}

static struct gm_error *remote_explain(struct gm_image *image, uint64_t address, int os_error)
{
	if (!gm_image_find_mapping(image, address))
		return gm_error_at_address(
		        gm_error_create(GM_TARGET,
		                "address 0x%jx: not mapped in the process: check the address",
		                (uintmax_t)address),
		        NULL, address);
	return gm_error_at_address(gm_error_create(GM_TARGET,
	                                   "address 0x%jx: the debugger cannot read it: check the "
	                                   "connection to the process (`x/gx 0x%jx` says more)",
	                                   (uintmax_t)address, (uintmax_t)address),
	        NULL, address);
}

static struct gm_error *remote_refresh(struct gm_image *image, struct gm_maps *ret_maps)
{
	const char *maps = remote_of(image)->maps;
	char *copy = strdup(maps);
	return copy ? gm_maps_parse(copy, strlen(copy), ret_maps) : &gm_error_no_memory;
}

/* --- threads ---------------------------------------------------------------------------------- */

static struct gm_error *remote_threads(
        struct gm_image *image, pid_t **ret_threads, size_t *ret_count)
{
	const struct remote *remote = remote_of(image);
	size_t count = remote->given.thread_count;
	pid_t *threads = calloc(count + 1, sizeof(*threads));
	if (!threads)
		return &gm_error_no_memory;
	if (count > 0)
		memcpy(threads, remote->threads, count * sizeof(*threads));
	*ret_threads = threads;
	*ret_count = count;
	return NULL;
}

static struct gm_error *remote_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers)
{
	const struct gm_remote *given = &remote_of(image)->given;
	struct gm_registers registers = {0};
	if (!given->registers(given->context, thread, registers.value))
		return gm_error_create(GM_TARGET,
		        "thread %d: the debugger cannot read its registers: stop the program first",
		        thread);
	*ret_registers = registers;
	return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

struct first_mapping {
	struct gm_image *image;
	uint64_t start, end;
};

static bool memory_bytes(void *context, uint64_t offset, void *buffer, size_t size)
{
	const struct first_mapping *first = context;
	uint64_t there = first->end - first->start;
	return offset <= there && size <= there - offset &&
	       gm_image_try_read(first->image, first->start + offset, buffer, size);
}

static bool disk_bytes(void *context, uint64_t offset, void *buffer, size_t size)
{
	return offset <= INT64_MAX &&
	       pread(*(int *)context, buffer, size, (off_t)offset) == (ssize_t)size;
}

/* Whether a local file is the one that is mapped there. `mapped` NULL: it is not mapped, so any
 * file is accepted. */
static bool is_it(const struct gm_image *image, const struct gm_mapping *mapped, const char *here)
{
	if (!mapped)
		return access(here, R_OK) == 0; /* or a folder */
	_cleanup_close_ int fd = gm_regular_file_open(here);
	if (fd < 0)
		return false;
	struct first_mapping first = {(struct gm_image *)image, mapped->start, mapped->end};
	struct gm_build_id ours = {0}, theirs = {0};
	if (gm_build_id_read(memory_bytes, &first, &theirs))
		return gm_build_id_read(disk_bytes, &fd, &ours) &&
		       gm_build_id_equal(&ours, &theirs);
	uint8_t here_page[GM_PAGE_SIZE], there_page[GM_PAGE_SIZE];
	ssize_t size = pread(fd, here_page, sizeof(here_page), 0);
	return size > 0 && memory_bytes(&first, 0, there_page, (size_t)size) &&
	       memcmp(here_page, there_page, (size_t)size) == 0;
}

static const struct gm_mapping *first_mapping_of(const struct gm_image *image, const char *path)
{
	for (size_t i = 0; i < image->maps.count; i++) {
		if (image->maps.items[i].file_offset == 0 &&
		        strcmp(image->maps.items[i].path, path) == 0)
			return &image->maps.items[i];
	}
	return NULL;
}

/*
 * A library: the local file under the same path if it is the same build, which avoids the transfer;
 * otherwise the debugger's copy. A file that is not mapped cannot be compared: first the debugger's
 * copy. NULL only if out of memory: a path that does not exist here is reported when it is opened.
 */
static char *find_here(struct remote *remote, const char *path)
{
	const struct gm_mapping *mapped = first_mapping_of(&remote->image, path);
	_cleanup_free_ char *below = NULL;
	if (remote->sysroot && asprintf(&below, "%s%s", remote->sysroot, path) < 0) {
		below = NULL;
		return NULL;
	}
	if (below && is_it(&remote->image, mapped, below))
		return gm_take(below);
	if (mapped && is_it(&remote->image, mapped, path))
		return strdup(path);
	char copy[PATH_CAPACITY] = "";
	if (path[strlen(path) - 1] != '/' &&
	        remote->given.file(remote->given.context, path, copy, sizeof(copy)) &&
	        is_it(&remote->image, mapped, copy))
		return strdup(copy);
	/* Another build under this name would give wrong names. */
	return mapped ? strdup("/nonexistent") : strdup(path);
}

static struct gm_error *remote_file_path(
        const struct gm_image *image, const char *path, char **ret_path)
{
	struct remote *remote = remote_of(image);
	for (size_t i = 0; i < remote->files.count; i++) {
		if (strcmp(remote->files.items[i].path, path) == 0)
			return (*ret_path = strdup(remote->files.items[i].here))
			               ? NULL
			               : &gm_error_no_memory;
	}
	struct known_file file = {strdup(path), path[0] ? find_here(remote, path) : strdup("")};
	char *result = file.here ? strdup(file.here) : NULL;
	if (!file.path || !result || !gm_array_push(&remote->files, file)) {
		free(file.path);
		free(file.here);
		free(result);
		return &gm_error_no_memory;
	}
	*ret_path = result;
	return NULL;
}

static void forget_files(struct remote *remote)
{
	for (size_t i = 0; i < remote->files.count; i++) {
		free(remote->files.items[i].path);
		free(remote->files.items[i].here);
	}
	gm_array_deinit(&remote->files);
}

static struct gm_error *remote_set_sysroot(struct gm_image *image, const char *sysroot)
{
	struct remote *remote = remote_of(image);
	char *copy = sysroot ? strdup(sysroot) : NULL;
	if (sysroot && !copy)
		return &gm_error_no_memory;
	free(remote->sysroot);
	remote->sysroot = copy;
	forget_files(remote);
	return NULL;
}

/* --- open and close --------------------------------------------------------------------------- */

static void remote_close(struct gm_image *image)
{
	struct remote *remote = remote_of(image);
	gm_image_deinit(image);
	gm_fetched_deinit(&remote->fetched);
	forget_files(remote);
	free(remote->maps);
	free(remote->threads);
	free(remote->sysroot);
	free(remote);
}

static const struct gm_image_kind remote_kind = {
        .read = remote_read,
        .read_many = remote_read_many,
        .explain = remote_explain,
        .refresh = remote_refresh,
        .threads = remote_threads,
        .registers = remote_registers,
        .file_path = remote_file_path,
        .set_sysroot = remote_set_sysroot,
        .close = remote_close,
        .one_reader = true,
};

static struct gm_error *open_remote(struct remote *remote)
{
	const struct gm_remote *given = &remote->given;
	remote->maps = strdup(given->maps);
	remote->threads = calloc(given->thread_count + 1, sizeof(*remote->threads));
	if (!remote->maps || !remote->threads)
		return &gm_error_no_memory;
	if (given->thread_count > 0)
		memcpy(remote->threads, given->threads, given->thread_count * sizeof(pid_t));
	gm_try(gm_image_init(&remote->image, &remote_kind, 0));
	if (remote->image.maps.count == 0)
		return gm_error_create(GM_TARGET,
		        "the remote process: the debugger does not know its mappings: "
		        "use gdbserver of gdb 7.6 or newer");
	remote->image.main_thread = given->main_thread;
	for (size_t i = 0; i < remote->image.maps.count; i++) {
		const struct gm_mapping *mapping = &remote->image.maps.items[i];
		if ((mapping->flags & GM_MAPPING_WRITE) && !(mapping->flags & GM_MAPPING_DEVICE))
			remote->all += mapping->end - mapping->start;
	}
	return gm_fetched_init(&remote->fetched, &remote->image.maps, fetch, remote);
}

struct gm_error *gm_image_open_remote(const struct gm_remote *given,
        const struct gm_progress *progress, struct gm_image **ret_image)
{
	if (strlen(given->maps) > MAPS_MAX)
		return &gm_error_no_memory;
	struct remote *remote = calloc(1, sizeof(*remote));
	if (!remote)
		return &gm_error_no_memory;
	remote->given = *given;
	remote->fetched.fd = -1;
	if (progress)
		remote->progress = *progress;
	struct gm_error *error = open_remote(remote);
	if (error) {
		remote_close(&remote->image);
		return error;
	}
	*ret_image = &remote->image;
	return NULL;
}
