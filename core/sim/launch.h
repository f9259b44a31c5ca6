/*
 * Starting a program on the simulated device: which environment makes it so.
 *
 * The program is unmodified and need not know: two libraries are preloaded (LD_PRELOAD) in front of
 * CUDA's, and variables tell them what to be:
 *
 *     GPUMEM_SIM=PROFILE[xN]      the device (gpumem sim list), default h100-80gb
 *     GPUMEM_SIM_CONTEXT=MIB      what the context keeps of the device's memory
 *     GPUMEM_SIM_QUIET=1          no notes and no account on stderr
 *     GPUMEM_SIM_JSON=FILE        the account is appended to FILE, a JSON object a process
 *     GPUMEM_SIM_COMPUTE_BELOW=N  kernels that touch at most N bytes are computed, if known
 *     GPUMEM_SIM_OVERFLOW_AT=N,M  steps of mixed precision whose gradients overflow
 *     GPUMEM_SIM_RANK=R, _WORLD=W one rank of a job whose other ranks are not there; with it
 *                                 RANK, WORLD_SIZE, MASTER_ADDR, ... as torchrun sets them
 *     GPUMEM_SIM_MACHINE=P:F:I    the page that this run's processes add up in (machine.h)
 *
 * `gpumem run --sim` gives them to the program it becomes, `gpumem gdb --sim` to the program it
 * debugs (and not to gdb itself). This part knows nothing of CUDA.
 */
#ifndef GM_SIM_LAUNCH_H
#define GM_SIM_LAUNCH_H

#include "base/error.h"

struct gm_sim_launch {
	const char *profile;       /* NULL or "": the default */
	const char *json;          /* NULL: no account in a file */
	const char *compute_below; /* bytes, "64KiB"; NULL: the library's default */
	const char *overflow_at;   /* "3" or "3,7"; NULL: none */
	const char *rank, *world;  /* one rank whose peers are not there (store.h); NULL: none */
};

/*
 * The settings, "NAME=VALUE" each, NULL after the last; to be freed with gm_sim_settings_free().
 * Refuses a wrong profile (GM_USAGE). The libraries are found next to this program or library: in a
 * build tree, in an installed prefix, or where GPUMEM_SIM_LIBRARY names libgpumem-sim.so.
 * LD_PRELOAD keeps what it has.
 */
struct gm_error *gm_sim_settings(const struct gm_sim_launch *launch, char ***ret);
void gm_sim_settings_free(char **settings);

/*
 * A line for stderr, without its end, where this machine has a real GPU: which device the program
 * runs on. NULL where there is no GPU, or GPUMEM_SIM_QUIET asks for no notes. The caller frees it.
 * GPUMEM_DEV names another folder than /dev.
 */
char *gm_sim_real_device_note(const char *profile);

/* The path of libgpumem-sim.so; the caller frees it. */
struct gm_error *gm_sim_library(char **ret);

#endif
