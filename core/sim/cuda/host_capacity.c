/*
 * Host memory for the simulated devices' bytes.
 *
 * Data that is copied to a device needs host memory. Before the kernel would end the program
 * because memory is short, such copies are no longer stored: their destination reads as never
 * computed, one line reports it, and the program and its counters, which need only sizes, continue.
 * Copies of at most GM_SIM_SMALL bytes are always stored, because the program branches on them.
 *
 * GPUMEM_SIM_HOST_MEMORY (MiB) sets how much this process may store, instead of what the machine
 * has left.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/cuda/sim.h"
#include "sim/host_memory.h"

static _Atomic uint64_t kept;    /* bytes that larger copies wrote and that were not released */
static _Atomic uint64_t checked; /* `kept` when the machine was last checked */
static _Atomic bool full;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t allowed = UINT64_MAX;

static void start(void)
{
	const char *setting = getenv("GPUMEM_SIM_HOST_MEMORY");
	if (!setting || !*setting)
		return;
	char *end;
	errno = 0;
	unsigned long long mib = strtoull(setting, &end, 10);
	if (errno || *end || mib > UINT64_MAX >> 20)
		gm_sim_say("GPUMEM_SIM_HOST_MEMORY='%.32s': not a number of MiB: taken as what the "
		           "machine has left",
		        setting);
	else
		allowed = (uint64_t)mib << 20;
}

static void warn_once(uint64_t left)
{
	static _Atomic bool said;
	if (atomic_exchange(&said, true))
		return;
	gm_sim_say("host memory is running out (%" PRIu64 " MiB left; %" PRIu64
	           " MiB hold what was copied to the simulated device): from here on, data copied "
	           "there is not kept and reads as never computed; sizes stay exact",
	        left >> 20, kept >> 20);
}

bool gm_sim_host_capacity_take(uint64_t more)
{
	if (!more)
		return true;
	pthread_once(&once, start);
	uint64_t sum = atomic_fetch_add(&kept, more) + more;
	uint64_t left;
	if (allowed != UINT64_MAX) {
		if (sum <= allowed)
			return true;
		left = allowed > sum - more ? allowed - (sum - more) : 0;
	} else {
		/* Checked every 64 MiB, and for each copy when memory is short. */
		if (!full && sum < checked + (64 << 20))
			return true;
		struct gm_sim_host_memory memory;
		gm_sim_host_memory("", &memory);
		checked = sum;
		/* Memory that the program itself may need next: an eighth, at most half a GiB. */
		uint64_t reserve =
		        memory.whole / 8 < 512 << 20 ? memory.whole / 8 : UINT64_C(512) << 20;
		left = memory.left;
		if (left >= reserve && left - reserve >= more) {
			full = false;
			return true;
		}
	}
	atomic_fetch_sub(&kept, more);
	warn_once(left);
	full = true;
	return false;
}

void gm_sim_host_capacity_give(uint64_t bytes)
{
	uint64_t now = kept, less;
	do
		less = now > bytes ? now - bytes : 0;
	while (!atomic_compare_exchange_weak(&kept, &now, less));
	if (checked > less)
		checked = less;
}
