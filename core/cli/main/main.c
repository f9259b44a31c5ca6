/* The shell command: one session, one command, its exit status. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/general_options.h"
#include "cli/pager.h"
#include "cli/session.h"

/* The terminal that answers go to; rows 0: there is none. */
struct terminal {
	int rows, columns;
};

static struct terminal set_terminal(gpumem_session *session)
{
	struct terminal terminal = {0};
	if (!isatty(STDOUT_FILENO))
		return terminal;
	struct winsize size;
	terminal = (struct terminal){.rows = 24, .columns = 80};
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		terminal = (struct terminal){.rows = size.ws_row, .columns = size.ws_col};
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool capable = term && term[0] && strcmp(term, "dumb") != 0;
	gpumem_session_set_terminal(
	        session, terminal.columns, capable && !(no_color && no_color[0]));
	terminal.rows = capable ? terminal.rows : 0;
	return terminal;
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

/* Answers are paged; what prints while it goes on is not, unless its help was asked for. */
static bool pages(int argc, char **argv)
{
	const struct gm_command *command = argc > 1 ? gm_command_find(argv[1]) : NULL;
	return !command || !command->streams ||
	       (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0));
}

static int run(gpumem_session *session, int argc, char **argv, FILE *out)
{
	return gm_session_run(session, argc - 1, (const char *const *)argv + 1, out, stderr);
}

/* A full disk behind a redirection must not look like a complete answer, nor like a negative one
 * (status 1). From 2 on the status is of an error that has its own message. */
static int written(bool good, int status)
{
	if (good || status > GM_NEGATIVE)
		return status;
	perror("gpumem: cannot write the answer");
	return 5;
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
	struct gm_general_options options = gm_general_options_take(&argc, argv);
	gm_session_set_shell(session);
	gm_session_set_quiet(session, options.quiet);
	if (options.quiet)
		setenv("GPUMEM_SIM_QUIET", "1", 0); /* the simulated device's own summary */
	struct terminal terminal = set_terminal(session);
	gpumem_session_show_progress(session, !options.quiet);
	FILE *out;
	struct gm_pager *pager = pages(argc, argv) ? gm_pager_open(terminal.rows, terminal.columns,
	                                                     !options.no_pager, &out)
	                                           : NULL;
	errno = 0;
	int status = run(session, argc, argv, pager ? out : stdout);
	int error =
	        ferror(stdout) ? errno : 0; /* a long answer ends at the first write that fails */
	if (pager)
		status = written(gm_pager_close(pager, out), status);
	gpumem_session_destroy(session);
	if (fflush(stdout) != 0)
		return written(false, status);
	errno = error ? error : EIO;
	return written(!ferror(stdout), status);
}
