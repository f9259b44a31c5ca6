/*
 * Memory in two and three dimensions: pitched allocations, arrays, and copies of boxes.
 *
 * An array is plain device memory, row by row. It has no layout of the device's own, which only
 * textures would see (textures, surfaces and mipmapped arrays are refused, stubs.c).
 */
#include <limits.h>
#include <stdlib.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define ARRAY UINT64_C(0x0079617272617347)

enum { ROW = 32, PITCH = 512, SIDE = 1 << 17 };

struct cudaArray {
	uint64_t magic;
	unsigned char *base;
	struct cudaChannelFormatDesc format;
	struct cudaExtent extent; /* as requested; 0 for dimensions that it does not have */
	unsigned flags;
	size_t element, width, pitch, rows,
	        slices; /* bytes of an element, of a row, and from one row to the next */
};

static bool valid(const struct cudaArray *array)
{
	return array && array->magic == ARRAY;
}

GM_SIM_EXPORT cudaError_t cudaMalloc3D(struct cudaPitchedPtr *ret, struct cudaExtent extent)
{
	if (!ret || extent.width > SIZE_MAX / 2)
		return gm_sim_error(cudaErrorInvalidValue);
	size_t pitch = (extent.width + PITCH - 1) & ~(size_t)(PITCH - 1), rows, size;
	if (__builtin_mul_overflow(extent.height, extent.depth, &rows) ||
	        __builtin_mul_overflow(pitch, rows, &size))
		return gm_sim_error(cudaErrorInvalidValue);
	void *base = NULL;
	cudaError_t code = cudaMalloc(&base, size);
	if (code == cudaSuccess)
		*ret = (struct cudaPitchedPtr){base, pitch, extent.width, extent.height};
	return code;
}

static int array_create(cudaArray_t *ret, const struct cudaChannelFormatDesc *format,
        struct cudaExtent extent, unsigned flags)
{
	if (!ret || !format || !extent.width || extent.width > SIDE || extent.height > SIDE ||
	        extent.depth > SIDE)
		return cudaErrorInvalidValue;
	int bits = format->x + format->y + format->z + format->w;
	if (format->x < 0 || format->y < 0 || format->z < 0 || format->w < 0 || bits <= 0 ||
	        bits > 128 || bits % 8)
		return cudaErrorInvalidChannelDescriptor;
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_no_device();
	struct cudaArray *array = calloc(1, sizeof(*array));
	if (!array)
		return cudaErrorMemoryAllocation;
	array->element = (size_t)bits / 8;
	array->width = extent.width * array->element;
	array->pitch = (array->width + ROW - 1) & ~(size_t)(ROW - 1);
	array->rows = extent.height ? extent.height : 1;
	array->slices = extent.depth ? extent.depth : 1;
	array->extent = extent;
	array->format = *format;
	array->flags = flags;
	void *base;
	int code = gm_sim_memory_take(device, array->pitch * array->rows * array->slices, &base);
	if (code != cudaSuccess) {
		free(array);
		return code;
	}
	array->base = base;
	array->magic = ARRAY;
	*ret = array;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMallocArray(cudaArray_t *ret,
        const struct cudaChannelFormatDesc *format, size_t width, size_t height, unsigned flags)
{
	return gm_sim_error(
	        array_create(ret, format, (struct cudaExtent){width, height, 0}, flags));
}

GM_SIM_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t *ret,
        const struct cudaChannelFormatDesc *format, struct cudaExtent extent, unsigned flags)
{
	return gm_sim_error(array_create(ret, format, extent, flags));
}

GM_SIM_EXPORT cudaError_t cudaFreeArray(cudaArray_t array)
{
	if (!array)
		return cudaSuccess;
	if (!valid(array))
		return gm_sim_error(cudaErrorInvalidValue);
	array->magic = 0;
	int code = gm_sim_memory_free(array->base);
	free(array);
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *format,
        struct cudaExtent *extent, unsigned *flags, cudaArray_t array)
{
	if (!valid(array))
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	if (format)
		*format = array->format;
	if (extent)
		*extent = array->extent;
	if (flags)
		*flags = array->flags;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetChannelDesc(
        struct cudaChannelFormatDesc *format, cudaArray_const_t array)
{
	return cudaArrayGetInfo(format, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

/* One side of a box copy: the address of its first byte, and the distances between rows and between
 * slices. */
struct side {
	unsigned char *at;
	size_t pitch, slice;
};

static int side_of(const struct cudaArray *array, struct cudaPos at, struct cudaPitchedPtr plain,
        struct cudaExtent extent, size_t width, struct side *ret)
{
	if (array) {
		if (!valid(array))
			return cudaErrorInvalidResourceHandle;
		if (at.x > SIDE || at.x * array->element + width > array->width ||
		        at.y > array->rows || extent.height > array->rows - at.y ||
		        at.z > array->slices || extent.depth > array->slices - at.z)
			return cudaErrorInvalidValue;
		ret->pitch = array->pitch;
		ret->slice = array->pitch * array->rows;
		ret->at =
		        array->base + at.x * array->element + at.y * ret->pitch + at.z * ret->slice;
		return cudaSuccess;
	}
	if (!plain.ptr)
		return cudaErrorInvalidValue;
	if (at.x > plain.pitch || width > plain.pitch - at.x)
		return cudaErrorInvalidPitchValue;
	/* A box with one slice needs no height. */
	size_t rows = plain.ysize ? plain.ysize : extent.height;
	ret->pitch = plain.pitch;
	ret->slice = plain.pitch * rows;
	ret->at = (unsigned char *)plain.ptr + at.x + at.y * ret->pitch + at.z * ret->slice;
	return cudaSuccess;
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool async)
{
	/* Each side is either an array or a pointer. */
	if (!p || !p->srcArray == !p->srcPtr.ptr || !p->dstArray == !p->dstPtr.ptr)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!p->extent.width || !p->extent.height || !p->extent.depth)
		return cudaSuccess;
	/* The width is in elements if an array takes part, otherwise in bytes. */
	const struct cudaArray *array = p->srcArray ? p->srcArray : p->dstArray;
	size_t element = valid(array) ? array->element : 1, width;
	if (valid(p->srcArray) && valid(p->dstArray) &&
	        p->srcArray->element != p->dstArray->element)
		return gm_sim_error(cudaErrorInvalidValue);
	if (__builtin_mul_overflow(p->extent.width, element, &width))
		return gm_sim_error(cudaErrorInvalidValue);
	struct side from, to;
	int code = side_of(p->srcArray, p->srcPos, p->srcPtr, p->extent, width, &from);
	if (code == cudaSuccess)
		code = side_of(p->dstArray, p->dstPos, p->dstPtr, p->extent, width, &to);
	if (code != cudaSuccess)
		return gm_sim_error(code);
	for (size_t z = 0; z < p->extent.depth; z++) {
		unsigned char *t = to.at + z * to.slice, *f = from.at + z * from.slice;
		cudaError_t done = async ? cudaMemcpy2DAsync(t, to.pitch, f, from.pitch, width,
		                                   p->extent.height, p->kind, stream)
		                         : cudaMemcpy2D(t, to.pitch, f, from.pitch, width,
		                                   p->extent.height, p->kind);
		if (done != cudaSuccess)
			return done;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	return copy_box(p, NULL, false);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	return copy_box(p, stream, true);
}

static cudaError_t copy_plane(cudaArray_t array, size_t column, size_t row, const void *plain,
        size_t pitch, size_t width, size_t height, enum cudaMemcpyKind kind, bool in,
        cudaStream_t stream, bool async)
{
	/* Here the column and the width are in bytes. */
	if (!valid(array))
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	if (column > array->width || width > array->width - column || row > array->rows ||
	        height > array->rows - row)
		return gm_sim_error(cudaErrorInvalidValue);
	unsigned char *at = array->base + row * array->pitch + column;
	void *to = in ? at : (void *)(uintptr_t)plain;
	const void *from = in ? plain : at;
	size_t to_pitch = in ? array->pitch : pitch, from_pitch = in ? pitch : array->pitch;
	return async ? cudaMemcpy2DAsync(
	                       to, to_pitch, from, from_pitch, width, height, kind, stream)
	             : cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t column, size_t row,
        const void *from, size_t pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_plane(to, column, row, from, pitch, width, height, kind, true, NULL, false);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t column, size_t row,
        const void *from, size_t pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
        cudaStream_t stream)
{
	return copy_plane(to, column, row, from, pitch, width, height, kind, true, stream, true);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from,
        size_t column, size_t row, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_plane((cudaArray_t)(uintptr_t)from, column, row, to, pitch, width, height, kind,
	        false, NULL, false);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from,
        size_t column, size_t row, size_t width, size_t height, enum cudaMemcpyKind kind,
        cudaStream_t stream)
{
	return copy_plane((cudaArray_t)(uintptr_t)from, column, row, to, pitch, width, height, kind,
	        false, stream, true);
}

static cudaError_t fill_box(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
        cudaStream_t stream, bool async)
{
	size_t slice = to.pitch * (to.ysize ? to.ysize : extent.height);
	for (size_t z = 0; z < extent.depth; z++) {
		unsigned char *at = (unsigned char *)to.ptr + z * slice;
		cudaError_t code =
		        async ? cudaMemset2DAsync(
		                        at, to.pitch, value, extent.width, extent.height, stream)
		              : cudaMemset2D(at, to.pitch, value, extent.width, extent.height);
		if (code != cudaSuccess)
			return code;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemset3D(
        struct cudaPitchedPtr to, int value, struct cudaExtent extent)
{
	return fill_box(to, value, extent, NULL, false);
}

GM_SIM_EXPORT cudaError_t cudaMemset3DAsync(
        struct cudaPitchedPtr to, int value, struct cudaExtent extent, cudaStream_t stream)
{
	return fill_box(to, value, extent, stream, true);
}
