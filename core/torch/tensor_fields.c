#include "torch/tensor_fields.h"

#include <string.h>

#include "torch/layouts.h"

enum { OBJECT_MAX = 256 /* bytes of a TensorImpl that are read */ };

struct object {
	size_t size;
	uint8_t bytes[OBJECT_MAX];
};

/* False: the layout has this field at another offset. */
static bool get(const struct object *object, size_t offset, void *ret_value, size_t size)
{
	if (offset > object->size || size > object->size - offset)
		return false;
	memcpy(ret_value, object->bytes + offset, size);
	return true;
}

/* c10::impl::SizesAndStrides: a few sizes, then as many strides, are inline; more are in an array.
 * */
static bool read_sizes(const struct gm_torch_layout *layout, gm_read_program read,
        const void *context, const struct object *object, struct gm_new_tensor *shape)
{
	const size_t bytes = shape->dimensions * sizeof(*shape->sizes), at = layout->tensor.sizes;
	uint64_t array;
	if (shape->dimensions <= layout->tensor.inline_dimensions)
		return get(object, at, shape->sizes, bytes) &&
		       get(object, at + layout->tensor.inline_dimensions * sizeof(*shape->sizes),
		               shape->strides, bytes);
	return get(object, at, &array, sizeof(array)) &&
	       read(context, array, shape->sizes, bytes) &&
	       read(context, array + bytes, shape->strides, bytes);
}

/* Is the product of the sizes this number of elements? */
static bool has_elements(const struct gm_new_tensor *shape, uint64_t numel)
{
	uint64_t product = 1;
	for (uint32_t i = 0; i < shape->dimensions; i++)
		if (__builtin_mul_overflow(product, (uint64_t)shape->sizes[i], &product))
			return false;
	return product == numel;
}

bool gm_tensor_fields_read(const struct gm_torch_layout *layout, gm_read_program read,
        const void *context, uint64_t impl, struct gm_tensor_fields *ret_fields)
{
	struct object object = {.size = layout->tensor.size_of};
	struct gm_tensor_fields fields;
	uint64_t dimensions;
	uint16_t type;
	if (object.size > OBJECT_MAX || !gm_is_object_address(impl) ||
	        !read(context, impl, object.bytes, object.size))
		return false;
#define GET(field, value) get(&object, layout->tensor.field, &(value), sizeof(value))
	if (!GET(storage, fields.storage) || !GET(storage_offset, fields.storage_offset) ||
	        !GET(numel, fields.numel) || !GET(python, fields.python) ||
	        !GET(device, fields.device_type) || !GET(dtype, type) ||
	        !GET(dimensions, dimensions))
		return false;
#undef GET
	if (!gm_new_tensor_init(&fields.shape, type, dimensions) ||
	        !read_sizes(layout, read, context, &object, &fields.shape) ||
	        !has_elements(&fields.shape, fields.numel))
		return false;
	gm_new_tensor_put_strides(&fields.shape);
	*ret_fields = fields;
	return true;
}
