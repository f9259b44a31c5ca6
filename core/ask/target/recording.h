/*
 * The recording that a process writes, or was writing when its core was made: found by what the
 * process has mapped. It is read by its path; nothing of it is taken from the process's memory,
 * where only the end of it is.
 */
#ifndef GM_ASK_RECORDING_H
#define GM_ASK_RECORDING_H

#include <stdbool.h>

#include "base/error.h"

struct gm_image;

/* The path, as we can open it: the agent's file, or the log that it was made into since. *ret_path
 * is NULL where there is none. The caller frees it. */
struct gm_error *gm_recording_of(const struct gm_image *image, char **ret_path);
/* Whether a file that the image has mapped is a recording, or was one, by its name, that is gone.
 */
bool gm_recording_is_mapped_from(const struct gm_image *image, const char *mapped);
/* gm_recording_of() of a process. */
struct gm_error *gm_recording_find(int pid, char **ret_path);

#endif
