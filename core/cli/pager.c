#include "cli/pager.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"

extern char **environ;

enum { HELD = 1 << 20, WORDS_MAX = 16 };

struct gm_pager {
	const char *command; /* NULL: none is wanted */
	int rows, columns;
	bool decided; /* whether there is a pager */
	bool wraps;   /* the answer is text, not JSON */
	uint64_t rows_put;
	char *rest; /* of a line whose end has not come; owned */
	size_t rest_size;
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

/* --- lines that fit --------------------------------------------------------------------------- */

/* The column behind a character that begins at `at`: bytes that continue one, and colours, take
 * none. *ret_size: its bytes. */
static int step_over(const char *line, size_t size, size_t at, int column, size_t *ret_size)
{
	size_t end = at + 1;
	if (line[at] == '\033')
		while (end < size && line[end - 1] != 'm')
			end++;
	else if (++column)
		while (end < size && (line[end] & 0xc0) == 0x80)
			end++;
	*ret_size = end - at;
	return column;
}

/* How much of a line fits into the columns: to the last gap between words, or the first one if none
 * fits. */
static size_t fitting(const char *line, size_t size, int columns)
{
	size_t gap = 0, length;
	int column = 0;
	bool word = false; /* the indentation is no gap */
	for (size_t at = 0; at < size; at += length) {
		if (line[at] == ' ' && word && (column <= columns || !gap))
			gap = at;
		word |= line[at] != ' ';
		column = step_over(line, size, at, column, &length);
		if (column > columns && gap)
			return gap;
	}
	return size;
}

static void put_line(struct gm_pager *pager, const char *line, size_t size, FILE *out)
{
	int indent = 0;
	while ((size_t)indent < size && line[indent] == ' ')
		indent++;
	indent = indent + 2 < pager->columns / 2 ? indent + 2 : pager->columns / 2;
	for (int room = pager->columns;; room = pager->columns - indent) {
		size_t length = pager->wraps ? fitting(line, size, room) : size;
		size_t shown = length;
		while (length < size && shown && line[shown - 1] == ' ')
			shown--;
		fwrite(line, 1, shown, out);
		fputc('\n', out);
		pager->rows_put++;
		while (length < size && line[length] == ' ')
			length++;
		line += length;
		size -= length;
		if (!size)
			return;
		gm_put(out, "%*s", indent, "");
	}
}

/* Whole lines; what is behind the last one waits for the rest of its line. */
static void put_lines(struct gm_pager *pager, const char *bytes, size_t size, FILE *out)
{
	while (size) {
		const char *end = memchr(bytes, '\n', size);
		size_t length = end ? (size_t)(end - bytes) : size;
		if (!end || pager->rest_size) {
			char *grown = realloc(pager->rest, pager->rest_size + length + 1);
			if (!grown)
				return;
			memcpy(grown + pager->rest_size, bytes, length);
			pager->rest = grown;
			pager->rest_size += length;
		}
		if (!end)
			return;
		if (pager->rest_size)
			put_line(pager, pager->rest, pager->rest_size, out);
		else
			put_line(pager, bytes, length, out);
		pager->rest_size = 0;
		bytes += length + 1;
		size -= length + 1;
	}
}

/* --- the pager -------------------------------------------------------------------------------- */

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

static bool put(struct gm_pager *pager, const char *text, size_t size)
{
	if (!pager->decided && pager->command && pager->rows_put >= (uint64_t)pager->rows)
		start(pager);
	pager->decided = true;
	return put_all(pager, pager->pid ? pager->pipe : STDOUT_FILENO, text, size);
}

/* The first call decides: it has the whole answer, or its first megabyte. */
static ssize_t take(void *cookie, const char *bytes, size_t size)
{
	struct gm_pager *pager = cookie;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	if (!pager->decided)
		pager->wraps = size && bytes[0] != '{' && bytes[0] != '[';
	FILE *out = open_memstream(&text, &length);
	if (!out)
		return 0;
	put_lines(pager, bytes, size, out);
	return fclose(out) == 0 && put(pager, text, length) ? (ssize_t)size : 0;
}

struct gm_pager *gm_pager_open(int rows, int columns, bool pages, FILE **ret_stream)
{
	if (rows < 2 || columns < 8)
		return NULL;
	struct gm_pager *pager = calloc(1, sizeof(*pager));
	if (!pager)
		return NULL;
	pager->command = pages ? command() : NULL;
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
	bool good = fclose(stream) == 0 &&
	            (!pager->rest_size || put(pager, pager->rest, pager->rest_size));
	if (pager->pid) {
		close(pager->pipe);
		wait_for(pager->pid);
		sigaction(SIGINT, &pager->interrupt, NULL);
		sigaction(SIGPIPE, &pager->broken_pipe, NULL);
	}
	free(pager->rest);
	free(pager);
	return good;
}
