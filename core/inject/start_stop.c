/* Loads the agent into a running process: combines the parts of this room. */
#include "inject/inject.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/registers.h"
#include "image/stop.h"
#include "inject/internal.h"
#include "inject/memory.h"
#include "inject/script.h"

enum {
	SIGNAL_SETXID = 33,  /* of the C library: sysdeps/unix/sysv/linux/internal-signals.h */
	STEPS_MAX = 200000,  /* steps of one instruction, until a thread has left the C library */
	REFRESH_EVERY = 16,  /* tries, until new libraries are searched for */
	STOPPED_SECONDS = 1, /* until a program that was stopped meanwhile is not waited for */
};

struct call {
	struct gm_image *image;
	struct gm_symbols *symbols;
	pid_t pid;
	const struct gm_inject_identity *identity;
	const struct gm_inject_options *options;
	const char *name; /* of the agent's function */
	bool start;       /* it is gpumem_agent_start */
	struct gm_inject_functions functions;
	double until;
	double stopped_since; /* gm_seconds(); 0: it is not stopped */
	unsigned told;        /* bits of enum gm_inject_wait */
	struct gm_injected result;
};

static void pause_for(double seconds)
{
	const struct timespec time = {.tv_sec = (time_t)seconds,
	        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&time, NULL);
}

/* After a moment the user hears what is waited for. */
static void tell(struct call *call, enum gm_inject_wait what, double since)
{
	/* the agent's own start takes a while too, on a busy machine a second */
	enum { MOMENT_MS = 300, START_MS = 3000 };
	int moment = what == GM_WAITS_FOR_LOCK ? START_MS : MOMENT_MS;
	if (!call->options->waits || call->told >> what & 1 ||
	        gm_seconds() - since < moment / 1000.0)
		return;
	call->told |= 1u << what;
	call->options->waits(call->options->waits_context, what);
}

/* ---- a thread at a safe place ---------------------------------------------------------------- */

/* Whether SIGSTOP or Ctrl-Z keeps it stopped now; an error if that lasts. */
static struct gm_error *look_for_stop(struct call *call, bool *ret_stopped)
{
	double now = gm_seconds();
	*ret_stopped = gm_stop_thread_state(call->pid, call->pid) == 'T';
	if (!*ret_stopped)
		call->stopped_since = 0;
	else if (!call->stopped_since)
		call->stopped_since = now;
	return *ret_stopped && now - call->stopped_since >= STOPPED_SECONDS
	               ? gm_inject_check_runs(call->pid)
	               : NULL;
}

/* Whether a thread waits in a system call: such threads are tried first. */
static bool waits(pid_t pid, pid_t thread)
{
	char path[64], text[16];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, thread);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	return file && fgets(text, sizeof(text), file) && text[0] >= '0' && text[0] <= '9';
}

/* Whether the C library created it: the word of its descriptor that points to the descriptor. Other
 * threads cannot call the library. */
static bool is_of_libc(struct call *call, const struct gm_inject_thread *thread)
{
	enum { SELF = 16 }; /* tcbhead_t.self: sysdeps/x86_64/nptl/tls.h, in all versions */
	uint64_t base = thread->registers.fs_base, self;
	return base && gm_image_try_read(call->image, base + SELF, &self, sizeof(self)) &&
	       self == base;
}

/* Half of the time only for moments that are certainly safe; then also for those that need more
 * work. */
static bool is_safe(struct call *call, struct gm_inject_thread *thread, bool patient)
{
	gm_image_invalidate(call->image);
	if (!is_of_libc(call, thread))
		return false;
	for (int round = 0;; round++) {
		uint64_t back;
		gm_image_invalidate(call->image);
		struct gm_registers registers = gm_registers_from_kernel(&thread->registers);
		enum gm_inject_place place = gm_inject_place(
		        call->symbols, &registers, gm_inject_thread_waits_in(thread), &back);
		if (place == GM_PLACE_SAFE || (place == GM_PLACE_UNKNOWN && !patient))
			return true;
		if (place != GM_PLACE_LIBC || !back || patient || round > 0 ||
		        gm_inject_thread_waits_in(thread) >= 0)
			return false;
		if (!gm_inject_thread_step_to(thread, back, STEPS_MAX))
			return false;
	}
}

/* The order in which threads are tried. A thread within the kernel, as in a vfork(), stops only
 * when that call ends. */
enum kind { WAITS, RUNS, IN_KERNEL, KINDS };

static enum kind kind_of(pid_t pid, pid_t thread)
{
	if (gm_stop_thread_state(pid, thread) == 'D')
		return IN_KERNEL;
	return waits(pid, thread) ? WAITS : RUNS;
}

/* Stops threads, one at a time, until one is at a usable place. */
static struct gm_error *find_thread(struct call *call, struct gm_inject_thread *ret_thread)
{
	double began = gm_seconds(), half = began + (call->until - began) / 4;
	for (unsigned round = 0; gm_seconds() < call->until; round++) {
		_cleanup_free_ pid_t *threads = NULL;
		size_t count;
		bool stands;
		gm_try(gm_image_check_there(call->image));
		gm_try(look_for_stop(call, &stands));
		if (stands) {
			tell(call, GM_WAITS_FOR_RUN, call->stopped_since);
			pause_for(0.01);
			continue;
		}
		tell(call, GM_WAITS_FOR_THREAD, began);
		gm_try(gm_image_threads(call->image, &threads, &count));
		bool tried = false;
		for (int kind = 0; kind < KINDS && !(kind == IN_KERNEL && tried); kind++) {
			for (size_t i = 0; i < count && gm_seconds() < call->until; i++) {
				if (kind_of(call->pid, threads[i]) != (enum kind)kind)
					continue;
				bool stopped;
				double start = gm_seconds();
				tried = true;
				gm_try(gm_inject_thread_stop(
				        call->pid, threads[i], call->until, ret_thread, &stopped));
				if (!stopped)
					continue;
				call->result.tries++;
				/* it is, and stays so while its thread is stopped */
				struct gm_error *other = gm_inject_identity_check(call->identity);
				if (!other && is_safe(call, ret_thread, start < half))
					return NULL;
				gm_inject_thread_release(ret_thread);
				gm_try(other);
				double took = gm_seconds() - start;
				if (took > call->result.stopped)
					call->result.stopped = took;
				if (call->result.tries % REFRESH_EVERY == 0) {
					gm_try(gm_image_refresh(call->image));
					gm_try(gm_symbols_refresh(call->symbols));
				}
			}
		}
		pause_for(round < 20 ? 0.001 : 0.01);
	}
	return gm_error_create(GM_TARGET,
	        "process %d: in %.0f s no thread of it was at a place where the agent can be "
	        "started (each was "
	        "allocating memory or loading libraries): try again, or --timeout SECONDS",
	        call->pid, call->options->seconds);
}

/* --- data in the process ---------------------------------------------------------------------- */

struct place {
	uint64_t code, block;
	int descriptor; /* in the process, -1: none */
};

/* Memory for the code and the block. Values from the process, such as mmap()'s result, are not
 * trusted. */
static bool is_new_memory(const struct call *call, const struct place *place)
{
	const struct gm_inject_range ranges[] = {
	        {place->code, GM_INJECT_CODE_SIZE, "r-x"},
	        {place->block, GM_INJECT_BLOCK_SIZE, "rw-"},
	};
	return place->code % GM_INJECT_CODE_SIZE == 0 && place->block % GM_INJECT_CODE_SIZE == 0 &&
	       gm_inject_is_plain_memory(
	               call->identity, sizeof(ranges) / sizeof(ranges[0]), ranges);
}

/* One system call in the stopped thread, which goes back by itself when we are killed in its midst.
 */
static struct gm_error *run_syscall(struct call *call, struct gm_inject_thread *thread, long number,
        const uint64_t arguments[6], int64_t *ret_value)
{
	_cleanup_free_ struct gm_inject_way_back *way = malloc(sizeof(*way));
	if (!way)
		return &gm_error_no_memory;
	gm_inject_way_back(thread, call->functions.restore, way);
	/* the program may have set rsp to anything */
	const struct gm_inject_range range = {way->top, way->size, "rw-", .may_be_stack = true};
	bool written = way->top && gm_inject_is_plain_memory(call->identity, 1, &range) &&
	               gm_inject_write(call->identity, way->top, way->bytes, way->size);
	return gm_inject_thread_syscall(thread, call->functions.syscall, written ? way->top : 0,
	        number, arguments, ret_value);
}

static struct gm_error *map(struct call *call, struct gm_inject_thread *thread, uint64_t size,
        int protection, uint64_t *ret_address)
{
	const uint64_t arguments[6] = {
	        0, size, (uint64_t)protection, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
	int64_t value;
	gm_try(run_syscall(call, thread, SYS_mmap, arguments, &value));
	if (value < 0 && value > -4096)
		return gm_error_os(GM_TARGET, (int)-value,
		        "process %d: it gets no memory for the agent's start (a limit, or a "
		        "seccomp or SELinux rule)",
		        call->pid);
	*ret_address = (uint64_t)value;
	return NULL;
}

/* Memory that an earlier attach mapped and does not use any more; false if there is none. */
static bool place_again(struct call *call, struct place *ret_place)
{
	uint64_t mapping[2];
	size_t size;
	const void *code = gm_inject_code(&size);
	uint8_t there[GM_INJECT_CODE_SIZE];
	int32_t progress;
	gm_image_invalidate(call->image);
	if (!call->functions.mapping ||
	        !gm_image_try_read(
	                call->image, call->functions.mapping, mapping, sizeof(mapping)) ||
	        !mapping[0] || !gm_image_try_read(call->image, mapping[0], there, size) ||
	        memcmp(there, code, size) != 0 ||
	        !gm_image_try_read(call->image,
	                mapping[1] + offsetof(struct gm_inject_block, progress), &progress,
	                sizeof(progress)) ||
	        progress == GM_PROGRESS_NONE)
		return false;
	const struct place place = {.code = mapping[0], .block = mapping[1], .descriptor = -1};
	if (!is_new_memory(call, &place))
		return false;
	*ret_place = place;
	return true;
}

static struct gm_error *error_write(const struct call *call)
{
	return gm_error_os(GM_TARGET, errno,
	        "process %d: its memory cannot be written: run as the same user or as root",
	        call->pid);
}

static struct gm_error *make_place(
        struct call *call, struct gm_inject_thread *thread, struct place *ret_place)
{
	struct place place = {.descriptor = -1};
	size_t size;
	const void *code = gm_inject_code(&size);
	gm_try(map(call, thread, GM_INJECT_CODE_SIZE, PROT_READ | PROT_EXEC, &place.code));
	gm_try(map(call, thread, GM_INJECT_BLOCK_SIZE, PROT_READ | PROT_WRITE, &place.block));
	if (!is_new_memory(call, &place))
		return gm_error_create(GM_TARGET,
		        "process %d: its mmap() returned an address without new memory: a seccomp "
		        "filter answers in the kernel's place, and nothing was written",
		        call->pid);
	if (!gm_inject_write(call->identity, place.code, code, size))
		return error_write(call);
	*ret_place = place;
	return NULL;
}

static struct gm_error *give_file(
        struct call *call, struct gm_inject_thread *thread, struct place *place)
{
	static const char name[] = GM_INJECT_MEMFD;
	if (!gm_inject_write(call->identity, place->block + offsetof(struct gm_inject_block, path),
	            name, sizeof(name)))
		return error_write(call);
	const uint64_t arguments[6] = {
	        place->block + offsetof(struct gm_inject_block, path), MFD_CLOEXEC, 0, 0, 0, 0};
	int64_t value;
	gm_try(run_syscall(call, thread, SYS_memfd_create, arguments, &value));
	if (value < 0)
		return gm_error_os(GM_TARGET, (int)-value,
		        "process %d: it cannot make a memfd for the agent, and cannot open the "
		        "agent's file",
		        call->pid);
	gm_try(gm_inject_copy(call->identity, value, call->options->agent));
	place->descriptor = (int)value;
	return NULL;
}

static struct gm_error *fill(struct call *call, const struct gm_inject_thread *thread,
        const struct place *place, const char *path)
{
	_cleanup_free_ struct gm_inject_block *block = calloc(1, sizeof(*block));
	if (!block)
		return &gm_error_no_memory;
	const struct gm_inject_functions *functions = &call->functions;
	block->pthread_create = functions->pthread_create;
	block->pthread_detach = functions->pthread_detach;
	block->dlopen = functions->dlopen;
	block->dlsym = functions->dlsym;
	block->dlerror = functions->dlerror;
	block->errno_location = functions->errno_location;
	block->function = call->start ? functions->agent_start : functions->agent_stop;
	/* setuid() waits, with the lock for new threads, until each thread has handled it */
	block->mask = ~(UINT64_C(1) << (SIGNAL_SETXID - 1));
	block->created = -1;
	block->descriptor = place->descriptor;
	snprintf(block->name, sizeof(block->name), "%s", call->name);
	snprintf(block->settings, sizeof(block->settings), "%s",
	        call->options->settings ? call->options->settings : "");
	if (place->descriptor >= 0)
		snprintf(block->path, sizeof(block->path), "/proc/self/fd/%d", place->descriptor);
	else
		snprintf(block->path, sizeof(block->path), "%s", path ? path : "");
	gm_inject_fill_frame(
	        block->frame, place->block + offsetof(struct gm_inject_block, frame), thread);
	return gm_inject_write(call->identity, place->block, block, sizeof(*block))
	               ? NULL
	               : error_write(call);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* With the thread stopped. It continues in any case. */
static struct gm_error *start_thread(struct call *call, struct gm_inject_thread *thread,
        const char *path, struct place *ret_place)
{
	if (!place_again(call, ret_place))
		gm_try(make_place(call, thread, ret_place));
	if (!path && !call->functions.agent_start)
		gm_try(give_file(call, thread, ret_place));
	gm_try(fill(call, thread, ret_place, path));
	bool returned;
	struct gm_error *error = gm_inject_thread_run(thread, ret_place->code,
	        ret_place->block + GM_INJECT_BLOCK_SIZE - 64, ret_place->block, &returned);
	if (error || !returned) {
		thread->id = 0; /* not ours any more */
		call->result.state = GM_INJECT_WAITING;
		return error;
	}
	int32_t created;
	gm_image_invalidate(call->image);
	gm_try(gm_image_read(call->image,
	        ret_place->block + offsetof(struct gm_inject_block, created), &created,
	        sizeof(created)));
	if (created != 0)
		return gm_error_os(GM_TARGET, created,
		        "process %d: it cannot make a thread for the agent's start", call->pid);
	return NULL;
}

static struct gm_error *wait_for(struct call *call, const struct place *place, char **ret_text)
{
	double began = gm_seconds();
	for (double pause = 0.0005;; pause = pause < 0.02 ? pause * 1.5 : pause) {
		int32_t values[3]; /* result, progress, descriptor */
		_Static_assert(offsetof(struct gm_inject_block, descriptor) ==
		                       offsetof(struct gm_inject_block, result) + 8,
		        "read together");
		gm_image_invalidate(call->image);
		gm_try(gm_image_check_there(call->image));
		gm_try(gm_image_read(call->image,
		        place->block + offsetof(struct gm_inject_block, result), values,
		        sizeof(values)));
		if (values[1] == GM_PROGRESS_CALLED) {
			call->result.state = GM_INJECT_DONE;
			call->result.result = values[0];
			return NULL;
		}
		if (values[1] == GM_PROGRESS_FAILED)
			return gm_image_read_string(call->image,
			        place->block + offsetof(struct gm_inject_block, text),
			        GM_INJECT_TEXT, ret_text);
		bool stands;
		gm_try(look_for_stop(call, &stands));
		if (gm_seconds() > call->until) {
			call->result.state = GM_INJECT_WAITING;
			return gm_inject_check_runs(call->pid);
		}
		tell(call, GM_WAITS_FOR_LOCK, began);
		if (call->options->meanwhile)
			call->options->meanwhile(call->options->context);
		pause_for(pause);
	}
}

/* For the next time: the agent stores the address. */
static void remember(struct call *call, const struct place *place)
{
	if (gm_image_refresh(call->image) || gm_symbols_refresh(call->symbols))
		return;
	struct gm_inject_functions functions;
	struct gm_error *error = gm_inject_find_functions(call->image, call->symbols, &functions);
	gm_error_destroy(error);
	const uint64_t mapping[2] = {place->code, place->block};
	if (!error && functions.mapping)
		gm_inject_write(call->identity, functions.mapping, mapping, sizeof(mapping));
}

/* Ctrl-C ends this only when the thread's state has been restored. */
static void hold_signals(sigset_t *ret_before)
{
	sigset_t held;
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, ret_before);
}

static struct gm_error *attempt(struct call *call, const char *path, char **ret_text)
{
	_cleanup_free_ struct gm_inject_thread *thread =
	        aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	if (!thread)
		return &gm_error_no_memory;
	sigset_t before;
	hold_signals(&before);
	struct gm_error *error = find_thread(call, thread);
	struct place place;
	if (!error) {
		double start = gm_seconds();
		error = gm_inject_filter_check(thread, call->functions.has_rseq);
		if (!error)
			error = start_thread(call, thread, path, &place);
		if (thread->id)
			gm_inject_thread_release(thread);
		double took = gm_seconds() - start;
		if (took > call->result.stopped)
			call->result.stopped = took;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	gm_try(error);
	bool known = call->functions.mapping != 0;
	gm_try(wait_for(call, &place, ret_text));
	if (!known && call->result.state == GM_INJECT_DONE)
		remember(call, &place);
	return NULL;
}

static struct gm_error *by_thread(struct call *call)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	if (!call->result.loaded)
		gm_try(gm_inject_path_inside(call->pid, call->options->agent, &path));
	gm_try(attempt(call, path, &text));
	if (text && path) {
		/* The user that it runs as may not open our file: it gets a copy. */
		free(gm_take(text));
		gm_try(attempt(call, NULL, &text));
	}
	if (text)
		return gm_error_create(GM_TARGET,
		        "process %d: its dynamic linker refuses the agent: %s", call->pid, text);
	return NULL;
}

static struct gm_error *run(struct call *call)
{
	gm_try(gm_inject_check(call->image, call->symbols));
	gm_try(gm_inject_find_functions(call->image, call->symbols, &call->functions));
	call->result.loaded = call->functions.agent_start != 0;
	if (call->start)
		gm_try(gm_inject_memory_check(call->pid));
	call->result.way = GM_INJECT_BY_THREAD;
	if (!call->start && !call->result.loaded)
		return gm_error_create(GM_TARGET,
		        "process %d: it has no agent: `gpumem attach %d` records it", call->pid,
		        call->pid);
	struct gm_script_call script = {.image = call->image,
	        .symbols = call->symbols,
	        .options = call->options,
	        .start = call->start,
	        .loaded = call->result.loaded,
	        .until = call->until};
	/* Its filters can be read only through a stopped thread. */
	bool python =
	        call->options->way == GM_INJECT_BY_PYTHON ||
	        (call->options->way != GM_INJECT_BY_THREAD && !gm_inject_has_filters(call->pid));
	if (call->options->python && python) {
		struct gm_error *error = gm_inject_by_script(&script, &call->result);
		if (!error || call->options->way == GM_INJECT_BY_PYTHON ||
		        call->result.refusal == GM_INJECT_GONE)
			return error;
		gm_error_destroy(error);
	}
	gm_try(by_thread(call));
	int result;
	if (call->result.result == 1 && gm_inject_script_came(&script, &result)) {
		call->result.result = result;
		call->result.way = GM_INJECT_BY_PYTHON;
	}
	return NULL;
}

static struct gm_error *prepare(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_inject_options *options, bool start, struct gm_injected *ret_injected)
{
	struct call call = {
	        .image = image,
	        .symbols = symbols,
	        .pid = gm_image_pid(image),
	        .identity = options->identity,
	        .options = options,
	        .name = start ? "gpumem_agent_start" : "gpumem_agent_stop",
	        .start = start,
	        .until = gm_seconds() + options->seconds,
	};
	if (options->settings && strlen(options->settings) >= GM_INJECT_SETTINGS)
		return gm_error_create(
		        GM_USAGE, "attach: the settings are too long: use a shorter path for FILE");
	gm_try(run(&call));
	*ret_injected = call.result;
	return NULL;
}

struct gm_error *gm_inject_start(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_inject_options *options, struct gm_injected *ret_injected)
{
	return prepare(image, symbols, options, true, ret_injected);
}

struct gm_error *gm_inject_stop(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_inject_options *options, struct gm_injected *ret_injected)
{
	return prepare(image, symbols, options, false, ret_injected);
}
