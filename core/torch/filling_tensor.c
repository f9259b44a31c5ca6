#include "torch/filling_tensor.h"

#include <string.h>

#include "torch/dtypes.h"

enum {
	OBJECT_MAX = 256, /* bytes of a TensorImpl that are read */
	LOWEST_ADDRESS = 0x10000,
	STACK_WORDS = 64,
	STACK_NEAR = 1 << 20, /* addresses of the stack itself are no objects */
};

static bool is_object_address(uint64_t address)
{
	return address >= LOWEST_ADDRESS && (address & 7) == 0 && address < UINT64_C(1) << 47;
}

static uint64_t word(const uint8_t *object, size_t offset)
{
	uint64_t value;
	memcpy(&value, object + offset, sizeof(value));
	return value;
}

static bool read_object(const struct gm_filled *filled, uint64_t impl, uint8_t object[OBJECT_MAX])
{
	const size_t size = filled->layout->tensor.size_of;
	return size <= OBJECT_MAX && is_object_address(impl) &&
	       filled->read(filled->context, impl, object, size);
}

/* c10::impl::SizesAndStrides: few sizes, then as many strides, lie in it; more in an array. */
static bool read_sizes(
        const struct gm_filled *filled, const uint8_t *object, struct gm_new_tensor *tensor)
{
	const struct gm_torch_layout *layout = filled->layout;
	const size_t bytes = tensor->dimensions * sizeof(*tensor->sizes);
	const uint8_t *at = object + layout->tensor.sizes;
	if (tensor->dimensions <= layout->tensor.inline_dimensions) {
		memcpy(tensor->sizes, at, bytes);
		memcpy(tensor->strides, at + layout->tensor.inline_dimensions * 8u, bytes);
		return true;
	}
	const uint64_t array = word(object, layout->tensor.sizes);
	return filled->read(filled->context, array, tensor->sizes, bytes) &&
	       filled->read(filled->context, array + bytes, tensor->strides, bytes);
}

static bool fills(
        const struct gm_filled *filled, const uint8_t *object, struct gm_new_tensor *ret_tensor)
{
	const struct gm_torch_layout *layout = filled->layout;
	struct gm_new_tensor tensor;
	uint16_t type;
	memcpy(&type, object + layout->tensor.dtype, sizeof(type));
	const uint64_t elements = word(object, layout->tensor.numel);
	if (word(object, layout->tensor.storage) != filled->storage ||
	        word(object, layout->tensor.storage_offset) != 0 ||
	        !gm_new_tensor_init(&tensor, type, word(object, layout->tensor.dimensions)) ||
	        !read_sizes(filled, object, &tensor))
		return false;
	gm_new_tensor_put_strides(&tensor);
	const uint64_t element = (uint64_t)gm_torch_dtype_bits(type) / 8;
	if (tensor.bytes == 0 || tensor.bytes != filled->bytes || filled->bytes % element != 0 ||
	        elements != filled->bytes / element)
		return false;
	uint64_t product = 1; /* of sizes whose product was found to be one */
	for (uint32_t i = 0; i < tensor.dimensions; i++)
		product *= (uint64_t)tensor.sizes[i];
	if (product != elements)
		return false;
	*ret_tensor = tensor;
	return true;
}

static bool agree(const struct gm_new_tensor *a, const struct gm_new_tensor *b)
{
	const size_t bytes = a->dimensions * sizeof(*a->sizes);
	return a->type == b->type && a->dimensions == b->dimensions && a->strided == b->strided &&
	       memcmp(a->sizes, b->sizes, bytes) == 0 &&
	       (!a->strided || memcmp(a->strides, b->strides, bytes) == 0);
}

static void take(struct gm_filled *filled, const uint8_t *object)
{
	struct gm_new_tensor tensor;
	if (!fills(filled, object, &tensor))
		return;
	if (filled->count++ == 0)
		filled->found = tensor;
	else if (!agree(&filled->found, &tensor))
		filled->found.bytes = 0;
}

void gm_filled_try(struct gm_filled *filled, uint64_t impl)
{
	uint8_t object[OBJECT_MAX];
	if (read_object(filled, impl, object))
		take(filled, object);
}

void gm_filled_try_python(struct gm_filled *filled, uint64_t python_object)
{
	const struct gm_torch_layout *layout = filled->layout;
	uint64_t at = python_object + layout->python.tensor_cdata, impl;
	uint8_t object[OBJECT_MAX];
	if (layout->python.tensor_maybe_owned)
		at += sizeof(uint64_t);
	/* up to 2.9 the low bit of the wrapper's address says who owns whom */
	if (is_object_address(python_object) &&
	        filled->read(filled->context, at, &impl, sizeof(impl)) &&
	        read_object(filled, impl, object) &&
	        (word(object, layout->tensor.python) & ~UINT64_C(1)) == python_object)
		take(filled, object);
}

void gm_filled_try_stack(struct gm_filled *filled)
{
	uint64_t words[STACK_WORDS];
	if (!filled->read(filled->context, filled->sp, words, sizeof(words)))
		return;
	for (size_t i = 0; i < STACK_WORDS; i++)
		if (words[i] - filled->sp + STACK_NEAR > 2 * (uint64_t)STACK_NEAR)
			gm_filled_try(filled, words[i]);
}
