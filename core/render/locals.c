/* The variables of a Python frame, as text and JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/put.h"
#include "base/size.h"
#include "render/frames.h"
#include "render/json.h"
#include "render/names.h"
#include "render/pause.h"
#include "render/text.h"

enum { WIDEST_NAME = 24 };

static void put_shape(const struct gm_tensor *tensor, FILE *out)
{
	fputc('(', out);
	for (uint32_t i = 0; i < tensor->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		gm_put(out, "%s%" PRId64, i ? ", " : "", tensor->shape[i]);
	fputs(tensor->dimensions > GM_TENSOR_MAX_DIMENSIONS ? ", …)"
	        : tensor->dimensions == 1                   ? ",)"
	                                                    : ")",
	        out);
}

static void put_memory(const struct gm_locals *locals, const struct gm_local *local, FILE *out)
{
	char size[GM_SIZE_TEXT], names[GM_NAMES_TEXT];
	if (!local->has_storage || !local->storage.data) {
		fputs(", no memory", out);
		return;
	}
	gm_put(out, ", %s at 0x%" PRIx64, gm_text_size(local->storage.size, size),
	        local->storage.data);
	if (local->block == GM_NO_BLOCK)
		return;
	const struct gm_block *block = gm_model_block(locals->model, local->block);
	if (block->alloc != GM_NO_EVENT)
		gm_put(out, ", block #%u", block->alloc);
	if (gm_text_names(locals->model, local->block, names)[0])
		gm_put(out, " (%s)", names);
}

static void put_tensor(const struct gm_locals *locals, const struct gm_local *local, FILE *out)
{
	const struct gm_tensor *tensor = &local->tensor;
	char device[GM_SIZE_TEXT];
	fputc(' ', out);
	put_shape(tensor, out);
	gm_put(out, " %s %s", tensor->dtype ? tensor->dtype : "of an unknown dtype",
	        gm_text_device((uint8_t)tensor->device_type, tensor->device, device));
	put_memory(locals, local, out);
	if (tensor->view_base)
		fputs(", a view", out);
	if (tensor->requires_grad)
		fputs(", requires grad", out);
	if (tensor->grad)
		fputs(", has a gradient", out);
}

static void put_variable(
        const struct gm_locals *locals, const struct gm_local *local, int width, FILE *out)
{
	gm_put(out, "  %-*s  ", width, local->name);
	if (!local->type) {
		fputs(local->unreadable ? "cannot be read\n" : "not bound\n", out);
		return;
	}
	bool plain = local->text && strcmp(local->type, "NoneType") == 0;
	gm_put(out, "%s", plain ? local->text : local->type);
	if (local->is_tensor)
		put_tensor(locals, local, out);
	else if (local->text && !plain)
		gm_put(out, " %s", local->text);
	fputc('\n', out);
}

void gm_render_locals_text(const struct gm_locals *locals, FILE *out)
{
	size_t width = 0;
	gm_put_other_thread(&locals->frames, out);
	gm_put_python_frame(&locals->frames, locals->number, out);
	for (size_t i = 0; i < locals->count; i++) {
		size_t length = strlen(locals->items[i].name);
		if (length > width && length <= WIDEST_NAME)
			width = length;
	}
	for (size_t i = 0; i < locals->count; i++)
		put_variable(locals, &locals->items[i], (int)width, out);
	if (!locals->count)
		fputs("  no variables\n", out);
	if (locals->left_out)
		gm_put(out,
		        "  %zu more: modules, functions, classes and names such as __name__ "
		        "(`--all` shows "
		        "them)\n",
		        locals->left_out);
	if (locals->cut)
		gm_put(out, "There are more variables: the first %zu are shown.\n", locals->count);
	gm_put_pause(&locals->frames.pause, out);
}

static json_t *tensor_json(const struct gm_locals *locals, const struct gm_local *local)
{
	const struct gm_tensor *tensor = &local->tensor;
	json_t *value = json_object(), *shape = json_array();
	for (uint32_t i = 0; i < tensor->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		json_array_append_new(shape, json_integer(tensor->shape[i]));
	json_object_set_new(value, "dtype", gm_json_string_or_null(tensor->dtype));
	json_object_set_new(value, "shape", shape);
	json_object_set_new(value, "device_type",
	        json_string(gm_json_device_type((uint8_t)tensor->device_type)));
	json_object_set_new(value, "device", json_integer(tensor->device));
	json_object_set_new(value, "requires_grad", json_boolean(tensor->requires_grad));
	json_object_set_new(value, "has_grad", json_boolean(tensor->grad != 0));
	json_object_set_new(value, "view", json_boolean(tensor->view_base != 0));
	json_object_set_new(value, "address",
	        local->has_storage && local->storage.data ? gm_json_address(local->storage.data)
	                                                  : json_null());
	json_object_set_new(value, "size",
	        local->has_storage ? json_integer((json_int_t)local->storage.size) : json_null());
	json_object_set_new(value, "block",
	        local->block == GM_NO_BLOCK
	                ? json_null()
	                : gm_json_event_or_null(
	                          gm_model_block(locals->model, local->block)->alloc));
	if (local->block != GM_NO_BLOCK)
		gm_json_set_names(value, locals->model, local->block);
	return value;
}

struct gm_error *gm_render_locals_json(const struct gm_locals *locals, FILE *out)
{
	json_t *value = json_object(), *list = json_array();
	for (size_t i = 0; i < locals->count; i++) {
		const struct gm_local *local = &locals->items[i];
		json_t *variable = json_object();
		json_object_set_new(variable, "name", gm_json_string(local->name));
		json_object_set_new(variable, "type", gm_json_string_or_null(local->type));
		json_object_set_new(variable, "value", gm_json_string_or_null(local->text));
		json_object_set_new(variable, "tensor",
		        local->is_tensor ? tensor_json(locals, local) : json_null());
		json_array_append_new(list, variable);
	}
	json_object_set_new(value, "thread", json_integer(locals->frames.thread));
	json_object_set_new(value, "selected_thread", json_integer(locals->frames.selected));
	json_object_set_new(value, "frame", gm_json_python_frame(&locals->frames, locals->number));
	json_object_set_new(value, "locals", list);
	json_object_set_new(value, "left_out", json_integer((json_int_t)locals->left_out));
	json_object_set_new(value, "complete", json_boolean(!locals->cut));
	json_object_set_new(value, "pause", gm_json_pause(&locals->frames.pause));
	return gm_json_write(value, true, out);
}
