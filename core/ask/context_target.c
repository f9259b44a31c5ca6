/* The parts of a context that read a process. Apart from context.c, so that a question about a log
 * alone needs none of it. */
#include "ask/context.h"

#include "base/cleanup.h"
#include "torch/torch.h"

static void close_target(struct gm_context *context)
{
	gm_torch_close(gm_take(context->torch));
	gm_python_close(gm_take(context->python));
	gm_symbols_destroy(gm_take(context->symbols));
	gm_image_close(gm_take(context->image));
	context->target_pid = 0;
}

struct gm_error *gm_context_image(struct gm_context *context, struct gm_image **ret_image)
{
	if (context->pid <= 0) {
		if (context->shell)
			return gm_error_create(GM_USAGE, "no process given: the question is about "
			                                 "a live process: name it with --pid PID");
		return gm_error_create(GM_USAGE, "no process: the program is not being run: start "
		                                 "it with `run` or attach to it");
	}
	if (context->image && context->target_pid != context->pid)
		close_target(context);
	if (!context->image) {
		context->close_target = close_target;
		gm_try(gm_image_open_pid(context->pid, &context->image));
		context->target_pid = context->pid;
		context->target_stale = false;
	} else if (context->target_stale) {
		gm_image_invalidate(context->image);
		gm_try(gm_image_refresh(context->image));
		if (context->symbols)
			gm_try(gm_symbols_refresh(context->symbols));
		context->target_stale = false;
	}
	*ret_image = context->image;
	return NULL;
}

struct gm_error *gm_context_symbols(struct gm_context *context, struct gm_symbols **ret_symbols)
{
	struct gm_image *image;
	gm_try(gm_context_image(context, &image));
	if (!context->symbols)
		gm_try(gm_symbols_create(image, &context->symbols));
	*ret_symbols = context->symbols;
	return NULL;
}

struct gm_error *gm_context_python(struct gm_context *context, struct gm_python **ret_python)
{
	struct gm_symbols *symbols;
	gm_try(gm_context_symbols(context, &symbols));
	if (!context->python)
		gm_try(gm_python_open(context->image, symbols, &context->python));
	*ret_python = context->python;
	return NULL;
}

struct gm_error *gm_context_torch(struct gm_context *context, struct gm_torch **ret_torch)
{
	struct gm_python *python;
	gm_try(gm_context_python(context, &python));
	if (!context->torch)
		gm_try(gm_torch_open(context->image, context->symbols, python, &context->torch));
	*ret_torch = context->torch;
	return NULL;
}
