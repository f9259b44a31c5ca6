#include "model/site.h"

#include <string.h>

#include "model/phase.h"
#include "model/wrapper_frames.h"

/* dataclass() and namedtuple() generate methods; the file has the name that code of `python -c` has
 * too. */
static bool is_generated(const char *file, const char *function)
{
	return strcmp(file, "<string>") == 0 && strncmp(gm_plain_name(function), "__", 2) == 0;
}

size_t gm_site_index(const struct gm_log *log, uint32_t stack)
{
	size_t count, package = SIZE_MAX, hook = SIZE_MAX, length;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	const char *name;
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code = {0};
		if (!gm_log_frame(log, frames[i], &frame))
			break;
		gm_log_code(log, frame.code, &code);
		const char *file = gm_log_string(log, code.file);
		const char *function = gm_log_string(log, code.name);
		enum gm_code_owner owner = gm_code_owner(file, &name, &length);
		if (gm_frame_is_operator_hook(function)) {
			if (hook == SIZE_MAX && owner != GM_CODE_TORCH && owner != GM_CODE_PYTHON)
				hook = i;
			package = SIZE_MAX;
			continue;
		}
		if (owner == GM_CODE_OWN && !is_generated(file, function))
			return i;
		if (owner == GM_CODE_PACKAGE && package == SIZE_MAX)
			package = i;
	}
	if (package != SIZE_MAX)
		return package;
	return hook == SIZE_MAX ? 0 : hook;
}
