/*
 * A file that takes its name when it is whole: whoever finds it finds all of it, and what bore the
 * name before is there until then. The one way in which gpumem replaces a file of the user's. Safe
 * in a folder that others may write to as well.
 *
 * Until it is whole it has no name (O_TMPFILE), or, where the file system knows no such files, a
 * name of its own that nothing else bore: ".NAME.RANDOM.gpumem-part", created by O_EXCL and never
 * through a link. Such a name is left where we are killed; the next one for the same NAME finds
 * that nobody holds the file's lock, and removes it. The folder is opened once: all names are
 * looked up in that one.
 *
 * Only regular files are replaced. A FIFO or a character device is written in place and stays what
 * it is; directories, block devices and sockets are refused. A symbolic link is followed where it
 * is root's or our own, else refused.
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
	GM_WHOLE_FILE_NAMED, /* for a library that opens it by its name: gm_whole_file_temporary()
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
/* Drops it, unless it was finished. */
void gm_whole_file_close(struct gm_whole_file *file);

#endif
