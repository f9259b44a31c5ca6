#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/same_file.h"
#include "base/whole_file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/replace.h"
#include "export/export.h"
#include "render/category.h"
#include "render/export.h"
#include "render/answers.h"
#include "ask/context.h"

struct options {
	const char *to, *out;
	size_t form; /* an index of forms */
	bool force;
};

enum { KEY_TO = 0x1001 };

extern const struct gm_command gm_command_export;

static const struct argp_option option_table[] = {
        {"to", KEY_TO, "FORM", 0, "pytorch, perfetto, folded, sqlite, csv or json", 0},
        {"output", 'o', "OUT", 0, "the file to write", 0},
        {"force", 'f', NULL, 0, "replaces OUT without asking (only a terminal is asked)", 0},
        {0},
};

static struct gm_error *export_json(struct gm_model *model, FILE *out)
{
	uint64_t count = gm_log_event_count(gm_model_log(model));
	return count ? gm_render_events_json(model, 0, (uint32_t)count - 1, out) : NULL;
}

typedef struct gm_error *(*exporter)(struct gm_model *model, FILE *out);

/* With the exporter of each: NULL is sqlite's, which writes to a file and not to a stream. */
static const char *const forms[] = {"pytorch", "perfetto", "folded", "sqlite", "csv", "json", NULL};
static const exporter exporters[] = {
        gm_export_pytorch, gm_export_perfetto, gm_export_folded, NULL, gm_export_csv, export_json};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key == 'f') {
		options->force = true;
		return NULL;
	}
	if (key == 'o') {
		options->out = argument;
		return NULL;
	}
	options->to = argument;
	return gm_word_choose("--to", argument, forms, &options->form);
}

/* OUT appears under its name only when it is complete. */
static struct gm_error *write_file(struct gm_model *model, exporter function, const char *path)
{
	struct gm_whole_file file;
	gm_try(gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &file));
	int descriptor = dup(file.fd);
	FILE *out = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
	struct gm_error *error = out ? function(model, out) : NULL;
	bool wrong = !out || ferror(out);
	if (out)
		wrong |= fclose(out) != 0;
	else if (descriptor >= 0)
		close(descriptor);
	if (!error && wrong)
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", path);
	if (!error)
		return gm_whole_file_finish(&file);
	gm_whole_file_close(&file);
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {0};
	struct gm_error *error = gm_arguments_parse(&gm_command_export, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	if (!options.to)
		return gm_error_create(GM_USAGE,
		        "export: no format given: use --to=pytorch, perfetto, folded, sqlite, csv "
		        "or json");
	if (!options.out)
		return gm_error_create(GM_USAGE, "export: no output file given: add -o OUT");
	error = gm_arguments_take_file(&arguments, context, 0);
	struct gm_model *model;
	if (!error)
		error = gm_context_model(context, &model);
	if (error)
		return error;
	if (gm_same_file(context->log_path, options.out))
		return gm_error_create(GM_USAGE,
		        "%s: this is the recording itself, which would be lost: name another file",
		        options.out);
	if (!options.force)
		gm_try(gm_replace_ask(context, options.out));
	exporter function = exporters[options.form];
	gm_try(function ? write_file(model, function, options.out)
	                : gm_export_sqlite(model, gm_category_reason_text, options.out));
	struct stat
	        status; /* into a pipe nothing is said: the answer may be read from the same one */
	if (!arguments.json && stat(options.out, &status) == 0 && S_ISREG(status.st_mode))
		gm_render_export_text(options.out, options.to,
		        gm_log_event_count(gm_model_log(model)), (uint64_t)status.st_size, out);
	return NULL;
}

const struct gm_command gm_command_export = {
        .name = "export",
        .summary = "writes a recording in another tool's format",
        .usage = "FILE --to=FORM -o OUT [--force]\n"
                 "pytorch: a snapshot for memory_viz and torch.cuda._memory_viz. perfetto: a trace "
                 "for ui.perfetto.dev\n"
                 "or chrome://tracing, with the largest blocks as slices. folded: stacks at the "
                 "peak for flamegraph.pl or speedscope. "
                 "sqlite: a database,\n"
                 "see docs/export.md. csv and json: one event per line.\n"
                 "\n"
                 "Example: gpumem export run.gpumem --to pytorch -o run.pickle",
        .effect = GM_EFFECT_FILES,
        .shell = true,
        .gdb = true,
        .run = run,
};
