/* Which devices there are, and what CUDA tells about them. */
#include <stdio.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

GM_SIM_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	if (!count)
		return gm_sim_error(cudaErrorInvalidValue);
	*count = (int)gm_sim_device_count();
	if (*count)
		return cudaSuccess;
	return gm_sim_error(gm_sim_forked() ? cudaErrorInitializationError : cudaErrorNoDevice);
}

GM_SIM_EXPORT cudaError_t cudaGetDevice(int *index)
{
	if (!index)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_device_count())
		return gm_sim_error(gm_sim_no_device());
	*index = gm_sim_current_index();
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaSetDevice(int index)
{
	if (!gm_sim_device_facts(index))
		return gm_sim_error(
			gm_sim_device_count() ? cudaErrorInvalidDevice : gm_sim_no_device());
	gm_sim_set_current_index(index);
	/* Since CUDA 12 this makes the context. */
	return gm_sim_device(index) ? cudaSuccess : gm_sim_error(cudaErrorMemoryAllocation);
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	if (!value)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!device)
		return gm_sim_error(cudaErrorInvalidDevice);
	int known;
	int found = gm_sim_profile_attribute(&device->choice.profile, (int)attribute, &known);
	if (!known)
		return gm_sim_error(cudaErrorInvalidValue);
	*value = attribute == cudaDevAttrPciBusId ? (int)device->index + 1 : found;
	return cudaSuccess;
}

static int attribute_of(const struct gm_sim_device *device, enum cudaDeviceAttr attribute)
{
	int known;
	return gm_sim_profile_attribute(&device->choice.profile, (int)attribute, &known);
}

/* One property of cudaDeviceProp (driver_types.h, CUDA 13.0) for one attribute of the table. */
#define PROPERTIES(P)                                                                              \
	P(sharedMemPerBlock, MaxSharedMemoryPerBlock)                                              \
	P(regsPerBlock, MaxRegistersPerBlock)                                                      \
	P(warpSize, WarpSize)                                                                      \
	P(memPitch, MaxPitch)                                                                      \
	P(maxThreadsPerBlock, MaxThreadsPerBlock)                                                  \
	P(maxThreadsDim[0], MaxBlockDimX)                                                          \
	P(maxThreadsDim[1], MaxBlockDimY)                                                          \
	P(maxThreadsDim[2], MaxBlockDimZ)                                                          \
	P(maxGridSize[0], MaxGridDimX)                                                             \
	P(maxGridSize[1], MaxGridDimY)                                                             \
	P(maxGridSize[2], MaxGridDimZ)                                                             \
	P(totalConstMem, TotalConstantMemory)                                                      \
	P(major, ComputeCapabilityMajor)                                                           \
	P(minor, ComputeCapabilityMinor)                                                           \
	P(textureAlignment, TextureAlignment)                                                      \
	P(texturePitchAlignment, TexturePitchAlignment)                                            \
	P(multiProcessorCount, MultiProcessorCount)                                                \
	P(integrated, Integrated)                                                                  \
	P(canMapHostMemory, CanMapHostMemory)                                                      \
	P(maxTexture1D, MaxTexture1DWidth)                                                         \
	P(maxTexture1DMipmap, MaxTexture1DMipmappedWidth)                                          \
	P(maxTexture2D[0], MaxTexture2DWidth)                                                      \
	P(maxTexture2D[1], MaxTexture2DHeight)                                                     \
	P(maxTexture2DMipmap[0], MaxTexture2DMipmappedWidth)                                       \
	P(maxTexture2DMipmap[1], MaxTexture2DMipmappedHeight)                                      \
	P(maxTexture2DLinear[0], MaxTexture2DLinearWidth)                                          \
	P(maxTexture2DLinear[1], MaxTexture2DLinearHeight)                                         \
	P(maxTexture2DLinear[2], MaxTexture2DLinearPitch)                                          \
	P(maxTexture2DGather[0], MaxTexture2DGatherWidth)                                          \
	P(maxTexture2DGather[1], MaxTexture2DGatherHeight)                                         \
	P(maxTexture3D[0], MaxTexture3DWidth)                                                      \
	P(maxTexture3D[1], MaxTexture3DHeight)                                                     \
	P(maxTexture3D[2], MaxTexture3DDepth)                                                      \
	P(maxTexture3DAlt[0], MaxTexture3DWidthAlt)                                                \
	P(maxTexture3DAlt[1], MaxTexture3DHeightAlt)                                               \
	P(maxTexture3DAlt[2], MaxTexture3DDepthAlt)                                                \
	P(maxTextureCubemap, MaxTextureCubemapWidth)                                               \
	P(maxTexture1DLayered[0], MaxTexture1DLayeredWidth)                                        \
	P(maxTexture1DLayered[1], MaxTexture1DLayeredLayers)                                       \
	P(maxTexture2DLayered[0], MaxTexture2DLayeredWidth)                                        \
	P(maxTexture2DLayered[1], MaxTexture2DLayeredHeight)                                       \
	P(maxTexture2DLayered[2], MaxTexture2DLayeredLayers)                                       \
	P(maxTextureCubemapLayered[0], MaxTextureCubemapLayeredWidth)                              \
	P(maxTextureCubemapLayered[1], MaxTextureCubemapLayeredLayers)                             \
	P(maxSurface1D, MaxSurface1DWidth)                                                         \
	P(maxSurface2D[0], MaxSurface2DWidth)                                                      \
	P(maxSurface2D[1], MaxSurface2DHeight)                                                     \
	P(maxSurface3D[0], MaxSurface3DWidth)                                                      \
	P(maxSurface3D[1], MaxSurface3DHeight)                                                     \
	P(maxSurface3D[2], MaxSurface3DDepth)                                                      \
	P(maxSurface1DLayered[0], MaxSurface1DLayeredWidth)                                        \
	P(maxSurface1DLayered[1], MaxSurface1DLayeredLayers)                                       \
	P(maxSurface2DLayered[0], MaxSurface2DLayeredWidth)                                        \
	P(maxSurface2DLayered[1], MaxSurface2DLayeredHeight)                                       \
	P(maxSurface2DLayered[2], MaxSurface2DLayeredLayers)                                       \
	P(maxSurfaceCubemap, MaxSurfaceCubemapWidth)                                               \
	P(maxSurfaceCubemapLayered[0], MaxSurfaceCubemapLayeredWidth)                              \
	P(maxSurfaceCubemapLayered[1], MaxSurfaceCubemapLayeredLayers)                             \
	P(surfaceAlignment, SurfaceAlignment)                                                      \
	P(concurrentKernels, ConcurrentKernels)                                                    \
	P(ECCEnabled, EccEnabled)                                                                  \
	P(pciDeviceID, PciDeviceId)                                                                \
	P(pciDomainID, PciDomainId)                                                                \
	P(tccDriver, TccDriver)                                                                    \
	P(asyncEngineCount, AsyncEngineCount)                                                      \
	P(unifiedAddressing, UnifiedAddressing)                                                    \
	P(memoryBusWidth, GlobalMemoryBusWidth)                                                    \
	P(l2CacheSize, L2CacheSize)                                                                \
	P(persistingL2CacheMaxSize, MaxPersistingL2CacheSize)                                      \
	P(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor)                                \
	P(streamPrioritiesSupported, StreamPrioritiesSupported)                                    \
	P(globalL1CacheSupported, GlobalL1CacheSupported)                                          \
	P(localL1CacheSupported, LocalL1CacheSupported)                                            \
	P(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor)                            \
	P(regsPerMultiprocessor, MaxRegistersPerMultiprocessor)                                    \
	P(managedMemory, ManagedMemory)                                                            \
	P(isMultiGpuBoard, IsMultiGpuBoard)                                                        \
	P(multiGpuBoardGroupID, MultiGpuBoardGroupID)                                              \
	P(hostNativeAtomicSupported, HostNativeAtomicSupported)                                    \
	P(pageableMemoryAccess, PageableMemoryAccess)                                              \
	P(concurrentManagedAccess, ConcurrentManagedAccess)                                        \
	P(computePreemptionSupported, ComputePreemptionSupported)                                  \
	P(canUseHostPointerForRegisteredMem, CanUseHostPointerForRegisteredMem)                    \
	P(cooperativeLaunch, CooperativeLaunch)                                                    \
	P(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin)                                    \
	P(pageableMemoryAccessUsesHostPageTables, PageableMemoryAccessUsesHostPageTables)          \
	P(directManagedMemAccessFromHost, DirectManagedMemAccessFromHost)                          \
	P(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor)                                  \
	P(accessPolicyMaxWindowSize, MaxAccessPolicyWindowSize)                                    \
	P(reservedSharedMemPerBlock, ReservedSharedMemoryPerBlock)                                 \
	P(hostRegisterSupported, HostRegisterSupported)                                            \
	P(sparseCudaArraySupported, SparseCudaArraySupported)                                      \
	P(hostRegisterReadOnlySupported, HostRegisterReadOnlySupported)                            \
	P(timelineSemaphoreInteropSupported, TimelineSemaphoreInteropSupported)                    \
	P(memoryPoolsSupported, MemoryPoolsSupported)                                              \
	P(gpuDirectRDMASupported, GPUDirectRDMASupported)                                          \
	P(clusterLaunch, ClusterLaunch)

GM_SIM_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	if (!properties)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!device)
		return gm_sim_error(cudaErrorInvalidDevice);
	memset(properties, 0, sizeof(*properties));
#define P(property, attribute)                                                                     \
	properties->property = (__typeof__(properties->property))attribute_of(                     \
		device, cudaDevAttr##attribute);
	PROPERTIES(P)
#undef P
	snprintf(properties->name, sizeof(properties->name), "%s", device->choice.profile.device_name);
	properties->totalGlobalMem = device->choice.profile.memory;
	properties->pciBusID = (int)device->index + 1;
	/* "gpumem-sim" and the device's number: no real device has it. */
	memcpy(properties->uuid.bytes, "gpumem-sim", 10);
	properties->uuid.bytes[15] = (char)device->index;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int index)
{
	if (!text || length < 13)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_device_facts(index))
		return gm_sim_error(cudaErrorInvalidDevice);
	snprintf(text, (size_t)length, "0000:%02x:00.0", (unsigned)index + 1);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int index, int peer)
{
	if (!can)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_device_facts(index) || !gm_sim_device_facts(peer))
		return gm_sim_error(cudaErrorInvalidDevice);
	*can = index != peer;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	return gm_sim_device(peer) ? cudaSuccess : gm_sim_error(cudaErrorInvalidDevice);
}

GM_SIM_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	return gm_sim_device(peer) ? cudaSuccess : gm_sim_error(cudaErrorInvalidDevice);
}

GM_SIM_EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	return gm_sim_current() ? cudaSuccess : gm_sim_error(gm_sim_no_device());
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
	if (flags)
		*flags = 0;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
	*version = GM_SIM_RUNTIME;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = GM_SIM_RUNTIME;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaProfilerStart(void)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaProfilerStop(void)
{
	return cudaSuccess;
}
