/* One thread of the program: stopped, its registers changed, and later restored. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/refusal.h"
#include "inject/internal.h"

enum {
	STOP_SECONDS_MILLI =
	        200, /* a thread that does not stop within this time is in the kernel */
	STEP_SECONDS = 60,
	CALL_SECONDS = 10, /* minimum time for work in a thread: to abandon it halfway would end the
	                      program */
	RUN_SECONDS = 2,   /* minimum time for the thread to restore itself */
	SYSCALL_STOP = SIGTRAP | 0x80,
};

/* ---- waiting --------------------------------------------------------------------------------- */

enum stop { STOPPED, ENDED, LATE };

static enum stop wait_until(pid_t id, double until, int *ret_status)
{
	for (unsigned waited = 0;; waited++) {
		pid_t got = waitpid(id, ret_status, __WALL | WNOHANG);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || (got > 0 && !WIFSTOPPED(*ret_status)))
			return ENDED;
		if (got > 0 && *ret_status >> 16 == PTRACE_EVENT_EXEC) {
			/* another program, perhaps with other rights than this one had */
			ptrace(PTRACE_DETACH, id, NULL, NULL);
			return ENDED;
		}
		if (got > 0)
			return STOPPED;
		if (gm_seconds() > until)
			return LATE;
		const struct timespec pause = {.tv_nsec = waited < 200 ? 20000 : 500000};
		nanosleep(&pause, NULL);
	}
}

static bool is_event_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/*
 * A thread with a pending signal: it gets the signal, and is stopped again afterwards. Group stops
 * (SIGSTOP) need no action: the kernel continues with them when we detach.
 */
static enum stop stop_at_rest(pid_t id, double until)
{
	if (ptrace(PTRACE_INTERRUPT, id, NULL, NULL) != 0)
		return ENDED;
	for (;;) {
		int status;
		enum stop stop = wait_until(id, until, &status);
		if (stop != STOPPED)
			return stop;
		if (is_event_stop(status))
			return STOPPED;
		int signal = WSTOPSIG(status);
		ptrace(PTRACE_CONT, id, NULL, (void *)(intptr_t)signal);
		ptrace(PTRACE_INTERRUPT, id, NULL, NULL);
	}
}

/* The time at which work that begins in the stopped thread now is abandoned. */
static double end_of(const struct gm_inject_thread *thread, double seconds)
{
	double least = gm_seconds() + seconds;
	return thread->until > least ? thread->until : least;
}

/* ---- stop and release ------------------------------------------------------------------------ */

static long tracer_of(pid_t pid)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "TracerPid:", 10) == 0)
			return strtol(line + 10, NULL, 10);
	return 0;
}

static struct gm_error *error_refused(pid_t pid, pid_t id, int os_error)
{
	long tracer = tracer_of(id);
	if (tracer > 0)
		return gm_error_create(GM_TARGET,
		        "process %d: process %ld traces it, probably a debugger, and only one can: "
		        "type `gpumem record` in that debugger, or end it",
		        pid, tracer);
	char why[GM_REFUSAL_TEXT];
	return gm_error_os(GM_TARGET, os_error, "process %d: it may not be traced: %s", pid,
	        gm_refusal_of(pid, why));
}

/*
 * A thread that was interrupted before (by a debugger, by an earlier try) continues with
 * restart_syscall: the call's number is in the preceding instruction, "mov $NUMBER, %eax; syscall",
 * if the C library has it this way.
 */
static uint64_t interrupted_call(pid_t id, const struct user_regs_struct *registers)
{
	uint8_t code[8];
	errno = 0;
	long bytes = ptrace(PTRACE_PEEKTEXT, id, (void *)(uintptr_t)(registers->rip - 7), NULL);
	memcpy(code, &bytes, sizeof(code));
	if (registers->orig_rax != SYS_restart_syscall || errno || code[0] != 0xb8 ||
	        code[5] != 0x0f || code[6] != 0x05)
		return registers->orig_rax;
	uint32_t number;
	memcpy(&number, code + 1, sizeof(number));
	return number;
}

bool gm_inject_thread_look(struct gm_inject_thread *thread)
{
	struct iovec extended = {thread->extended, sizeof(thread->extended)};
	bool known = ptrace(PTRACE_GETREGS, thread->id, NULL, &thread->registers) == 0 &&
	             ptrace(PTRACE_GETSIGMASK, thread->id, (void *)sizeof(thread->mask),
	                     &thread->mask) == 0 &&
	             ptrace(PTRACE_GETREGSET, thread->id, (void *)(uintptr_t)NT_X86_XSTATE,
	                     &extended) == 0;
	thread->extended_size = known ? extended.iov_len : 0;
	thread->signal = 0;
	if (known)
		thread->call = interrupted_call(thread->id, &thread->registers);
	return known;
}

struct gm_error *gm_inject_thread_stop(
        pid_t pid, pid_t id, double until, struct gm_inject_thread *ret_thread, bool *ret_stopped)
{
	*ret_stopped = false;
	const uintptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
	if (ptrace(PTRACE_SEIZE, id, NULL, (void *)options) != 0) {
		int os_error = errno;
		return os_error == ESRCH ? NULL : error_refused(pid, id, os_error);
	}
	enum stop stop = stop_at_rest(id, gm_seconds() + STOP_SECONDS_MILLI / 1000.0);
	if (stop == LATE) {
		/* It cannot be released before it stops, so wait on: a driver's call may take long.
		 * */
		int status;
		stop = wait_until(id, until, &status);
		if (stop == STOPPED)
			ptrace(PTRACE_DETACH, id, NULL,
			        (void *)(intptr_t)(is_event_stop(status) ? 0 : WSTOPSIG(status)));
		if (stop == LATE)
			return gm_error_create(GM_TARGET,
			        "process %d: thread %d does not stop, it is inside the kernel or a "
			        "driver: try again, or use --timeout SECONDS",
			        pid, id);
		return NULL;
	}
	if (stop == ENDED)
		return NULL;
	struct gm_inject_thread *thread = ret_thread;
	thread->pid = pid;
	thread->id = id;
	thread->until = until;
	if (!gm_inject_thread_look(thread)) {
		int os_error = errno;
		ptrace(PTRACE_DETACH, id, NULL, NULL);
		return os_error == ESRCH ? NULL : error_refused(pid, id, os_error);
	}
	*ret_stopped = true;
	return NULL;
}

/* The general registers last: from then on the thread continues where it was, even if we are
 * killed. */
static bool put_back_as(
        const struct gm_inject_thread *thread, const struct user_regs_struct *registers)
{
	uint64_t mask = thread->mask;
	struct iovec extended = {(void *)thread->extended, thread->extended_size};
	ptrace(PTRACE_SETSIGMASK, thread->id, (void *)sizeof(mask), &mask);
	ptrace(PTRACE_SETREGSET, thread->id, (void *)(uintptr_t)NT_X86_XSTATE, &extended);
	return ptrace(PTRACE_SETREGS, thread->id, NULL, registers) == 0;
}

static void put_back(const struct gm_inject_thread *thread)
{
	put_back_as(thread, &thread->registers);
}

void gm_inject_thread_release(struct gm_inject_thread *thread)
{
	ptrace(PTRACE_DETACH, thread->id, NULL, (void *)(intptr_t)thread->signal);
}

/* ---- running in the thread ------------------------------------------------------------------- */

static struct gm_error *error_ended(const struct gm_inject_thread *thread)
{
	return gm_error_create(
	        GM_TARGET, "process %d: it ended meanwhile: start it again", thread->pid);
}

long gm_inject_thread_waits_in(const struct gm_inject_thread *thread)
{
	int64_t result = (int64_t)thread->registers.rax;
	bool waits = (int64_t)thread->registers.orig_rax >= 0 && result <= -512 && result >= -516;
	/* the program's own call: a wait that was interrupted before continues as restart_syscall
	 * */
	return waits ? (long)thread->call : -1;
}

/*
 * A step ends with a SIGTRAP that the kernel forces on the thread: if the signal is blocked or
 * ignored, the kernel resets the program's handler for it.
 */
static bool may_be_stepped(const struct gm_inject_thread *thread)
{
	char path[64], line[256];
	const uint64_t trap = UINT64_C(1) << (SIGTRAP - 1);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", thread->pid, thread->id);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (thread->mask & trap)
		return false;
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "SigIgn:", 7) == 0)
			return !(strtoull(line + 7, NULL, 16) & trap);
	return false;
}

/* Whether this is the stop of our step, and not a signal of the program. */
static bool is_step(pid_t id, int status)
{
	siginfo_t about;
	return WSTOPSIG(status) == SIGTRAP && ptrace(PTRACE_GETSIGINFO, id, NULL, &about) == 0 &&
	       about.si_code == TRAP_TRACE;
}

bool gm_inject_thread_step_to(struct gm_inject_thread *thread, uint64_t address, unsigned steps)
{
	uint64_t stack = thread->registers.rsp;
	struct user_regs_struct registers = thread->registers;
	if (!may_be_stepped(thread))
		return false;
	for (unsigned i = 0; i < steps; i++) {
		int status;
		errno = 0;
		long bytes =
		        ptrace(PTRACE_PEEKTEXT, thread->id, (void *)(uintptr_t)registers.rip, NULL);
		/* Not over a system call: it may wait, and the step's SIGTRAP would then be a
		 * signal for the program. */
		if (errno || (bytes & 0xffff) == 0x050f)
			return false;
		if (ptrace(PTRACE_SINGLESTEP, thread->id, NULL, NULL) != 0)
			return false;
		/* It cannot be released before its step ends: the SIGTRAP would be delivered to the
		 * program. That takes as long as the machine is busy. */
		if (wait_until(thread->id, gm_seconds() + STEP_SECONDS, &status) != STOPPED)
			return false;
		if (!is_event_stop(status) && !is_step(thread->id, status)) {
			/* A pending signal: its handler may block ours, so the thread gets it when
			 * it continues. */
			thread->signal = WSTOPSIG(status);
			return false;
		}
		if (ptrace(PTRACE_GETREGS, thread->id, NULL, &registers) == 0 &&
		        registers.rip == address && registers.rsp > stack)
			return gm_inject_thread_look(thread);
	}
	return false;
}

/* The registers for running other code: no system call is restarted. */
static struct user_regs_struct elsewhere(const struct gm_inject_thread *thread)
{
	struct user_regs_struct registers = thread->registers;
	registers.orig_rax = UINT64_MAX;
	/* no single step, direction or alignment flag */
	registers.eflags &= ~(uint64_t)(0x100 | 0x400 | 0x40000);
	return registers;
}

/* A handler of the program would end with rt_sigreturn too, so all signals are blocked; after the
 * registers are set, as the way back unblocks them if we are killed between. */
static bool go_elsewhere(
        const struct gm_inject_thread *thread, const struct user_regs_struct *registers)
{
	uint64_t all = UINT64_MAX;
	if (ptrace(PTRACE_SETREGS, thread->id, NULL, registers) != 0)
		return false;
	ptrace(PTRACE_SETSIGMASK, thread->id, (void *)sizeof(all), &all);
	return true;
}

/*
 * From the stop before or after a system call. (Before rt_sigreturn, which is not executed: it
 * makes the kernel forget the remaining time of a sleep.) The kernel restarts an interrupted system
 * call only if it was interrupted in the original way, so the thread is brought to that state.
 */
static enum stop come_to_rest(struct gm_inject_thread *thread)
{
	struct user_regs_struct registers = thread->registers;
	/* in case we are killed at this moment */
	gm_inject_restart(thread, &registers);
	registers.orig_rax = UINT64_MAX; /* no system call now */
	if (!put_back_as(thread, &registers))
		return ENDED;
	ptrace(PTRACE_INTERRUPT, thread->id, NULL, NULL);
	ptrace(PTRACE_CONT, thread->id, NULL, NULL);
	int status;
	enum stop stop = wait_until(thread->id, end_of(thread, CALL_SECONDS), &status);
	if (stop == STOPPED)
		put_back(thread);
	return stop;
}

/*
 * Between the stops before and after it, which are not signals: a single step would end with one,
 * and all are blocked. False if it did not get there, or has not returned.
 */
static enum stop run_syscall(struct gm_inject_thread *thread, uint64_t instruction, long number,
        struct user_regs_struct *registers, bool *ret_done)
{
	bool entered = false;
	double until = end_of(thread, CALL_SECONDS);
	*ret_done = false;
	for (unsigned i = 0; i < 16; i++) {
		int status;
		if (ptrace(PTRACE_SYSCALL, thread->id, NULL, NULL) != 0)
			return ENDED;
		enum stop stop = wait_until(thread->id, until, &status);
		if (stop != STOPPED)
			return stop;
		if (is_event_stop(status))
			continue;
		if (WSTOPSIG(status) != SYSCALL_STOP ||
		        ptrace(PTRACE_GETREGS, thread->id, NULL, registers) != 0 ||
		        registers->rip != instruction + 2 ||
		        registers->orig_rax != (uint64_t)number)
			return STOPPED;
		*ret_done = entered;
		if (entered)
			return STOPPED;
		entered = true;
	}
	return STOPPED;
}

/* It did not get there, for example because its control group was frozen meanwhile. It is released
 * in its previous state. */
static void take_back(const struct gm_inject_thread *thread)
{
	int status;
	ptrace(PTRACE_INTERRUPT, thread->id, NULL, NULL);
	if (wait_until(thread->id, gm_seconds() + 1, &status) == STOPPED)
		put_back(thread);
}

struct gm_error *gm_inject_thread_syscall(struct gm_inject_thread *thread, uint64_t instruction,
        uint64_t top, long number, const uint64_t arguments[6], int64_t *ret_value)
{
	struct user_regs_struct registers = elsewhere(thread);
	registers.rip = instruction;
	registers.rsp = top ? top : registers.rsp;
	registers.rax = (uint64_t)number;
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r10 = arguments[3];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	bool done = false;
	enum stop stop = ENDED;
	if (go_elsewhere(thread, &registers))
		stop = run_syscall(thread, instruction, number, &registers, &done);
	if (stop == STOPPED)
		stop = come_to_rest(thread);
	if (stop == ENDED)
		return error_ended(thread);
	if (stop == LATE)
		take_back(thread);
	if (!done || stop != STOPPED)
		return gm_error_create(GM_TARGET,
		        "process %d: a system call in its thread %d did not end: try again",
		        thread->pid, thread->id);
	*ret_value = (int64_t)registers.rax;
	return NULL;
}

/*
 * Whether rt_sigreturn is asked for at the end of a handler, on the stack that was given to the
 * code: that of the C library for setuid(), which needs the answer of every thread. The code's own
 * frame is elsewhere.
 */
static bool is_end_of_handler(uint64_t stack, uint64_t top)
{
	return stack < top && top - stack < GM_INJECT_BLOCK_SIZE - sizeof(struct gm_inject_block);
}

/* It goes back without us, from wherever it is now. */
static void leave_to_itself(struct gm_inject_thread *thread)
{
	if (stop_at_rest(thread->id, gm_seconds() + 1) == STOPPED)
		gm_inject_thread_release(thread);
}

struct gm_error *gm_inject_thread_run(struct gm_inject_thread *thread, uint64_t start, uint64_t top,
        uint64_t argument, bool *ret_returned)
{
	struct user_regs_struct registers = elsewhere(thread);
	double until = end_of(thread, RUN_SECONDS);
	registers.rip = start;
	registers.rsp = top;
	registers.rbx = argument;
	*ret_returned = false;
	if (!go_elsewhere(thread, &registers))
		return error_ended(thread);
	int signal = 0;
	for (;;) {
		int status;
		if (ptrace(PTRACE_SYSCALL, thread->id, NULL, (void *)(intptr_t)signal) != 0)
			return error_ended(thread);
		enum stop stop = wait_until(thread->id, until, &status);
		if (stop == ENDED)
			return error_ended(thread);
		if (stop == LATE) { /* within pthread_create(): not to be interrupted there */
			leave_to_itself(thread);
			return NULL;
		}
		signal = 0;
		if (is_event_stop(status))
			continue;
		if (WSTOPSIG(status) == SYSCALL_STOP) {
			if (ptrace(PTRACE_GETREGS, thread->id, NULL, &registers) != 0 ||
			        registers.orig_rax != SYS_rt_sigreturn ||
			        is_end_of_handler(registers.rsp, top))
				continue;
			stop = come_to_rest(thread);
			if (stop == ENDED)
				return error_ended(thread);
			*ret_returned = stop == STOPPED;
			if (stop == LATE) /* its control group was frozen meanwhile, for example */
				leave_to_itself(thread);
			return NULL;
		}
		signal = WSTOPSIG(status);
		if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE) {
			/* Our code or a function that it calls: none of the program's own code. */
			put_back(thread);
			gm_inject_thread_release(thread);
			return gm_error_create(GM_INTERNAL,
			        "process %d: signal %d while its thread %d created another thread; "
			        "the process continues unchanged",
			        thread->pid, signal, thread->id);
		}
	}
}
