/*
 * The folder of a simulated job: what was run so far. job.json tells which job it is, so that
 * ranks of two jobs are never mixed; of each rank there are
 *
 *   rank.N.json     its result, written when it is finished
 *   rank.N.gpumem   its recording, and rank.N.gpumem.PID of its further processes
 *   rank.N.out      what it wrote; it is there before the recording is
 *
 * and job.lock, which the command holds that is at work. No other file is touched.
 */
#ifndef GM_RANKS_SIM_FOLDER_H
#define GM_RANKS_SIM_FOLDER_H

#include <stdbool.h>

#include "base/array.h"
#include "ranks/sim_result.h"

struct gm_sim_job {
	const char *folder;
	uint32_t world;
	const char *profile, *compute_below, *overflow_at; /* as given; NULL: not */
	uint32_t timeout; /* seconds that a rank may take; 0: any */
	bool again;       /* ranks that failed are run again */
	char **program;   /* ends with NULL */
};

/* Creates the folder where it is missing; every process does. */
struct gm_error *gm_sim_folder_make(const struct gm_sim_job *job);
/* Process 0, before anything else: nobody else may work there as long as *ret_fd is open. False in
 * *ret_locked: the file system has no locks. GM_USAGE: somebody does, or the folder is not ours. */
struct gm_error *gm_sim_folder_lock(const struct gm_sim_job *job, int *ret_fd, bool *ret_locked);
/* Process 0: notes which job it is. GM_USAGE: it holds another one, and says what differs. */
struct gm_error *gm_sim_folder_begin(const struct gm_sim_job *job);

struct gm_sim_results {
	GM_ARRAY(struct gm_sim_result) items;
};
/* The ranks that are finished there. What cannot be read of them is run again, as are timed out
 * ones that have more time now and, if so wanted, all that failed. */
struct gm_error *gm_sim_folder_read(
        const struct gm_sim_job *job, struct gm_sim_results *ret_results);
struct gm_error *gm_sim_folder_write(
        const struct gm_sim_job *job, const struct gm_sim_result *result);

/* "FOLDER/rank.N.SUFFIX"; the caller frees it; NULL: no memory. */
char *gm_sim_folder_path(const struct gm_sim_job *job, uint32_t rank, const char *suffix);
/* The recordings of a rank: its own and those of its further processes. */
struct gm_sim_paths {
	GM_ARRAY(char *) items; /* owned */
};
struct gm_error *gm_sim_folder_recordings(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_paths *ret_paths);
void gm_sim_paths_deinit(struct gm_sim_paths *paths);

#endif
