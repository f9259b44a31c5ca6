#include <string.h>

#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "learn/learn.h"
#include "torch/fields.h"

extern const struct gm_command gm_command_learn;

enum { OUT = 'o' };
static const struct argp_option options[] = {
        {"output", OUT, "FILE", 0, "write the layouts there, for --layouts on another machine", 0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	*(const char **)input = argument;
	return NULL;
}

static void show(const struct gm_learn_result *result, const char *path, bool json, FILE *out)
{
	const struct gm_torch_learned *learned = &result->learned;
	size_t known = 0;
	for (size_t i = 0; i < gm_torch_field_count; i++)
		known += gm_torch_field_get(&learned->layout, &gm_torch_fields[i]) != 0;
	if (json) {
		/* a version is of PyTorch's own file, and has no quotes (torch.c reads it up to one) */
		fprintf(out,
		        "{\"torch\": \"%s\", \"fields\": %zu, \"seconds\": %.1f, \"kept\": %s}\n",
		        learned->builds.version, known, result->seconds, path ? "true" : "false");
		return;
	}
	fprintf(out,
	        "learned the layouts of PyTorch %s in %.1f s: %zu fields, proved on the live "
	        "objects of a probe\n",
	        learned->builds.version, result->seconds, known);
	for (const char *line = result->missing; line && *line; line = strchr(line, '\n') + 1)
		fprintf(out, "not found: %.*s\n", (int)strcspn(line, "\n"), line);
	if (path)
		fprintf(out, "kept in %s\n", path);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	const char *file = NULL;
	_cleanup_free_ char *kept = NULL;
	gm_try(gm_arguments_parse(&gm_command_learn, argc, argv, options, take_option, &file, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count != 1)
		return gm_error_create(GM_USAGE,
		        "learn: which Python: give the interpreter that has the PyTorch, "
		        "as `gpumem learn .venv/bin/python`");
	struct gm_learn_result result;
	const struct gm_learn_options of = {.python = arguments.positional[0]};
	gm_try(gm_learn_torch(&of, &result));
	struct gm_error *error = file ? gm_torch_learned_save(file, &result.learned)
	                              : gm_torch_kept_save(&result.learned, &kept);
	if (!error)
		show(&result, file ? file : kept, arguments.json, out);
	gm_learn_result_deinit(&result);
	return error;
}

const struct gm_command gm_command_learn = {
        .name = "learn",
        .summary = "find and prove the object layouts of a PyTorch that gpumem does not know",
        .usage = "PYTHON [-o FILE] [--json]\n"
                 "Starts PYTHON, the interpreter that has the PyTorch, on the simulated device, "
                 "finds where its\n"
                 "objects have their fields, and proves it: seconds, once for each build. "
                 "Questions about a process\n"
                 "do so by themselves; --no-learn or GPUMEM_NO_LEARN=1 keeps them from it. For a "
                 "core from another\n"
                 "machine: learn there with -o FILE, and name the file with --layouts FILE here.\n"
                 "\n"
                 "  -o FILE   write the layouts to FILE; else they are kept in "
                 "~/.cache/gpumem/layouts/\n"
                 "\n"
                 " Example: gpumem learn .venv/bin/python\n"
                 " Example: gpumem learn /opt/train/bin/python -o train.layouts",
        .shell = true,
        .run = run,
};
