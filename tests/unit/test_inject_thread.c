/*
 * One thread of a child, stopped by gpumem: code runs in it, and the thread then continues as if
 * nothing had happened. The child is a copy of this process, so its code and its C library are at
 * our addresses.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "base/clock.h"
#include "inject/internal.h"

enum { TURNS = 2000, FOREVER = 600, STACK = 4096, LEFT = 77, GOOD = 42 };
enum { XMM = 160 /* where xmm0 to xmm15 are in what XSAVE writes */ };

/* Code for the child, by address. test_leaf() turns in place and returns; test_code() leaves a
 * number where rbx points, changes vector registers and asks for rt_sigreturn, as gpumem's own code
 * does. */
__asm__(".text\n"
        "test_syscall: syscall\n ret\n"
        "test_leaf: mov $2000, %ecx\n"
        "1: dec %ecx\n jnz 1b\n"
        "test_leaf_ret: ret\n"
        "test_code: movq $77, (%rbx)\n movq %rsp, %xmm0\n movq %rsp, %xmm9\n"
        " mov $15, %eax\n syscall\n"
        "test_fault: movq $1, 8\n"
        "test_restore: mov $15, %rax\n syscall\n");
extern const char test_restore[], test_syscall[], test_leaf_ret[], test_code[], test_fault[];
void test_leaf(void);

/* What parent and child both see. */
struct shared {
	_Atomic bool begun, end;
	_Atomic unsigned handled, rounds;
	uint64_t left;
	uint8_t stack[STACK] __attribute__((aligned(64)));
};
static struct shared *shared;

static void handle(int signal)
{
	(void)signal;
	shared->handled++;
}

static pid_t start(void (*body)(void))
{
	shared = mmap(
	        NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
		signal(SIGUSR1, handle);
		signal(SIGSEGV, SIG_DFL);
		shared->begun = true;
		body();
		_exit(GOOD);
	}
	while (!shared->begun)
		usleep(100);
	return child;
}

/* The child ends by itself, and its status says that nothing went wrong. */
static void finish(pid_t child)
{
	int status;
	shared->end = true;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), GOOD);
	munmap(shared, sizeof(*shared));
}

static struct gm_inject_thread *stop(pid_t child)
{
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	bool stopped = false;
	assert_non_null(thread);
	while (!stopped)
		assert_null(gm_inject_thread_stop(
		        child, child, gm_seconds() + FOREVER, thread, &stopped));
	return thread;
}

/* Waits until the child has counted to `least`. It must not have ended. */
static void wait_for(pid_t child, _Atomic unsigned *number, unsigned least)
{
	while (*number < least) {
		int status = 0;
		assert_int_equal(waitpid(child, &status, WNOHANG), 0);
		assert_int_equal(status, 0);
		usleep(100);
	}
}

static void release(struct gm_inject_thread *thread)
{
	gm_inject_thread_release(thread);
	free(thread);
}

/* Sums that would be wrong if a register, a flag or a vector register were not restored. */
static void compute(void)
{
	double sum_before = 0;
	uint64_t product_before = 0;
	for (unsigned round = 0; !shared->end; round++) {
		volatile double sum = 0;
		volatile uint64_t product = 1;
		for (unsigned i = 1; i <= TURNS; i++) {
			sum = sum + 1.0 / i;
			product = product * 31 + i;
		}
		if (round && (sum != sum_before || product != product_before))
			_exit(1);
		sum_before = sum;
		product_before = product;
		shared->rounds++;
	}
}

static void turn(void)
{
	while (!shared->end) {
		test_leaf();
		shared->rounds++;
	}
}

/* The kernel restarts the call until it succeeds; the program must not see EINTR. */
static void wait_in_pipe(void)
{
	int ends[2];
	char byte = 0;
	if (pipe(ends) != 0)
		_exit(1);
	pid_t writer = fork();
	if (writer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!shared->end)
			usleep(1000);
		_exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
	}
	if (syscall(SYS_read, ends[0], &byte, 1) != 1 || byte != 'x')
		_exit(2);
}

static int64_t call(struct gm_inject_thread *thread, long number, uint64_t first)
{
	const uint64_t arguments[6] = {first};
	int64_t value = INT64_MIN;
	assert_null(gm_inject_thread_syscall(
	        thread, (uintptr_t)test_syscall, 0, number, arguments, &value));
	return value;
}

/* Has the stopped thread its original state? */
static void check_registers(const struct gm_inject_thread *thread)
{
	struct user_regs_struct now;
	uint64_t mask;
	assert_int_equal(ptrace(PTRACE_GETREGS, thread->id, NULL, &now), 0);
	assert_memory_equal(&now, &thread->registers, sizeof(now));
	assert_int_equal(ptrace(PTRACE_GETSIGMASK, thread->id, (void *)sizeof(mask), &mask), 0);
	assert_int_equal(mask, thread->mask);
	static uint8_t extended[GM_INJECT_EXTENDED_MAX];
	struct iovec all = {extended, sizeof(extended)};
	assert_int_equal(ptrace(PTRACE_GETREGSET, thread->id, (void *)NT_X86_XSTATE, &all), 0);
	assert_memory_equal(extended + XMM, thread->extended + XMM, 16 * 16);
}

static void a_system_call_runs_in_a_thread_that_computes(void **state)
{
	pid_t child = start(compute);
	for (unsigned i = 0; i < 30; i++) {
		struct gm_inject_thread *thread = stop(child);
		assert_int_equal(gm_inject_thread_waits_in(thread), -1);
		assert_int_equal(call(thread, SYS_getpid, 0), child);
		check_registers(thread);
		assert_int_equal(call(thread, SYS_close, 1000), -9 /* EBADF */);
		check_registers(thread);
		unsigned rounds = shared->rounds;
		release(thread);
		wait_for(child, &shared->rounds, rounds + 2);
	}
	finish(child);
}

static void a_system_call_runs_in_a_thread_that_waits_in_another(void **state)
{
	pid_t child = start(wait_in_pipe);
	for (unsigned i = 0; i < 10; i++) {
		struct gm_inject_thread *thread;
		while (gm_inject_thread_waits_in(thread = stop(child)) != SYS_read)
			release(thread);
		assert_int_equal(call(thread, SYS_gettid, 0), child);
		check_registers(thread);
		release(thread);
	}
	finish(child);
}

static void a_signal_that_comes_meanwhile_is_handled_afterwards_and_once(void **state)
{
	pid_t child = start(compute);
	for (unsigned i = 0; i < 10; i++) {
		struct gm_inject_thread *thread = stop(child);
		kill(child, SIGUSR1);
		assert_int_equal(call(thread, SYS_getpid, 0), child);
		assert_int_equal(shared->handled, i);
		release(thread);
		wait_for(child, &shared->handled, i + 1);
	}
	assert_int_equal(shared->handled, 10);
	finish(child);
}

/* Runs system calls in the thread until it is killed. */
static void trace_until(pid_t child, unsigned microseconds)
{
	struct gm_inject_thread *thread = stop(child);
	struct gm_inject_way_back *way = malloc(sizeof(*way));
	const struct itimerval soon = {.it_value.tv_usec = microseconds};
	const uint64_t arguments[6] = {0};
	int64_t value;
	assert_non_null(way);
	gm_inject_way_back(thread, (uintptr_t)test_restore, way);
	assert_int_not_equal(way->top, 0);
	const struct iovec from = {way->bytes, way->size}, to = {(void *)way->top, way->size};
	assert_int_equal(process_vm_writev(child, &from, 1, &to, 1, 0), way->size);
	signal(SIGALRM, SIG_DFL);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (;;)
		gm_error_destroy(gm_inject_thread_syscall(
		        thread, (uintptr_t)test_syscall, way->top, SYS_getpid, arguments, &value));
}

static void a_thread_continues_whenever_its_tracer_is_killed(void **state)
{
	pid_t child = start(compute);
	for (unsigned i = 0; i < 200; i++) {
		int status;
		pid_t tracer = fork();
		assert_true(tracer >= 0);
		if (tracer == 0)
			trace_until(child, 1 + 3 * i);
		assert_int_equal(waitpid(tracer, &status, 0), tracer);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
		unsigned rounds = shared->rounds;
		kill(child, SIGUSR1); /* which is not blocked */
		wait_for(child, &shared->handled, i + 1);
		wait_for(child, &shared->rounds, rounds + 2);
	}
	finish(child);
}

static void code_runs_in_the_thread_until_it_asks_for_rt_sigreturn(void **state)
{
	pid_t child = start(compute);
	for (unsigned i = 0; i < 10; i++) {
		bool returned = false;
		struct gm_inject_thread *thread = stop(child);
		shared->left = 0;
		assert_null(gm_inject_thread_run(thread, (uintptr_t)test_code,
		        (uintptr_t)shared->stack + STACK, (uintptr_t)&shared->left, &returned));
		assert_true(returned);
		assert_int_equal(shared->left, LEFT);
		check_registers(thread);
		release(thread);
	}
	finish(child);
}

static void code_that_faults_is_reported_and_the_thread_continues(void **state)
{
	pid_t child = start(compute);
	bool returned = true;
	struct gm_inject_thread *thread = stop(child);
	struct gm_error *error = gm_inject_thread_run(
	        thread, (uintptr_t)test_fault, (uintptr_t)shared->stack + STACK, 0, &returned);
	assert_non_null(error);
	assert_int_equal(error->status, GM_INTERNAL);
	assert_false(returned);
	gm_error_destroy(error);
	free(thread); /* it was released */
	unsigned rounds = shared->rounds;
	wait_for(child, &shared->rounds, rounds + 2);
	finish(child);
}

/* Stopped within test_leaf(). */
static struct gm_inject_thread *stop_in_leaf(pid_t child)
{
	for (;;) {
		struct gm_inject_thread *thread = stop(child);
		uint64_t at = thread->registers.rip;
		if (at > (uintptr_t)test_leaf && at <= (uintptr_t)test_leaf_ret)
			return thread;
		release(thread);
	}
}

static uint64_t return_address(const struct gm_inject_thread *thread)
{
	return (uint64_t)ptrace(
	        PTRACE_PEEKDATA, thread->id, (void *)(uintptr_t)thread->registers.rsp, NULL);
}

static void steps_lead_to_where_a_function_returns(void **state)
{
	pid_t child = start(turn);
	for (unsigned i = 0; i < 3; i++) {
		struct gm_inject_thread *thread = stop_in_leaf(child);
		uint64_t stack = thread->registers.rsp, to = return_address(thread);
		assert_true(gm_inject_thread_step_to(thread, to, 4 * TURNS));
		assert_int_equal(thread->registers.rip, to);
		assert_int_equal(thread->registers.rsp, stack + 8);
		check_registers(thread);
		release(thread);
	}
	struct gm_inject_thread *thread = stop_in_leaf(child);
	/* not the inner frame's address, and not after fewer steps */
	assert_false(gm_inject_thread_step_to(thread, thread->registers.rip, 8));
	release(thread);
	finish(child);
}

static void block_traps(void)
{
	sigset_t traps;
	sigemptyset(&traps);
	sigaddset(&traps, SIGTRAP);
	sigprocmask(SIG_BLOCK, &traps, NULL);
	turn();
}

static void ignore_traps(void)
{
	signal(SIGTRAP, SIG_IGN);
	turn();
}

/* The kernel would take away what the program has set for the signal of a step. */
static void a_thread_that_blocks_or_ignores_traps_is_not_stepped(void **state)
{
	void (*const bodies[])(void) = {block_traps, ignore_traps};
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = start(bodies[i]);
		wait_for(child, &shared->rounds, 1);
		struct gm_inject_thread *thread = stop_in_leaf(child);
		assert_false(gm_inject_thread_step_to(thread, return_address(thread), 4 * TURNS));
		check_registers(thread);
		release(thread);
		finish(child);
	}
}

/* --- which process, and whether it can be done ------------------------------------------------ */

static void expect(struct gm_error *error, const char *part)
{
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	if (!strstr(error->message, part))
		fail_msg("%s: not in: %s", part, error->message);
	gm_error_destroy(error);
}

static void a_thread_that_is_gone_is_no_error_and_not_stopped(void **state)
{
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	bool stopped = true;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_null(gm_inject_thread_stop(child, child, gm_seconds() + 1, thread, &stopped));
	assert_false(stopped);
	free(thread);
}

static void be_traced(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	shared->rounds++;
	compute();
}

static void who_traces_a_process_is_named(void **state)
{
	char tracer[64];
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	bool stopped;
	pid_t child = start(be_traced);
	wait_for(child, &shared->rounds, 1);
	snprintf(tracer, sizeof(tracer), "process %d traces it", getpid());
	expect(gm_inject_thread_stop(child, child, gm_seconds() + 1, thread, &stopped), tracer);
	assert_false(stopped);
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, NULL, 0), child);
	snprintf(tracer, sizeof(tracer), "process %d has stopped it", getpid());
	expect(gm_inject_check_runs(child), tracer);
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	finish(child);
	free(thread);
}

static void a_stopped_process_is_refused_until_it_goes_on(void **state)
{
	int status;
	pid_t child = start(compute);
	assert_null(gm_inject_check_runs(child));
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	expect(gm_inject_check_runs(child), "kill -CONT");
	kill(child, SIGCONT);
	assert_int_equal(waitpid(child, &status, WCONTINUED), child);
	assert_null(gm_inject_check_runs(child));
	finish(child);
}

static void be_strict(void)
{
	prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */);
	shared->rounds++;
	while (!shared->end)
		;
	syscall(SYS_exit, GOOD); /* the only call that strict mode allows for this */
}

/* Of a child's image: all functions of its C library, which are ours. */
static void functions_are_found_where_the_c_library_has_them(void **state)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_inject_functions functions;
	pid_t child = start(compute);
	assert_null(gm_image_open_pid(child, &image));
	assert_null(gm_symbols_create(image, &symbols));
	assert_null(gm_inject_check(image, symbols));
	assert_null(gm_inject_find_functions(image, symbols, &functions));
	const struct {
		const char *name;
		uint64_t found;
	} all[] = {{"pthread_create", functions.pthread_create},
	        {"pthread_detach", functions.pthread_detach}, {"dlopen", functions.dlopen},
	        {"dlsym", functions.dlsym}, {"dlerror", functions.dlerror},
	        {"__errno_location", functions.errno_location}};
	/* Of the C library itself: a sanitizer's library has some of these names too. */
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	assert_non_null(libc);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		assert_int_equal(all[i].found, (uintptr_t)dlsym(libc, all[i].name));
	dlclose(libc);
	assert_memory_equal((const void *)(uintptr_t)functions.syscall, "\x0f\x05", 2);
	assert_int_equal(functions.agent_start, 0);
	assert_false(gm_inject_agent_there(symbols));
	assert_int_equal(gm_inject_function(symbols, "gpumem_agent_start"), 0);
	assert_int_equal(gm_inject_function(symbols, "dlopen"), functions.dlopen);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	finish(child);
}

static void a_process_in_seccomps_strict_mode_is_refused(void **state)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	pid_t child = start(be_strict);
	wait_for(child, &shared->rounds, 1);
	assert_null(gm_image_open_pid(child, &image));
	assert_null(gm_symbols_create(image, &symbols));
	expect(gm_inject_check(image, symbols), "strict mode");
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	finish(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_system_call_runs_in_a_thread_that_computes),
	        cmocka_unit_test(a_system_call_runs_in_a_thread_that_waits_in_another),
	        cmocka_unit_test(a_signal_that_comes_meanwhile_is_handled_afterwards_and_once),
	        cmocka_unit_test(a_thread_continues_whenever_its_tracer_is_killed),
	        cmocka_unit_test(code_runs_in_the_thread_until_it_asks_for_rt_sigreturn),
	        cmocka_unit_test(code_that_faults_is_reported_and_the_thread_continues),
	        cmocka_unit_test(steps_lead_to_where_a_function_returns),
	        cmocka_unit_test(a_thread_that_blocks_or_ignores_traps_is_not_stepped),
	        cmocka_unit_test(a_thread_that_is_gone_is_no_error_and_not_stopped),
	        cmocka_unit_test(who_traces_a_process_is_named),
	        cmocka_unit_test(a_stopped_process_is_refused_until_it_goes_on),
	        cmocka_unit_test(functions_are_found_where_the_c_library_has_them),
	        cmocka_unit_test(a_process_in_seccomps_strict_mode_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
