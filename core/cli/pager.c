#include "cli/pager.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

extern char **environ;

enum { HELD = 1 << 20, WORDS_MAX = 16 };

struct gm_pager {
	const char *command;
	int rows, columns;
	bool decided;                            /* whether there is a pager */
	pid_t pid;                               /* 0: the answer goes to the terminal */
	int pipe;                                /* its input */
	struct sigaction interrupt, broken_pipe; /* as they were before */
	char held[HELD];
};

/* NULL: the user wants none. */
static const char *command(void)
{
	const char *own = getenv("GPUMEM_PAGER"), *all = getenv("PAGER");
	const char *chosen = own ? own : all && *all ? all : "less";
	return *chosen && strcmp(chosen, "cat") != 0 ? chosen : NULL;
}

/* The rows that a text takes: bytes that continue a character, and colours, take no column. */
static int rows_of(const char *text, size_t size, int columns)
{
	int rows = 0, column = 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\n') {
			rows += column > columns ? (column + columns - 1) / columns : 1;
			column = 0;
		} else if (text[i] == '\033') {
			while (i + 1 < size && text[i] != 'm')
				i++;
		} else if ((text[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	return rows;
}

/* What the pager is told where its user's own settings say nothing: -F ends it where all fits, -R
 * shows colours, -X leaves the text on the screen. */
static bool start(struct gm_pager *pager)
{
	static char shell[] = "sh", script[] = "-c";
	_cleanup_free_ char *copy = strdup(pager->command);
	char *words[WORDS_MAX + 1] = {shell, script, copy}, *rest = copy;
	int ends[2];
	if (!copy || pipe(ends) != 0)
		return false;
	size_t count = 0;
	if (!strpbrk(copy, "|&;<>()$`\\\"'*?[#~=%\n")) {
		for (char *word; count < WORDS_MAX && (word = strsep(&rest, " \t"));)
			if (*word)
				words[count++] = word;
		words[count] = NULL;
	}
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	int failed = words[0] ? posix_spawnp(&pager->pid, words[0], &actions, NULL, words, environ)
	                      : ENOENT;
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	if (failed) {
		close(ends[1]);
		pager->pid = 0;
		return false;
	}
	pager->pipe = ends[1];
	/* Ctrl-C is the pager's; a pager that was left ends us in put_all(). */
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGINT, &ignore, &pager->interrupt);
	sigaction(SIGPIPE, &ignore, &pager->broken_pipe);
	return true;
}

static int wait_for(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static bool put_all(struct gm_pager *pager, int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t put = write(fd, bytes, size);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EPIPE && pager->pid) {
			/* its user has seen enough: the rest need not be computed */
			wait_for(pager->pid);
			_exit(0);
		}
		if (put <= 0)
			return false;
		bytes += put;
		size -= (size_t)put;
	}
	return true;
}

/* The first call decides: it has the whole answer, or its first megabyte. */
static ssize_t take(void *cookie, const char *bytes, size_t size)
{
	struct gm_pager *pager = cookie;
	if (!pager->decided && rows_of(bytes, size, pager->columns) >= pager->rows)
		start(pager);
	pager->decided = true;
	return put_all(pager, pager->pid ? pager->pipe : STDOUT_FILENO, bytes, size) ? (ssize_t)size
	                                                                             : 0;
}

struct gm_pager *gm_pager_open(int rows, int columns, FILE **ret_stream)
{
	const char *chosen = command();
	if (!chosen || rows < 2 || columns < 1)
		return NULL;
	struct gm_pager *pager = calloc(1, sizeof(*pager));
	if (!pager)
		return NULL;
	pager->command = chosen;
	pager->rows = rows;
	pager->columns = columns;
	FILE *stream = fopencookie(pager, "w", (cookie_io_functions_t){.write = take});
	if (!stream) {
		free(pager);
		return NULL;
	}
	setvbuf(stream, pager->held, _IOFBF, sizeof(pager->held));
	*ret_stream = stream;
	return pager;
}

bool gm_pager_close(struct gm_pager *pager, FILE *stream)
{
	bool good = fclose(stream) == 0;
	if (pager->pid) {
		close(pager->pipe);
		wait_for(pager->pid);
		sigaction(SIGINT, &pager->interrupt, NULL);
		sigaction(SIGPIPE, &pager->broken_pipe, NULL);
	}
	free(pager);
	return good;
}
