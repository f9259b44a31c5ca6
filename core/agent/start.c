/*
 * Starts and stops recordings: at the program's start, in a running program, in a forked child, at
 * the first CUDA call.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/patch.h"
#include "agent/spool.h"
#include "agent/stacks/stacks.h"
#include "agent/block.h"
#include "agent/clock.h"
#include "agent/cupti.h"
#include "agent/driver_api.h"
#include "agent/event.h"
#include "agent/existing.h"
#include "agent/file.h"
#include "agent/gap.h"
#include "agent/hooks.h"
#include "agent/job.h"
#include "agent/marks.h"
#include "agent/runtime.h"
#include "agent/runtime_more.h"
#include "agent/amp.h"
#include "agent/collectives.h"
#include "agent/resized.h"
#include "agent/state.h"
#include "agent/tensors.h"
#include "agent/torch_marks.h"

/* Written by `gpumem attach`: memory that it mapped in this process, for the next attach. */
GM_AGENT_EXPORT extern uint64_t gpumem_agent_mapping[2];
uint64_t gpumem_agent_mapping[2];

/* The one line. */
static void report(const char *what, const char *why)
{
	char line[PATH_MAX + 256];
	int length = snprintf(
	        line, sizeof(line), "gpumem: %s: %s: the program runs unrecorded\n", what, why);
	if (length > 0 && gm_agent_process.report) {
		gm_agent_without_controls(line, (size_t)length);
		ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
		(void)ignored;
	}
}

/* What a user would have typed. */
static void read_command(char *ret, size_t size)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t count = fd >= 0 ? read(fd, ret, size - 1) : 0;
	if (fd >= 0)
		close(fd);
	if (count < 0)
		count = 0;
	while (count > 0 && ret[count - 1] == 0)
		count--;
	for (ssize_t i = 0; i < count; i++)
		if (!ret[i])
			ret[i] = ' ';
	ret[count] = 0;
}

/* Otherwise the kernel would end the program with SIGXFSZ. */
static bool may_grow(int fd, size_t more)
{
	struct rlimit limit;
	struct stat about;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       (fstat(fd, &about) == 0 && (uint64_t)about.st_size + more <= limit.rlim_cur);
}

/* Reports to the starter of the program that this process has the agent, or (path) that it records
 * in a file. */
static void enlist(const char *path)
{
	char list[PATH_MAX], line[PATH_MAX + 32];
	gm_agent_setting("list", list, sizeof(list));
	int fd = *list ? open(list, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	int length = snprintf(
	        line, sizeof(line), "%u%s%s\n", (uint32_t)getpid(), *path ? " " : "", path);
	if (may_grow(fd, (size_t)length))
		(void)!write(fd, line, (size_t)length);
	close(fd);
}

/* Functions of which the agent exports none: no way of loading it intercepts them. */
static void patch_unexported(void)
{
	gm_agent_patch(gm_agent_memory_hooks);
	gm_agent_patch(gm_agent_cupti_hooks);
}

/* In a program that already runs. Unless the library was preloaded, none of its symbols precedes
 * those of the program's libraries. */
static void patch_all(void)
{
	if (!gm_agent_process.preloaded) {
		gm_agent_patch(gm_agent_c10_hooks);
		gm_agent_patch(gm_agent_runtime_hooks);
		gm_agent_patch(gm_agent_tensor_hooks);
		gm_agent_patch(gm_agent_resize_hooks);
		gm_agent_patch(gm_agent_amp_hooks);
		gm_agent_patch(gm_agent_collective_hooks);
	}
	patch_unexported();
	gm_agent_driver_api_patch(gm_agent_memory_hooks);
}

/* In a program that already runs. Threads that allocate meanwhile wait until this is done. */
static void begin_late(void)
{
	char existing[8] = "";
	/* they are those of the process that was attached to */
	if (gm_agent_process.attached == gm_agent_process.pid)
		gm_agent_setting("existing", existing, sizeof(existing));
	patch_all(); /* also if it was preloaded: the end of a recording takes them out */
	if (strcmp(existing, "1") == 0)
		gm_agent_existing();
	else if (*existing)
		gm_agent_gap("recording began late: earlier allocations are not in the recording");
	gm_agent_process.attached = 0;
}

/* This process's file. False: it cannot record, and has reported why. */
static bool begin(void)
{
	uint32_t parent = 0;
	uint64_t parent_id = 0;
	/* The parent may have been forked while another of its threads was in this function. */
	if (gm_agent_process.pid && !gm_agent_has_begun()) {
		/* the parent's header is not mapped here, so its id was stored */
		parent_id = gm_agent_kept_id();
		parent = parent_id ? gm_agent_process.pid : 0;
		gm_agent_spool_forget();
	}
	gm_agent_keep_id(0);
	gm_agent_process.pid = (uint32_t)getpid();
	atomic_store(&gm_agent_live->begun, 1);
	gm_agent_thread_changed();
	gm_agent_gaps_begin();
	gm_agent_blocks_begin();
	char text[64];
	gm_agent_setting("frames", text, sizeof(text));
	const struct gm_stacks_options stacks = {
	        .python = gm_agent_records(GM_AGENT_PYTHON),
	        .native = gm_agent_records(GM_AGENT_NATIVE),
	        .max_frames = (uint32_t)strtoul(text, NULL, 10),
	};
	const char *why = gm_agent_file_open();
	if (why) {
		report(gm_agent_process.path, why);
		return false;
	}
	struct gm_agent_file_header *header = gm_agent_spool_header();
	header->parent = parent;
	header->parent_id = parent_id;
	header->rank = gm_agent_job_rank();
	header->features = gm_agent_process.features;
	header->sequence_at = (uint64_t)(uintptr_t)&gm_agent_sequence;
	read_command(header->command, sizeof(header->command));
	gm_agent_keep_id(header->id);
	gm_agent_events_begin();
	gm_agent_hooks_begin();
	gm_agent_job_put();
	if (*gm_agent_process.out)
		gm_agent_setting_put(GM_AGENT_SETTING_OUT, gm_agent_process.out);
	enlist(gm_agent_process.path);
	if (!gm_stacks_start(&stacks))
		gm_agent_gap_put("no stacks: no memory for them");
	gm_agent_tensors_begin();
	gm_agent_gaps_put_early();
	gm_agent_patch_gaps();
	if (gm_agent_process.attached)
		begin_late();
	return true;
}

static void begun(void)
{
	gm_agent_torch_marks_look();
	gm_agent_ranges_kept();
}

static bool configure(const char *settings)
{
	gm_agent_process.report = true;
	gm_agent_process.begin = begin;
	gm_agent_process.begun = begun;
	gm_agent_patch_on_load(gm_agent_cupti_look, gm_agent_torch_marks_look);
	if (strlen(settings) >= sizeof(gm_agent_process.settings)) {
		report("recording", "its settings are too long");
		return false;
	}
	strcpy(gm_agent_process.settings, settings);
	gm_agent_process.features =
	        (gm_agent_setting_has("devices", "cuda") ? GM_AGENT_CUDA : 0) |
	        (gm_agent_setting_has("devices", "cpu") ? GM_AGENT_CPU : 0) |
	        (gm_agent_setting_has("stacks", "python") ? GM_AGENT_PYTHON : 0) |
	        (gm_agent_setting_has("stacks", "native") ? GM_AGENT_NATIVE : 0);
	if (!getcwd(gm_agent_process.folder, sizeof(gm_agent_process.folder)))
		strcpy(gm_agent_process.folder, "/tmp");
	if (!gm_agent_live_map()) {
		report("recording", "no memory, or a kernel before 4.14");
		return false;
	}
	return true;
}

/* Everything but the actual beginning: two threads may call this, and one of them waits. */
static int prepare(const char *settings)
{
	if (atomic_load(&gm_agent_live->state) != GM_AGENT_LIVE_OFF &&
	        !gm_agent_process.stopped) /* or it will begin at its first event, if `gpumem run`
	                                      wants that */
		return 1;
	if (!configure(settings))
		return 2;
	gm_agent_process.attached = (uint32_t)getpid();
	gm_agent_process.stopped = false;
	atomic_store(&gm_agent_live->state, GM_AGENT_LIVE_WAITING);
	return 0;
}

int gpumem_agent_start(const char *settings)
{
	if (!gm_agent_clock_allowed())
		return 3;
	if (!gm_agent_change_begin())
		return 2;
	int result = prepare(settings);
	gm_agent_change_end();
	if (result)
		return result;
	if (!gm_agent_wake())
		return 2;
	gm_agent_cupti_look();
	gm_agent_torch_marks_look();
	return 0;
}

/* Records from here on, as a preloaded library does: CUDA begins, and the driver has loaded this
 * library. Does nothing if it already records, or has ended. */
static void injected(const char *settings)
{
	if (atomic_load(&gm_agent_live->state) != GM_AGENT_LIVE_OFF || gm_agent_process.pid ||
	        !configure(settings))
		return;
	patch_all();
	enlist("");
	atomic_store(&gm_agent_live->state, GM_AGENT_LIVE_WAITING);
	gm_agent_torch_marks_look();
}

/*
 * The driver loads the library that CUDA_INJECTION64_PATH names and calls this function when CUDA
 * begins. This reaches programs that lost LD_PRELOAD, and is the right moment for CUPTI, which must
 * subscribe before the driver is initialized.
 */
GM_AGENT_EXPORT int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *settings = getenv("GPUMEM_AGENT");
	if (!gm_agent_preloaded() && settings)
		injected(settings);
	gm_agent_cupti_look();
	return 1;
}

static int end(void)
{
	uint32_t state = GM_AGENT_LIVE_RECORDS, waiting = GM_AGENT_LIVE_WAITING;
	bool was_stopped = gm_agent_process.stopped;
	gm_agent_process.stopped = true; /* first: a fork wipes the state */
	if (!atomic_compare_exchange_strong(&gm_agent_live->state, &state, GM_AGENT_LIVE_OFF)) {
		/* preloaded, and nothing was allocated yet: then it must not begin later either */
		if (!was_stopped && atomic_compare_exchange_strong(
		                            &gm_agent_live->state, &waiting, GM_AGENT_LIVE_OFF))
			return 0;
		gm_agent_process.stopped = was_stopped;
		return 1;
	}
	gm_agent_gaps_end();
	gm_agent_cupti_end();
	gm_agent_torch_marks_end();
	gm_agent_driver_api_undo();
	gm_agent_patch_undo();
	gm_agent_spool_close(GM_AGENT_STOPPED);
	return 0;
}

int gpumem_agent_stop(void)
{
	if (!gm_agent_change_begin())
		return 1;
	int result = end();
	gm_agent_change_end();
	return result;
}

const char *gpumem_agent_path(void)
{
	return atomic_load(&gm_agent_live->state) == GM_AGENT_LIVE_RECORDS ? gm_agent_process.path
	                                                                   : "";
}

__attribute__((constructor)) static void on_load(void)
{
	const char *settings = getenv("GPUMEM_AGENT"), *preload = getenv("LD_PRELOAD");
	gm_agent_process.preloaded = settings && preload && strstr(preload, "libgpumem-agent.so");
	if (!gm_agent_process.preloaded || !configure(settings))
		return;
	gm_agent_hooks_preloaded();
	patch_unexported();
	enlist("");
	atomic_store(&gm_agent_live->state, GM_AGENT_LIVE_WAITING);
	gm_agent_cupti_look();
}

__attribute__((destructor)) static void on_exit_of_program(void)
{
	if (atomic_load(&gm_agent_live->state) == GM_AGENT_LIVE_RECORDS)
		gm_agent_spool_close(GM_AGENT_EXITED);
}
