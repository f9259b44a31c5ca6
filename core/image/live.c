/*
 * A live process as an image. /proc/PID is kept open as a directory, so if the process ends and its
 * number is reused, another process is never mistaken for it in /proc. Memory is read by
 * process_vm_readv, which takes many ranges in one system call and needs no stop; if that call is
 * refused (a container's seccomp filter), by /proc/PID/mem.
 */
#include "image/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/same_file.h"
#include "image/no_memory.h"
#include "image/numbers.h"
#include "image/pagemap.h"
#include "image/refusal.h"
#include "image/registers.h"

enum {
	RANGES_PER_CALL = 512,    /* the kernel's limit is 1024 (UIO_MAXIOV) */
	BYTES_PER_CALL = 1 << 30, /* the kernel's limit is 2 GiB less a page */
	MAPS_MAX = 256 << 20,
	THREADS_MAX = 1 << 20,
};

struct live {
	struct gm_image image; /* first: a struct gm_image * is a struct live * */
	int directory;         /* /proc/PID */
	int pagemap;           /* /proc/PID/pagemap, or -1 */
	int memory;            /* /proc/PID/mem, or -1: process_vm_readv is used */
	char *sysroot;         /* NULL: none */
	struct gm_numbers numbers;
};

static struct live *live_of(const struct gm_image *image)
{
	return (struct live *)image;
}

/* --- errors ----------------------------------------------------------------------------------- */

static struct gm_error *error_ended(pid_t pid)
{
	return gm_error_create(GM_TARGET,
	        "process %d: it has ended: start it again, or ask a recording or a core dump of it",
	        pid);
}

static struct gm_error *error_refused(pid_t pid)
{
	char why[GM_REFUSAL_TEXT];
	return gm_error_create(GM_TARGET, "process %d: reading its memory is refused: %s", pid,
	        gm_refusal_of(pid, why));
}

static struct gm_error *live_explain(struct gm_image *image, uint64_t address, int os_error)
{
	if (os_error == ESRCH)
		return error_ended(image->pid);
	if (os_error == EPERM || os_error == EACCES)
		return error_refused(image->pid);
	const struct gm_mapping *mapping = gm_image_find_mapping(image, address);
	struct gm_error *error;
	if (!mapping)
		error = gm_error_create(GM_TARGET,
		        "address 0x%jx: not mapped in process %d: check the address",
		        (uintmax_t)address, image->pid);
	else if (!(mapping->flags & GM_MAPPING_READ))
		error = gm_error_create(GM_TARGET,
		        "address 0x%jx: mapped without read permission in process %d: it holds no "
		        "data",
		        (uintmax_t)address, image->pid);
	else
		error = gm_error_create(GM_TARGET,
		        "address 0x%jx: no memory behind the mapping of process %d (%s): its file "
		        "was truncated, or it was just unmapped: ask again",
		        (uintmax_t)address, image->pid,
		        *mapping->path ? mapping->path : "anonymous");
	if (error != &gm_error_no_memory)
		error->os_error = os_error;
	return gm_error_at_address(error, NULL, address);
}

/* --- memory ----------------------------------------------------------------------------------- */

static size_t read_by_file(int memory, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	size_t done = 0;
	while (done < size) {
		if (address + done > INT64_MAX) { /* off_t */
			*ret_errno = EFAULT;
			break;
		}
		ssize_t got =
		        pread(memory, (char *)buffer + done, size - done, (off_t)(address + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			/* The file of a process that has ended reads as empty. */
			*ret_errno = got == 0 ? ESRCH : errno == EIO ? EFAULT : errno;
			break;
		}
		done += (size_t)got;
	}
	return done;
}

static size_t live_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	int memory = live_of(image)->memory;
	if (memory >= 0)
		return read_by_file(memory, address, buffer, size, ret_errno);
	size_t done = 0;
	while (done < size) {
		size_t part = size - done < BYTES_PER_CALL ? size - done : BYTES_PER_CALL;
		struct iovec local = {(char *)buffer + done, part};
		struct iovec remote = {(void *)(uintptr_t)(address + done), part};
		ssize_t got = process_vm_readv(image->pid, &local, 1, &remote, 1, 0);
		if (got <= 0) {
			*ret_errno = got < 0 ? errno : EFAULT;
			break;
		}
		done += (size_t)got;
	}
	return done;
}

static void read_one(struct gm_image *image, struct gm_read *request)
{
	int os_error;
	request->failed = live_read(image, request->address, request->buffer, request->size,
	                          &os_error) != request->size;
}

/*
 * One process_vm_readv for up to `count` (at most RANGES_PER_CALL) requests. The kernel stops at
 * the first page it cannot read and returns the number of bytes; the requests after that one are
 * for the next call. Returns how many requests are finished.
 */
static size_t read_batch(struct gm_image *image, struct gm_read *reads, size_t count)
{
	struct iovec local[RANGES_PER_CALL], remote[RANGES_PER_CALL];
	size_t used = 0, bytes = 0;
	while (used < count && reads[used].size <= BYTES_PER_CALL - bytes) {
		local[used] = (struct iovec){reads[used].buffer, reads[used].size};
		remote[used] =
		        (struct iovec){(void *)(uintptr_t)reads[used].address, reads[used].size};
		bytes += reads[used++].size;
	}
	if (used == 0) { /* larger than one call can read */
		read_one(image, &reads[0]);
		return 1;
	}
	ssize_t got = process_vm_readv(image->pid, local, used, remote, used, 0);
	if (got < 0 && errno != EFAULT) { /* the process has ended: nothing here can be read */
		for (size_t i = 0; i < used; i++)
			reads[i].failed = reads[i].size > 0;
		return used;
	}
	size_t left = got > 0 ? (size_t)got : 0;
	size_t finished = 0;
	while (finished < used && reads[finished].size <= left) {
		left -= reads[finished].size;
		reads[finished++].failed = false;
	}
	if (finished < used)
		reads[finished++].failed = true;
	return finished;
}

static void live_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	if (live_of(image)->memory >= 0) {
		for (size_t i = 0; i < count; i++)
			read_one(image, &reads[i]);
		return;
	}
	/* After a failure small batches first: probing many wrong addresses would otherwise set up
	 * hundreds of ranges for nothing at each call. */
	size_t limit = RANGES_PER_CALL;
	for (size_t done = 0; done < count;) {
		size_t batch = count - done < limit ? count - done : limit;
		size_t finished = read_batch(image, reads + done, batch);
		done += finished;
		if (reads[done - 1].failed)
			limit = limit > 16 ? limit / 4 : 4;
		else if (limit < RANGES_PER_CALL)
			limit *= 2;
	}
}

/* --- touched memory --------------------------------------------------------------------------- */

static bool live_touched(struct gm_image *image, uint64_t start, uint64_t end,
        struct gm_range *ranges, size_t max, size_t *ret_count)
{
	return gm_pagemap_touched(live_of(image)->pagemap, start, end, ranges, max, ret_count);
}

static uint64_t live_next_touched(struct gm_image *image, uint64_t start, uint64_t end)
{
	return gm_pagemap_next_touched(live_of(image)->pagemap, start, end);
}

/* RssAnon and swapped memory (proc(5), /proc/PID/status), in kB. */
static uint64_t live_resident(struct gm_image *image)
{
	static const char *const names[] = {"\nRssAnon:", "\nVmSwap:"};
	char text[8192];
	uint64_t bytes = 0;
	_cleanup_close_ int fd = openat(live_of(image)->directory, "status", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got <= 0)
		return 0;
	text[got] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *line = strstr(text, names[i]);
		if (line)
			bytes += strtoull(line + strlen(names[i]), NULL, 10) << 10;
	}
	return bytes < UINT64_C(1) << 46 ? bytes : 0;
}

/* --- /proc ------------------------------------------------------------------------------------ */

static struct gm_error *live_refresh(struct gm_image *image, struct gm_maps *ret_maps)
{
	_cleanup_close_ int fd = openat(live_of(image)->directory, "maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? error_refused(image->pid)
		                                         : error_ended(image->pid);
	GM_ARRAY(char) text = {0};
	for (;;) {
		if (text.count > MAPS_MAX || !gm_array_reserve(&text, 64 << 10)) {
			gm_array_deinit(&text);
			return &gm_error_no_memory;
		}
		/* One byte stays free for the NUL. */
		ssize_t got = read(fd, text.items + text.count, text.capacity - text.count - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int os_error = errno;
			gm_array_deinit(&text);
			return os_error == EACCES || os_error == EPERM ? error_refused(image->pid)
			                                               : error_ended(image->pid);
		}
		if (got == 0)
			break;
		text.count += (size_t)got;
	}
	text.items[text.count] = '\0';
	if (text.count == 0) {
		gm_array_deinit(&text);
		return gm_no_memory_error(image->pid);
	}
	return gm_maps_parse(text.items, text.count, ret_maps);
}

/* The maps of a process that has ended are empty, or do not exist. */
static struct gm_error *live_check_there(const struct gm_image *image)
{
	char byte;
	_cleanup_close_ int fd = openat(live_of(image)->directory, "maps", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &byte, 1) == 1)
		return NULL;
	return gm_error_create(GM_TARGET,
	        "process %d: it ended while it was being read: start it again, or ask a core dump "
	        "of it",
	        image->pid);
}

static struct gm_error *live_threads(struct gm_image *image, pid_t **ret_threads, size_t *ret_count)
{
	int fd = openat(live_of(image)->directory, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_ended(image->pid);
	DIR *directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return &gm_error_no_memory;
	}
	GM_ARRAY(pid_t) threads = {0};
	struct gm_error *error = NULL;
	for (struct dirent *entry; !error && (entry = readdir(directory));) {
		long thread = strtol(entry->d_name, NULL, 10);
		if (thread <= 0 || thread > INT_MAX || threads.count >= THREADS_MAX)
			continue;
		if (!gm_array_push(&threads, (pid_t)thread))
			error = &gm_error_no_memory;
	}
	closedir(directory);
	if (!error && threads.count == 0)
		error = error_ended(image->pid);
	if (error) {
		gm_array_deinit(&threads);
		return error;
	}
	*ret_threads = threads.items;
	*ret_count = threads.count;
	return NULL;
}

static pid_t live_thread_of(struct gm_image *image, pid_t inside)
{
	return gm_numbers_here(&live_of(image)->numbers, inside);
}

/* The kernel's own link to a mapped file, which also opens a deleted one; it needs privileges. */
static bool mapped_link(const struct gm_image *image, const char *path, char **ret_path)
{
	for (size_t i = 0; i < image->maps.count; i++) {
		const struct gm_mapping *mapping = &image->maps.items[i];
		if (strcmp(mapping->path, path) != 0)
			continue;
		char *link;
		if (asprintf(&link, "/proc/%d/map_files/%jx-%jx", image->pid,
		            (uintmax_t)mapping->start, (uintmax_t)mapping->end) < 0)
			return false;
		if (access(link, R_OK) == 0) {
			*ret_path = link;
			return true;
		}
		free(link);
		return false;
	}
	return false;
}

/* The part of a path in /proc/PID/maps that is the process's own root after chroot(); 0 if there is
 * none. */
static size_t root_length(const char *root, const char *path)
{
	char folder[PATH_MAX];
	ssize_t got = readlink(root, folder, sizeof(folder));
	size_t length = got > 1 && (size_t)got < sizeof(folder) ? (size_t)got : 0;
	return strncmp(path, folder, length) == 0 && path[length] == '/' ? length : 0;
}

/* The path here for a path in the process. */
static struct gm_error *path_in_root(pid_t pid, const char *path, char **ret_path)
{
	char root[64], mounts[64];
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	snprintf(mounts, sizeof(mounts), "/proc/%d/ns/mnt", pid);
	bool own_root = !gm_same_file(root, "/"),
	     own_mounts = !gm_same_file(mounts, "/proc/self/ns/mnt");
	size_t skip = own_root ? root_length(root, path) : 0;
	/* a file that it opened before it changed its root is the same here, if the mounts are */
	bool inside = path[0] == '/' && (own_mounts || (own_root && (skip > 0 || !path[1])));
	return asprintf(ret_path, "%s%s", inside ? root : "", path + skip) < 0 ? &gm_error_no_memory
	                                                                       : NULL;
}

static struct gm_error *live_file_path(
        const struct gm_image *image, const char *path, char **ret_path)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(path), tail = sizeof(deleted) - 1;
	if (length > tail && strcmp(path + length - tail, deleted) == 0 &&
	        mapped_link(image, path, ret_path))
		return NULL;
	const char *sysroot = live_of(image)->sysroot;
	if (sysroot && path[0] == '/') {
		if (asprintf(ret_path, "%s%s", sysroot, path) < 0)
			return &gm_error_no_memory;
		if (access(*ret_path, F_OK) == 0)
			return NULL;
		free(*ret_path);
	}
	return path_in_root(image->pid, path, ret_path);
}

static struct gm_error *live_set_sysroot(struct gm_image *image, const char *sysroot)
{
	char *copy = sysroot ? strdup(sysroot) : NULL;
	if (sysroot && !copy)
		return &gm_error_no_memory;
	free(live_of(image)->sysroot);
	live_of(image)->sysroot = copy;
	return NULL;
}

/* --- registers -------------------------------------------------------------------------------- */

static struct gm_error *live_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers)
{
	struct user_regs_struct user;
	if (ptrace(PTRACE_GETREGS, thread, NULL, &user) != 0) {
		int os_error = errno;
		if (kill(image->pid, 0) != 0 && errno == ESRCH)
			return error_ended(image->pid);
		return gm_error_os(GM_TARGET, os_error,
		        "registers of thread %d: only the debugger that stopped it can read them: "
		        "ask "
		        "inside gdb while the program is stopped",
		        thread);
	}
	*ret_registers = gm_registers_from_kernel(&user);
	return NULL;
}

/* --- open and close --------------------------------------------------------------------------- */

static void live_close(struct gm_image *image)
{
	struct live *live = live_of(image);
	gm_image_deinit(image);
	if (live->memory >= 0)
		close(live->memory);
	if (live->pagemap >= 0)
		close(live->pagemap);
	if (live->directory >= 0)
		close(live->directory);
	gm_numbers_deinit(&live->numbers);
	free(live->sysroot);
	free(live);
}

static const struct gm_image_kind live_kind = {
        .read = live_read,
        .read_many = live_read_many,
        .touched = live_touched,
        .next_touched = live_next_touched,
        .resident = live_resident,
        .explain = live_explain,
        .refresh = live_refresh,
        .check_there = live_check_there,
        .threads = live_threads,
        .thread_of = live_thread_of,
        .registers = live_registers,
        .file_path = live_file_path,
        .set_sysroot = live_set_sysroot,
        .close = live_close,
};

/* Chooses how memory is read, by reading one byte of it. */
static struct gm_error *choose_reader(struct live *live)
{
	const struct gm_maps *maps = &live->image.maps;
	uint64_t address = 0;
	for (size_t i = 0; i < maps->count && !address; i++) {
		if ((maps->items[i].flags & (GM_MAPPING_READ | GM_MAPPING_DEVICE)) ==
		        GM_MAPPING_READ)
			address = maps->items[i].start;
	}
	char byte;
	int os_error = 0;
	if (live_read(&live->image, address, &byte, 1, &os_error) == 1 || os_error == EFAULT)
		return NULL;
	if (os_error == ESRCH)
		return error_ended(live->image.pid);
	live->memory = openat(live->directory, "mem", O_RDONLY | O_CLOEXEC);
	if (live->memory >= 0 && live_read(&live->image, address, &byte, 1, &os_error) == 1)
		return NULL;
	return error_refused(live->image.pid);
}

struct gm_error *gm_image_open_pid(pid_t pid, struct gm_image **ret_image)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	int directory = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (directory < 0)
		return gm_error_create(GM_TARGET,
		        "process %d: no such process: give the id of a running process", pid);
	struct live *live = calloc(1, sizeof(*live));
	if (!live) {
		close(directory);
		return &gm_error_no_memory;
	}
	live->directory = directory;
	live->memory = -1;
	live->pagemap = openat(directory, "pagemap", O_RDONLY | O_CLOEXEC);
	gm_numbers_init(&live->numbers, pid);
	struct gm_error *error = gm_image_init(&live->image, &live_kind, pid);
	if (!error)
		error = choose_reader(live);
	if (error) {
		live_close(&live->image);
		return error;
	}
	*ret_image = &live->image;
	return NULL;
}
