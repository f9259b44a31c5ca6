/*
 * A process that only a debugger can read: on another machine, behind gdbserver. The debugger
 * passes callbacks that read memory and registers, and the text of /proc/PID/maps; this makes an
 * image.
 *
 * The process must stay stopped while the image is open: data that was read is cached in an unnamed
 * file, because reading over a network is slow. The callbacks are called from the reading thread;
 * an image of this kind should be read from one thread (gm_image_reads_anywhere()).
 */
#ifndef GM_IMAGE_REMOTE_H
#define GM_IMAGE_REMOTE_H

#include "image/image.h"

struct gm_remote {
	void *context;
	/* As many bytes as can be read from `address` on; returns their number. */
	size_t (*read)(void *context, uint64_t address, void *buffer, size_t size);
	/* 17 words as enum gm_register has them; false: they cannot be read. */
	bool (*registers)(void *context, pid_t thread, uint64_t *words);
	/* The path of a copy on this machine of a file of the target's; false: there is none. It
	 * lasts as long as the debugger does. */
	bool (*file)(void *context, const char *path, char *ret_path, size_t size);
	const char *maps; /* text of /proc/PID/maps */
	const pid_t *threads;
	size_t thread_count;
	pid_t main_thread; /* as it is numbered there */
};

/* What `remote` points to is copied, but the callbacks' context. GM_TARGET: the maps cannot be
 * understood. */
struct gm_error *gm_image_open_remote(const struct gm_remote *remote,
        const struct gm_progress *progress, struct gm_image **ret_image);

#endif
