/*
 * What the processes of one `gpumem run --sim` share: how much each has of each device.
 *
 * On a machine several processes share a GPU's memory; here each has a device of its own bytes, and this page
 * adds up what they hold. It is a memory file that `gpumem run` makes before it becomes the program, and that the
 * program's processes open through /proc (GPUMEM_SIM_MACHINE=PID:FILE:INODE), so nothing has to be cleaned up. A
 * process that died is known by its pid and start time, and its part is given back when somebody asks.
 */
#ifndef GM_SIM_MACHINE_H
#define GM_SIM_MACHINE_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "sim/account.h"

#define GM_SIM_MACHINE_MAGIC UINT64_C(0x6863616d6d697367) /* "gsimmach" */

enum { GM_SIM_MACHINE_PROCESSES = 512 };

struct gm_sim_machine {
	uint64_t magic;
	pthread_mutex_t lock; /* between processes; robust */
	struct gm_sim_machine_process {
		uint32_t process; /* 0: free */
		uint32_t unused;
		uint64_t
		        start; /* in clock ticks since the machine's start, field 22 of /proc/PID/stat */
		uint64_t bytes[GM_SIM_DEVICES_MAX];
	} processes[GM_SIM_MACHINE_PROCESSES];
};

/* Makes the page and leaves it open over exec; the value of GPUMEM_SIM_MACHINE in *ret, to be freed. */
struct gm_error *gm_sim_machine_make(char **ret);

#endif
