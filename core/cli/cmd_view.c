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
#include "render/view.h"
#include "view/view.h"

struct options {
	struct gm_context *context;
	const char *out;
};

extern const struct gm_command gm_command_view;

static const struct argp_option option_table[] = {
        {"output", 'o', "OUT", 0, "the file to write (FILE.html)", 0},
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key != 'o')
		return gm_target_option(options->context, key, argument);
	options->out = argument;
	return NULL;
}

/* Whoever finds the page finds it whole. */
static struct gm_error *write_page(
        struct gm_context *context, const char *path, struct gm_view_written *ret_written)
{
	struct gm_whole_file file;
	struct stat status = {0};
	gm_try(gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &file));
	int descriptor = dup(file.fd);
	FILE *out = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
	struct gm_view_account account = {0};
	struct gm_error *error = out ? gm_view_write(context, out, &account) : NULL;
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
	*ret_written = (struct gm_view_written){.path = path,
	        .bytes = (uint64_t)status.st_size,
	        .events = account.events,
	        .blocks = account.blocks,
	        .devices = account.devices};
	return gm_whole_file_finish(&file);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {context, NULL};
	struct gm_model *model;
	_cleanup_free_ char *beside = NULL;
	struct gm_error *error = gm_arguments_parse(&gm_command_view, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	gm_try(gm_arguments_take_file(&arguments, context, 0));
	gm_try(gm_context_model(context, &model));
	if (!options.out && asprintf(&beside, "%s.html", context->log_path) < 0) {
		beside = NULL;
		return &gm_error_no_memory;
	}
	const char *path = options.out ? options.out : beside;
	if (gm_same_file(context->log_path, path))
		return gm_error_create(GM_USAGE,
		        "%s: this is the recording itself, which would be lost: name another file",
		        path);
	struct gm_view_written written;
	gm_try(write_page(context, path, &written));
	return arguments.json ? gm_render_view_json(&written, out)
	                      : gm_render_view_text(&written, out);
}

const struct gm_command gm_command_view = {
        .name = "view",
        .summary = "writes a recording as a page for the browser, which needs no network",
        .usage = "FILE [-o OUT] [--json]\n"
                 "Writes one HTML file, which opens from disk in any browser and asks nothing of "
                 "the network: the\n"
                 "allocated bytes over the events, by category, with steps, phases, peak and "
                 "out-of-memory errors;\n"
                 "the lines and blocks at a chosen moment, a block's life and stacks, and the peak "
                 "in words.\n"
                 "Without -o the page is FILE.html, beside FILE. docs/view.md shows it; "
                 "docs/view-format.md has\n"
                 "the format of its data.\n"
                 "\n"
                 "Example: gpumem view run.gpumem -o run.html",
        .shell = true,
        .gdb = true,
        .run = run,
};
