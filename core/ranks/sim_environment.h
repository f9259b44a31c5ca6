/*
 * The environment of a simulated rank's program, and whether it is that of ranks which were run
 * before.
 *
 * The variables of the launcher that started gpumem-ranks are not the program's: they are taken
 * away, as a program may look at them. PYTHONHASHSEED=0 makes the order of Python's sets the same
 * in all ranks, so that equal ones can be found equal, and OMP_NUM_THREADS=1 is what torchrun sets
 * where several processes share a machine; both only where the user has not set them.
 *
 * What a program does may depend on any of the others, except those of the terminal and the session
 * (TERM, SSH_CLIENT ...). A few bits of a hash of each are kept, never its value: too few to tell a
 * secret by, and enough to see a change.
 */
#ifndef GM_RANKS_SIM_ENVIRONMENT_H
#define GM_RANKS_SIM_ENVIRONMENT_H

#include <jansson.h>

/* Makes this process's environment a rank's. */
void gm_sim_environment_set(void);
/* {name: hash} of the variables that count, and of where PATH has `program`. */
json_t *gm_sim_environment_describe(const char *program);
/* "MIB, BATCH and 3 more": the names whose hashes differ; the caller frees it. NULL: no memory. */
char *gm_sim_environment_different(const json_t *before, const json_t *now);

#endif
