/* The shell command: one session, one command, its exit status. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/session.h"

static void set_terminal(gpumem_session *session)
{
	if (!isatty(STDOUT_FILENO))
		return;
	struct winsize size;
	int columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		columns = size.ws_col;
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool colors = !(no_color && no_color[0]) && term && term[0] && strcmp(term, "dumb") != 0;
	gpumem_session_set_terminal(session, columns, colors);
}

/*
 * Memory that one part of a question frees is reused by the next: the kernel clears each new page
 * of a process, which takes as long as reading two. So all but the largest arrays come from heaps,
 * which grow in large steps and are not released before the end; the largest have mappings of their
 * own, which grow without being copied.
 */
static void set_allocator(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	mallopt(M_TOP_PAD, 8 << 20);
}

static void do_nothing(int signal_number)
{
}

/* Beyond `ulimit -f` a write then fails with EFBIG, is reported, and leaves no file. A handler,
 * because the programs that we start do not inherit it. */
static void set_signals(void)
{
	struct sigaction before;
	const struct sigaction nothing = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
	if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &nothing, NULL);
}

int main(int argc, char **argv)
{
	set_allocator();
	set_signals();
	gpumem_session *session = gpumem_session_create();
	if (!session) {
		fputs("gpumem: out of memory: the command cannot start: free some memory and try "
		      "again\n",
		        stderr);
		return 5;
	}
	gm_session_set_shell(session);
	set_terminal(session);
	gpumem_session_show_progress(session, 1);
	int status =
	        gm_session_run(session, argc - 1, (const char *const *)argv + 1, stdout, stderr);
	gpumem_session_destroy(session);
	/* A full disk behind a redirection must not look like a complete answer. */
	if (fflush(stdout) != 0 && status == 0) {
		perror("gpumem: cannot write the answer");
		return 5;
	}
	return status;
}
