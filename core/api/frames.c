/* Native frames for a debugger: callers and names for files whose symbols it has not read. */
#include <string.h>

#include "ask/target/native_frames.h"
#include "base/cleanup.h"
#include "cli/session.h"

int gpumem_session_frame_caller(
        gpumem_session *session, const uint64_t *registers, int innermost, uint64_t *ret_registers)
{
	struct gm_registers own, caller;
	memcpy(own.value, registers, sizeof(own.value));
	enum gm_frame_position place = innermost > 0    ? GM_FRAME_INNERMOST
	                               : innermost == 0 ? GM_FRAME_CALLER
	                                                : GM_FRAME_UNKNOWN;
	if (!gm_frame_caller(gm_session_context(session), &own, place, &caller))
		return 0;
	memcpy(ret_registers, caller.value, sizeof(caller.value));
	return 1;
}

int gpumem_session_frame_functions(
        gpumem_session *session, const uint64_t *addresses, size_t count, const char **ret_names)
{
	_cleanup_error_ struct gm_error *error =
	        gm_frame_functions(gm_session_context(session), addresses, count, ret_names);
	return error ? error->status : GM_OK;
}

int gpumem_file_defines(const char *path, const char *function)
{
	return gm_frame_file_defines(path, function);
}
