/* The parts of a context that need a recording: the log and the model made from it. */
#include "ask/context.h"
#include "ask/target/recording.h"
#include "ask/target/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/import.h"
#include "log/log.h"
#include "model/model.h"
#include "spool/spool.h"

static void close_log(struct gm_context *context)
{
	gm_model_destroy(gm_take(context->model));
	gm_log_close(gm_take(context->log));
	gm_spool_live_close(gm_take(context->log_live));
	free(gm_take(context->opened_log));
}

static struct gm_error *open_as(
        struct gm_context *context, const char *path, bool is_spool, struct gm_log **ret_log)
{
	context->log_imported = false;
	if (!is_spool)
		return gm_log_open_lazily(path, path, ret_log);
	gm_try(gm_spool_live_open(path, &context->log_live, ret_log));
	if (context->log_live)
		return NULL;
	context->log_imported = !gm_spool_is_final(path);
	return gm_spool_import(path, ret_log);
}

/*
 * The beginning of a file shows its kind. Another file may take its name meanwhile: a log replaces
 * the agent's file when the process has ended, a new recording replaces an old log.
 */
static struct gm_error *open_file(
        struct gm_context *context, const char *path, struct gm_log **ret_log)
{
	enum { TRIES = 5 };
	context->log_imported = false;
	if (gm_import_is_snapshot(path))
		return gm_import_snapshot(path, ret_log);
	for (int try = 1;; try++) {
		bool is_spool = gm_spool_is(path);
		struct gm_error *error = open_as(context, path, is_spool, ret_log);
		if (!error || try == TRIES || gm_spool_is(path) == is_spool)
			return error;
		gm_error_destroy(error);
	}
}

/* A recorder may have appended events since: the model reads them. */
static void refresh_log(struct gm_context *context)
{
	bool ended = false;
	context->log_stale = false;
	_cleanup_error_ struct gm_error *error =
	        context->log_live ? gm_spool_live_update(context->log_live, &ended) : NULL;
	if (context->log_imported || ended || error) {
		close_log(context);
		return;
	}
	if (context->model && !gm_model_follows(context->model))
		gm_model_destroy(gm_take(context->model));
	error = gm_log_refresh(context->log);
	if (!error && context->model)
		error = gm_model_read_on(context->model);
	if (error)
		close_log(context); /* replaced by another recording, or damaged: opening it reports
		                       which */
}

bool gm_context_log_is_trace(const struct gm_context *context)
{
	return context->log && context->opened_log && context->opened_log[0] == '\0';
}

/* We recorded nothing, but PyTorch itself may have, in the process that the question is about. */
static struct gm_error *open_trace(struct gm_context *context, struct gm_log **ret_log)
{
	if (gm_context_log_is_trace(context) && !context->log_stale) {
		*ret_log = context->log;
		return NULL;
	}
	if (context->log)
		close_log(context);
	context->close_log = close_log;
	gm_try(gm_trace_log(context, &context->log));
	context->log_stale = false;
	if (!(context->opened_log = strdup(""))) {
		close_log(context);
		return &gm_error_no_memory;
	}
	*ret_log = context->log;
	return NULL;
}

/* The recording that the process or core of this question was writing itself; NULL if none. */
static char *own_recording(struct gm_context *context)
{
	struct gm_image *image;
	char *path = NULL;
	_cleanup_error_ struct gm_error *error =
	        context->remote ? NULL : gm_context_image(context, &image);
	if (!error && !context->remote)
		error = gm_recording_of(image, &path);
	return error ? NULL : path;
}

static struct gm_error *open_named(
        struct gm_context *context, const char *named, struct gm_log **ret_log)
{
	if (context->log && strcmp(context->opened_log, named) != 0)
		close_log(context);
	if (context->log && context->log_stale)
		refresh_log(context);
	if (!context->log) {
		_cleanup_free_ char *path = strdup(named);
		if (!path)
			return &gm_error_no_memory;
		context->close_log = close_log;
		gm_try(gm_error_in_file(open_file(context, path, &context->log), path));
		context->log_stale = false;
		context->opened_log = gm_take(path);
	}
	*ret_log = context->log;
	return NULL;
}

struct gm_error *gm_context_log(struct gm_context *context, struct gm_log **ret_log)
{
	if (context->log_path)
		return open_named(context, context->log_path, ret_log);
	if (gm_context_has_target(context)) {
		_cleanup_free_ char *own = own_recording(context);
		if (own)
			return open_named(context, own, ret_log);
		_cleanup_error_ struct gm_error *error = open_trace(context, ret_log);
		if (!error)
			return NULL;
		if (context->shell) /* in gdb the advice below is shorter */
			return gm_take(error);
	}
	if (context->shell)
		return gm_error_create(GM_USAGE,
		        "no FILE given: the question needs a recording: name a file that "
		        "`gpumem run` or `gpumem record` wrote");
	return gm_error_create(GM_USAGE, "nothing is recorded: there is no recording to ask: type "
	                                 "`gpumem record`, then `run`; or name a FILE");
}

/* If the user named a loop, its iterations are the steps. */
static struct gm_error *choose_loop(const struct gm_context *context, struct gm_model *model)
{
	struct gm_error *error;
	const char *colon = context->loop ? strrchr(context->loop, ':') : NULL;
	_cleanup_free_ char *file =
	        colon ? strndup(context->loop, (size_t)(colon - context->loop)) : NULL;
	if (colon && !file)
		return &gm_error_no_memory;
	uint32_t line = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
	if (gm_model_choose_loop(model, file, line, &error))
		return error;
	return gm_error_create(GM_USAGE,
	        "--loop %s: no recorded stack has a loop with that line outside modules, backward "
	        "and the optimizer: `gpumem steps --json` lists the loops that were found",
	        context->loop);
}

struct gm_error *gm_context_any_model(struct gm_context *context, struct gm_model **ret_model)
{
	struct gm_log *log;
	gm_try(gm_context_log(context, &log));
	bool grows = context->log_live || (!context->log_imported && !gm_log_closed(log));
	if (!context->model && grows)
		gm_try(gm_model_follow(log, &context->model));
	else if (!context->model)
		gm_try(gm_model_create(log, &context->model));
	gm_try(choose_loop(context, context->model));
	*ret_model = context->model;
	return NULL;
}

/* There is no answer for a file that was cut off before any allocation; "no memory was allocated"
 * would be wrong. A file that is read while it grows may end within a chunk for a moment. */
struct gm_error *gm_context_model(struct gm_context *context, struct gm_model **ret_model)
{
	uint64_t offset;
	gm_try(gm_context_any_model(context, ret_model));
	const struct gm_log *log = gm_model_log(*ret_model);
	if (context->shell && !context->log_live && gm_model_block_count(*ret_model) == 0 &&
	        gm_log_truncated(log, &offset))
		return gm_error_at_offset(gm_error_create(GM_CORRUPT,
		                                  "%s: the file is truncated at byte %" PRIu64
		                                  ", and there is no allocation before: it cannot "
		                                  "be analysed: get the whole file",
		                                  gm_log_path(log), offset),
		        gm_log_path(log), offset);
	return NULL;
}
