/*
 * Memory through the driver's own calls (cuMemAlloc, cuMemcpyHtoD…), which libraries that bypass
 * the runtime use.
 *
 * Each does the same as the corresponding call of the runtime, and returns the same codes.
 */
#include <cuda.h>
#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

static void *pointer(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* Without a current context the driver does nothing. */
#define CONTEXT                                              \
	do {                                                 \
		if (!gm_sim_current())                       \
			return (CUresult)gm_sim_no_device(); \
	} while (0)

#define CALL(expression)                                        \
	do {                                                    \
		CONTEXT;                                        \
		return (CUresult)GM_SIM_KEEP_ERROR(expression); \
	} while (0)

GM_SIM_EXPORT CUresult cuMemGetInfo(size_t *free, size_t *total)
{
	CALL(cudaMemGetInfo(free, total));
}

GM_SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr *ret, size_t size)
{
	/* Unlike the runtime, the driver rejects a size of 0. */
	CALL(ret && size ? cudaMalloc((void **)ret, size) : cudaErrorInvalidValue);
}

GM_SIM_EXPORT CUresult cuMemFree(CUdeviceptr address)
{
	CALL(cudaFree(pointer(address)));
}

GM_SIM_EXPORT CUresult cuMemAllocPitch(
        CUdeviceptr *ret, size_t *pitch, size_t width, size_t height, unsigned element)
{
	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	CALL(cudaMallocPitch((void **)ret, pitch, width, height));
}

GM_SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t size, unsigned flags)
{
	CALL(cudaMallocManaged((void **)ret, size, flags));
}

GM_SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t size, CUstream stream)
{
	CALL(cudaMallocAsync((void **)ret, size, stream));
}

GM_SIM_EXPORT CUresult cuMemAllocFromPoolAsync(
        CUdeviceptr *ret, size_t size, CUmemoryPool pool, CUstream stream)
{
	CALL(cudaMallocFromPoolAsync((void **)ret, size, pool, stream));
}

GM_SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	CALL(cudaFreeAsync(pointer(address), stream));
}

GM_SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice device)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceGetDefaultMemPool(ret, device));
}

GM_SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *ret, CUdevice device)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceGetMemPool(ret, device));
}

GM_SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceSetMemPool(device, pool));
}

GM_SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaMemPoolTrimTo(pool, keep));
}

GM_SIM_EXPORT CUresult cuMemPoolGetAttribute(
        CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)which, value));
}

GM_SIM_EXPORT CUresult cuMemPoolSetAttribute(
        CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaMemPoolSetAttribute(pool, (enum cudaMemPoolAttr)which, value));
}

GM_SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaMemPoolDestroy(pool));
}

GM_SIM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	uint64_t start, length;
	struct gm_sim_device *device = gm_sim_device_of(pointer(address));
	if (!device || !gm_sim_memory_range(device, pointer(address), &start, &length))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = start;
	if (size)
		*size = length;
	return CUDA_SUCCESS;
}

/* --- host memory ------------------------------------------------------------------------------ */

GM_SIM_EXPORT CUresult cuMemHostAlloc(void **ret, size_t size, unsigned flags)
{
	CALL(ret && size ? cudaHostAlloc(ret, size, flags) : cudaErrorInvalidValue);
}

GM_SIM_EXPORT CUresult cuMemAllocHost(void **ret, size_t size)
{
	return cuMemHostAlloc(ret, size, 0);
}

GM_SIM_EXPORT CUresult cuMemFreeHost(void *address)
{
	CALL(cudaFreeHost(address));
}

GM_SIM_EXPORT CUresult cuMemHostRegister(void *address, size_t size, unsigned flags)
{
	CALL(cudaHostRegister(address, size, flags));
}

GM_SIM_EXPORT CUresult cuMemHostUnregister(void *address)
{
	CALL(cudaHostUnregister(address));
}

GM_SIM_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *ret, void *host, unsigned flags)
{
	CALL(cudaHostGetDevicePointer((void **)ret, host, flags));
}

GM_SIM_EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *host)
{
	CALL(cudaHostGetFlags(flags, host));
}

/* --- copies and memsets ----------------------------------------------------------------------- */

GM_SIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	CALL(cudaMemcpy(pointer(to), pointer(from), size, cudaMemcpyDefault));
}

GM_SIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	CALL(cudaMemcpyAsync(pointer(to), pointer(from), size, cudaMemcpyDefault, stream));
}

GM_SIM_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size)
{
	CALL(cudaMemcpy(pointer(to), from, size, cudaMemcpyHostToDevice));
}

GM_SIM_EXPORT CUresult cuMemcpyHtoDAsync(
        CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	CALL(cudaMemcpyAsync(pointer(to), from, size, cudaMemcpyHostToDevice, stream));
}

GM_SIM_EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size)
{
	CALL(cudaMemcpy(to, pointer(from), size, cudaMemcpyDeviceToHost));
}

GM_SIM_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	CALL(cudaMemcpyAsync(to, pointer(from), size, cudaMemcpyDeviceToHost, stream));
}

GM_SIM_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	CALL(cudaMemcpy(pointer(to), pointer(from), size, cudaMemcpyDeviceToDevice));
}

GM_SIM_EXPORT CUresult cuMemcpyDtoDAsync(
        CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	CALL(cudaMemcpyAsync(pointer(to), pointer(from), size, cudaMemcpyDeviceToDevice, stream));
}

GM_SIM_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
	CALL(cudaMemset(pointer(to), value, count));
}

GM_SIM_EXPORT CUresult cuMemsetD8Async(
        CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	CALL(cudaMemsetAsync(pointer(to), value, count, stream));
}

#define MEMSET(bits, type, unit)                                                         \
	GM_SIM_EXPORT CUresult cuMemsetD##bits(CUdeviceptr to, type value, size_t count) \
	{                                                                                \
		if (to % (unit) || count > SIZE_MAX / (unit))                            \
			return CUDA_ERROR_INVALID_VALUE;                                 \
		CALL(gm_sim_fill(pointer(to), value, unit, count *(unit)));              \
	}                                                                                \
	GM_SIM_EXPORT CUresult cuMemsetD##bits##Async(                                   \
	        CUdeviceptr to, type value, size_t count, CUstream stream)               \
	{                                                                                \
		if (to % (unit) || count > SIZE_MAX / (unit))                            \
			return CUDA_ERROR_INVALID_VALUE;                                 \
		CALL(gm_sim_fill_on(stream, pointer(to), value, unit, count *(unit)));   \
	}

MEMSET(16, unsigned short, 2)
MEMSET(32, unsigned, 4)

/* --- managed memory --------------------------------------------------------------------------- */

static struct cudaMemLocation location_of(CUmemLocation location)
{
	return (struct cudaMemLocation){(enum cudaMemLocationType)location.type, location.id};
}

GM_SIM_EXPORT CUresult cuMemPrefetchAsync(
        CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream)
{
	CALL(cudaMemPrefetchAsync(pointer(address), size, location_of(location), flags, stream));
}

GM_SIM_EXPORT CUresult cuMemAdvise(
        CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location)
{
	CALL(cudaMemAdvise(
	        pointer(address), size, (enum cudaMemoryAdvise)advice, location_of(location)));
}

/* --- devices ---------------------------------------------------------------------------------- */

GM_SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice device)
{
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts || !ret)
		return facts ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
	gm_sim_uuid(&facts->choice.profile, facts->physical, (unsigned char *)ret->bytes);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceGetPCIBusId(text, length, device));
}

GM_SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *ret, const char *text)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceGetByPCIBusId(ret, text));
}

/* PyTorch looks it up together with those of vmm.c. */
GM_SIM_EXPORT CUresult cuStreamWriteValue32(
        CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
	CALL(gm_sim_fill_on(stream, pointer(address), value, sizeof(value), sizeof(value)));
}
