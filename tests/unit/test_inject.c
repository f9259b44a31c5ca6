/* A thread that is stopped: what it needs to go on by itself, and whether it may create another one
 * where it stands. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clock.h"
#include "child.h"
#include "image/registers.h"
#include "inject/internal.h"

enum { AGAIN = 3 };

static pid_t child_that_waits(void)
{
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
		/* as the C library has it: poll(NULL, 0, -1) */
		__asm__ volatile("mov $7, %%eax\n\tsyscall" ::"D"(0), "S"(0), "d"(-1)
		                 : "rax", "rcx", "r11", "memory");
		_exit(1);
	}
	return child;
}

/* Stopped while it waits, which it may not yet do. */
static void stop_in_call(pid_t child, struct gm_inject_thread *thread)
{
	for (bool stopped = false;;) {
		assert_null(
		        gm_inject_thread_stop(child, child, gm_seconds() + 600, thread, &stopped));
		if (stopped && gm_inject_thread_waits_in(thread) >= 0)
			return;
		if (stopped)
			gm_inject_thread_release(thread);
	}
}

static void a_wait_that_was_interrupted_before_begins_again_as_that_call(void **state)
{
	(void)state;
	pid_t child = child_that_waits();
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	assert_non_null(thread);
	for (int i = 0; i < AGAIN; i++) {
		stop_in_call(child, thread);
		struct user_regs_struct registers = thread->registers;
		gm_inject_restart(thread, &registers);
		assert_int_equal(registers.rax, SYS_poll);
		assert_int_equal(registers.rip, thread->registers.rip - 2);
		gm_inject_thread_release(thread);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	free(thread);
}

/* The sanitizer has functions of its own in place of the C library's: a thread is in those. */
static void skip_if_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__)
	skip();
#endif
}

/* --- where a thread stands -------------------------------------------------------------------- */

struct stopped {
	pid_t pid;
	struct gm_image *image;
	struct gm_symbols *symbols;
};

static struct stopped stopped_of(pid_t pid)
{
	struct stopped stopped = {.pid = pid};
	assert_null(gm_image_open_pid(pid, &stopped.image));
	assert_null(gm_symbols_create(stopped.image, &stopped.symbols));
	return stopped;
}

static void end(struct stopped *stopped)
{
	gm_symbols_destroy(stopped->symbols);
	gm_image_close(stopped->image);
	kill(stopped->pid, SIGKILL);
	waitpid(stopped->pid, NULL, __WALL);
}

static enum gm_inject_place place_of(
        const struct stopped *stopped, const struct user_regs_struct *of, long waits_in)
{
	struct gm_registers registers = gm_registers_from_kernel(of);
	uint64_t back;
	gm_image_invalidate(stopped->image);
	return gm_inject_place(stopped->symbols, &registers, waits_in, &back);
}

static const char *volatile text = "a text that needs a block";
static const wchar_t *volatile wide_text = L"a text that needs a block";

static void *by_malloc(void)
{
	return malloc(100);
}

static void *by_strdup(void)
{
	return strdup(text);
}

static void *by_strndup(void)
{
	return strndup(text, 10);
}

static void *by_wcsdup(void)
{
	return wcsdup(wide_text);
}

/* More than qsort() sorts on its stack. */
static int compare_bytes(const void *left, const void *right)
{
	return *(const char *)left - *(const char *)right;
}

static void *by_qsort(void)
{
	static char bytes[100000];
	qsort(bytes, sizeof(bytes), 1, compare_bytes);
	return bytes;
}

static void *(*volatile made_by)(void);

static bool step(pid_t pid, struct user_regs_struct *registers)
{
	int status;
	assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSTOPPED(status) && ptrace(PTRACE_GETREGS, pid, NULL, registers) == 0;
}

/* From its call until it returns, or for some hundred instructions. `counted`: how many there were.
 */
static size_t safe_steps_in_malloc(void *(*function)(void), size_t *ret_counted)
{
	enum { TO_MALLOC = 100000, IN_MALLOC = 150 };
	size_t safe = 0, counted = 0;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		made_by = function;
		_exit(made_by() == NULL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	struct stopped stopped = stopped_of(pid);
	struct user_regs_struct registers = {0};
	for (int i = 0; i < TO_MALLOC && registers.rip != (uintptr_t)malloc; i++)
		assert_true(step(pid, &registers));
	for (uint64_t top = registers.rsp; counted < IN_MALLOC && registers.rsp <= top; counted++) {
		safe += place_of(&stopped, &registers, -1) == GM_PLACE_SAFE;
		assert_true(step(pid, &registers));
	}
	end(&stopped);
	*ret_counted = counted;
	return safe;
}

static void a_thread_in_malloc_is_not_safe_whichever_function_called_it(void **state)
{
	skip_if_sanitized();
	static void *(*const functions[])(void) = {
	        by_malloc, by_strdup, by_strndup, by_wcsdup, by_qsort};
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		size_t counted;
		assert_int_equal(safe_steps_in_malloc(functions[i], &counted), 0);
		assert_true(counted > 10);
	}
}

static void wait_for_condition(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&condition, &mutex);
}

static void wait_for_mutex(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
}

static void wait_for_input(void)
{
	int ends[2];
	char byte;
	if (pipe(ends) == 0)
		while (read(ends[0], &byte, 1) != 1)
			;
}

static pid_t child_that_calls(void (*function)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		function();
		_exit(1);
	}
	child_sleeps(pid, pid);
	return pid;
}

/* Caller frees. */
static struct gm_inject_thread *stopped_in_call(pid_t pid)
{
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	assert_non_null(thread);
	stop_in_call(pid, thread);
	return thread;
}

static void a_thread_that_waits_for_another_one_or_for_input_is_safe(void **state)
{
	skip_if_sanitized();
	static void (*const functions[])(void) = {
	        wait_for_condition, wait_for_mutex, wait_for_input};
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		pid_t pid = child_that_calls(functions[i]);
		struct gm_inject_thread *thread = stopped_in_call(pid);
		struct stopped stopped = stopped_of(pid);
		assert_int_equal(
		        place_of(&stopped, &thread->registers, gm_inject_thread_waits_in(thread)),
		        GM_PLACE_SAFE);
		end(&stopped);
		free(thread);
	}
}

/* pthread_join() frees the other thread's stack, for which it takes a lock. */
static void *wait_for_ever(void *unused)
{
	wait_for_input();
	return unused;
}

static void wait_for_thread(void)
{
	pthread_t other;
	if (pthread_create(&other, NULL, wait_for_ever, NULL) == 0)
		pthread_join(other, NULL);
}

/* The kernel tells by the call in which it was stopped. */
static void a_wait_for_a_lock_is_no_wait_for_input_for_a_debugger_either(void **state)
{
	skip_if_sanitized();
	static void (*const functions[])(void) = {wait_for_input, wait_for_thread};
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		pid_t pid = child_that_calls(functions[i]);
		struct gm_inject_thread *thread = stopped_in_call(pid);
		struct stopped stopped = stopped_of(pid);
		enum gm_inject_standing standing;
		uint64_t back;
		assert_null(gm_inject_thread_is_call_safe(
		        stopped.image, stopped.symbols, pid, &standing, &back));
		assert_int_equal(standing, i == 0 ? GM_STANDS_SAFE : GM_STANDS_BUSY);
		end(&stopped);
		free(thread);
	}
}

/* Compiled at run time: nothing says where its caller's frame is. */
static void wait_in_unknown_code(void)
{
	static const uint8_t code[] = {0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
	        0xff, 0xd7,                                    /* call *%rdi */
	        0x48, 0x83, 0xc4, 0x08, 0xc3};                 /* add $8, %rsp; ret */
	void *made = mmap(
	        NULL, sizeof(code), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		abort();
	memcpy(made, code, sizeof(code));
	if (mprotect(made, sizeof(code), PROT_READ | PROT_EXEC) == 0)
		((void (*)(void (*)(void)))(uintptr_t)made)(wait_for_input);
}

static void a_stack_that_cannot_be_followed_counts_only_where_the_thread_waits(void **state)
{
	skip_if_sanitized();
	pid_t pid = child_that_calls(wait_in_unknown_code);
	struct gm_inject_thread *thread = stopped_in_call(pid);
	struct stopped stopped = stopped_of(pid);
	assert_int_equal(place_of(&stopped, &thread->registers, SYS_read), GM_PLACE_UNKNOWN);
	assert_int_equal(place_of(&stopped, &thread->registers, -1), GM_PLACE_LIBC);
	end(&stopped);
	free(thread);
}

static void only_functions_that_take_no_lock_are_harmless(void **state)
{
	static const char *const harmless[] = {"read", "__libc_read", "__GI___libc_read",
	        "___pthread_cond_wait", "pthread_cond_wait@@GLIBC_2.3.2", "__new_sem_wait",
	        "__read_nocancel", "__strlen_avx2", "__strlen_evex512",
	        "__memmove_avx_unaligned_erms", "__memset_avx512_no_vzeroupper",
	        "__memcmp_avx2_movbe", "__memcpy_chk_sse2_unaligned", "__strcasecmp_l_avx2",
	        "__strstr_sse2_unaligned", "__wcsnlen_sse4_1", "__strtok_r", "__strtol_internal",
	        "____strtod_l_internal", "qsort_r"};
	static const char *const others[] = {"strdup", "__strdup", "__strndup", "wcsdup",
	        "strerror", "strerror_l", "__strerror_r", "strsignal", "strxfrm", "__strxfrm_l",
	        "strcoll", "__strcoll_l", "wcscoll", "strftime", "__strftime_l", "wcsftime",
	        "strptime", "strfmon", "memalign", "__memalign_hook", "memfrob_lock", "malloc",
	        "_int_malloc", "__libc_malloc", "free", "fork", "pthread_create", "pthread_exit",
	        "opendir", "openlog", "timegm", "index_of", "", "_", "@@GLIBC_2.2.5", "read_avx3",
	        "__strlen__avx2", "a_name_that_is_much_longer_than_each_one_of_the_library_itself"};
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		if (!gm_inject_is_harmless(harmless[i]))
			fail_msg("%s", harmless[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (gm_inject_is_harmless(others[i]) || gm_inject_is_harmless_within(others[i]))
			fail_msg("%s", others[i]);
	assert_false(gm_inject_is_harmless(NULL));
	assert_true(gm_inject_is_harmless_within(NULL));
	assert_true(gm_inject_is_harmless_within("__futex_abstimed_wait_common"));
	assert_true(gm_inject_is_harmless_within("msort_with_tmp.part.0"));
	assert_true(gm_inject_is_locking("__libc_malloc"));
	assert_true(gm_inject_is_locking("malloc_info"));
	assert_false(gm_inject_is_locking("malloc_usable_size"));
	assert_false(gm_inject_is_locking(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_wait_that_was_interrupted_before_begins_again_as_that_call),
	        cmocka_unit_test(a_thread_in_malloc_is_not_safe_whichever_function_called_it),
	        cmocka_unit_test(a_thread_that_waits_for_another_one_or_for_input_is_safe),
	        cmocka_unit_test(a_wait_for_a_lock_is_no_wait_for_input_for_a_debugger_either),
	        cmocka_unit_test(
	                a_stack_that_cannot_be_followed_counts_only_where_the_thread_waits),
	        cmocka_unit_test(only_functions_that_take_no_lock_are_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
