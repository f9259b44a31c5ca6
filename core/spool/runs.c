/* Whether the process of a recording still runs: its id may belong to another one by now. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spool/internal.h"

/* When the process with this start time (in ticks since the machine's start) began, ns since the
 * Unix epoch. */
static uint64_t began_ns(uint64_t ticks)
{
	struct timespec now, up;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	int64_t boot = (int64_t)(now.tv_sec - up.tv_sec) * 1000000000 + now.tv_nsec - up.tv_nsec;
	return (uint64_t)boot + ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

bool gm_spool_runs(const struct gm_agent_file_header *header)
{
	/* The machine's clock may have been set a little since. */
	const uint64_t slack_ns = UINT64_C(60) * 1000000000;
	enum { KERNEL_THREAD = 0x200000 }; /* PF_KTHREAD, include/linux/sched.h */
	char path[64], line[1024], state;
	unsigned flags;
	uint64_t ticks;
	if (header->state > GM_AGENT_EXITED)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/stat", header->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t size = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
	line[size] = 0;
	/* its name may have any characters, line feeds too */
	const char *fields = strrchr(line, ')');
	if (!fields || sscanf(fields,
	                       ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
	                       "%*d %*d %*d %" SCNu64,
	                       &state, &flags, &ticks) != 3)
		return false;
	uint64_t began = began_ns(ticks);
	bool is_other = flags & KERNEL_THREAD ||
	                (began > header->start_ns && began - header->start_ns > slack_ns);
	return state != 'Z' && state != 'X' && !is_other;
}
