/* Why the kernel does not let us read, stop or trace a process, and what helps: proc(5), ptrace(2),
 * Yama's ptrace_scope. */
#ifndef GM_IMAGE_REFUSAL_H
#define GM_IMAGE_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gm_refusal {
	pid_t pid;
	uid_t own;                    /* our effective user */
	bool known;                   /* the process's users are */
	uid_t real, effective, saved; /* of the process, as this user namespace names them */
	bool not_dumpable;            /* prctl(PR_SET_DUMPABLE), or set by the kernel */
	char scope;                   /* '0' to '3'; '0' where the kernel has no Yama */
	bool may_trace;               /* we have CAP_SYS_PTRACE */
	bool in_user_namespace;       /* we are in another one than the machine's first */
};

enum { GM_REFUSAL_TEXT = 384 };

/* What /proc tells now; of a process that has ended what is common to all. */
void gm_refusal_read(pid_t pid, struct gm_refusal *ret);

/* "it belongs to user 0 and we are user 65534: run as the same user or as root" */
const char *gm_refusal_text(const struct gm_refusal *refusal, char ret[GM_REFUSAL_TEXT]);

/* Both. */
const char *gm_refusal_of(pid_t pid, char ret[GM_REFUSAL_TEXT]);

#endif
