#include "render/tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "torch/dtypes.h"

static size_t put_sizes(char *text, size_t size, const int64_t *sizes, uint32_t count)
{
	size_t length = (size_t)snprintf(text, size, "(");
	for (uint32_t i = 0; i < count && length < size; i++)
		length += (size_t)snprintf(
		        text + length, size - length, "%s%" PRId64, i ? ", " : "", sizes[i]);
	if (length < size)
		length += (size_t)snprintf(text + length, size - length, count == 1 ? ",)" : ")");
	return length;
}

const char *gm_text_tensor(const struct gm_log *log, uint32_t id, char text[GM_TENSOR_TEXT])
{
	struct gm_log_tensor tensor;
	text[0] = '\0';
	const char *name =
	        gm_log_tensor(log, id, &tensor) ? gm_torch_dtype_name(tensor.type) : NULL;
	if (!name)
		return text;
	size_t length = put_sizes(text, GM_TENSOR_TEXT, tensor.sizes, tensor.dimensions);
	if (length < GM_TENSOR_TEXT)
		length += (size_t)snprintf(text + length, GM_TENSOR_TEXT - length, " %s", name);
	if (tensor.strides && length + 10 < GM_TENSOR_TEXT) {
		length += (size_t)snprintf(text + length, GM_TENSOR_TEXT - length, " strides ");
		put_sizes(
		        text + length, GM_TENSOR_TEXT - length, tensor.strides, tensor.dimensions);
	}
	return text;
}

static json_t *numbers(const int64_t *values, uint32_t count)
{
	json_t *array = json_array();
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, json_integer(values[i]));
	return array;
}

void gm_json_set_tensor(json_t *value, const struct gm_log *log, uint32_t id)
{
	struct gm_log_tensor tensor;
	const char *name =
	        gm_log_tensor(log, id, &tensor) ? gm_torch_dtype_name(tensor.type) : NULL;
	if (!name)
		return;
	json_object_set_new(value, "dtype", json_string(name));
	json_object_set_new(value, "shape", numbers(tensor.sizes, tensor.dimensions));
	json_object_set_new(value, "strides",
	        tensor.strides ? numbers(tensor.strides, tensor.dimensions) : json_null());
}
