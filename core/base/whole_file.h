/*
 * Writes a file that gets its name only when it is complete; until then an existing file of that
 * name remains. gpumem replaces users' files only in this way. It is safe in folders that others
 * can write to.
 *
 * Until it is complete, the file has no name (O_TMPFILE) or, if the file system does not support
 * that, a new temporary name: ".NAME.RANDOM.gpumem-part", created with O_EXCL and never through a
 * link. If gpumem is killed, this name remains; the next writer of the same NAME finds that nobody
 * holds the file's lock, and removes it. The folder is opened once, and all names are looked up in
 * it.
 *
 * Only regular files are replaced. A FIFO or a character device is written in place; directories,
 * block devices and sockets are refused. A symbolic link is followed if it belongs to root or to
 * the user, otherwise refused.
 */
#ifndef GM_BASE_WHOLE_FILE_H
#define GM_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct gm_whole_file {
	int fd;          /* to be written to */
	int folder;      /* the one that it will lie in */
	char *path;      /* as it was given, for messages */
	char *name;      /* in the folder; NULL: it is written in place */
	char *temporary; /* its name until it is whole, NULL: none */
};

enum gm_whole_file_how {
	GM_WHOLE_FILE_ANY,
	GM_WHOLE_FILE_OF_MANY, /* one of thousands in its folder: what a killed writer left is not
	                          looked for there, as that reads all names */
	GM_WHOLE_FILE_NAMED,   /* for a library that opens it by its name: gm_whole_file_temporary()
	                        */
};

/* `mode` as for open(2): the umask is taken off. GM_TARGET: it cannot be written there. */
struct gm_error *gm_whole_file_open(
        const char *path, mode_t mode, enum gm_whole_file_how how, struct gm_whole_file *ret_file);
/* A path under which it can be opened until it is finished, NULL: no memory. The caller frees
 * it. */
char *gm_whole_file_temporary(const struct gm_whole_file *file);
/* Gives it its name, and closes it in any case. */
struct gm_error *gm_whole_file_finish(struct gm_whole_file *file);
/* The same for a name that must be new: an error with EEXIST if there is a file of that name, which
 * stays; then the file is still open, and may be finished under another name. */
struct gm_error *gm_whole_file_finish_new(struct gm_whole_file *file, const char *name);
/* Writes all of the bytes. False: errno tells why not. */
bool gm_write_all(int fd, const void *bytes, size_t size);
/* Drops it, unless it was finished. */
void gm_whole_file_close(struct gm_whole_file *file);

#endif
