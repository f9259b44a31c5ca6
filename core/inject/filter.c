/*
 * The effect of a thread's seccomp filters on the system calls of the agent's start: if a filter
 * would end the process or raise a signal for one of them, nothing is begun. The filters are read
 * by ptrace (PTRACE_SECCOMP_GET_FILTER, which requires CAP_SYS_ADMIN and that we have no filter of
 * our own) and interpreted here, classic BPF over struct seccomp_data, for each call.
 *
 * Arguments that are not known beforehand (addresses, descriptors) are unknown values: a jump that
 * depends on one is followed both ways. Jumps lead only forward, so every path ends; filters with
 * too many paths count as unknown.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "inject/internal.h"

enum {
	FILTERS_MAX = 64,
	STEPS_MAX = 1 << 16,    /* for one call */
	CLONE_FLAGS = 0x3d0f00, /* of pthread_create() */
};

struct made {
	uint32_t number;
	const char *name;
	uint32_t first; /* its first argument, if it is known */
	bool first_known;
	bool must_work;
};

#define CALL(name)                                 \
	{                                          \
		SYS_##name, #name, 0, false, false \
	}
/*
 * If one of these fails, the C library ends the process or the thread never ends. glibc 2.35 and
 * later: rseq() in start_thread() (nptl/pthread_create.c), which is called if the creating thread
 * is registered; futex_fatal_error() (sysdeps/nptl/futex-internal.h); __nptl_free_stacks() aborts
 * if munmap() fails (nptl/nptl-stack.c); exit() is repeated until it works. Our own code cannot
 * continue after a failing rt_sigreturn().
 */
#define MUST_WORK(name)                           \
	{                                         \
		SYS_##name, #name, 0, false, true \
	}

/*
 * In the stopped thread, in pthread_create(), in the dynamic linker, and by the agent: at its
 * start, its stop and while it records, also at a second recording of the process. Tests compare
 * this with what it calls (tests/e2e/test_agent_calls.py). Not in it: kill(), and what starts
 * gpumem, which it calls only with --on-oom.
 */
static const struct made calls[] = {CALL(mmap), CALL(memfd_create), CALL(rt_sigprocmask),
        CALL(sigaltstack), MUST_WORK(rt_sigreturn), CALL(mprotect), MUST_WORK(munmap),
        CALL(madvise), CALL(clone3), {SYS_clone, "clone", CLONE_FLAGS, true, false},
        CALL(set_robust_list), MUST_WORK(rseq), MUST_WORK(futex), CALL(brk), CALL(openat),
        CALL(read), CALL(pread64), CALL(newfstatat), CALL(fstat), CALL(fcntl), CALL(close),
        MUST_WORK(exit), CALL(getpid), CALL(gettid), CALL(getcwd), CALL(readlink),
        CALL(rt_sigaction), CALL(prlimit64), CALL(clock_gettime), CALL(fallocate), CALL(ftruncate),
        CALL(write), CALL(pwrite64), CALL(lseek), CALL(sched_getaffinity), CALL(process_vm_readv),
        CALL(getrandom), CALL(unlink), CALL(sched_yield), CALL(prctl), CALL(nanosleep),
        CALL(clock_nanosleep), CALL(mremap), CALL(uname), CALL(access)};

/* --- interpreting a filter for one call ------------------------------------------------------- */

struct value {
	uint32_t value;
	bool known;
};

struct machine {
	const struct sock_filter *code;
	size_t count;
	const struct made *call;
	unsigned steps;
	bool hurts, unknown;
};

struct registers {
	struct value a, x, memory[BPF_MEMWORDS];
};

static struct value load(const struct made *call, uint32_t offset)
{
	switch (offset) {
	case offsetof(struct seccomp_data, nr):
		return (struct value){call->number, true};
	case offsetof(struct seccomp_data, arch):
		return (struct value){AUDIT_ARCH_X86_64, true};
	case offsetof(struct seccomp_data, args):
		return (struct value){call->first, call->first_known};
	case offsetof(struct seccomp_data, args) + 4:
		return (struct value){0, call->first_known};
	default:
		return (struct value){0, false};
	}
}

static struct value compute(uint16_t operation, struct value a, struct value b)
{
	struct value result = {0, a.known && b.known};
	switch (operation) {
	case BPF_ADD:
		result.value = a.value + b.value;
		break;
	case BPF_SUB:
		result.value = a.value - b.value;
		break;
	case BPF_MUL:
		result.value = a.value * b.value;
		break;
	case BPF_OR:
		result.value = a.value | b.value;
		break;
	case BPF_AND:
		result.value = a.value & b.value;
		break;
	case BPF_XOR:
		result.value = a.value ^ b.value;
		break;
	case BPF_LSH: /* by 31 at most, as the kernel shifts (kernel/bpf/core.c: SRC & 31) */
		result.value = a.value << (b.value & 31);
		break;
	case BPF_RSH:
		result.value = a.value >> (b.value & 31);
		break;
	default: /* a division, which no filter needs for this: unknown */
		result.known = false;
	}
	return result;
}

static bool compare(uint16_t operation, uint32_t a, uint32_t b)
{
	switch (operation) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default:
		return (a & b) != 0;
	}
}

static void take_action(struct machine *machine, struct value action)
{
	uint32_t kind = action.value & SECCOMP_RET_ACTION_FULL;
	bool works = kind == SECCOMP_RET_ALLOW || kind == SECCOMP_RET_LOG;
	bool ends = kind == SECCOMP_RET_KILL_PROCESS || kind == SECCOMP_RET_KILL_THREAD ||
	            kind == SECCOMP_RET_TRAP;
	machine->unknown |= !action.known;
	machine->hurts |= action.known && (ends || (machine->call->must_work && !works));
}

/* All instructions except jumps and returns. False: an unknown instruction. */
static bool execute(
        const struct made *call, const struct sock_filter *one, struct registers *registers)
{
	struct value constant = {one->k, true};
	switch (BPF_CLASS(one->code)) {
	case BPF_LD:
		if (one->code == (BPF_LD | BPF_W | BPF_ABS))
			registers->a = load(call, one->k);
		else if (one->code == (BPF_LD | BPF_IMM))
			registers->a = constant;
		else if (one->code == (BPF_LD | BPF_MEM) && one->k < BPF_MEMWORDS)
			registers->a = registers->memory[one->k];
		else
			registers->a.known = false;
		return true;
	case BPF_LDX:
		if (one->code == (BPF_LDX | BPF_IMM))
			registers->x = constant;
		else if (one->code == (BPF_LDX | BPF_MEM) && one->k < BPF_MEMWORDS)
			registers->x = registers->memory[one->k];
		else
			registers->x.known = false;
		return true;
	case BPF_ST:
	case BPF_STX:
		if (one->k >= BPF_MEMWORDS)
			return false;
		registers->memory[one->k] =
		        BPF_CLASS(one->code) == BPF_ST ? registers->a : registers->x;
		return true;
	case BPF_ALU:
		if (BPF_OP(one->code) == BPF_NEG)
			registers->a.value = -registers->a.value;
		else
			registers->a = compute(BPF_OP(one->code), registers->a,
			        BPF_SRC(one->code) == BPF_X ? registers->x : constant);
		return true;
	case BPF_MISC:
		if (BPF_MISCOP(one->code) == BPF_TAX)
			registers->x = registers->a;
		else
			registers->a = registers->x;
		return true;
	default:
		return false;
	}
}

/* From one instruction to every return that can be reached. Each branch begins with the registers
 * of its jump. */
static void go(struct machine *machine, size_t at, struct registers registers)
{
	while (at < machine->count && machine->steps++ < STEPS_MAX && !machine->hurts) {
		const struct sock_filter *one = &machine->code[at++];
		if (BPF_CLASS(one->code) == BPF_RET) {
			take_action(machine, BPF_RVAL(one->code) == BPF_A
			                             ? registers.a
			                             : (struct value){one->k, true});
			return;
		}
		if (BPF_CLASS(one->code) != BPF_JMP) {
			if (execute(machine->call, one, &registers))
				continue;
			break;
		}
		if (BPF_OP(one->code) == BPF_JA) {
			at += one->k;
			continue;
		}
		struct value with =
		        BPF_SRC(one->code) == BPF_X ? registers.x : (struct value){one->k, true};
		if (registers.a.known && with.known) {
			at += compare(BPF_OP(one->code), registers.a.value, with.value) ? one->jt
			                                                                : one->jf;
			continue;
		}
		if (one->jt != one->jf)
			go(machine, at + one->jt, registers);
		at += one->jf;
	}
	machine->unknown |= !machine->hurts;
}

bool gm_inject_filter_hurts(
        const struct sock_filter *code, size_t count, bool has_rseq, const char **ret_call)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct made call = calls[i];
		if (call.number == SYS_rseq)
			call.must_work = has_rseq;
		struct machine machine = {.code = code, .count = count, .call = &call};
		const struct registers zero = {.a = {0, true}, .x = {0, true}};
		go(&machine, 0, zero);
		if (machine.hurts || machine.unknown) {
			*ret_call = calls[i].name;
			return true;
		}
	}
	return false;
}

/* ---- the filters of a thread ----------------------------------------------------------------- */

/* "Seccomp_filters:", after "Seccomp:" says that there are any; 0: none. `thread` 0: ourselves. */
static long count_filters(pid_t thread)
{
	char path[64] = "/proc/self/status", line[256];
	long mode = 0, count = 0;
	if (thread)
		snprintf(path, sizeof(path), "/proc/%d/status", thread);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Seccomp:", 8) == 0)
			mode = strtol(line + 8, NULL, 10);
		else if (strncmp(line, "Seccomp_filters:", 16) == 0)
			count = strtol(line + 16, NULL, 10);
	}
	return mode == SECCOMP_MODE_FILTER && count == 0 ? 1 : count;
}

bool gm_inject_has_filters(pid_t thread)
{
	return count_filters(thread) > count_filters(0);
}

static struct gm_error *error_hurts(pid_t pid, const char *call)
{
	return gm_error_create(GM_TARGET,
	        "process %d: one of its seccomp filters would kill or trap it at the agent's %s(): "
	        "start it with `gpumem run`, or allow that call",
	        pid, call);
}

/* With this setting its own handler gets its system calls; the agent's would end it, because
 * signals are blocked meanwhile. */
static bool dispatches(pid_t thread)
{
	enum { GET_CONFIG = 0x4211 }; /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, since Linux 6.4 */
	struct {
		uint64_t mode, selector, offset, length;
	} config = {0};
	void *size = (void *)(uintptr_t)sizeof(config);
	return ptrace((enum __ptrace_request)GET_CONFIG, thread, size, &config) == 0 && config.mode;
}

struct gm_error *gm_inject_filter_check(const struct gm_inject_thread *thread, bool has_rseq)
{
	if (dispatches(thread->id))
		return gm_error_create(GM_TARGET,
		        "process %d: it handles its own system calls "
		        "(PR_SET_SYSCALL_USER_DISPATCH), and would receive the agent's: start it "
		        "with `gpumem run`",
		        thread->pid);
	/* Filters that we have as well, like every process in a container: if these are all that it
	 * has, our own calls show their effect. */
	if (!gm_inject_has_filters(thread->id))
		return NULL;
	for (uintptr_t i = 0; i < FILTERS_MAX; i++) {
		struct sock_filter code[BPF_MAXINSNS];
		const char *call;
		void *at = (void *)i;
		long count = ptrace(PTRACE_SECCOMP_GET_FILTER, thread->id, at, NULL);
		if (count < 0 && errno == ENOENT && i > 0)
			return NULL;
		if (count <= 0 || count > BPF_MAXINSNS ||
		        ptrace(PTRACE_SECCOMP_GET_FILTER, thread->id, at, code) != count)
			break;
		if (gm_inject_filter_hurts(code, (size_t)count, has_rseq, &call))
			return error_hurts(thread->pid, call);
	}
	return gm_error_create(GM_TARGET,
	        "process %d: it has seccomp filters that cannot be read here, and one of them "
	        "might end it when the agent starts: attach as root, outside of containers, or "
	        "start it with `gpumem run`",
	        thread->pid);
}
