/* `top`: a live view of a recorded process. It reads the agent's file as it grows; the process is
 * not touched. */
#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/family.h"
#include "ask/target/recording.h"
#include "ask/top.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/top.h"

extern const struct gm_command gm_command_top;

enum { KEY_ONCE = 0x1401, KEY_DELAY = 'd' };

struct request {
	bool once;
	uint64_t seconds;
};

static const struct argp_option options[] = {
        {"once", KEY_ONCE, NULL, 0, "prints it once, as text", 0},
        {"delay", KEY_DELAY, "SECONDS", 0, "the time between two refreshes (1)", 0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct request *request = input;
	if (key == KEY_DELAY)
		return gm_parse_number(argument, 1, 3600, &request->seconds);
	request->once = true;
	return NULL;
}

static struct gm_error *find_file(int pid, char **ret_path)
{
	_cleanup_free_ char *path = NULL;
	gm_try(gm_recording_find(pid, &path));
	int child = 0;
	_cleanup_free_ char *meant = path ? NULL : gm_relatives_text(pid, false, &child);
	if (meant)
		return gm_error_create(GM_TARGET,
		        "process %d: it is not recorded; did you mean %s? `gpumem top %d`", pid,
		        meant, child);
	if (!path)
		return gm_error_create(GM_TARGET,
		        "process %d: it is not recorded: run `gpumem attach %d`, then `gpumem top "
		        "%d`",
		        pid, pid, pid);
	*ret_path = gm_take(path);
	return NULL;
}

/* --- one reading ------------------------------------------------------------------------------ */

struct look {
	uint64_t events;
	double time;
};

static struct gm_error *put_look(struct gm_context *context, struct look *before, FILE *out)
{
	struct gm_top top;
	gm_try(gm_ask_top(context, &top));
	struct look here = {.events = top.events, .time = gm_seconds()};
	double span = here.time - before->time;
	bool known = before->time > 0 && span > 0 && here.events >= before->events;
	gm_render_top_text(&top, context->pid,
	        known ? (double)(here.events - before->events) / span : -1, out);
	gm_top_deinit(&top);
	*before = here;
	return NULL;
}

/* ---- the screen ------------------------------------------------------------------------------ */

static void show(const char *text)
{
	int rows, columns, row = 0;
	getmaxyx(stdscr, rows, columns);
	erase();
	for (const char *line = text; *line && row < rows - 1; row++) {
		size_t length = strcspn(line, "\n");
		if (row == 0)
			attron(A_BOLD);
		mvaddnstr(row, 0, line, (int)(length < (size_t)columns ? length : (size_t)columns));
		attroff(A_BOLD);
		line += length + (line[length] == '\n');
	}
	attron(A_REVERSE);
	mvaddnstr(rows - 1, 0, "q ends", columns);
	attroff(A_REVERSE);
	refresh();
}

static struct gm_error *live(struct gm_context *context, const struct request *request)
{
	struct look look = {0};
	struct gm_error *error = NULL;
	setlocale(LC_CTYPE, "");
	if (!newterm(NULL, stdout, stdin))
		return gm_error_create(
		        GM_USAGE, "top: unknown terminal (TERM): use --once, which prints text");
	noecho();
	cbreak();
	curs_set(0);
	for (bool goes_on = true; goes_on && !error;) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		double start = gm_seconds();
		FILE *out = open_memstream(&text, &size);
		if (!out) {
			error = &gm_error_no_memory;
			break;
		}
		error = put_look(context, &look, out);
		fclose(out);
		if (!error)
			show(text);
		/* Reading a long recording for the first time takes long: its processes get no more
		 * than a quarter of our time. */
		double cost = (gm_seconds() - start) * 3;
		double wait = cost > (double)request->seconds ? cost : (double)request->seconds;
		timeout((int)(wait * 1000));
		int key = error ? 'q' : getch();
		goes_on = key != 'q' && key != 'Q' && key != 27;
	}
	endwin();
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct request request = {.seconds = 1};
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_top, argc, argv, options, take_option, &request, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count == 0)
		return gm_error_create(
		        GM_USAGE, "top: no process given: name one, as in `gpumem top 4711`");
	uint64_t pid;
	gm_try(gm_error_prefix(
	        gm_parse_number(arguments.positional[0], 1, 1 << 30, &pid), "top: PID"));
	_cleanup_free_ char *path = NULL;
	gm_try(find_file((int)pid, &path));
	context->pid = (int)pid;
	gm_try(gm_context_set_log(context, path));
	if (!request.once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO))
		return live(context, &request);
	struct look look = {0};
	return put_look(context, &look, out);
}

const struct gm_command gm_command_top = {
        .name = "top",
        .summary = "a live view of a recorded process",
        .usage = "PID [--delay SECONDS] [--once]\n"
                 "Shows the current allocations of a process that `run` or `attach` records: each "
                 "device, by phase and\n"
                 "by line, the events per second, and the lines whose memory grows with each step. "
                 "q ends it.\n"
                 "\n"
                 " Example: gpumem top 4711\n"
                 " Example: gpumem top 4711 --once",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .streams = true,
        .run = run,
};
