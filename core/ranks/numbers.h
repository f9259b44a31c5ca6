/* The number of each rank, and which have no file. */
#ifndef GM_RANKS_NUMBERS_H
#define GM_RANKS_NUMBERS_H

#include "ranks/job.h"

/* As recorded, else by the one number in which the names of the files differ; sorts the files, and
 * fills in `known`, `world` and `missing`. */
struct gm_error *gm_job_number(struct gm_job *job);

/* The length of a path without the process id of FILE.gpumem.PID. */
size_t gm_path_stem(const char *path);

#endif
