#include "render/json.h"
#include "render/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/operator.h"
#include "ask/recording/place.h"
#include "base/allocation.h"
#include "base/cleanup.h"

json_t *gm_json_address(uint64_t address)
{
	char text[24];
	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_string(text);
}

json_t *gm_json_string(const char *text)
{
	json_t *value = json_string(text);
	if (value)
		return value;
	size_t length = strlen(text);
	char *copy = strdup(text);
	if (!copy)
		return NULL;
	for (size_t i = 0; i < length; i++)
		if (copy[i] & 0x80)
			copy[i] = '?';
	value = json_string(copy);
	free(copy);
	return value;
}

json_t *gm_json_string_or_null(const char *text)
{
	return text && text[0] ? gm_json_string(text) : json_null();
}

json_t *gm_json_bytes_or_null(uint64_t bytes)
{
	return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

json_t *gm_json_event_or_null(uint32_t event)
{
	return event == GM_NO_EVENT ? json_null() : json_integer(event);
}

json_t *gm_json_place(const char *file, uint32_t line, const char *function)
{
	return json_pack("{s:o, s:i, s:o}", "file", gm_json_string(file), "line", (int)line,
	        "function", gm_json_string(function));
}

json_t *gm_json_take(char *text)
{
	json_t *value = text ? gm_json_string(text) : NULL;
	free(text);
	return value;
}

json_t *gm_json_python_stack(const struct gm_log *log, uint32_t stack)
{
	json_t *frames = json_array();
	struct gm_frame_place place;
	for (size_t i = 0; gm_place_frame(log, stack, i, &place); i++)
		json_array_append_new(
		        frames, gm_json_place(place.file, place.line, place.function));
	return frames;
}

json_t *gm_json_native_stack(const struct gm_log *log, uint32_t stack)
{
	json_t *frames = json_array();
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		json_array_append_new(
		        frames, json_pack("{s:o, s:o, s:o, s:o, s:o}", "function",
		                        gm_json_string_or_null(place.function), "object",
		                        gm_json_string_or_null(place.object), "file",
		                        gm_json_string_or_null(place.file), "line",
		                        place.line ? json_integer(place.line) : json_null(),
		                        "address", gm_json_address(addresses[i])));
	}
	return frames;
}

const char *gm_json_device_type(uint8_t type)
{
	const char *name = gm_device_type_name(type);
	return name                             ? name
	       : type == GM_LOG_DEVICE_EXTERNAL ? "cuda_beside"
	       : type == GM_LOG_DEVICE_PINNED   ? "pinned"
	                                        : "other";
}

/* The program's named ranges, outermost first. */
static json_t *ranges(const struct gm_model *model, uint32_t number)
{
	enum { MOST = 64 };
	const char *names[MOST];
	size_t count = gm_model_ranges(model, number, names, MOST);
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, gm_json_string(names[i]));
	return array;
}

/* The forward stack of a backward event: known only in anomaly mode. */
json_t *gm_json_forward_stack(const struct gm_model *model, uint32_t number)
{
	struct gm_forward_frame frame;
	json_t *frames = json_array();
	for (size_t i = 0; gm_model_forward(model, number, i, &frame); i++)
		json_array_append_new(
		        frames, gm_json_place(frame.file, frame.line, frame.function));
	return frames;
}

/* Whether autograd records in the thread; null: not recorded. */
static json_t *grad_mode(const struct gm_event *event)
{
	bool known = event->flags & (GM_EVENT_GRAD | GM_EVENT_NO_GRAD);
	return known ? json_boolean(event->flags & GM_EVENT_GRAD) : json_null();
}

void gm_json_set_operator(json_t *value, const struct gm_log *log, uint32_t native_stack)
{
	char name[GM_OPERATOR_MAX];
	if (gm_operator_of(log, native_stack, name))
		json_object_set_new(value, "operator", gm_json_string(name));
	if (gm_node_of(log, native_stack, name))
		json_object_set_new(value, "node", gm_json_string(name));
}

/* "name": that of the event's block, the first if it has several; null: it has none. */
static void set_name(json_t *value, const struct gm_model *model, uint32_t block)
{
	struct gm_block_name first;
	if (!gm_model_has_names(model))
		return;
	bool has = block != GM_NO_BLOCK && gm_model_names(model, block, &first, 1) > 0;
	json_object_set_new(value, "name", has ? gm_json_string(first.name) : json_null());
}

json_t *gm_json_event_head(const struct gm_model *model, uint32_t number)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_event event;
	gm_log_event(log, number, &event);
	const char *action = gm_action_name((enum gm_action)event.action);
	uint32_t index = gm_model_event_block(model, number);
	uint32_t alloc = index == GM_NO_BLOCK ? GM_NO_EVENT : gm_model_block(model, index)->alloc;
	uint32_t step = gm_model_step(model, number);
	json_t *value = json_object();
	json_object_set_new(value, "n", json_integer(number));
	json_object_set_new(value, "action", json_string(action ? action : "unknown"));
	json_object_set_new(value, "block", gm_json_event_or_null(alloc));
	json_object_set_new(value, "address", gm_json_address(event.address));
	json_object_set_new(value, "size", json_integer((json_int_t)event.size));
	json_object_set_new(value, "requested",
	        event.requested ? json_integer((json_int_t)event.requested) : json_null());
	json_object_set_new(value, "device", json_integer(event.device));
	json_object_set_new(
	        value, "device_type", json_string(gm_json_device_type(event.device_type)));
	if (event.owner)
		json_object_set_new(
		        value, "owner", gm_json_string(gm_log_string(log, event.owner)));
	json_object_set_new(value, "stream", json_integer((json_int_t)event.stream));
	json_object_set_new(value, "time_us", json_integer((json_int_t)(event.time_ns / 1000)));
	json_object_set_new(value, "thread", json_integer((json_int_t)event.thread));
	json_object_set_new(value, "step", step ? json_integer(step) : json_null());
	json_object_set_new(
	        value, "phase", json_string(gm_phase_name(gm_model_phase(model, number))));
	json_object_set_new(value, "allocated", gm_json_bytes_or_null(event.allocated));
	json_object_set_new(value, "reserved", gm_json_bytes_or_null(event.reserved));
	json_object_set_new(value, "borrowed", json_boolean(event.flags & GM_EVENT_BORROWED));
	json_object_set_new(value, "preexisting", json_boolean(event.flags & GM_EVENT_PREEXISTING));
	json_object_set_new(value, "grad", grad_mode(&event));
	json_object_set_new(value, "marks", ranges(model, number));
	gm_json_set_tensor(value, log, event.tensor);
	set_name(value, model, index);
	if (event.action == GM_ALLOC)
		gm_json_set_operator(value, log, event.native_stack);
	const char *metadata = gm_model_metadata(model, number);
	json_object_set_new(value, "metadata", metadata ? gm_json_string(metadata) : json_null());
	return value;
}

json_t *gm_json_event(const struct gm_model *model, uint32_t number)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_event event;
	gm_log_event(log, number, &event);
	json_t *value = gm_json_event_head(model, number), *forward;
	json_object_set_new(value, "python", gm_json_python_stack(log, event.python_stack));
	forward = gm_json_forward_stack(model, number);
	if (json_array_size(forward))
		json_object_set_new(value, "forward", forward);
	else
		json_decref(forward);
	json_object_set_new(value, "native", gm_json_native_stack(log, event.native_stack));
	return value;
}

void gm_json_begin(void)
{
	json_set_alloc_funcs(malloc, free);
}

struct gm_error *gm_json_text(json_t *value, size_t flags, char **ret_text)
{
	char *text = NULL;
	if (value && !gm_allocation_failed())
		text = json_dumps(value, flags); /* complete: half a value is no value */
	json_decref(value);
	if (!text)
		return &gm_error_no_memory;
	*ret_text = text;
	return NULL;
}

struct gm_error *gm_json_write_as(json_t *value, size_t flags, FILE *out)
{
	char *text;
	gm_try(gm_json_text(value, flags, &text));
	fprintf(out, "%s\n", text);
	free(text);
	return NULL;
}

struct gm_error *gm_json_write(json_t *value, bool indent, FILE *out)
{
	return gm_json_write_as(value, indent ? JSON_INDENT(2) : JSON_COMPACT, out);
}
