/* filter_calls: prints the numbers of the system calls at which a seccomp filter may not end a
 * program that is to be attached to. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>

#include "inject/internal.h"

enum { CALLS = 512 };

int main(void)
{
	for (unsigned number = 0; number < CALLS; number++) {
		const struct sock_filter code[] = {
		        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
		const char *name;
		if (gm_inject_filter_hurts(code, 4, false, &name))
			printf("%u %s\n", number, name);
	}
	return 0;
}
