#include "model/site.h"

#include "base/text.h"

size_t gm_site_index(const struct gm_log *log, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code = {0};
		if (!gm_log_frame(log, frames[i], &frame))
			break;
		gm_log_code(log, frame.code, &code);
		if (!gm_file_is_library(gm_log_string(log, code.file)))
			return i;
	}
	return 0;
}
