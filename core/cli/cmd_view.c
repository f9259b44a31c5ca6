#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/same_file.h"
#include "base/whole_file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "ask/recording/picture.h"
#include "render/picture.h"
#include "render/view.h"
#include "view/view.h"

struct options {
	struct gm_context *context;
	const char *out, *svg;
	struct gm_view_options page;
	bool has_loop;
	struct gm_picture_options picture;
};

enum { KEY_SVG = 0x1001, KEY_DEVICE, KEY_SOURCES };

extern const struct gm_command gm_command_view;

static const struct argp_option option_table[] = {
        {"output", 'o', "OUT", 0, "the page to write (FILE.html)", 0},
        {"svg", KEY_SVG, "OUT", 0, "writes a picture of the plot instead, for reports", 0},
        {"device", KEY_DEVICE, "N", 0,
                "with --svg: this CUDA device, instead of the one with the highest peak", 0},
        {"sources", KEY_SOURCES, NULL, 0,
                "the page has the source lines of its stacks, of this machine's files", 0},
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	switch (key) {
	case 'o':
		options->out = argument;
		return NULL;
	case KEY_SVG:
		options->svg = argument;
		return NULL;
	case KEY_SOURCES:
		options->page.sources = true;
		return NULL;
	case KEY_DEVICE:
		options->picture.has_device = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, INT16_MAX, &options->picture.device),
		        "--device");
	default:
		options->has_loop = true;
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *put_page(
        const struct options *options, FILE *out, struct gm_view_written *written)
{
	struct gm_view_account account;
	gm_try(gm_view_write(options->context, &options->page, out, &account));
	written->events = account.events;
	written->blocks = account.blocks;
	written->devices = account.devices;
	return NULL;
}

static struct gm_error *put_picture(
        const struct options *options, FILE *out, struct gm_view_written *written)
{
	struct gm_picture picture;
	gm_try(gm_ask_picture(options->context, &options->picture, &picture));
	struct gm_error *error = gm_render_picture_svg(&picture, out);
	written->picture = true;
	written->events = picture.events;
	written->blocks = picture.blocks;
	written->devices = picture.device != SIZE_MAX;
	written->columns = picture.columns.count;
	gm_picture_deinit(&picture);
	return error;
}

/* The file appears under its name only when it is complete. */
static struct gm_error *write_file(
        const struct options *options, const char *path, struct gm_view_written *ret_written)
{
	struct gm_whole_file file;
	struct stat status = {0};
	gm_try(gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &file));
	int descriptor = dup(file.fd);
	FILE *out = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
	struct gm_view_written written = {.path = path, .compared = options->page.other};
	struct gm_error *error = NULL;
	if (out)
		error = options->svg ? put_picture(options, out, &written)
		                     : put_page(options, out, &written);
	bool wrong = !out || ferror(out);
	if (out)
		wrong |= fclose(out) != 0;
	else if (descriptor >= 0)
		close(descriptor);
	/* a name or a reason may be missing in it */
	if (!error && gm_allocation_failed())
		error = &gm_error_no_memory;
	if (!error && (wrong || fstat(file.fd, &status) != 0))
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", path);
	if (error) {
		gm_whole_file_close(&file);
		return error;
	}
	written.bytes = (uint64_t)status.st_size;
	*ret_written = written;
	return gm_whole_file_finish(&file);
}

static struct gm_error *check(const struct options *options)
{
	if (options->svg && options->out)
		return gm_error_create(GM_USAGE, "-o and --svg: one file is written at a time: "
		                                 "name the page or the picture");
	if (options->picture.has_device && !options->svg)
		return gm_error_create(
		        GM_USAGE, "--device: only with --svg: the page has all devices");
	if (options->page.sources && options->svg)
		return gm_error_create(
		        GM_USAGE, "--sources: the picture has no stacks: write a page");
	if (options->page.other && options->svg)
		return gm_error_create(
		        GM_USAGE, "--svg: the picture has one recording: compare two in a page");
	if (options->page.other && options->has_loop)
		return gm_error_create(GM_USAGE,
		        "--loop: only with one FILE: two are compared by the steps that `gpumem "
		        "diff` finds");
	return NULL;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context};
	struct gm_model *model;
	_cleanup_free_ char *default_path = NULL;
	struct gm_error *error = gm_arguments_parse(&gm_command_view, argc, argv, option_table,
	        handle, &options, 2, false, out, &arguments);
	if (error || arguments.help)
		return error;
	if (arguments.positional_count == 2)
		options.page.other = arguments.positional[1];
	gm_try(check(&options));
	gm_try(gm_arguments_take_file(&arguments, context, 0));
	gm_try(gm_context_model(context, &model));
	const char *path = options.svg ? options.svg : options.out;
	if (!path && asprintf(&default_path, "%s.html", context->log_path) < 0) {
		default_path = NULL;
		return &gm_error_no_memory;
	}
	path = path ? path : default_path;
	if (gm_same_file(context->log_path, path) ||
	        (options.page.other && gm_same_file(options.page.other, path)))
		return gm_error_create(GM_USAGE,
		        "%s: this is the recording itself, which would be lost: name another file",
		        path);
	struct gm_view_written written;
	gm_try(write_file(&options, path, &written));
	return arguments.json ? gm_render_view_json(&written, out)
	                      : gm_render_view_text(&written, out);
}

const struct gm_command gm_command_view = {
        .name = "view",
        .summary = "writes a recording as a page for the browser, which needs no network",
        .usage = "FILE [OTHER] [--sources] [-o OUT | --svg=OUT [--device=N]] [--json]\n"
                 "Writes one HTML file, which opens from disk in any browser and needs no network: "
                 "the\n"
                 "allocated bytes over the events, by category, with steps, phases, peak and "
                 "out-of-memory errors;\n"
                 "the lines and blocks at a chosen moment, as tables, flame graph and segments; a "
                 "search by the\n"
                 "conditions of blocks --where; a block's life and stacks, and the peak in words.\n"
                 "With OTHER, another run or another rank, the page compares both: OTHER's memory "
                 "over the plot, step\n"
                 "by step, and the differences that `gpumem diff FILE OTHER` shows.\n"
                 "With --sources the page has the source lines of its stacks, of Python files of "
                 "this machine that have not\n"
                 "changed since: everyone who gets the page can read them.\n"
                 "Without -o the page is FILE.html, next to FILE. docs/view.md shows it; "
                 "docs/view-format.md has\n"
                 "the format of its data.\n"
                 "With --svg it writes a picture of the plot instead, of one device, for reports: "
                 "it needs no browser.\n"
                 "\n"
                 " Example: gpumem view run.gpumem -o run.html\n"
                 " Example: gpumem view before.gpumem after.gpumem -o both.html",
        .effect = GM_EFFECT_FILES,
        .shell = true,
        .gdb = true,
        .run = run,
};
