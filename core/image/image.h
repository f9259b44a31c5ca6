/*
 * Image: the memory, mappings, threads and registers of one process, read from outside.
 *
 * An image is a live process (process_vm_readv; no code runs in it), a core dump or a process that
 * only a debugger can read (remote.h); callers need not know which. Reading never crosses a
 * mapping's end, and an address that cannot be read is answered with the reason: not mapped; mapped
 * but not saved (core); beyond the end of a truncated core.
 *
 * This room may include base. It knows nothing of ELF symbols, Python or PyTorch.
 *
 * Thread-safety: an image may be read by several threads at once (but see
 * gm_image_reads_anywhere()); refresh, invalidate and close may not run beside anything else.
 */
#ifndef GM_IMAGE_IMAGE_H
#define GM_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/mapping.h"
#include "image/memory.h"
#include "image/types.h"

struct gm_image;

/* Opens a live process. GM_TARGET: no such process, or no permission (the message has the remedy).
 */
struct gm_error *gm_image_open_pid(pid_t pid, struct gm_image **ret_image);
/*
 * Opens an ELF core dump by gcore, the kernel or gpumem. Parts of mapped files that are not in the
 * core are read from the files on disk, if they are the same. GM_TARGET: it cannot be opened;
 * GM_CORRUPT: not a core of x86-64. A truncated core can be opened if its headers and notes are
 * complete. A compressed one (.zst, .xz, .gz) is decompressed into an unnamed temporary file;
 * `progress`, which may be NULL, shows that.
 */
struct gm_error *gm_image_open_core(const char *path, struct gm_image **ret_image);
struct gm_error *gm_image_open_core_showing(
        const char *path, const struct gm_progress *progress, struct gm_image **ret_image);
void gm_image_close(struct gm_image *image);

pid_t gm_image_pid(const struct gm_image *image);         /* 0: not a process */
pid_t gm_image_main_thread(const struct gm_image *image); /* 0: not known */
/* GM_CORRUPT if the image is a truncated core; the message has the number of missing bytes. The
 * rest can still be read. */
struct gm_error *gm_image_check_whole(const struct gm_image *image);

/* GM_TARGET if the image is a process that has ended: then the data read last may be invalid. */
struct gm_error *gm_image_check_there(const struct gm_image *image);

/* A path that opens the target's file `path` (through /proc/PID/root if its mount namespace
 * differs). The caller frees it. */
struct gm_error *gm_image_file_path(
        const struct gm_image *image, const char *path, char **ret_path);

/*
 * The folder with the target's files on the local disk: each file is first searched for in this
 * folder, at its own path below it (for a core also by its file name). NULL: none. A core's library
 * is used only if it is the same build.
 */
struct gm_error *gm_image_set_sysroot(struct gm_image *image, const char *folder);

/* A core's libraries; none for other images. The caller frees the array; the strings
 * belong to the image and are valid until its sysroot changes. */
struct gm_error *gm_image_files(
        struct gm_image *image, struct gm_image_file **ret_files, size_t *ret_count);

/* Whether any thread may read it. A process behind a debugger may be read only in the calling
 * thread, because debuggers answer only there. */
bool gm_image_reads_anywhere(const struct gm_image *image);

/* Whether the target may run and load libraries: false for a core. */
bool gm_image_goes_on(const struct gm_image *image);

/* Reads /proc/PID/maps again, for newly loaded libraries. */
struct gm_error *gm_image_refresh(struct gm_image *image);
/* Drops cached pages: call it whenever the target may have run since the last read. */
void gm_image_invalidate(struct gm_image *image);

/* Bytes that gm_image_touched() leaves out because they contain no address; a search need not read
 * them. */
uint64_t gm_image_pointer_free(const struct gm_image *image);

/*
 * Begins to cache the program's memory (kept.h), for one question that reads much of it; end it
 * before the target may run. NULL from gm_image_read_cache(): no cache.
 */
struct gm_kept;
void gm_image_read_cache_begin(struct gm_image *image);
struct gm_kept *gm_image_read_cache(const struct gm_image *image);
void gm_image_read_cache_end(struct gm_image *image);

/* All mappings, by address; owned by the image, valid until the next refresh. */
const struct gm_mapping *gm_image_mappings(const struct gm_image *image, size_t *ret_count);
/* The mapping that contains `address`, or NULL. */
const struct gm_mapping *gm_image_find_mapping(const struct gm_image *image, uint64_t address);

/* Reads all of the bytes, or returns an error with the first unreadable address and the reason.
 * Small reads (up to a page) go through a page cache. */
struct gm_error *gm_image_read(struct gm_image *image, uint64_t address, void *buffer, size_t size);
/* The same without an error object, for hot paths and for probing: true if everything was read. */
bool gm_image_try_read(struct gm_image *image, uint64_t address, void *buffer, size_t size);
/* As many bytes as can be read from `address` on, never past the mapping's end; returns their
 * number. */
size_t gm_image_read_some(struct gm_image *image, uint64_t address, void *buffer, size_t size);
/* Many ranges in few system calls; bypasses the cache. */
void gm_image_read_many(struct gm_image *image, struct gm_read *reads, size_t count);
/* A NUL-terminated string of at most `max` bytes; caller frees. */
struct gm_error *gm_image_read_string(
        struct gm_image *image, uint64_t address, size_t max, char **ret_string);

static inline bool gm_image_try_u64(struct gm_image *image, uint64_t address, uint64_t *ret_value)
{
	return gm_image_try_read(image, address, ret_value, sizeof(*ret_value));
}
static inline bool gm_image_try_u32(struct gm_image *image, uint64_t address, uint32_t *ret_value)
{
	return gm_image_try_read(image, address, ret_value, sizeof(*ret_value));
}

/* Thread ids in gpumem's own /proc (inside a container the target may have others); the caller
 * frees the array. */
struct gm_error *gm_image_threads(struct gm_image *image, pid_t **ret_threads, size_t *ret_count);

/*
 * glibc's struct pthread has the kernel's id at this offset on x86-64 (nptl/descr.h: 704 bytes of
 * header, then a list node, then `pid_t tid`), the same from 2.4 on; fork() sets it again in the
 * child.
 */
enum { GM_PTHREAD_TID = 0x2d0 };

/* The id, as in gm_image_threads(), of the thread whose id inside the target is `inside`: in a
 * container they differ. 0: there is no such thread. */
pid_t gm_image_thread_of(struct gm_image *image, pid_t inside);

/*
 * The registers of a stopped thread. On a live process this is a ptrace request, so it works only
 * in the thread that traces the target: inside gdb, its main thread (where gdb runs Python). That
 * takes 1 µs, gdb's own register access 50. GM_TARGET if gpumem is not the tracer: then the caller
 * must get the registers elsewhere.
 */
struct gm_error *gm_image_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers);

#endif
