/* Descriptors of a range are closed, and no others, also where the kernel lacks close_range(2) and
 * where /proc cannot be opened. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/close_range.h"

enum { FIRST = 40, COUNT = 200, AFTER = FIRST + COUNT };

/* From here on these calls fail, as on a kernel that lacks them. */
static bool lose(long one, long other)
{
	struct sock_filter code[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)one, 1, 0),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)other, 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool is_open(int descriptor)
{
	return fcntl(descriptor, F_GETFD) >= 0;
}

/* In a child that lacks these calls: are exactly the descriptors from first to last closed? */
static bool closes(unsigned first, unsigned last, long one, long other)
{
	pid_t pid = fork();
	if (pid == 0) {
		bool right = lose(one, other);
		for (int i = FIRST; i <= AFTER; i++)
			right = right && dup2(0, i) == i;
		gm_close_range(first, last);
		for (int i = FIRST; i <= AFTER; i++)
			right = right && is_open(i) == ((unsigned)i < first || (unsigned)i > last);
		_exit(right ? 0 : 1);
	}
	int status = -1;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void check(long one, long other)
{
	assert_true(closes(FIRST, UINT_MAX, one, other));
	assert_true(closes(FIRST + 1, AFTER - 1, one, other));
	assert_true(closes(FIRST + 7, FIRST + 7, one, other));
	assert_true(closes(FIRST + 7, FIRST + 6, one, other));
}

static void range_is_closed(void **unused)
{
	check(-1, -1);
}

static void range_is_closed_by_a_kernel_without_the_call(void **unused)
{
	check(SYS_close_range, -1);
}

static void range_is_closed_without_proc(void **unused)
{
	check(SYS_close_range, SYS_openat);
}

int main(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= AFTER) {
		limit.rlim_cur = AFTER + 1;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(range_is_closed),
	        cmocka_unit_test(range_is_closed_by_a_kernel_without_the_call),
	        cmocka_unit_test(range_is_closed_without_proc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
