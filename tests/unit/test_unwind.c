#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "child.h"
#include "symbols/symbols.h"

enum { DEPTH = 64 };

/* A frame of its own under its own name. */
#ifdef __clang__
#define OWN_FRAME __attribute__((noinline, optnone))
#else
#define OWN_FRAME __attribute__((noipa))
#endif

/* The result of the child's own unwinder (libgcc, by backtrace()), for comparison. */
struct report {
	uint64_t count;
	uint64_t addresses[DEPTH];
};
static struct report *report; /* shared between parent and child */
static int report_end;

static void tell(void)
{
	void *addresses[DEPTH];
	report->count = (uint64_t)backtrace(addresses, DEPTH);
	for (uint64_t i = 0; i < report->count; i++)
		report->addresses[i] = (uint64_t)(uintptr_t)addresses[i];
	if (write(report_end, "x", 1) != 1)
		_exit(1);
}

static void OWN_FRAME wait_here(void)
{
	for (;;)
		syscall(SYS_pause);
}

static void OWN_FRAME report_and_wait(void)
{
	tell();
	wait_here();
	__asm__ volatile("");
}

static void OWN_FRAME level_three(volatile char *space)
{
	space[0] = 1;
	report_and_wait();
	__asm__ volatile("");
}

/* A frame of changing size: its CFA goes by rbp. */
static void OWN_FRAME level_two(size_t size)
{
	level_three(__builtin_alloca(size));
	__asm__ volatile("");
}

static void OWN_FRAME level_one(void)
{
	level_two(30000); /* beyond one window of the unwinder */
	__asm__ volatile("");
}

static int compare_by_waiting(const void *left, const void *right)
{
	level_one();
	return 0;
}

/* Through libc (qsort's frames) and back. */
static void through_qsort(void)
{
	int numbers[4] = {4, 3, 2, 1};
	qsort(numbers, 4, sizeof(int), compare_by_waiting);
}

static void on_signal(int number)
{
	report_and_wait();
}

static void through_signal(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	__asm__ volatile("");
}

static void through_signal_on_another_stack(void)
{
	static char space[64 << 10];
	stack_t stack = {.ss_sp = space, .ss_size = sizeof(space)};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	__asm__ volatile("");
}

/* A call that never returns is its function's last instruction: the return address is in the next
 * one. */
static void OWN_FRAME __attribute__((noreturn)) never_returns(void)
{
	report_and_wait();
	_exit(0);
}
static void OWN_FRAME __attribute__((noreturn)) ends_with_a_call(void)
{
	never_returns();
}
static void through_noreturn(void)
{
	ends_with_a_call();
}

static void *thread_body(void *argument)
{
	level_one();
	return NULL;
}

/* Calls `body` in a child; the child reports its own backtrace and waits in wait_here(). */
struct stopped {
	pid_t pid, thread;
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_registers registers;
	uint64_t addresses[DEPTH];
	size_t count;
};

static pid_t other_thread(struct gm_image *image, pid_t pid)
{
	_cleanup_free_ pid_t *threads = NULL;
	size_t count = 0;
	assert_null(gm_image_threads(image, &threads, &count));
	for (size_t i = 0; i < count; i++) {
		if (threads[i] != pid)
			return threads[i];
	}
	return pid;
}

static void stop_in(void (*body)(void), bool in_thread, struct stopped *stopped)
{
	int ends[2];
	char byte;
	assert_int_equal(pipe(ends), 0);
	report_end = ends[1];
	stopped->pid = fork();
	if (stopped->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		void *warm[1];
		backtrace(warm, 1); /* loads libgcc */
		pthread_t thread;
		if (in_thread)
			pthread_create(&thread, NULL, thread_body, NULL);
		else
			body();
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	assert_null(gm_image_open_pid(stopped->pid, &stopped->image));
	stopped->thread = in_thread ? other_thread(stopped->image, stopped->pid) : stopped->pid;
	child_sleeps(stopped->pid, stopped->thread); /* from its report to its wait */
	child_stop(stopped->thread);
	assert_null(gm_image_registers(stopped->image, stopped->thread, &stopped->registers));
	assert_null(gm_symbols_create(stopped->image, &stopped->symbols));
	stopped->count =
	        gm_symbols_unwind(stopped->symbols, &stopped->registers, stopped->addresses, DEPTH);
}

static void end(struct stopped *stopped)
{
	gm_symbols_destroy(stopped->symbols);
	gm_image_close(stopped->image);
	kill(stopped->pid, SIGKILL);
	if (stopped->thread != stopped->pid)
		waitpid(stopped->thread, NULL, __WALL); /* its tracer has to see it end */
	waitpid(stopped->pid, NULL, __WALL);
}

/* tell() and wait_here() are called by the same frame, at two places; from its caller on all must
 * agree. */
static void assert_same_as_backtrace(const struct stopped *stopped)
{
	/* ours: syscall, wait_here, report_and_wait, rest; theirs (a sanitizer's frame, perhaps,)
	 * tell, report_and_wait, rest */
	assert_true(stopped->count > 4);
	size_t rest = stopped->count - 3;
	assert_true(report->count >= rest + 2 && report->count <= rest + 3);
	const uint64_t *theirs = report->addresses + report->count - rest;
	assert_true(stopped->addresses[2] > theirs[-1] && stopped->addresses[2] - theirs[-1] < 256);
	for (size_t i = 0; i < rest; i++)
		assert_int_equal(stopped->addresses[3 + i], theirs[i]);
}

static void assert_named(struct stopped *stopped, const char *function)
{
	struct gm_symbol symbols[DEPTH];
	assert_null(gm_symbols_name(
	        stopped->symbols, stopped->addresses, stopped->count, true, symbols));
	for (size_t i = 0; i < stopped->count; i++) {
		if (symbols[i].function && strcmp(symbols[i].function, function) == 0)
			return;
	}
	for (size_t i = 0; i < stopped->count; i++)
		print_message("  %s\n", symbols[i].function ? symbols[i].function : "?");
	fail_msg("no frame of %s", function);
}

/* Goes from caller to caller, one at a time, as a debugger does. */
static void assert_same_by_steps(const struct stopped *stopped)
{
	struct gm_registers now = stopped->registers;
	for (size_t i = 1; i < stopped->count; i++) {
		uint64_t pointer = now.value[GM_RSP];
		assert_true(gm_symbols_caller(stopped->symbols, &now, i == 1, &now));
		assert_int_equal(now.value[GM_RIP], stopped->addresses[i]);
		assert_true(now.value[GM_RSP] > pointer);
	}
	const struct gm_registers last = now;
	assert_false(gm_symbols_caller(stopped->symbols, &now, false, &now));
	assert_memory_equal(&now, &last, sizeof(now));
}

static void a_call_chain_through_libc_is_as_backtrace_has_it(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_qsort, false, &stopped);
	assert_same_as_backtrace(&stopped);
	assert_same_by_steps(&stopped);
	assert_named(&stopped, "level_two");
	assert_named(&stopped, "main");
	assert_named(&stopped, "_start");
	end(&stopped);
}

static void a_signal_frame_is_walked_through(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_signal, false, &stopped);
	assert_same_as_backtrace(&stopped);
	assert_named(&stopped, "through_signal");
	assert_named(&stopped, "_start");
	end(&stopped);
}

static void a_signal_frame_on_another_stack_is_walked_through(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_signal_on_another_stack, false, &stopped);
	assert_same_as_backtrace(&stopped);
	assert_named(&stopped, "through_signal_on_another_stack");
	end(&stopped);
}

static void a_call_that_never_returns_keeps_its_caller(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_noreturn, false, &stopped);
	assert_same_as_backtrace(&stopped);
	assert_same_by_steps(&stopped);
	assert_named(&stopped, "ends_with_a_call");
	assert_named(&stopped, "through_noreturn");
	end(&stopped);
}

static void a_threads_stack_ends_where_the_thread_began(void **state)
{
	struct stopped stopped = {0};
	stop_in(NULL, true, &stopped);
	assert_same_as_backtrace(&stopped);
	assert_same_by_steps(&stopped);
	assert_named(&stopped, "thread_body");
	end(&stopped);
}

static void at_most_max_addresses_are_given(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_qsort, false, &stopped);
	uint64_t few[3] = {0, 0, 77};
	assert_int_equal(gm_symbols_unwind(stopped.symbols, &stopped.registers, few, 2), 2);
	assert_int_equal(few[1], stopped.addresses[1]);
	assert_int_equal(few[2], 77);
	end(&stopped);
}

static void senseless_registers_end_the_walk_at_once(void **state)
{
	struct stopped stopped = {0};
	stop_in(through_qsort, false, &stopped);
	struct gm_registers registers = stopped.registers;
	registers.value[GM_RIP] = 0x1234;
	assert_int_equal(
	        gm_symbols_unwind(stopped.symbols, &registers, stopped.addresses, DEPTH), 1);
	registers = stopped.registers;
	registers.value[GM_RSP] = 0x1234;
	assert_int_equal(
	        gm_symbols_unwind(stopped.symbols, &registers, stopped.addresses, DEPTH), 1);
	registers.value[GM_RSP] = UINT64_MAX - 3;
	assert_int_equal(
	        gm_symbols_unwind(stopped.symbols, &registers, stopped.addresses, DEPTH), 1);
	end(&stopped);
}

/* Single steps from before a call through a PLT entry: at each instruction, the caller must be
 * found. */
static void OWN_FRAME call_through_plt(void)
{
	report->addresses[0] = (uint64_t)getpid();
	report_and_wait();
}

static void every_instruction_on_the_way_into_a_library_unwinds_to_the_caller(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		call_through_plt();
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	assert_null(gm_image_open_pid(pid, &image));
	assert_null(gm_symbols_create(image, &symbols));
	uint64_t function = (uint64_t)(uintptr_t)call_through_plt;
	size_t within = 0, shallow = 0;
	/* Steps until well inside of what is called; the dynamic linker may resolve the name on the
	 * way. */
	for (size_t step = 0; step < 20000 && within < 400; step++) {
		struct gm_registers registers;
		uint64_t addresses[DEPTH];
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		gm_image_invalidate(image);
		assert_null(gm_image_registers(image, pid, &registers));
		size_t count = gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
		bool found = false;
		for (size_t i = 0; i < count; i++)
			found |= addresses[i] >= function && addresses[i] < function + 64;
		within += found;
		shallow += within > 0 && !found && count < 4;
	}
	assert_true(within >= 400);
	assert_int_equal(shallow, 0);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

int main(void)
{
	report = mmap(
	        NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_call_chain_through_libc_is_as_backtrace_has_it),
	        cmocka_unit_test(a_signal_frame_is_walked_through),
	        cmocka_unit_test(a_signal_frame_on_another_stack_is_walked_through),
	        cmocka_unit_test(a_call_that_never_returns_keeps_its_caller),
	        cmocka_unit_test(a_threads_stack_ends_where_the_thread_began),
	        cmocka_unit_test(at_most_max_addresses_are_given),
	        cmocka_unit_test(senseless_registers_end_the_walk_at_once),
	        cmocka_unit_test(every_instruction_on_the_way_into_a_library_unwinds_to_the_caller),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
