#include "torch/new_tensor.h"

#include <stddef.h>

#include "torch/dtypes.h"
#include "torch/names.h"

bool gm_new_tensor_init(struct gm_new_tensor *tensor, unsigned type, uint64_t dimensions)
{
	tensor->bytes = 0;
	if (dimensions > GM_NEW_TENSOR_DIMENSIONS || type > UINT8_MAX ||
	        gm_torch_dtype_bits(type) < 8)
		return false;
	tensor->dimensions = (uint32_t)dimensions;
	tensor->type = (uint8_t)type;
	tensor->strided = false;
	return true;
}

/* Elements of a contiguous tensor; 0: none, or an impossible number. */
static uint64_t count_elements(const struct gm_new_tensor *tensor)
{
	uint64_t count = 1;
	for (uint32_t i = 0; i < tensor->dimensions; i++)
		if (tensor->sizes[i] <= 0 ||
		        __builtin_mul_overflow(count, (uint64_t)tensor->sizes[i], &count))
			return 0;
	return count;
}

/* at::detail::computeStorageNbytes() (ATen/EmptyTensor.cpp): from the first element to the last, by
 * their strides. */
static uint64_t span_of_strides(const struct gm_new_tensor *tensor)
{
	uint64_t last = 0, step;
	for (uint32_t i = 0; i < tensor->dimensions; i++)
		if (tensor->strides[i] < 0 ||
		        __builtin_mul_overflow((uint64_t)tensor->strides[i],
		                (uint64_t)tensor->sizes[i] - 1, &step) ||
		        __builtin_add_overflow(last, step, &last))
			return 0;
	return last + 1;
}

/* Strides of a contiguous tensor, with its dimensions from the innermost to the outermost in this
 * order. */
static void put_strides(struct gm_new_tensor *tensor, const uint8_t *inside_out)
{
	int64_t stride = 1;
	for (uint32_t i = 0; i < tensor->dimensions; i++) {
		tensor->strides[inside_out[i]] = stride;
		stride *= tensor->sizes[inside_out[i]];
	}
}

static bool is_contiguous(const struct gm_new_tensor *tensor)
{
	int64_t stride = 1;
	for (uint32_t i = tensor->dimensions; i > 0; i--) {
		if (tensor->sizes[i - 1] != 1 && tensor->strides[i - 1] != stride)
			return false;
		stride *= tensor->sizes[i - 1];
	}
	return true;
}

static void put_bytes(struct gm_new_tensor *tensor, uint64_t elements)
{
	uint64_t bytes;
	if (!__builtin_mul_overflow(
	            elements, (uint64_t)gm_torch_dtype_bits(tensor->type) / 8, &bytes))
		tensor->bytes = bytes;
}

void gm_new_tensor_put_format(struct gm_new_tensor *tensor, int format)
{
	static const uint8_t channels_last[] = {1, 3, 2, 0}, channels_last_3d[] = {1, 4, 3, 2, 0};
	uint64_t elements = count_elements(tensor);
	const uint8_t *inside_out = NULL;
	if (format == GM_TORCH_CHANNELS_LAST && tensor->dimensions == 4)
		inside_out = channels_last;
	else if (format == GM_TORCH_CHANNELS_LAST_3D && tensor->dimensions == 5)
		inside_out = channels_last_3d;
	if (elements && inside_out) {
		put_strides(tensor, inside_out);
		tensor->strided = !is_contiguous(tensor);
	}
	put_bytes(tensor, elements);
}

void gm_new_tensor_put_strides(struct gm_new_tensor *tensor)
{
	uint64_t elements = count_elements(tensor);
	if (elements)
		elements = span_of_strides(tensor);
	if (elements)
		tensor->strided = !is_contiguous(tensor);
	put_bytes(tensor, elements);
}
