/*
 * The rules for running code in a program: what seccomp filters do to the agent's calls, compared
 * with a simple interpreter that gets a number for each unknown; which memory is plain; which
 * system calls are restarted; whether it is still the same process.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/internal.h"
#include "random.h"

/* --- filters ---------------------------------------------------------------------------------- */

enum { MOST_CODE = 48, MOST_CALLS = 512 };

static bool ends_or_traps(uint32_t action)
{
	uint32_t kind = action & SECCOMP_RET_ACTION_FULL;
	return kind == SECCOMP_RET_KILL_PROCESS || kind == SECCOMP_RET_KILL_THREAD ||
	       kind == SECCOMP_RET_TRAP;
}

/* Runs a filter as the kernel does. */
static uint32_t run_filter(const struct sock_filter *code, const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
	for (size_t at = 0;; at++) {
		const struct sock_filter *one = &code[at];
		uint32_t with = BPF_SRC(one->code) == BPF_X ? x : one->k;
		switch (one->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + one->k, 4);
			break;
		case BPF_LD | BPF_IMM:
			a = one->k;
			break;
		case BPF_LD | BPF_MEM:
			a = memory[one->k];
			break;
		case BPF_LDX | BPF_IMM:
			x = one->k;
			break;
		case BPF_LDX | BPF_MEM:
			x = memory[one->k];
			break;
		case BPF_ST:
			memory[one->k] = a;
			break;
		case BPF_STX:
			memory[one->k] = x;
			break;
		case BPF_MISC | BPF_TAX:
			x = a;
			break;
		case BPF_MISC | BPF_TXA:
			a = x;
			break;
		case BPF_ALU | BPF_NEG:
			a = -a;
			break;
		case BPF_JMP | BPF_JA:
			at += one->k;
			break;
		case BPF_RET | BPF_K:
			return one->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			if (BPF_CLASS(one->code) == BPF_ALU) {
				a = BPF_OP(one->code) == BPF_ADD   ? a + with
				    : BPF_OP(one->code) == BPF_SUB ? a - with
				    : BPF_OP(one->code) == BPF_AND ? (a & with)
				    : BPF_OP(one->code) == BPF_OR  ? (a | with)
				    : BPF_OP(one->code) == BPF_XOR ? (a ^ with)
				    : BPF_OP(one->code) == BPF_LSH ? a << (with & 31)
				                                   : a >> (with & 31);
				break;
			}
			bool jumps = BPF_OP(one->code) == BPF_JEQ   ? a == with
			             : BPF_OP(one->code) == BPF_JGT ? a > with
			             : BPF_OP(one->code) == BPF_JGE ? a >= with
			                                            : (a & with) != 0;
			at += jumps ? one->jt : one->jf;
		}
	}
}

/* Does it hurt if a filter does `action` at this call and allows all others? */
static bool hurts_at(uint32_t number, uint32_t action, bool has_rseq)
{
	const struct sock_filter code[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const char *name;
	return gm_inject_filter_hurts(code, 4, has_rseq, &name);
}

static size_t called(uint32_t numbers[MOST_CALLS])
{
	size_t count = 0;
	for (uint32_t number = 0; number < MOST_CALLS; number++)
		if (hurts_at(number, SECCOMP_RET_KILL_PROCESS, false))
			numbers[count++] = number;
	return count;
}

/* Calls that the C library cannot do without: where one fails it ends the process, or a thread
 * never ends. */
static bool must_work(uint32_t number)
{
	return number == SYS_rt_sigreturn || number == SYS_munmap || number == SYS_futex ||
	       number == SYS_exit;
}

static void a_filter_that_fails_a_call_hurts_if_the_c_library_needs_that_call(void **state)
{
	for (uint32_t number = 0; number < MOST_CALLS; number++) {
		assert_int_equal(hurts_at(number, SECCOMP_RET_ERRNO | 1, false), must_work(number));
		assert_int_equal(hurts_at(number, SECCOMP_RET_ERRNO | 1, true),
		        must_work(number) || number == SYS_rseq);
		assert_false(hurts_at(number, SECCOMP_RET_LOG, true));
	}
}

static bool is_among(const uint32_t *numbers, size_t count, uint32_t number)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static void a_filter_that_ends_the_program_at_a_call_of_the_agent_is_seen(void **state)
{
	static const uint32_t needed[] = {SYS_mmap, SYS_clone3, SYS_clone, SYS_futex, SYS_openat,
	        SYS_read, SYS_write, SYS_close, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	        SYS_memfd_create, SYS_ftruncate, SYS_munmap, SYS_mprotect, SYS_prctl, SYS_nanosleep,
	        SYS_clock_nanosleep, SYS_mremap, SYS_uname, SYS_access};
	static const uint32_t others[] = {
	        SYS_execve, SYS_fork, SYS_kill, SYS_ptrace, SYS_reboot, SYS_socket};
	uint32_t numbers[MOST_CALLS];
	size_t count = called(numbers);
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		assert_true(is_among(numbers, count, needed[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(is_among(numbers, count, others[i]));
}

static uint32_t random_action(struct random *random)
{
	static const uint32_t actions[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW,
	        SECCOMP_RET_LOG, SECCOMP_RET_ERRNO | 1, SECCOMP_RET_TRACE, SECCOMP_RET_TRAP,
	        SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS};
	return actions[random_below(random, 9)];
}

/* Loads of the number and the architecture; with `unknown` of arguments and the like too. */
static size_t make_filter(struct random *random, struct sock_filter code[MOST_CODE],
        const uint32_t *numbers, size_t number_count, bool unknown)
{
	static const uint16_t jumps[] = {BPF_JEQ, BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	static const uint16_t sums[] = {
	        BPF_ADD, BPF_SUB, BPF_AND, BPF_OR, BPF_XOR, BPF_LSH, BPF_RSH};
	size_t count = 8 + random_below(random, MOST_CODE - 12);
	for (uint32_t i = 0; i < 4; i++) /* the kernel takes no load of what was not stored */
		code[i] = (struct sock_filter)BPF_STMT(BPF_ST, i);
	for (size_t i = 4; i < count; i++) {
		uint32_t left = (uint32_t)(count - i),
		         k = numbers[random_below(random, (uint32_t)number_count)];
		uint16_t source = random_once_in(random, 4) ? BPF_X : BPF_K;
		struct sock_filter *one = &code[i];
		switch (random_below(random, 11)) {
		case 0:
		case 1:
			*one = (struct sock_filter)BPF_STMT(
			        BPF_LD | BPF_W | BPF_ABS, unknown ? 4 * random_below(random, 16)
			                                          : 4 * random_below(random, 2));
			break;
		case 2:
			*one = (struct sock_filter)BPF_STMT(
			        random_once_in(random, 2) ? BPF_LD | BPF_IMM : BPF_LDX | BPF_IMM,
			        random_once_in(random, 2) ? random_below(random, 70) : k);
			break;
		case 3:
			*one = (struct sock_filter)BPF_STMT(
			        random_once_in(random, 2) ? BPF_LD | BPF_MEM : BPF_LDX | BPF_MEM,
			        random_below(random, 4));
			break;
		case 4:
			*one = (struct sock_filter)BPF_STMT(
			        random_once_in(random, 2) ? BPF_ST : BPF_STX,
			        random_below(random, 4));
			break;
		case 5:
		case 10:
			*one = (struct sock_filter)BPF_STMT(
			        BPF_ALU | sums[random_below(random, 7)] | source,
			        random_once_in(random, 2) ? random_below(random, 32) : k);
			break;
		case 6:
			*one = (struct sock_filter)BPF_STMT(
			        random_once_in(random, 3)   ? BPF_ALU | BPF_NEG
			        : random_once_in(random, 2) ? BPF_MISC | BPF_TAX
			                                    : BPF_MISC | BPF_TXA,
			        0);
			break;
		case 7:
			if (random_once_in(random, 3)) {
				*one = (struct sock_filter)BPF_STMT(
				        BPF_JMP | BPF_JA, random_below(random, left));
				break;
			}
			*one = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, random_action(random));
			break;
		default:
			*one = (struct sock_filter)BPF_JUMP(
			        BPF_JMP | jumps[random_below(random, 5)] | source, k,
			        (uint8_t)random_below(random, left),
			        (uint8_t)random_below(random, left));
		}
	}
	code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, random_action(random));
	return count;
}

static struct seccomp_data data_of(struct random *random, uint32_t number)
{
	struct seccomp_data data = {.nr = (int)number,
	        .arch = AUDIT_ARCH_X86_64,
	        .instruction_pointer = random_word(random)};
	for (int i = 0; i < 6; i++)
		data.args[i] =
		        random_once_in(random, 2) ? random_below(random, 400) : random_word(random);
	if (number == SYS_clone)
		data.args[0] = 0x3d0f00; /* pthread_create()'s */
	return data;
}

static void filters_are_run_as_the_kernel_runs_them(void **state)
{
	uint32_t numbers[MOST_CALLS];
	size_t count = called(numbers), hurt = 0, harmless = 0, possible = 0;
	for (uint64_t round = 0; round < random_rounds(4000); round++) {
		struct random random = random_of_round(round);
		struct sock_filter code[MOST_CODE];
		bool unknown = round % 2, hurts = false;
		const char *call = NULL;
		size_t size = make_filter(&random, code, numbers, count, unknown);
		for (size_t i = 0; i < count && !hurts; i++)
			for (int tries = unknown ? 20 : 1; tries > 0 && !hurts; tries--) {
				struct seccomp_data data = data_of(&random, numbers[i]);
				uint32_t action = run_filter(code, &data);
				uint32_t kind = action & SECCOMP_RET_ACTION_FULL;
				bool works = kind == SECCOMP_RET_ALLOW || kind == SECCOMP_RET_LOG;
				hurts = ends_or_traps(action) || (must_work(numbers[i]) && !works);
			}
		bool said = gm_inject_filter_hurts(code, size, false, &call);
		/* with unknowns it may report a harm that no trial found */
		check_in_round(round, unknown ? said || !hurts : said == hurts);
		check_in_round(round, said == (call != NULL));
		hurt += hurts;
		harmless += !said;
		possible += said && !hurts;
	}
	assert_true(hurt > 500 && harmless > 500 && possible < 1000);
}

/* Shifts by a register are by its lowest five bits. */
static void a_shift_by_more_than_31_is_the_kernels(void **state)
{
	static const uint16_t shifts[] = {BPF_LSH, BPF_RSH};
	for (int i = 0; i < 2; i++) {
		const struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_IMM, 8),
		        BPF_STMT(BPF_LDX | BPF_IMM, 33), BPF_STMT(BPF_ALU | shifts[i] | BPF_X, 0),
		        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i ? 4 : 16, 0, 1),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
		const char *call = NULL;
		assert_false(gm_inject_filter_hurts(code, 6, false, &call));
	}
}

/* --- plain memory ----------------------------------------------------------------------------- */

enum { PAGES = 24, PAGE = 4096 };

struct page {
	int permissions;
	bool plain;
};

static void make_pages(struct random *random, uint8_t *start, struct page *pages, int file)
{
	for (size_t at = 0; at < PAGES;) {
		size_t length = 1 + random_below(random, 5);
		length = length < PAGES - at ? length : PAGES - at;
		int permissions = (int)random_below(random, 8);
		unsigned kind = random_below(random, 4); /* plain, plain, shared, of a file */
		int flags = MAP_FIXED | (kind == 2 ? MAP_SHARED : MAP_PRIVATE);
		void *made = mmap(start + at * PAGE, length * PAGE, permissions,
		        kind == 3 ? flags : flags | MAP_ANONYMOUS, kind == 3 ? file : -1, 0);
		assert_ptr_not_equal(made, MAP_FAILED);
		for (size_t i = 0; i < length; i++)
			pages[at + i] = (struct page){permissions, kind < 2};
		at += length;
	}
}

static void private_anonymous_memory_with_the_requested_permissions_is_plain(void **state)
{
	char name[] = "/tmp/gpumem-inject-XXXXXX";
	int file = mkstemp(name);
	uint8_t *start =
	        mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct gm_inject_identity identity;
	size_t plain_count = 0;
	assert_int_equal(ftruncate(file, PAGES * PAGE), 0);
	assert_ptr_not_equal(start, MAP_FAILED);
	assert_null(gm_inject_identity_init(&identity, getpid()));
	for (uint64_t round = 0; round < random_rounds(300); round++) {
		struct random random = random_of_round(round);
		struct page pages[PAGES];
		make_pages(&random, start + PAGE, pages, file);
		for (int i = 0; i < 10; i++) {
			uint32_t first = random_below(&random, PAGES);
			uint32_t length =
			        1 + random_below(&random, PAGES - first < 3 ? PAGES - first : 3);
			char permissions[4] = "rwx";
			bool plain = true;
			for (int k = 0; k < 3; k++)
				permissions[k] = random_once_in(&random, 2) ? '-' : permissions[k];
			for (uint32_t p = first; p < first + length; p++)
				plain &= pages[p].plain &&
				         pages[p].permissions == pages[first].permissions &&
				         (permissions[0] == '-' ||
				                 (pages[p].permissions & PROT_READ)) &&
				         (permissions[1] == '-' ||
				                 (pages[p].permissions & PROT_WRITE)) &&
				         (permissions[2] == '-' ||
				                 (pages[p].permissions & PROT_EXEC));
			const struct gm_inject_range piece = {
			        (uintptr_t)start + PAGE + first * PAGE + 8, length * PAGE - 8,
			        permissions};
			check_in_round(
			        round, gm_inject_is_plain_memory(&identity, 1, &piece) == plain);
			/* all of several have to be */
			const struct gm_inject_range both[] = {
			        piece, {(uintptr_t)&random & ~UINT64_C(7), 8, "rw-"}};
			check_in_round(round, !gm_inject_is_plain_memory(&identity, 2, both));
			plain_count += plain;
		}
	}
	assert_true(plain_count > 200);
	gm_inject_identity_deinit(&identity);
	munmap(start, (PAGES + 2) * PAGE);
	close(file);
	unlink(name);
}

/* --- calls that are restarted ----------------------------------------------------------------- */

static void an_interrupted_call_begins_again_and_no_other_does(void **state)
{
	static const int64_t results[] = {-512, -513, -514, -516, -515, -511, -517, -EINTR, 0, 7};
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
		for (int64_t made = -1; made < 2; made++) {
			struct gm_inject_thread *thread =
			        aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
			assert_non_null(thread);
			*thread = (struct gm_inject_thread){.call = 42};
			struct user_regs_struct registers = {.rax = (uint64_t)results[i],
			        .orig_rax = (uint64_t)made,
			        .rip = 0x1000};
			bool again = made >= 0 && i < 4;
			gm_inject_restart(thread, &registers);
			assert_int_equal(registers.rax, again ? 42 : (uint64_t)results[i]);
			assert_int_equal(registers.rip, again ? 0xffe : 0x1000);
			free(thread);
		}
	}
}

/* --- whose process ---------------------------------------------------------------------------- */

static pid_t ended_process(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return child;
}

/* A descriptor that was not opened must not be closed: 0 is the caller's standard input. */
static void for_an_ended_process_no_other_descriptor_is_closed(void **state)
{
	struct gm_inject_identity identity;
	struct gm_error *error = gm_inject_identity_init(&identity, ended_process());
	assert_non_null(error);
	gm_error_destroy(error);
	for (int fd = 0; fd < 3; fd++)
		assert_int_not_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(identity.folder, -1);
	assert_int_equal(identity.process, -1);
	gm_inject_identity_deinit(&identity);
}

static void a_process_that_ends_meanwhile_is_reported_and_not_written_to(void **state)
{
	static uint64_t word = 7;
	uint64_t other = 8;
	int gate[2];
	struct gm_inject_identity identity;
	assert_int_equal(pipe(gate), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) >= 0 && word == 8 ? 0 : 1);
	}
	close(gate[0]);
	assert_null(gm_inject_identity_init(&identity, child));
	assert_null(gm_inject_identity_check(&identity));
	assert_true(gm_inject_write(&identity, (uintptr_t)&word, &other, sizeof(other)));
	assert_false(gm_inject_write(&identity, 8, &other, sizeof(other)));
	assert_false(gm_inject_write(&identity, UINT64_MAX - 7, &other, sizeof(other)));
	assert_int_equal(word, 7); /* it was the child's */
	close(gate[1]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	struct gm_error *error = gm_inject_identity_check(&identity);
	assert_non_null(error);
	gm_error_destroy(error);
	assert_false(gm_inject_write(&identity, (uintptr_t)&word, &other, sizeof(other)));
	gm_inject_identity_deinit(&identity);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_filter_that_ends_the_program_at_a_call_of_the_agent_is_seen),
	        cmocka_unit_test(filters_are_run_as_the_kernel_runs_them),
	        cmocka_unit_test(a_filter_that_fails_a_call_hurts_if_the_c_library_needs_that_call),
	        cmocka_unit_test(a_shift_by_more_than_31_is_the_kernels),
	        cmocka_unit_test(private_anonymous_memory_with_the_requested_permissions_is_plain),
	        cmocka_unit_test(an_interrupted_call_begins_again_and_no_other_does),
	        cmocka_unit_test(for_an_ended_process_no_other_descriptor_is_closed),
	        cmocka_unit_test(a_process_that_ends_meanwhile_is_reported_and_not_written_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
