/*
 * The recording of a process that is being recorded: the file that the agent in it writes.
 */
#ifndef GM_ASK_RECORDING_H
#define GM_ASK_RECORDING_H

#include "base/error.h"

/* The path of that file, which the process has mapped; NULL: it is not being recorded. The caller frees it. */
struct gm_error *gm_recording_find(int pid, char **ret_path);

#endif
