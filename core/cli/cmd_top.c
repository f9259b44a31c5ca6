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

/* A key makes the next look come early: over so short a time there is no rate. */
static const double LEAST_SPAN = 0.5;

struct look {
	uint64_t events;
	double time;
	double rate; /* events per second, less than 0: not known yet */
	struct gm_top_view view;
	size_t lines; /* that pass the view's filter */
};

static struct gm_error *put_look(struct gm_context *context, struct look *before, FILE *out)
{
	struct gm_top top;
	gm_try(gm_ask_top(context, &top));
	double now = gm_seconds(), span = now - before->time;
	if (span > LEAST_SPAN && before->time > 0 && top.events >= before->events)
		before->rate = (double)(top.events - before->events) / span;
	before->lines = gm_render_top_text(&top, context->pid, before->rate, &before->view, out);
	if (span > LEAST_SPAN) {
		before->events = top.events;
		before->time = now;
	}
	gm_top_deinit(&top);
	return NULL;
}

/* ---- the screen ------------------------------------------------------------------------------ */

enum {
	FILTER_MAX = 64,
	ESCAPE = 27,
	CTRL_L = 12,
	AROUND = 18 /* rows that are not lines of the table */
};

struct screen {
	struct look look;
	char filter[FILTER_MAX];
	bool typing; /* the filter */
	bool help;
	bool ends;
};

static const char help_text[] = "gpumem top\n"
                                "\n"
                                "  s                      sorts by size, number of blocks, line\n"
                                "  /                      shows only lines with a text; Enter ends "
                                "it, Escape clears it\n"
                                "  Up, Down, j, k         scroll by one line\n"
                                "  Page Up, Page Down     scroll by a page\n"
                                "  Home, End              the first and the last lines\n"
                                "  space                  reads at once\n"
                                "  h, ?                   this help; any key ends it\n"
                                "  q                      ends top; the program continues\n";

static void show(const struct screen *screen, const char *text)
{
	int rows, columns, row = 0;
	char status[FILTER_MAX + 96];
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
	snprintf(status, sizeof(status), "%s%s%s",
	        screen->typing ? "filter: " : "q ends  h help  s sorted by ",
	        screen->typing ? screen->filter : gm_top_order_name(screen->look.view.order),
	        screen->typing    ? "_"
	        : *screen->filter ? "  / filtered"
	                          : "  / filter");
	attron(A_REVERSE);
	mvaddnstr(rows - 1, 0, status, columns);
	attroff(A_REVERSE);
	refresh();
}

static void type_filter(struct screen *screen, int key)
{
	size_t length = strlen(screen->filter);
	if (key == '\n' || key == '\r' || key == KEY_ENTER)
		screen->typing = false;
	else if (key == ESCAPE)
		screen->filter[0] = screen->typing = false;
	else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && length)
		screen->filter[length - 1] = 0;
	else if (key >= 0x20 && key < 0x7f && length + 1 < sizeof(screen->filter)) {
		screen->filter[length] = (char)key;
		screen->filter[length + 1] = 0;
	}
	screen->look.view.from = 0;
}

static void scroll_by(struct screen *screen, long lines)
{
	struct gm_top_view *view = &screen->look.view;
	long last = (long)screen->look.lines - (long)view->rows, from = (long)view->from + lines;
	from = from > last ? last : from;
	view->from = from > 0 ? (size_t)from : 0;
}

/* Keys that mean nothing here do nothing: only q ends it. */
static void take_key(struct screen *screen, int key)
{
	struct gm_top_view *view = &screen->look.view;
	long page = (long)view->rows, all = (long)screen->look.lines;
	if (key == CTRL_L) /* the terminal shows something else */
		clearok(stdscr, TRUE);
	if (key == ERR || key == KEY_RESIZE || key == CTRL_L)
		return;
	if (screen->typing) {
		type_filter(screen, key);
		return;
	}
	if (screen->help) {
		screen->help = false;
		return;
	}
	switch (key) {
	case 'q':
	case 'Q':
		screen->ends = true;
		return;
	case 'h':
	case '?':
		screen->help = true;
		return;
	case 's':
		view->order = (view->order + 1) % GM_TOP_ORDERS;
		return;
	case '/':
		screen->typing = true;
		return;
	case ESCAPE:
		screen->filter[0] = 0;
		return;
	case KEY_UP:
	case 'k':
		scroll_by(screen, -1);
		return;
	case KEY_DOWN:
	case 'j':
		scroll_by(screen, 1);
		return;
	case KEY_PPAGE:
		scroll_by(screen, -page);
		return;
	case KEY_NPAGE:
		scroll_by(screen, page);
		return;
	case KEY_HOME:
		scroll_by(screen, -all);
		return;
	case KEY_END:
		scroll_by(screen, all);
		return;
	default:
		return;
	}
}

static struct gm_error *live(struct gm_context *context, const struct request *request)
{
	struct screen screen = {.look = {.rate = -1, .view.filter = screen.filter}};
	struct gm_error *error = NULL;
	setlocale(LC_CTYPE, "");
	set_escdelay(50); /* keys that send an escape sequence are not taken for Escape */
	if (!newterm(NULL, stdout, stdin))
		return gm_error_create(
		        GM_USAGE, "top: unknown terminal (TERM): use --once, which prints text");
	noecho();
	cbreak();
	keypad(stdscr, TRUE);
	curs_set(0);
	while (!screen.ends && !error) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		double start = gm_seconds();
		int rows = getmaxy(stdscr);
		FILE *out = open_memstream(&text, &size);
		if (!out) {
			error = &gm_error_no_memory;
			break;
		}
		screen.look.view.rows =
		        rows > GM_TOP_ROWS + AROUND ? (size_t)(rows - AROUND) : GM_TOP_ROWS;
		error = put_look(context, &screen.look, out);
		fclose(out);
		if (error)
			break;
		show(&screen, screen.help ? help_text : text);
		/* Reading a long recording for the first time takes long: its processes get no more
		 * than a quarter of our time. */
		double cost = (gm_seconds() - start) * 3;
		double wait = cost > (double)request->seconds ? cost : (double)request->seconds;
		timeout((int)(wait * 1000));
		take_key(&screen, getch());
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
	struct look look = {.rate = -1, .view.rows = GM_TOP_ROWS};
	return put_look(context, &look, out);
}

const struct gm_command gm_command_top = {
        .name = "top",
        .summary = "a live view of a recorded process",
        .usage = "PID [--delay SECONDS] [--once]\n"
                 "Shows the current allocations of a process that `run` or `attach` records: each "
                 "device, by phase and\n"
                 "by line, the events per second, and the lines whose memory grows with each step. "
                 "Keys: q ends it, s\n"
                 "sorts, / filters, arrows and pages scroll, h is help.\n"
                 "\n"
                 " Example: gpumem top 4711\n"
                 " Example: gpumem top 4711 --once",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .streams = true,
        .run = run,
};
