/*
 * Functions of the runtime that only CUDA 12 has (torch 2.4 to 2.10). CUDA 13 removed "_v2" from
 * their names, or removed them. For functions with the same name and another meaning,
 * soname_runtime12.c has CUDA 12's version.
 */
#include <stddef.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* struct cudaDeviceProp of CUDA 12 (driver_types.h, 12.8); its fields' names and types are 13's. */
struct properties12 {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned luidDeviceNodeMask;
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
	int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated,
	        canMapHostMemory, computeMode, maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear,
	        maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3],
	        maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap,
	        maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2],
	        maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2],
	        maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
	        asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize,
	        persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
	        globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID,
	        hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess,
	        concurrentManagedAccess, computePreemptionSupported,
	        canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
	        maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,
	        timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
	unsigned gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch,
	        unifiedFunctionPointers;
	int reserved[63];
};
_Static_assert(
        sizeof(struct properties12) == 1032, "the size that programs built with CUDA 12 have");

/* struct cudaPointerAttributes of CUDA 12 (driver_types.h, 12.8): that of CUDA 13 has reserved
 * words at its end, for which a program built with 12 has no space. */
struct pointer_attributes12 {
	enum cudaMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
};
_Static_assert(sizeof(struct pointer_attributes12) == 24,
        "the size that programs built with CUDA 12 have");

/* The function behind libcudart.so.12's cudaPointerGetAttributes (soname_runtime12.c). */
int gm_sim_pointer_attributes12(void *ret, const void *pointer);
GM_SIM_EXPORT int gm_sim_pointer_attributes12(void *ret, const void *pointer)
{
	struct cudaPointerAttributes now;
	if (!ret)
		return gm_sim_error(cudaErrorInvalidValue);
	cudaError_t code = cudaPointerGetAttributes(&now, pointer);
	if (code == cudaSuccess)
		*(struct pointer_attributes12 *)ret = (struct pointer_attributes12){
		        now.type, now.device, now.devicePointer, now.hostPointer};
	return code;
}

cudaError_t cudaGetDeviceProperties_v2(struct properties12 *ret, int index);
GM_SIM_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct properties12 *ret, int index)
{
	struct cudaDeviceProp now;
	if (!ret)
		return gm_sim_error(cudaErrorInvalidValue);
	cudaError_t code = cudaGetDeviceProperties(&now, index);
	if (code != cudaSuccess)
		return code;
	memset(ret, 0, sizeof(*ret));
#define COPY(field) memcpy(&ret->field, &now.field, sizeof(ret->field))
	COPY(name);
	COPY(uuid);
	COPY(luid);
	COPY(luidDeviceNodeMask);
	COPY(totalGlobalMem);
	COPY(sharedMemPerBlock);
	COPY(regsPerBlock);
	COPY(warpSize);
	COPY(memPitch);
	COPY(maxThreadsPerBlock);
	COPY(maxThreadsDim);
	COPY(maxGridSize);
	COPY(totalConstMem);
	COPY(major);
	COPY(minor);
	COPY(textureAlignment);
	COPY(texturePitchAlignment);
	COPY(multiProcessorCount);
	COPY(integrated);
	COPY(canMapHostMemory);
	COPY(maxTexture1D);
	COPY(maxTexture1DMipmap);
	COPY(maxTexture2D);
	COPY(maxTexture2DMipmap);
	COPY(maxTexture2DLinear);
	COPY(maxTexture2DGather);
	COPY(maxTexture3D);
	COPY(maxTexture3DAlt);
	COPY(maxTextureCubemap);
	COPY(maxTexture1DLayered);
	COPY(maxTexture2DLayered);
	COPY(maxTextureCubemapLayered);
	COPY(maxSurface1D);
	COPY(maxSurface2D);
	COPY(maxSurface3D);
	COPY(maxSurface1DLayered);
	COPY(maxSurface2DLayered);
	COPY(maxSurfaceCubemap);
	COPY(maxSurfaceCubemapLayered);
	COPY(surfaceAlignment);
	COPY(concurrentKernels);
	COPY(ECCEnabled);
	COPY(pciBusID);
	COPY(pciDeviceID);
	COPY(pciDomainID);
	COPY(tccDriver);
	COPY(asyncEngineCount);
	COPY(unifiedAddressing);
	COPY(memoryBusWidth);
	COPY(l2CacheSize);
	COPY(persistingL2CacheMaxSize);
	COPY(maxThreadsPerMultiProcessor);
	COPY(streamPrioritiesSupported);
	COPY(globalL1CacheSupported);
	COPY(localL1CacheSupported);
	COPY(sharedMemPerMultiprocessor);
	COPY(regsPerMultiprocessor);
	COPY(managedMemory);
	COPY(isMultiGpuBoard);
	COPY(multiGpuBoardGroupID);
	COPY(hostNativeAtomicSupported);
	COPY(pageableMemoryAccess);
	COPY(concurrentManagedAccess);
	COPY(computePreemptionSupported);
	COPY(canUseHostPointerForRegisteredMem);
	COPY(cooperativeLaunch);
	COPY(sharedMemPerBlockOptin);
	COPY(pageableMemoryAccessUsesHostPageTables);
	COPY(directManagedMemAccessFromHost);
	COPY(maxBlocksPerMultiProcessor);
	COPY(accessPolicyMaxWindowSize);
	COPY(reservedSharedMemPerBlock);
	COPY(hostRegisterSupported);
	COPY(sparseCudaArraySupported);
	COPY(hostRegisterReadOnlySupported);
	COPY(timelineSemaphoreInteropSupported);
	COPY(memoryPoolsSupported);
	COPY(gpuDirectRDMASupported);
	COPY(gpuDirectRDMAFlushWritesOptions);
	COPY(gpuDirectRDMAWritesOrdering);
	COPY(memoryPoolSupportedHandleTypes);
	COPY(deferredMappingCudaArraySupported);
	COPY(ipcEventSupported);
	COPY(clusterLaunch);
#undef COPY
	/* CUDA 13 has only attributes for these */
	static const struct {
		size_t offset;
		int id;
	} rest[] = {
#define FIELD(field, name) {offsetof(struct properties12, field), cudaDevAttr##name}
	        FIELD(clockRate, ClockRate),
	        FIELD(deviceOverlap, GpuOverlap),
	        FIELD(kernelExecTimeoutEnabled, KernelExecTimeout),
	        FIELD(computeMode, ComputeMode),
	        FIELD(maxTexture1DLinear, MaxTexture1DLinearWidth),
	        FIELD(memoryClockRate, MemoryClockRate),
	        FIELD(singleToDoublePrecisionPerfRatio, SingleToDoublePrecisionPerfRatio),
#undef FIELD
	};
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
		int value = 0;
		if (cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)rest[i].id, index) ==
		        cudaSuccess)
			memcpy((char *)ret + rest[i].offset, &value, sizeof(value));
	}
	return cudaSuccess;
}

/* CUDA 13's cudaStreamGetCaptureInfo, before edges had data. */
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
        size_t *count);
GM_SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
        enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **dependencies, size_t *count)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, NULL, count);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
        const cudaGraphEdgeData **edges, size_t *count);
GM_SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
        enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end);
GM_SIM_EXPORT cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	return cudaEventElapsedTime(ms, start, end);
}

/* The driver's newest version of the entry point. CUDA 13 still has it, but no wheel of 13 calls
 * it. */
GM_SIM_EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **code,
        unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	return cudaGetDriverEntryPointByVersion(symbol, code, GM_SIM_RUNTIME, flags, status);
}

/* Managed memory: locations were numbers of devices, -1 the host, before they became structures. */
static struct cudaMemLocation location_of(int device)
{
	return device == cudaCpuDeviceId
	               ? (struct cudaMemLocation){.type = cudaMemLocationTypeHost}
	               : (struct cudaMemLocation){.type = cudaMemLocationTypeDevice, .id = device};
}

int gm_sim_prefetch12(const void *address, size_t size, int device, void *stream);
GM_SIM_EXPORT int gm_sim_prefetch12(const void *address, size_t size, int device, void *stream)
{
	return cudaMemPrefetchAsync(address, size, location_of(device), 0, stream);
}

int gm_sim_advise12(const void *address, size_t size, int advice, int device);
GM_SIM_EXPORT int gm_sim_advise12(const void *address, size_t size, int advice, int device)
{
	return cudaMemAdvise(address, size, (enum cudaMemoryAdvise)advice, location_of(device));
}

cudaError_t cudaMemPrefetchAsync_v2(const void *address, size_t size,
        struct cudaMemLocation location, unsigned flags, cudaStream_t stream);
GM_SIM_EXPORT cudaError_t cudaMemPrefetchAsync_v2(const void *address, size_t size,
        struct cudaMemLocation location, unsigned flags, cudaStream_t stream)
{
	return cudaMemPrefetchAsync(address, size, location, flags, stream);
}

cudaError_t cudaMemAdvise_v2(const void *address, size_t size, enum cudaMemoryAdvise advice,
        struct cudaMemLocation location);
GM_SIM_EXPORT cudaError_t cudaMemAdvise_v2(const void *address, size_t size,
        enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
	return cudaMemAdvise(address, size, advice, location);
}
