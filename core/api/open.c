#include <string.h>

#include "api/internal.h"
#include "base/cleanup.h"
#include "cli/session.h"
#include "render/progress.h"

static void call_back(void *context, enum gm_progress_kind kind, uint64_t done, uint64_t all)
{
	const gpumem_session *session = context;
	session->progress_callback(session->progress_context, gm_text_progress(kind), done, all);
}

static struct gm_error *copy(const char *text, char **ret_copy)
{
	if (text && text[0] && !(*ret_copy = strdup(text)))
		return &gm_error_no_memory;
	return NULL;
}

static struct gm_error *fill(gpumem_session *session, const struct gpumem_session_options *options)
{
	struct gm_session_source *source = &session->source;
	gm_try(copy(options->recording, &source->recording));
	gm_try(copy(options->core, &source->core));
	gm_try(copy(options->sysroot, &source->sysroot));
	gm_try(copy(options->layouts, &source->layouts));
	gm_try(copy(options->loop, &source->loop));
	if (options->process < 0 || options->thread < 0)
		return gm_error_create(GM_USAGE, "a session: %d is not the number of a %s",
		        options->process < 0 ? options->process : options->thread,
		        options->process < 0 ? "process" : "thread");
	if (source->core && options->process)
		return gm_error_create(GM_USAGE,
		        "a session: it is about a process or about a core: leave one out");
	source->process = options->process;
	source->thread = options->thread;
	source->no_pause = options->no_pause;
	source->no_learn = options->no_learn;
	session->progress_callback = options->progress;
	session->progress_context = options->progress_context;
	session->progress = (struct gm_progress){call_back, session};
	session->context.progress = options->progress ? &session->progress : NULL;
	return NULL;
}

int gpumem_session_open(const struct gpumem_session_options *options, gpumem_session **ret_session,
        gpumem_error **ret_error)
{
	struct gpumem_session_options own;
	struct gm_error *error = gm_api_take_options(options, &own, sizeof(own));
	if (error)
		return gm_api_fail(error, ret_error);
	gpumem_session *session = gpumem_session_create();
	if (!session)
		return gm_api_fail(&gm_error_no_memory, ret_error);
	gm_session_set_shell(session);
	session->library = true;
	error = fill(session, &own);
	if (error) {
		gpumem_session_destroy(session);
		return gm_api_fail(error, ret_error);
	}
	*ret_session = session;
	return GPUMEM_OK;
}

const char *gpumem_session_notes(const gpumem_session *session)
{
	return session->notes;
}
