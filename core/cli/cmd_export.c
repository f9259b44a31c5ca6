#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/same_file.h"
#include "base/whole_file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "export/export.h"
#include "render/category.h"
#include "render/answers.h"
#include "ask/context.h"

struct options {
	const char *to, *out;
};

enum { KEY_TO = 0x1001 };

extern const struct gm_command gm_command_export;

static const struct argp_option option_table[] = {
        {"to", KEY_TO, "FORM", 0, "pytorch, perfetto, folded, sqlite, csv or json", 0},
        {"output", 'o', "OUT", 0, "the file to write", 0},
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key == KEY_TO)
		options->to = argument;
	else
		options->out = argument;
	return NULL;
}

static struct gm_error *export_json(struct gm_model *model, FILE *out)
{
	uint64_t count = gm_log_event_count(gm_model_log(model));
	return count ? gm_render_events_json(model, 0, (uint32_t)count - 1, out) : NULL;
}

typedef struct gm_error *(*exporter)(struct gm_model *model, FILE *out);

static exporter find_exporter(const char *form)
{
	static const struct {
		const char *name;
		exporter function;
	} forms[] = {{"pytorch", gm_export_pytorch}, {"perfetto", gm_export_perfetto},
	        {"folded", gm_export_folded}, {"csv", gm_export_csv}, {"json", export_json}};
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		if (strcmp(forms[i].name, form) == 0)
			return forms[i].function;
	return NULL;
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
	bool sqlite = options.to && strcmp(options.to, "sqlite") == 0;
	exporter function = options.to ? find_exporter(options.to) : NULL;
	if (!sqlite && !function)
		return gm_error_create(GM_USAGE,
		        "export: %s%s%s: use --to=pytorch, perfetto, folded, sqlite, csv or json",
		        options.to ? "unknown format '" : "no format given",
		        options.to ? options.to : "", options.to ? "'" : "");
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
	return sqlite ? gm_export_sqlite(model, gm_category_reason_text, options.out)
	              : write_file(model, function, options.out);
}

const struct gm_command gm_command_export = {
        .name = "export",
        .summary = "writes a recording in another tool's format",
        .usage = "FILE --to=FORM -o OUT\n"
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
