/* Recording by the agent in gdb: queries of gdb's plugin before it calls the agent in the debugged
 * process. */
#include <string.h>

#include "base/cleanup.h"
#include "cli/attach_existing.h"
#include "cli/sibling_library.h"
#include "cli/session.h"
#include "inject/inject.h"

int gpumem_agent_library(char **ret_path, char **ret_err)
{
	*ret_path = *ret_err = NULL;
	_cleanup_error_ struct gm_error *error = gm_library_sibling_path(
	        "libgpumem-agent.so", "GPUMEM_AGENT_LIBRARY", "recording", ret_path);
	if (!error)
		return GM_OK;
	*ret_err = strdup(error->message);
	return error->status;
}

/* The current parts of the session's process. */
static struct gm_error *look(
        gpumem_session *session, struct gm_image **ret_image, struct gm_symbols **ret_symbols)
{
	struct gm_context *context = gm_session_context(session);
	gm_context_invalidate(context);
	gm_try(gm_context_image(context, ret_image));
	gm_try(gm_context_symbols(context, ret_symbols));
	gm_try(gm_image_refresh(*ret_image));
	return gm_symbols_refresh(*ret_symbols);
}

uint64_t gpumem_session_agent_function(gpumem_session *session, const char *name)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	_cleanup_error_ struct gm_error *error = look(session, &image, &symbols);
	return error ? 0 : gm_inject_function(symbols, name);
}

enum gpumem_call_safety gpumem_session_thread_is_call_safe(
        gpumem_session *session, int thread, uint64_t *ret_back)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	enum gm_inject_standing standing;
	*ret_back = 0;
	_cleanup_error_ struct gm_error *error = look(session, &image, &symbols);
	if (!error)
		error = gm_inject_thread_is_call_safe(image, symbols, thread, &standing, ret_back);
	if (error)
		return GPUMEM_CALL_UNKNOWN;
	switch (standing) {
	case GM_STANDS_SAFE:
		return GPUMEM_CALL_SAFE;
	case GM_STANDS_BUSY:
		return GPUMEM_CALL_BUSY;
	case GM_STANDS_LOADING:
		return GPUMEM_CALL_LOADING;
	}
	return GPUMEM_CALL_UNKNOWN;
}

uint64_t gpumem_session_agent_existing(gpumem_session *session, uint64_t table, uint64_t size)
{
	return gm_attach_existing_give(gm_session_context(session), table, size);
}
