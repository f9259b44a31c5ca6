/*
 * Learns a CPython, and tells which wrong rows would be believed: for tests.
 *   learn_python PYTHON           "learned VERSION FIELDS SECONDS", then the section of a file
 *   learn_python --moved PYTHON   each field eight bytes further on, or back: "believed NAME
 *                                 OFFSET" where nobody notices
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "learn/probe.h"
#include "learn/python.h"
#include "learn/python_prove.h"

static struct gm_error *learn(const char *python)
{
	const struct gm_learn_options options = {.python = python};
	struct gm_learn_python_result result;
	_cleanup_free_ char *text = NULL;

	gm_try(gm_learn_python(&options, &result));
	gm_try(gm_python_learned_text(result.learned, &text));
	printf("learned %s in %.2f s\n%s", result.version, result.seconds, text);
	gm_learn_python_result_deinit(&result);
	return NULL;
}

static bool is_believed(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, struct gm_python_learned *learned)
{
	const char *field;
	struct gm_error *error;

	if (gm_python_learned_check(learned, &field))
		return false;
	error = gm_learn_python_prove(probe->text, image, symbols, &learned->tables);
	gm_error_destroy(error);
	return !error;
}

static struct gm_error *move(const char *python)
{
	const struct gm_learn_options options = {.python = python, .probe = "python/probe.py"};
	struct gm_python_learned *learned;
	struct gm_probe probe;
	struct gm_image *image;
	struct gm_symbols *symbols;
	_cleanup_free_ char *missing = NULL;

	gm_try(gm_probe_start(&options, &probe));
	gm_try(gm_learn_python_row(probe.text, &learned, &missing));
	gm_try(gm_image_open_pid(probe.python, &image));
	gm_try(gm_symbols_create(image, &symbols));
	gm_try(gm_learn_python_prove(probe.text, image, symbols, &learned->tables));
	for (size_t i = 0; gm_python_field_name(i); i++) {
		int32_t *field = gm_python_field(&learned->layout, i), value = *field;
		for (int by = -8; value != GM_NO_FIELD && by <= 8; by += 16) {
			*field = value + by;
			if (is_believed(&probe, image, symbols, learned))
				printf("believed %s %d\n", gm_python_field_name(i), value + by);
			*field = value;
		}
	}
	puts("end");
	gm_probe_end(&probe);
	return NULL;
}

int main(int argc, char **argv)
{
	struct gm_error *error;

	if (argc < 2)
		return 2;
	error = argc > 2 && !strcmp(argv[1], "--moved") ? move(argv[2]) : learn(argv[1]);
	if (!error)
		return 0;
	fprintf(stderr, "%s\n", error->message);
	return error->status;
}
