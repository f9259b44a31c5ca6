/*
 * The job that this process is a part of, as its launcher's variables say: which rank it is, of how
 * many, and where it stands in the job's groups. Read in each process, when its recording begins:
 * torchrun sets RANK only in the processes that it starts.
 */
#ifndef GM_AGENT_JOB_H
#define GM_AGENT_JOB_H

#include <stdint.h>

/*
 * This process's rank; UINT32_MAX: none. Where several launchers are nested, the innermost one
 * counts: torchrun's RANK (or what a script sets for torch.distributed), then Open MPI's, PMIx's
 * and PMI's variables, which mpirun or srun sets for each process, and Slurm's task at the end: a
 * batch script that calls mpirun has SLURM_PROCID=0 for all of its processes.
 */
uint32_t gm_agent_job_rank(void);

/* Puts those variables into the recording, and this host's name where there is a rank. */
void gm_agent_job_put(void);

/* Puts one setting into the recording. */
void gm_agent_setting_put(const char *name, const char *value);

#endif
