/*
 * Starts the agent with a script that the program's own Python runs (PEP 768): how the request is
 * made, waited for and withdrawn. No thread is stopped for it.
 *
 * The main thread's state has space for the path of a script, and a flag that requests it; a bit of
 * the thread's eval breaker makes the thread check the flag (Python/ceval_gil.c:
 * _Py_HandlePending, _PyRunRemoteDebugger). They are written in this order, so that the thread
 * never sees an incomplete request:
 *
 *   1. the path, with its NUL        nobody reads it while the flag is 0
 *   2. the flag                      from now on the thread may find it at any other check
 *   3. the bit                       makes the thread check at its next call or loop
 *
 * The breaker's byte is read and written from outside, so a bit that another thread sets in between
 * would be lost. Bits that must not be lost (a signal, a call, an exception for the thread) are set
 * as well, which has no effect if they were not set. The other bits are set again by their users (a
 * thread that waits for the GIL, the collector at the next object).
 *
 * To withdraw the request, the file without which the script does nothing is removed; then the path
 * is emptied and the flag set to 0. If the thread takes the request at that moment, it finds an
 * empty path, or runs a script that does nothing. If both ways start the agent, the second start
 * finds that it records already.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/stop.h"
#include "inject/internal.h"
#include "inject/script.h"

static const double come_by_seconds = 1; /* where a thread can do it as well */
static const double taken_seconds =
        5; /* until the script has come to the agent, where a thread can do it */
static const double open_seconds =
        0.1; /* in which a thread that has taken the path has opened the file */

/* ---- the process's memory: with its own protection, not through /proc/PID/mem ---------------- */

static bool get(pid_t pid, uint64_t address, void *ret_bytes, size_t size)
{
	struct iovec ours = {ret_bytes, size};
	struct iovec theirs = {(void *)(uintptr_t)address, size};
	return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == (ssize_t)size;
}

static bool put(pid_t pid, uint64_t address, const void *bytes, size_t size)
{
	struct iovec ours = {(void *)(uintptr_t)bytes, size};
	struct iovec theirs = {(void *)(uintptr_t)address, size};
	return process_vm_writev(pid, &ours, 1, &theirs, 1, 0) == (ssize_t)size;
}

static void pause_for(double seconds)
{
	const struct timespec time = {.tv_sec = (time_t)seconds,
	        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&time, NULL);
}

/* ---- the request ----------------------------------------------------------------------------- */

struct wait {
	struct gm_script_call *call;
	const struct gm_inject_python *python;
	pid_t pid;
	int own; /* the same, as the process knows itself */
	struct gm_script_folder folder;
	bool asked;
	double taken; /* when its thread was seen to have taken it; 0: not yet */
	enum gm_inject_refusal refusal;
};

static struct gm_error *refuse(struct wait *wait, enum gm_inject_refusal refusal, const char *why)
{
	wait->refusal = refusal;
	return gm_error_create(GM_TARGET,
	        "process %d: its Python cannot be asked to load the agent: %s", wait->pid, why);
}

static struct gm_error *no_access(struct wait *wait)
{
	int os_error = errno;
	wait->refusal = os_error == ESRCH ? GM_INJECT_GONE : GM_INJECT_NO_ACCESS;
	return gm_error_os(GM_TARGET, os_error, "process %d: its memory cannot be %s", wait->pid,
	        "written for its Python");
}

static bool is_pending(const struct wait *wait)
{
	int32_t pending = 0;
	return get(wait->pid, wait->python->pending, &pending, sizeof(pending)) && pending == 1;
}

static struct gm_error *ask(struct wait *wait, const char *path)
{
	const struct gm_inject_python *python = wait->python;
	const int32_t one = 1;
	int32_t pending;
	uint8_t bits;
	size_t size = strlen(path) + 1;
	if (size > python->path_size)
		return refuse(wait, GM_INJECT_NO_FOLDER,
		        "the path of the script's folder (TMPDIR) is too long for it");
	if (!get(wait->pid, python->pending, &pending, sizeof(pending)))
		return no_access(wait);
	if (pending != 0)
		return refuse(
		        wait, GM_INJECT_TAKEN, "another debugger's request to it is still pending");
	if (!put(wait->pid, python->path, path, size) ||
	        !put(wait->pid, python->pending, &one, sizeof(one)))
		return no_access(wait);
	wait->asked = true;
	if (!get(wait->pid, python->breaker, &bits, sizeof(bits)))
		return no_access(wait);
	bits |= python->stop | python->harmless;
	return put(wait->pid, python->breaker, &bits, sizeof(bits)) ? NULL : no_access(wait);
}

static void clear(pid_t pid, const struct gm_inject_python *python)
{
	const char nothing = 0;
	const int32_t zero = 0;
	put(pid, python->path, &nothing, sizeof(nothing));
	put(pid, python->pending, &zero, sizeof(zero));
}

static void withdraw(struct wait *wait)
{
	gm_script_forbid(&wait->folder);
	if (wait->asked && is_pending(wait))
		clear(wait->pid, wait->python);
	if (wait->asked)
		pause_for(open_seconds);
}

/* A request of an earlier gpumem, which was killed. */
static void withdraw_left_over(void *context, const char *folder)
{
	struct wait *wait = context;
	char path[GM_SCRIPT_PATH] = "";
	size_t length = strlen(folder);
	if (length < sizeof(path) && length < wait->python->path_size &&
	        get(wait->pid, wait->python->path, path, length) &&
	        strncmp(path, folder, length) == 0 && is_pending(wait))
		clear(wait->pid, wait->python);
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Looks the agent's variable up, once it is there. */
static void find_thread_result(struct gm_script_call *call)
{
	if (call->thread_result)
		return;
	struct gm_error *error = gm_image_refresh(call->image);
	if (!error)
		error = gm_symbols_refresh(call->symbols);
	gm_error_destroy(error);
	if (!error)
		call->thread_result =
		        gm_inject_variable(call->symbols, "gpumem_agent_thread_result");
}

enum progress { NOTHING, UNDER_WAY, DONE };

/* core/agent/own_thread.c: our ticket, and 1 and the result. */
static enum progress look(const struct gm_script_call *call, int *ret_result)
{
	uint64_t word;
	if (!call->thread_result || !call->ticket ||
	        !get(gm_image_pid(call->image), call->thread_result, &word, sizeof(word)) ||
	        word >> 32 != call->ticket)
		return NOTHING;
	uint32_t state = (uint32_t)word;
	if (!state)
		return UNDER_WAY;
	*ret_result = (int)(state - 1);
	return DONE;
}

bool gm_inject_script_came(struct gm_script_call *call, int *ret_result)
{
	return look(call, ret_result) == DONE;
}

static bool is_interrupted(void)
{
	sigset_t waiting;
	return sigpending(&waiting) == 0 &&
	       (sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM) ||
	               sigismember(&waiting, SIGHUP));
}

/* Whether it has come to its end without the agent; NULL: go on waiting. */
static struct gm_error *check_end(struct wait *wait)
{
	struct gm_script_call *call = wait->call;
	bool only = call->options->way == GM_INJECT_BY_PYTHON;
	double now = gm_seconds(), began = call->until - call->options->seconds;
	char text[512], why[700];
	if (!wait->taken && !is_pending(wait))
		wait->taken = now;
	if (gm_script_has_failed(&wait->folder, text, sizeof(text))) {
		snprintf(why, sizeof(why), "the script there has failed: %s", text);
		return refuse(wait, GM_INJECT_FAILED, why);
	}
	if (is_interrupted() ||
	        (!wait->taken && (now > call->until || (!only && now > began + come_by_seconds))))
		return refuse(wait, GM_INJECT_BLOCKED,
		        gm_stop_thread_state(wait->pid, wait->pid) == 'T'
		                ? "it was stopped meanwhile (SIGSTOP or Ctrl-Z): `kill -CONT` "
		                  "continues it"
		                : "its main thread runs no Python code now: it waits in a call or "
		                  "computes");
	if (wait->taken && (now > call->until || (!only && now > wait->taken + taken_seconds)))
		return refuse(wait, GM_INJECT_FAILED,
		        "the script there does not end (an audit hook, or a lock)");
	return NULL;
}

static struct gm_error *wait_for(struct wait *wait, struct gm_injected *ret_injected)
{
	struct gm_script_call *call = wait->call;
	for (double pause = 0.0005;; pause = pause < 0.02 ? pause * 1.5 : pause) {
		struct gm_error *gone = gm_image_check_there(call->image);
		if (gone) {
			wait->refusal = GM_INJECT_GONE;
			return gone;
		}
		if (!call->thread_result && gm_script_has_loaded(&wait->folder))
			find_thread_result(call);
		enum progress progress = look(call, &ret_injected->result);
		bool late = gm_seconds() > call->until || is_interrupted();
		if (progress == DONE || (progress == UNDER_WAY && late)) {
			ret_injected->state = progress == DONE ? GM_INJECT_DONE : GM_INJECT_WAITING;
			ret_injected->way = GM_INJECT_BY_PYTHON;
			return NULL;
		}
		if (progress == NOTHING)
			gm_try(check_end(wait));
		if (call->options->meanwhile)
			call->options->meanwhile(call->options->context);
		pause_for(pause);
	}
}

/* ---- together -------------------------------------------------------------------------------- */

/*
 * Whether its effective user and that of its files are ours: /proc/PID is root's where a program
 * has changed its user. *ret_own is the process's number as it knows it itself, in its innermost
 * namespace.
 */
static bool is_ours(pid_t pid, int *ret_own)
{
	char path[64], line[256];
	unsigned real, effective, saved, files;
	bool ours = false;
	*ret_own = pid;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');
		if (sscanf(line, "Uid: %u %u %u %u", &real, &effective, &saved, &files) == 4)
			ours = effective == geteuid() && files == geteuid();
		else if (strncmp(line, "NSpid:", 6) == 0 && last)
			*ret_own = atoi(last);
	}
	return ours;
}

static const char *name_of(const struct gm_script_call *call)
{
	return call->start ? "gpumem_agent_start_in_thread" : "gpumem_agent_stop_in_thread";
}

static struct gm_error *check(struct wait *wait, char **ret_agent)
{
	if (!is_ours(wait->pid, &wait->own))
		return refuse(wait, GM_INJECT_OTHER_USER,
		        "it belongs to another user, who cannot read a private file of ours");
	if (gm_inject_files_differ(wait->pid))
		return refuse(wait, GM_INJECT_OTHER_FILES,
		        "it has a file system of its own (a container), and cannot read a file of "
		        "ours");
	struct gm_script_call *call = wait->call;
	*ret_agent = NULL;
	if (call->loaded) {
		call->thread_result =
		        gm_inject_variable(call->symbols, "gpumem_agent_thread_result");
		call->function = gm_inject_variable(call->symbols, name_of(call));
		return call->thread_result && call->function
		               ? NULL
		               : refuse(wait, GM_INJECT_OTHER_AGENT,
		                         "the agent in it belongs to an earlier gpumem");
	}
	gm_try(gm_inject_path_inside(wait->pid, wait->call->options->agent, ret_agent));
	return *ret_agent ? NULL
	                  : refuse(wait, GM_INJECT_OTHER_FILES, "it cannot open the agent's file");
}

static struct gm_error *run(struct wait *wait, const char *agent, struct gm_injected *ret_injected)
{
	struct gm_script_call *call = wait->call;
	_cleanup_free_ char *path = NULL;
	const struct gm_script_text text = {.function = call->function,
	        .agent = agent,
	        .name = name_of(call),
	        .settings = call->start ? call->options->settings : NULL,
	        .pid = wait->own,
	        .ticket = call->ticket};
	wait->refusal = GM_INJECT_NO_FOLDER;
	gm_try(gm_script_write(&wait->folder, &text, &path));
	wait->refusal = GM_INJECT_NOT_REFUSED;
	struct gm_error *error = ask(wait, path);
	if (!error)
		error = wait_for(wait, ret_injected);
	if (error)
		withdraw(wait);
	return error;
}

static struct gm_error *prepare(struct wait *wait, struct gm_injected *ret_injected)
{
	_cleanup_free_ char *agent = NULL;
	gm_try(check(wait, &agent));
	gm_script_remove_left_over(wait->pid, withdraw_left_over, wait);
	while (!wait->call->ticket)
		if (getrandom(&wait->call->ticket, sizeof(wait->call->ticket), 0) < 0)
			wait->call->ticket = (uint32_t)(gm_seconds() * 1e6);
	wait->refusal = GM_INJECT_NO_FOLDER;
	gm_try(gm_script_folder_make(wait->pid, &wait->folder));
	struct gm_error *error = run(wait, agent, ret_injected);
	gm_script_folder_remove(&wait->folder);
	return error;
}

struct gm_error *gm_inject_by_script(struct gm_script_call *call, struct gm_injected *ret_injected)
{
	struct wait wait = {
	        .call = call, .python = call->options->python, .pid = gm_image_pid(call->image)};
	sigset_t held, before;
	/* Ctrl-C ends us when the request is withdrawn. */
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, &before);
	struct gm_error *error = prepare(&wait, ret_injected);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (error)
		ret_injected->refusal = wait.refusal;
	return error;
}
