/*
 * A gpumem process next to this one reads the names of tensors (`gpumem run --names`). The agent
 * only chooses the moment: the end of the optimizer's second step. Then the gradients exist,
 * because zero_grad() comes later, and so does the optimizer's state.
 *
 * The stepping thread waits there until its process has been stopped and copied: once, for some
 * tenths of a second. It continues by itself if nobody reads, or the reader has ended.
 */
#include "agent/names.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/spool.h"
#include "agent/state.h"

enum {
	STEPS = 2,         /* the step at whose end it asks */
	LOOK_MS = 50,      /* interval between checks for the reader */
	COME_MS = 5000,    /* how long it waits for a reader of whom nothing was seen */
	READING_MS = 30000 /* and for one that exists: it prepares itself, or reads */
};

static bool has_ended(uint32_t pid)
{
	char path[32], line[512];
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd >= 0 ? read(fd, line, sizeof(line) - 1) : 0;
	if (fd >= 0)
		close(fd);
	line[size > 0 ? size : 0] = 0;
	const char *state = strrchr(line, ')');
	return !state || state[1] != ' ' || state[2] == 'Z' || state[2] == 'X';
}

/* If only a parent may trace (kernel.yama.ptrace_scope 1), allows the reader for now. */
static bool only_parents_trace(void)
{
	char scope = '0';
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd >= 0 ? read(fd, &scope, 1) : 0;
	if (fd >= 0)
		close(fd);
	return size == 1 && scope == '1';
}

static void wait_for_reader(struct gm_agent_file_header *header)
{
	const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
	bool traced = false, scoped = only_parents_trace();
	for (uint32_t waited = 0; waited < READING_MS; waited += LOOK_MS) {
		uint32_t state = atomic_load(&header->names);
		uint32_t reader = atomic_load(&header->names_reader);
		if (state == GM_AGENT_NAMES_DONE || (reader && has_ended(reader)) ||
		        (!reader && waited >= COME_MS))
			break;
		if (scoped && reader && !traced)
			traced = prctl(PR_SET_PTRACER, reader, 0, 0, 0) == 0;
		/* A futex that is woken before the sleep begins ends it at once; signals shorten
		 * it. */
		syscall(SYS_futex, &header->names, FUTEX_WAIT, state, &look, NULL, 0);
	}
	if (traced)
		prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	atomic_store(&header->names, GM_AGENT_NAMES_DONE);
}

void gm_agent_names_step_ended(void)
{
	static _Atomic uint32_t steps;
	if (!gm_agent_setting_has("names", "1"))
		return;
	struct gm_agent_file_header *header = gm_agent_spool_header();
	if (!header || atomic_load(&header->state) != GM_AGENT_RUNS ||
	        atomic_fetch_add(&steps, 1) + 1 < STEPS)
		return;
	int saved = errno, cancel;
	pthread_setcancelstate(
	        PTHREAD_CANCEL_DISABLE, &cancel); /* the reader waits for this thread */
	uint32_t state = atomic_load(&header->names);
	while (state < GM_AGENT_NAMES_ASKED)
		if (atomic_compare_exchange_weak(&header->names, &state, GM_AGENT_NAMES_ASKED)) {
			syscall(SYS_futex, &header->names, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
			wait_for_reader(header);
			break;
		}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}
