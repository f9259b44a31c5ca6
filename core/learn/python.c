#include "learn/python.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "learn/probe.h"
#include "learn/python_prove.h"

void gm_learn_python_result_deinit(struct gm_learn_python_result *result)
{
	free(result->learned);
	free(result->missing);
	*result = (struct gm_learn_python_result){0};
}

static struct gm_error *take_lines(
        const char *text, struct gm_python_learned *learned, FILE *missing)
{
	char line[512];

	for (const char *next; *text; text = next) {
		const size_t length = strcspn(text, "\n");
		next = text + length + (text[length] == '\n');
		/* a probe's output about itself may be longer, and is for the proof */
		if (strncmp(text, "field ", 6) != 0 && strncmp(text, "opcode ", 7) != 0 &&
		        strncmp(text, "hexversion ", 11) != 0 && strncmp(text, "missing ", 8) != 0)
			continue;
		snprintf(line, sizeof(line), "%.*s", (int)(length < 511 ? length : 511), text);
		if (!strncmp(line, "missing ", 8)) {
			fprintf(missing, "%s\n", line + 8);
			continue;
		}
		const char *why = gm_python_learned_line(learned, line);
		if (why)
			return gm_error_create(GM_TARGET,
			        "learn: the probe says \"%s\": %s: nothing was learned", line, why);
	}
	return NULL;
}

/* The probe's reason for a missing field: "; no offset fits all objects". */
static const char *reason(const char *missing, const char *field, char *text, size_t size)
{
	*text = 0;
	for (const char *line = missing; field && line && *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ' ')
			snprintf(text, size, " (%.*s)",
			        (int)strcspn(line + strlen(field) + 1, "\n"),
			        line + strlen(field) + 1);
	return text;
}

struct gm_error *gm_learn_python_row(
        const char *text, struct gm_python_learned **ret_learned, char **ret_missing)
{
	_cleanup_free_ struct gm_python_learned *learned = malloc(sizeof(*learned));
	_cleanup_free_ char *missing = NULL;
	const char *field;
	char more[200];
	size_t size;
	FILE *out = open_memstream(&missing, &size);

	if (!learned || !out) {
		if (out)
			fclose(out);
		return &gm_error_no_memory;
	}
	gm_python_learned_init(learned);
	struct gm_error *error = strncmp(text, "gpumem-python-probe 1\n", 22)
	                                 ? gm_error_create(GM_TARGET,
	                                           "learn: the answer does not come from gpumem's "
	                                           "probe: nothing was learned")
	                                 : take_lines(text, learned, out);
	if (fclose(out) != 0 && !error)
		error = &gm_error_no_memory;
	if (error)
		return error;
	const char *why = gm_python_learned_check(learned, &field);
	if (why)
		return gm_error_create(GM_TARGET,
		        "learn: CPython 3.%lu: %s%s%s%s: its stacks and variables cannot be read",
		        learned->hex >> 16 & 255, field ? field : "", field ? ": " : "", why,
		        reason(missing, field, more, sizeof(more)));
	*ret_learned = gm_take(learned);
	*ret_missing = gm_take(missing);
	return NULL;
}

static struct gm_error *examine(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, struct gm_learn_python_result *result)
{
	struct gm_python_learned *learned = result->learned;
	struct gm_python_build build;

	gm_try(gm_python_build(image, symbols, NULL, &build));
	memcpy(result->version, build.version, sizeof(result->version));
	learned->id_size = build.module->build_id_size;
	memcpy(learned->id, build.module->build_id, learned->id_size);
	if (!learned->id_size)
		return gm_error_create(GM_TARGET,
		        "learn: CPython %s: %s has no build-id: gpumem could not recognise this "
		        "build again: link it with --build-id",
		        build.version, build.module->name);
	return gm_learn_python_prove(probe->text, image, symbols, &learned->tables);
}

struct gm_error *gm_learn_python(
        const struct gm_learn_options *options, struct gm_learn_python_result *ret_result)
{
	struct gm_learn_options own = *options;
	struct gm_learn_python_result result = {0};
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	struct gm_probe probe;
	const double begin = gm_seconds();

	own.probe = "python/probe.py";
	gm_try(gm_probe_start(&own, &probe));
	struct gm_error *error = gm_learn_python_row(probe.text, &result.learned, &result.missing);
	if (!error)
		error = gm_image_open_pid(probe.python, &image);
	if (!error)
		error = gm_symbols_create(image, &symbols);
	if (!error)
		error = examine(&probe, image, symbols, &result);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	gm_probe_end(&probe);
	if (error) {
		gm_learn_python_result_deinit(&result);
		return error;
	}
	result.seconds = gm_seconds() - begin;
	*ret_result = result;
	return NULL;
}
