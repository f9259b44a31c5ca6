/* Creates and destroys a context, and sets its subject. */
#include "ask/context.h"

#include <stdlib.h>
#include <string.h>

#include "ask/target/pause.h"

void gm_context_init(struct gm_context *context)
{
	*context = (struct gm_context){0};
}

void gm_context_deinit(struct gm_context *context)
{
	if (!context)
		return;
	if (context->close_target)
		context->close_target(context);
	if (context->close_log)
		context->close_log(context);
	gm_pausing_destroy(context->pausing);
	free(context->core_path);
	free(context->sysroot);
	free(context->layouts);
	free(context->loop);
	gm_learned_layout_deinit(&context->learned);
	free(context->unlearned);
	free(context->log_path);
	*context = (struct gm_context){0};
}

void gm_context_invalidate(struct gm_context *context)
{
	context->target_stale = true;
	context->log_stale = true;
}

static struct gm_error *set_path(char **owned, const char *path)
{
	char *copy = NULL;
	if (path && !(copy = strdup(path)))
		return &gm_error_no_memory;
	free(*owned);
	*owned = copy;
	return NULL;
}

struct gm_error *gm_context_set_core(struct gm_context *context, const char *path)
{
	return set_path(&context->core_path, path);
}

struct gm_error *gm_context_set_sysroot(struct gm_context *context, const char *folder)
{
	bool same = folder ? context->sysroot && strcmp(folder, context->sysroot) == 0
	                   : !context->sysroot;
	if (!same && context->close_target)
		context->close_target(context); /* it was opened with the other one */
	return same ? NULL : set_path(&context->sysroot, folder);
}

struct gm_error *gm_context_set_loop(struct gm_context *context, const char *place)
{
	const char *colon = place ? strrchr(place, ':') : NULL;
	if (place && (!colon || colon == place || !colon[1] ||
	                     colon[1 + strspn(colon + 1, "0123456789")] || strlen(colon) > 10))
		return gm_error_create(GM_USAGE,
		        "--loop %s: not a FILE:LINE: name a line of the loop, as in train.py:20",
		        place);
	return set_path(&context->loop, place);
}

struct gm_error *gm_context_set_layouts(struct gm_context *context, const char *path)
{
	if ((path || context->layouts) && context->close_target)
		context->close_target(context);
	return set_path(&context->layouts, path);
}

struct gm_error *gm_context_set_log(struct gm_context *context, const char *path)
{
	return set_path(&context->log_path, path);
}
