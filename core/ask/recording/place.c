#include "ask/recording/place.h"

#include <string.h>

#include "base/packages.h"
#include "model/site.h"
#include "model/wrapper_frames.h"

bool gm_place_frame(
        const struct gm_log *log, uint32_t stack, size_t index, struct gm_frame_place *ret_place)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	struct gm_log_frame frame;
	struct gm_log_code code = {0};
	if (index >= count || !gm_log_frame(log, frames[index], &frame))
		return false;
	gm_log_code(log, frame.code, &code);
	*ret_place = (struct gm_frame_place){
	        .code = frame.code,
	        .lasti = frame.lasti,
	        .file = gm_log_string(log, code.file),
	        .function = gm_log_string(log, code.name),
	        .line = frame.line,
	        .op = frame.op < GM_OP_COUNT ? (enum gm_op)frame.op : GM_OP_OTHER,
	        .op_name = frame.op_name ? gm_log_string(log, frame.op_name) : NULL,
	};
	return true;
}

bool gm_place_site(const struct gm_log *log, uint32_t stack, struct gm_frame_place *ret_place)
{
	return gm_place_frame(log, stack, gm_site_index(log, stack), ret_place);
}

bool gm_place_in_package(const struct gm_log *log, uint32_t stack, struct gm_frame_place *ret_place)
{
	size_t site = gm_site_index(log, stack), length;
	const char *package;
	for (size_t i = 0; i < site && gm_place_frame(log, stack, i, ret_place); i++)
		if (gm_code_owner(ret_place->file, &package, &length) == GM_CODE_PACKAGE)
			return true;
	return gm_place_frame(log, stack, site, ret_place);
}

bool gm_place_forward(
        const struct gm_model *model, uint32_t event, struct gm_forward_frame *ret_frame)
{
	for (size_t i = 0; gm_model_forward(model, event, i, ret_frame); i++)
		if (!gm_file_is_library(ret_frame->file))
			return true;
	return gm_model_forward(model, event, 0, ret_frame);
}

const char *gm_place_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

void gm_place_native(const struct gm_log *log, uint64_t address, struct gm_native_place *ret_place)
{
	*ret_place = (struct gm_native_place){0};
	uint32_t function, file, line;
	if (gm_log_symbol(log, address, &function, &file, &line)) {
		ret_place->function = function ? gm_log_string(log, function) : NULL;
		ret_place->file = file ? gm_log_string(log, file) : NULL;
		ret_place->line = line;
	}
	struct gm_log_module module;
	if (gm_log_module(log, gm_log_module_at(log, address), &module))
		ret_place->object = gm_place_base_name(gm_log_string(log, module.path));
}

bool gm_place_native_site(
        const struct gm_log *log, const struct gm_event *event, struct gm_native_place *ret_place)
{
	const char *owner = gm_log_string(log, event->owner);
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, event->native_stack, &count);
	if (!event->owner || !*owner)
		return false;
	*ret_place = (struct gm_native_place){.object = owner};
	/* PyTorch's own functions around an allocator are long and add no information */
	if (strncmp(owner, "libc10", 6) == 0 || strncmp(owner, "libtorch", 8) == 0)
		return true;
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (!place.object || strcmp(place.object, owner) != 0)
			continue;
		*ret_place = place;
		break;
	}
	return true;
}
