/*
 * `gpumem fit`: the largest value of a word in a program's command line with which it fits a
 * simulated device; and the table of it for several devices, values of other words, and measures.
 *
 * Each run is `gpumem run --sim` of the program, whose account says whether PyTorch ran out of
 * memory. Its output is kept in a file and shown only where it fails for another reason.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "cli/command.h"
#include "cli/fit_options.h"
#include "cli/fit_run.h"
#include "cli/progress.h"
#include "render/fit.h"

extern const struct gm_command gm_command_fit;

struct fitting {
	struct gm_fit_options *options;
	struct gm_fit_running running;
	FILE *out, *err;
	bool header;
	unsigned applied; /* in any run of the cell: a run may end before it comes to a measure */
};

/* A run of the only search: its row comes at once. */
static struct gm_error *run_and_show(void *data, int64_t value, struct gm_fit_run *ret)
{
	struct fitting *fitting = data;
	gm_try(gm_fit_run_once(&fitting->running, value, ret));
	fitting->applied |= fitting->running.applied;
	if (!fitting->options->json && !fitting->options->tabled)
		gm_render_fit_run(&fitting->options->table, ret, !fitting->header, fitting->out);
	fitting->header = true;
	return NULL;
}

/* Indented, so that no line of the program's looks like ours. */
static void put_tail(const char *text, FILE *err)
{
	fputs("gpumem: fit: the program's last lines:\n", err);
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		gm_put(err, "  %.*s\n", (int)length, text);
	}
}

/* The last line that the program printed. */
static void take_why(const char *text, struct gm_fit_cell *cell)
{
	size_t length = strlen(text);
	while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
		length--;
	size_t start = length;
	while (start && text[start - 1] != '\n')
		start--;
	snprintf(cell->why, sizeof(cell->why), "%.*s", (int)(length - start), text + start);
}

/* A way that the program fails with is told in the table. As it is it has to work. */
static struct gm_error *run_cell(struct fitting *fitting, struct gm_fit_cell *cell)
{
	struct gm_fit_table *table = &fitting->options->table;
	const struct gm_fit_way *way = &table->ways[cell->way];
	fitting->running.cell = cell;
	fitting->applied = 0;
	gm_fit_table_guess(table, cell);
	struct gm_error *error = gm_fit_search(&cell->search, run_and_show, fitting);
	if (error && fitting->running.failed && cell->way > 0) {
		cell->outcome = GM_FIT_FAILED;
		take_why(fitting->running.tail, cell);
		gm_error_destroy(error);
		return NULL;
	}
	if (error && fitting->running.failed && *fitting->running.tail)
		put_tail(fitting->running.tail, fitting->err);
	if (error)
		return error;
	cell->outcome = cell->search.any ? GM_FIT_FITS : GM_FIT_DOES_NOT_FIT;
	/* Only a run that came to its end has had the chance to use all of them. */
	if (cell->search.any)
		cell->not_applied = ~fitting->applied & ((1U << way->measure_count) - 1);
	return NULL;
}

static struct gm_error *run_all(struct fitting *fitting)
{
	struct gm_fit_table *table = &fitting->options->table;
	struct gm_progress_line line = gm_progress_begin(fitting->err);
	struct gm_error *error = NULL;
	for (size_t i = 0; i < table->count && !error; i++) {
		if (fitting->options->tabled)
			gm_progress_show(&line, GM_PROGRESS_TRYING, i, table->count);
		error = run_cell(fitting, &table->cells[i]);
	}
	gm_progress_end(&line);
	return error;
}

static struct gm_error *answer(
        struct fitting *fitting, const struct gm_style *style, int *ret_status)
{
	struct gm_fit_table *table = &fitting->options->table;
	bool any = false;
	gm_try(gm_fit_table_fill(table));
	gm_try(run_all(fitting));
	for (size_t i = 0; i < table->count; i++)
		any |= table->cells[i].outcome == GM_FIT_FITS;
	*ret_status = any ? 0 : GM_NEGATIVE;
	if (fitting->options->json)
		return gm_render_fit_json(table, fitting->options->tabled, fitting->out);
	if (fitting->options->tabled)
		return gm_render_fit_table(table, style, fitting->out);
	gm_render_fit_text(table, fitting->out);
	return NULL;
}

static struct gm_error *fit(struct fitting *fitting, const struct gm_style *style, int *ret_status)
{
	gm_try(gm_fit_running_init(&fitting->running));
	gm_fit_take_signals();
	struct gm_error *error = answer(fitting, style, ret_status);
	gm_fit_running_deinit(&fitting->running);
	int stopped = gm_fit_release_signals();
	if (stopped) {
		/* As the program would have ended, had it been alone. */
		gm_error_destroy(error);
		signal(stopped, SIG_DFL);
		fflush(NULL);
		raise(stopped);
	}
	return error;
}

static struct gm_error *run_fit(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	_cleanup_(gm_fit_options_deinit) struct gm_fit_options options = {0};
	gm_try(gm_fit_options_parse(argc, argv, &options));
	if (options.help) {
		gm_command_help(&gm_command_fit, out);
		return NULL;
	}
	_cleanup_free_ struct fitting *fitting = calloc(1, sizeof(*fitting));
	if (!fitting)
		return &gm_error_no_memory;
	*fitting = (struct fitting){.options = &options,
	        .running = {.table = &options.table, .program = options.program},
	        .out = out,
	        .err = err};
	const struct gm_style style = {context->columns, context->colors};
	return fit(fitting, &style, ret_status);
}

const struct gm_command gm_command_fit = {
        .name = "fit",
        .summary = "finds the largest value that fits a device, by simulation",
        .usage =
                "[--sim=PROFILE] --vary NAME=A..B [OPTIONS] -- PROG … {NAME} …\n"
                "Runs a program repeatedly on a simulated device, with whole numbers from A to B "
                "in place of {NAME} in\n"
                "its arguments. By bisection it finds the largest number with which the program "
                "does not run out of\n"
                "memory. If the program fails for another reason, the search stops. The program's "
                "output is not shown.\n"
                "Several devices, values or measures give a table, and the cheapest device on "
                "which A fits. Without a range it\n"
                "shows what fits.\n"
                "\n"
                "  --sim=PROFILE     the device (see `gpumem sim list`; default: its first); "
                "several with commas; all: all of them\n"
                "  --vary NAME=A..B  the name and the range of the value that is searched for\n"
                "  --vary NAME=V,V   values (numbers or words) for each of which it is searched "
                "for; may be repeated\n"
                "  --with MEASURE    also with a measure of `gpumem advise`, which gpumem applies "
                "to the program; A+B: both; may be\n"
                "                    repeated. Measures: autocast, checkpoint (the repeated "
                "modules), checkpoint:CLASS,\n"
                "                    for_loop_optimizer, fused_optimizer, offload_activations, "
                "set_to_none, zero_grad_earlier\n"
                "  --with NAME=ARGS  also with these arguments, in place of {with} or at the end; "
                "for measures that the program has\n"
                "  --price PROFILE=AMOUNT  what the device costs; may be repeated. Without "
                "prices a device with less memory is cheaper\n"
                "  --json            prints the answer as JSON\n"
                "\n"
                "Exit status: 0 found; 1 not even A fits; 4 the program fails for another reason.\n"
                "\n"
                "Example: gpumem fit --sim=a100-40gb --vary batch=1..512 -- python train.py "
                "--batch {batch}\n"
                "Example: gpumem fit --sim=all --vary batch=1..512 --vary seq=512,2048 --with "
                "checkpoint -- python train.py {batch} {seq}",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .streams = true,
        .run = run_fit,
};
