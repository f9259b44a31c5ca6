/*
 * Writes a small core dump of a process, which gdb, other tools and gm_image_open_core() can open
 * (core_plan.h lists what is left out). Unlike gcore it does not make the process larger, because
 * it does not touch pages that the process never touched.
 *
 * All threads are stopped while their registers and memory are copied, and then continue, even if
 * gpumem is killed. Where the calling thread traces the process already (gdb's main thread, where
 * Python runs), it is copied as it stands and stays stopped.
 */
#ifndef GM_IMAGE_CORE_WRITE_H
#define GM_IMAGE_CORE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/image.h"

/* All zero: the main thread, uncompressed, no calls about progress. */
struct gm_core_options {
	bool compress; /* zstd */
	pid_t thread;  /* the one that debuggers select: the one that ran out of memory; 0: the main
	                  one */
	int signal;    /* what killed it, 0: nothing */
	/* Called now and then from the calling thread, in bytes of memory. */
	void (*progress)(void *context, uint64_t done, uint64_t all);
	void *context;
	const volatile int *cancel; /* set to non-zero by a signal handler: give up; NULL: none */
};

struct gm_core_written {
	uint64_t length; /* of the core, holes counted, before compression */
	uint64_t disk;   /* what it takes on the disk */
	uint64_t memory; /* of the process, that is in it */
	uint64_t unread; /* bytes that should be in it but could not be read: they are zero */
	/* left out, in bytes of address space */
	uint64_t device, untouched, files;
	size_t threads;
	double stopped; /* seconds that the process was stopped */
};

/*
 * GM_TARGET: the process cannot be stopped or read, it ended meanwhile, or the file cannot be
 * written. Then, and where it was given up (GM_TARGET too), nothing is left of the file; an older
 * one of that name stays as it was.
 */
struct gm_error *gm_core_write(struct gm_image *image, const char *path,
        const struct gm_core_options *options, struct gm_core_written *ret_written);

#endif
