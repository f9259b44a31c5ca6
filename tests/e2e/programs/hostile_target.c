/*
 * A program of an ordinary user that root attaches to, and that lies about what its system calls
 * did.
 *
 *     hostile_target memfd FILE     memfd_create() "returns" 0: that is FILE, opened for reading
 *                                   as root
 *     hostile_target mmap FILE      mmap() "returns" 0
 *     hostile_target exec FILE      its pthread_create() executes another program, which a
 *                                   signal comes to
 *     hostile_target setuid FILE FOLDER PROGRAM
 *                                   adds FILE to the list of recordings that `attach` makes in
 *                                   FOLDER and gives it, and executes PROGRAM, which has the
 *                                   setuid bit, when it is recorded
 *
 * It prints "begun". In the first two no file can be opened from then on, so the agent has to come
 * by a memfd. It ends by a signal; the other program prints "whole" and ends.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static void give_up(const char *what)
{
	perror(what);
	_exit(125);
}

#define ANSWER(number, with) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, with)

static void lie_about(unsigned number, unsigned value)
{
	struct sock_filter code[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        ANSWER(number, SECCOMP_RET_ERRNO | value),
	        ANSWER(SYS_openat, SECCOMP_RET_ERRNO | EACCES),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		give_up("seccomp");
}

/* Files are named as for the owner of the program, who can read them. */
static void become_nobody(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
	        prctl(PR_SET_DUMPABLE, 1))
		give_up("setresuid");
}

static void execute(void)
{
	execl("/proc/self/exe", "victim", "victim", NULL);
	_exit(126);
}

/* The C library's own one, which root's gpumem finds by its name and lets a thread call. */
static void replace_pthread_create(void)
{
	unsigned char jump[12] = {
	        0x48, 0xb8, [10] = 0xff, 0xe0}; /* movabs $execute,%rax; jmp *%rax */
	void (*target)(void) = execute;
	memcpy(jump + 2, &target, sizeof(target));
	unsigned char *there = (unsigned char *)pthread_create;
	uintptr_t page = (uintptr_t)there & ~(uintptr_t)4095;
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		give_up("mprotect");
	memcpy(there, jump, sizeof(jump));
}

static void ignore(int signal)
{
	(void)signal;
}

static int victim(void)
{
	sigset_t none;
	sigemptyset(&none);
	signal(SIGUSR1, ignore);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	puts("whole");
	return 0;
}

/* Root makes the list for us, and names it for the agent to write to. */
static bool add_to_list(const char *folder, const char *path)
{
	glob_t found;
	char pattern[512];
	bool added = false;
	snprintf(pattern, sizeof(pattern), "%s/gpumem-attach-*", folder);
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *list = fopen(found.gl_pathv[i], "a");
		if (!list)
			continue;
		/* no such process: it has ended, and its recording is to be packed */
		fprintf(list, "%d %s\n", INT_MAX, path);
		added = fclose(list) == 0;
	}
	globfree(&found);
	return added;
}

/* Whoever reads the list of our mappings again takes some time for it. */
static void have_many_mappings(void)
{
	enum { COUNT = 20000, PAGE = 4096 };
	char *all = mmap(NULL, (size_t)COUNT * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < COUNT && all != MAP_FAILED; i += 2)
		mprotect(all + i * PAGE, PAGE, PROT_READ);
}

static bool is_recorded(const char *folder)
{
	glob_t found;
	char pattern[512];
	snprintf(pattern, sizeof(pattern), "%s/recording-*.gpumem", folder);
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	globfree(&found);
	return true;
}

static void become_root_when_recorded(const char *file, const char *folder, const char *program)
{
	become_nobody();
	have_many_mappings();
	(void)!write(1, "begun\n", 6);
	while (!add_to_list(folder, file))
		usleep(100);
	while (!is_recorded(folder))
		usleep(100);
	usleep((useconds_t)(getpid() % 8) * 1000); /* gpumem has to have seen that it is */
	execl(program, program, NULL);
	give_up(program);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	if (argc > 9) /* `attach` refuses a program that can load nothing */
		dlopen(argv[9], RTLD_NOW);
	if (strcmp(kind, "victim") == 0)
		return victim();
	if (argc > 4 && strcmp(kind, "setuid") == 0)
		become_root_when_recorded(argv[2], argv[3], argv[4]);
	int file = argc > 2 ? open(argv[2], O_RDONLY) : -1;
	if (file < 0 || dup2(file, 0) != 0)
		give_up("the file");
	become_nobody();
	if (strcmp(kind, "exec") == 0)
		replace_pthread_create();
	else
		lie_about(strcmp(kind, "memfd") == 0 ? SYS_memfd_create : SYS_mmap, 0);
	(void)!write(1, "begun\n", 6);
	for (;;)
		usleep(10000);
}
