#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "image/layouts_file.h"
#include "learn/python.h"
#include "render/json.h"
#include "torch/fields.h"

extern const struct gm_command gm_command_learn;

enum { OUT = 'o' };
static const struct argp_option options[] = {
        {"output", OUT, "FILE", 0, "writes the layouts to FILE, for --layouts on another machine",
                0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	*(const char **)input = argument;
	return NULL;
}

static struct gm_error *show(
        const struct gm_learn_result *result, const char *path, bool json, FILE *out)
{
	const struct gm_torch_learned *learned = &result->learned;
	size_t known = 0;
	for (size_t i = 0; i < gm_torch_field_count; i++)
		known += gm_torch_field_get(&learned->layout, &gm_torch_fields[i]) != 0;
	if (json)
		return gm_json_write(json_pack("{s:o, s:I, s:f, s:b}", "torch",
		                             gm_json_string(learned->builds.version), "fields",
		                             (json_int_t)known, "seconds", result->seconds, "kept",
		                             path != NULL),
		        false, out);
	gm_put(out,
	        "learned the layouts of PyTorch %s in %.1f s: %zu fields, verified on the live "
	        "objects of a probe\n",
	        learned->builds.version, result->seconds, known);
	for (const char *line = result->missing; line && *line; line = strchr(line, '\n') + 1)
		gm_put(out, "not found: %.*s\n", (int)strcspn(line, "\n"), line);
	if (path)
		gm_put(out, "saved in %s\n", path);
	return NULL;
}

/* The interpreter comes first: PyTorch's objects are read through its own. The layout is stored in
 * any case. */
static struct gm_error *learn_python(const struct gm_learn_options *of, bool json, FILE *out,
        struct gm_learn_python_result *ret_result)
{
	_cleanup_free_ char *text = NULL, *path = NULL;
	size_t size;
	*ret_result = (struct gm_learn_python_result){0};
	gm_try(gm_learn_python(of, ret_result));
	_cleanup_error_ struct gm_error *error = gm_python_learned_save(ret_result->learned, &path);
	/* the process has a copy too, with which PyTorch's probe is read */
	struct gm_python_learned *own = NULL;
	if (!error)
		error = gm_layouts_load(path, &text, &size);
	if (!error)
		error = gm_python_learned_parse(path, text, size, &own);
	if (own)
		gm_python_learned_keep(own);
	if (!json)
		gm_put(out,
		        "learned the layouts of CPython %s in %.1f s, verified on the live objects "
		        "of a probe\n",
		        ret_result->version, ret_result->seconds);
	if (error && !json)
		gm_put(out, "not saved: %s\n", error->message);
	return NULL;
}

/* One file with both sections. */
static struct gm_error *save_both(const char *path, const struct gm_torch_learned *torch,
        const struct gm_python_learned *python)
{
	_cleanup_free_ char *first = NULL, *second = NULL, *both = NULL;
	if (python)
		gm_try(gm_python_learned_text(python, &first));
	gm_try(gm_torch_learned_text(torch, &second));
	if (asprintf(&both, "%s%s", first ? first : "", second) < 0)
		return &gm_error_no_memory;
	return gm_layouts_save(path, both);
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
		        "learn: no Python given: name the interpreter that has the "
		        "PyTorch, as in `gpumem learn .venv/bin/python`");
	struct gm_learn_result result;
	struct gm_learn_python_result python;
	const struct gm_learn_options of = {.python = arguments.positional[0]};
	/* it may be a known one: then PyTorch's probe gives the rest */
	_cleanup_error_ struct gm_error *unlearned =
	        learn_python(&of, arguments.json, out, &python);
	struct gm_error *error = gm_learn_torch(&of, &result);
	if (!error && unlearned)
		gm_put(err, "gpumem: %s\n", unlearned->message);
	if (!error) {
		error = file ? save_both(file, &result.learned, python.learned)
		             : gm_torch_kept_save(&result.learned, &kept);
		if (!error)
			error = show(&result, file ? file : kept, arguments.json, out);
		gm_learn_result_deinit(&result);
	}
	gm_learn_python_result_deinit(&python);
	return error;
}

const struct gm_command gm_command_learn = {
        .name = "learn",
        .summary = "finds and verifies the object layouts of a PyTorch that gpumem does not know",
        .usage = "PYTHON [-o FILE] [--json]\n"
                 "Starts PYTHON, the interpreter that has the PyTorch, on the simulated device. "
                 "Finds the offsets of\n"
                 "its objects' fields, and verifies them. This takes seconds, once for each build. "
                 "Questions about a\n"
                 "process do it automatically; --no-learn or GPUMEM_NO_LEARN=1 prevents it. For a "
                 "core from another\n"
                 "machine: learn there with -o FILE, and name the file here with --layouts FILE.\n"
                 "\n"
                 "  -o FILE   writes the layouts to FILE; the default is ~/.cache/gpumem/layouts/\n"
                 "\n"
                 " Example: gpumem learn .venv/bin/python\n"
                 " Example: gpumem learn /opt/train/bin/python -o train.layouts",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .run = run,
};
