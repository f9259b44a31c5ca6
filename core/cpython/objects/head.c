/* The head of objects of every type: size and reference count; and the items of a tuple. */
#include "cpython/python.h"

uint64_t gm_py_size(struct gm_python *python, uint64_t object)
{
	uint64_t size = gm_py_field(python, object, python->layout.object_size);

	return size > INT64_MAX / 16 ? 0 : size;
}

size_t gm_py_tuple(struct gm_python *python, uint64_t tuple, uint64_t *ret_items, size_t max)
{
	uint64_t count = tuple ? gm_py_size(python, tuple) : 0;

	if (count > max)
		count = max;
	if (!count ||
	        !gm_image_try_read(python->image, tuple + (uint64_t)python->layout.tuple_items,
	                ret_items, (size_t)count * 8))
		return 0;
	return (size_t)count;
}

bool gm_python_refcount(struct gm_python *python, uint64_t object, uint64_t *ret_count)
{
	uint64_t count;

	if (!gm_py_u64(python, object + (uint64_t)python->layout.object_refcount, &count))
		return false;
	count = gm_refcount_in(&python->layout, count);
	/* 3.12+: PEP 683; _Py_IsImmortal() looks at the sign of the low 32 bits
	 * (Include/object.h) */
	if (python->version >= 0x030c && (int32_t)count < 0)
		count = UINT64_MAX;
	*ret_count = count;
	return true;
}
