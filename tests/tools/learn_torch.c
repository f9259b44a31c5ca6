/*
 * Tells which wrong rows of a PyTorch would be believed: for tests.
 *   learn_torch PYTHON   each field a step further on, or back: "believed NAME VALUE"
 *                        where nobody notices
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "learn/answer.h"
#include "learn/prove.h"
#include "torch/fields.h"
#include "torch/readers.h"
#include "torch/torch.h"

struct learned {
	struct gm_probe probe;
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_torch_layout layout;
};

static bool is_believed(const struct learned *learned)
{
	const char *why;
	struct gm_error *error;

	if (gm_torch_layout_unsound(&learned->layout, &why))
		return false;
	error = gm_answer_prove(
	        &learned->probe, learned->image, learned->symbols, &learned->layout);
	gm_error_destroy(error);
	return !error;
}

static void move(struct learned *learned, const struct gm_torch_field *field, int by)
{
	uint32_t value = gm_torch_field_get(&learned->layout, field), moved = value + (uint32_t)by;

	if (by < 0 && value < (uint32_t)-by)
		return;
	gm_torch_field_set(&learned->layout, field, moved);
	if (gm_torch_field_get(&learned->layout, field) == moved && is_believed(learned))
		printf("believed %s %u\n", field->name, moved);
	gm_torch_field_set(&learned->layout, field, value);
}

static struct gm_error *move_all(struct learned *learned)
{
	struct gm_torch_builds builds = {0};
	_cleanup_free_ char *missing = NULL;

	/* it would end itself when nobody takes its answer */
	kill(learned->probe.pid, SIGSTOP);
	gm_try(gm_answer_row(&learned->probe, &learned->layout, &missing));
	gm_try(gm_image_open_pid(learned->probe.python, &learned->image));
	gm_try(gm_symbols_create(learned->image, &learned->symbols));
	gm_try(gm_torch_builds_of(learned->image, learned->symbols, &builds));
	learned->layout.old_strings = builds.old_strings;
	for (size_t i = 0; i < gm_torch_field_count; i++) {
		const struct gm_torch_field *field = &gm_torch_fields[i];
		int step = field->bytes ? field->bytes : field->most == 1 ? 1 : 8;

		/* not known, and nothing is read there */
		if (field->most > 1 && field->optional &&
		        gm_torch_field_get(&learned->layout, field) == 0)
			continue;
		move(learned, field, step);
		move(learned, field, -step);
	}
	gm_try(gm_answer_prove(
	        &learned->probe, learned->image, learned->symbols, &learned->layout));
	puts("end");
	return NULL;
}

int main(int argc, char **argv)
{
	struct gm_learn_options options = {.python = argc > 1 ? argv[1] : NULL};
	struct learned learned = {0};
	struct gm_error *error;

	if (!options.python)
		return 2;
	error = gm_probe_start(&options, &learned.probe);
	if (!error)
		error = move_all(&learned);
	gm_probe_end(&learned.probe);
	if (!error)
		return 0;
	fprintf(stderr, "%s\n", error->message);
	return error->status;
}
