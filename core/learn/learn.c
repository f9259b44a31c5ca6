#include "learn/learn.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "learn/answer.h"
#include "learn/probe.h"
#include "learn/prove.h"
#include "torch/readers.h"
#include "torch/torch.h"

static struct gm_error *examine(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, struct gm_learn_result *result)
{
	struct gm_torch_builds *builds = &result->learned.builds;
	gm_try(gm_torch_builds_of(image, symbols, builds));
	result->learned.layout.old_strings = builds->old_strings;
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (builds->ids[i].size == 0)
			return gm_error_create(GM_TARGET,
			        "learn: PyTorch %s: %s has no build-id: gpumem could not recognise "
			        "this build again: link it with --build-id",
			        builds->version, gm_torch_libraries[i]);
	return gm_answer_prove(probe, image, symbols, &result->learned.layout);
}

void gm_learn_result_deinit(struct gm_learn_result *result)
{
	free(result->missing);
	*result = (struct gm_learn_result){0};
}

struct gm_error *gm_learn_torch(
        const struct gm_learn_options *options, struct gm_learn_result *ret_result)
{
	struct gm_probe probe;
	struct gm_learn_result result = {0};
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	double begin = gm_seconds();
	gm_try(gm_probe_start(options, &probe));
	struct gm_error *error = gm_answer_row(&probe, &result.learned.layout, &result.missing);
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
		gm_learn_result_deinit(&result);
		return error;
	}
	result.seconds = gm_seconds() - begin;
	*ret_result = result;
	return NULL;
}
