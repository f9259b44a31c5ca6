/* killing_filter NUMBER ACTION: a program with a seccomp filter that takes ACTION at that system
 * call. Prints "begun". */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 125;
	if (argc > 9) /* `attach` refuses a program that can load nothing */
		dlopen(argv[9], RTLD_NOW);
	struct sock_filter code[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)strtoul(argv[1], NULL, 10), 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, (unsigned)strtoul(argv[2], NULL, 0)),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	puts("begun");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 125;
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) < 0)
		;
	return write(1, "right\n", 6) == 6 ? 0 : 1;
}
