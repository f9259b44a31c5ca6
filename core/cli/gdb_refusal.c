#include "cli/gdb_refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/refusal.h"

/* The number in "-p PID", "-pPID", "--pid PID" or "--pid=PID", with one or two dashes, as gdb takes
 * them; 0: none. */
static pid_t pid_named(const char *word, const char *next)
{
	word += strncmp(word, "--", 2) == 0;
	if (strncmp(word, "-pid", 4) == 0)
		word += 4;
	else if (strncmp(word, "-p", 2) == 0)
		word += 2;
	else
		return 0;
	const char *number = *word == '=' ? word + 1 : *word ? word : next;
	char *end;
	long pid = number ? strtol(number, &end, 10) : 0;
	return pid > 0 && pid <= INT32_MAX && !*end ? (pid_t)pid : 0;
}

/* For this file the kernel checks the same as for PTRACE_ATTACH. */
static bool may_attach(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 || (errno != EACCES && errno != EPERM);
}

char *gm_gdb_refusal(char *const *words, int count, bool starts)
{
	char why[GM_REFUSAL_TEXT], *note = NULL;
	struct gm_refusal refusal;
	pid_t pid = 0;
	for (int i = 1; i < count && pid == 0; i++)
		pid = pid_named(words[i], i + 1 < count ? words[i + 1] : NULL);
	gm_refusal_read(pid ? pid : getpid(), &refusal);
	bool may_not_start = refusal.scope == '3' || (refusal.scope == '2' && !refusal.may_trace);
	int length = 0;
	if (pid && !may_attach(pid))
		length = asprintf(&note, "gpumem: gdb: process %d: gdb may not attach to it: %s",
		        pid, gm_refusal_text(&refusal, why));
	else if (!pid && starts && may_not_start)
		length = asprintf(&note, "gpumem: gdb: it may not start a program: %s",
		        gm_refusal_text(&refusal, why));
	return length < 0 ? NULL : note;
}
