/*
 * without_calls NUMBER[,NUMBER...] PROGRAM ARGUMENTS: runs a program in which these system calls
 * fail with EPERM, as a container's seccomp profile has it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	enum { MOST = 32 };
	struct sock_filter code[2 * MOST + 2];
	unsigned short count = 0;
	code[count++] = (struct sock_filter)BPF_STMT(
	        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (char *at = argv[1]; *at && count < 2 * MOST; at += *at == ',') {
		unsigned number = (unsigned)strtoul(at, &at, 10);
		code[count++] =
		        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		code[count++] =
		        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_fprog program = {count, code};
	if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 125;
	}
	execvp(argv[2], argv + 2);
	return 127;
}
