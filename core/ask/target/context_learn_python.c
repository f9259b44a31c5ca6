#include <stdlib.h>
#include <string.h>

#include "ask/target/context_learn.h"
#include "base/cleanup.h"
#include "image/layouts_file.h"
#include "learn/python.h"
#include "torch/learned.h"

/* Recorded even if nothing could be stored. The row is valid for this process in any case. */
static struct gm_error *keep(struct gm_context *context, struct gm_learn_python_result *result)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_error_ struct gm_error *error = gm_python_learned_save(result->learned, &path);
	gm_try(gm_context_note_learned(
	        context, GM_LEARNED_PYTHON, result->version, result->seconds, path, error));
	gm_python_learned_keep(gm_take(result->learned));
	return NULL;
}

static struct gm_error *learn(struct gm_context *context)
{
	struct gm_learn_python_result result;
	struct gm_python_build build;

	_cleanup_close_ int lock = gm_layouts_kept_lock();
	/* the process that had the lock before may have learned it */
	gm_try(gm_python_build(context->image, context->symbols, context->layouts, &build));
	if (build.known)
		return NULL;
	gm_try(gm_learn_python_of_process(context->pid, &build, &result));
	struct gm_error *error = keep(context, &result);
	gm_learn_python_result_deinit(&result);
	return error;
}

struct gm_error *gm_context_learn_python(struct gm_context *context, bool *ret_fresh)
{
	struct gm_python_build build;

	_cleanup_error_ struct gm_error *none =
	        gm_python_build(context->image, context->symbols, context->layouts, &build);
	*ret_fresh = false;
	if (none || build.known || gm_context_learn_is_off(context) || context->pid <= 0 ||
	        context->core_path || context->remote)
		return NULL; /* the code that opened it has reported why it cannot be read */
	if (context->progress)
		context->progress->show(
		        context->progress->context, GM_PROGRESS_LEARNING_PYTHON, 0, 0);
	struct gm_error *error = learn(context);
	if (context->progress)
		context->progress->show(context->progress->context, GM_PROGRESS_DONE, 0, 0);
	*ret_fresh = !error;
	return error;
}
