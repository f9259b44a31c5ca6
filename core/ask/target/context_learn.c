#include "ask/target/context_learn.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/layouts_file.h"
#include "learn/learn.h"
#include "torch/readers.h"
#include "torch/torch.h"

bool gm_context_learn_is_off(const struct gm_context *context)
{
	const char *off = getenv("GPUMEM_NO_LEARN");
	return context->no_learn || (off && off[0] && strcmp(off, "0") != 0);
}

/* Recorded even if nothing could be stored. */
static struct gm_error *keep(struct gm_context *context, const struct gm_learn_result *result)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_error_ struct gm_error *error = gm_torch_kept_save(&result->learned, &path);
	return gm_context_note_learned(context, GM_LEARNED_TORCH, result->learned.builds.version,
	        result->seconds, path, error);
}

static struct gm_error *learn(struct gm_context *context, const struct gm_torch_builds *builds,
        struct gm_torch_learned *ret_learned)
{
	struct gm_learn_result result;
	const struct gm_module *c10 = gm_symbols_find_module(context->symbols, "libc10.so");
	gm_try(gm_learn_of_process(context->pid, builds, c10->path, &result));
	struct gm_error *error = keep(context, &result);
	if (!error)
		*ret_learned = result.learned;
	gm_learn_result_deinit(&result);
	return error;
}

struct gm_error *gm_context_learn(
        struct gm_context *context, struct gm_torch_learned *ret_learned, bool *ret_fresh)
{
	struct gm_torch_builds builds;
	*ret_fresh = false;
	if (gm_context_learn_is_off(context))
		return NULL;
	gm_try(gm_torch_builds_of(context->image, context->symbols, &builds));
	if (context->progress)
		context->progress->show(
		        context->progress->context, GM_PROGRESS_LEARNING_TORCH, 0, 0);
	_cleanup_close_ int lock = gm_layouts_kept_lock();
	/* the process that had the lock before may have learned it */
	gm_try(gm_torch_kept_find(&builds, ret_learned, ret_fresh));
	struct gm_error *error = *ret_fresh ? NULL : learn(context, &builds, ret_learned);
	if (context->progress)
		context->progress->show(context->progress->context, GM_PROGRESS_DONE, 0, 0);
	if (error && !context->unlearned)
		context->unlearned = strdup(error->message);
	*ret_fresh = !error;
	return error;
}
