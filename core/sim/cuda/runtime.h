/* The CUDA runtime's own header, as the files that define its functions need it (C, no inline
 * templates). */
#ifndef GM_SIM_CUDA_RUNTIME_H
#define GM_SIM_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

/* The error for a call that found no device: none configured, or a forked child. */
int gm_sim_no_device(void);

#endif
