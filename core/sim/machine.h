/*
 * Shared by the processes of one `gpumem run --sim`: how much each has of each device (struct
 * gm_sim_machine of account.h).
 *
 * On a machine several processes share a GPU's memory; here each has a device of its own bytes, and
 * this page adds up what they hold. It is a memory file that `gpumem run` makes before it becomes
 * the program, and that the program's processes open through /proc
 * (GPUMEM_SIM_MACHINE=PID:FILE:INODE), so nothing must be cleaned up. A process that died is
 * known by its pid and start time, and its part is released when somebody asks.
 */
#ifndef GM_SIM_MACHINE_H
#define GM_SIM_MACHINE_H

#include "base/error.h"
#include "sim/account.h"

/* Makes the page and leaves it open over exec; the value of GPUMEM_SIM_MACHINE in *ret, to be
 * freed. */
struct gm_error *gm_sim_machine_make(char **ret);

#endif
