/* The devices, their properties, and the current one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

static int attribute(const struct gm_sim_device *device, int id)
{
	int known;
	if (id == cudaDevAttrPciBusId)
		/* Each device has its own address; CUDA orders devices by it. */
		return GM_SIM_FIRST_BUS + (int)device->physical;
	return gm_sim_profile_attribute(&device->choice.profile, id, &known);
}

GM_SIM_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	if (!count)
		return gm_sim_error(cudaErrorInvalidValue);
	*count = (int)gm_sim_device_count();
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	return *count ? cudaSuccess : gm_sim_error(cudaErrorNoDevice);
}

GM_SIM_EXPORT cudaError_t cudaGetDevice(int *device)
{
	if (gm_sim_device_count() == 0)
		return gm_sim_error(gm_sim_no_device());
	if (!device)
		return gm_sim_error(cudaErrorInvalidValue);
	*device = gm_sim_current_index();
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaSetDevice(int index)
{
	if (gm_sim_device_count() == 0)
		return gm_sim_error(gm_sim_no_device());
	if (!gm_sim_device_facts(index))
		return gm_sim_error(cudaErrorInvalidDevice);
	gm_sim_set_current_index(index);
	/* Since CUDA 12, setting the device creates its context. */
	return gm_sim_device(index) ? cudaSuccess : gm_sim_error(gm_sim_no_device());
}

GM_SIM_EXPORT cudaError_t cudaInitDevice(int index, unsigned device_flags, unsigned flags)
{
	return gm_sim_device(index) ? cudaSuccess : gm_sim_error(gm_sim_no_device());
}

GM_SIM_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
	if (!flags)
		return gm_sim_error(cudaErrorInvalidValue);
	*flags = cudaDeviceScheduleAuto;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	int code = gm_sim_capture_device_waits();
	if (code == cudaSuccess)
		gm_sim_works_wait_all();
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr id, int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	int known;
	if (!device)
		return gm_sim_error(
		        gm_sim_device_count() ? cudaErrorInvalidDevice : gm_sim_no_device());
	gm_sim_profile_attribute(&device->choice.profile, (int)id, &known);
	if (!value || !known)
		return gm_sim_error(cudaErrorInvalidValue);
	*value = attribute(device, (int)id);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	if (!device)
		return gm_sim_error(
		        gm_sim_device_count() ? cudaErrorInvalidDevice : gm_sim_no_device());
	if (!p)
		return gm_sim_error(cudaErrorInvalidValue);
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", device->choice.profile.device_name);
	gm_sim_uuid(&device->choice.profile, device->physical, (unsigned char *)p->uuid.bytes);
	p->totalGlobalMem = device->choice.profile.memory;
#define A(name) attribute(device, cudaDevAttr##name)
	p->sharedMemPerBlock = (size_t)A(MaxSharedMemoryPerBlock);
	p->regsPerBlock = A(MaxRegistersPerBlock);
	p->warpSize = A(WarpSize);
	p->memPitch = (size_t)A(MaxPitch);
	p->maxThreadsPerBlock = A(MaxThreadsPerBlock);
	p->maxThreadsDim[0] = A(MaxBlockDimX);
	p->maxThreadsDim[1] = A(MaxBlockDimY);
	p->maxThreadsDim[2] = A(MaxBlockDimZ);
	p->maxGridSize[0] = A(MaxGridDimX);
	p->maxGridSize[1] = A(MaxGridDimY);
	p->maxGridSize[2] = A(MaxGridDimZ);
	p->totalConstMem = (size_t)A(TotalConstantMemory);
	p->major = A(ComputeCapabilityMajor);
	p->minor = A(ComputeCapabilityMinor);
	p->textureAlignment = (size_t)A(TextureAlignment);
	p->texturePitchAlignment = (size_t)A(TexturePitchAlignment);
	p->multiProcessorCount = A(MultiProcessorCount);
	p->integrated = A(Integrated);
	p->canMapHostMemory = A(CanMapHostMemory);
	p->maxTexture1D = A(MaxTexture1DWidth);
	p->maxTexture1DMipmap = A(MaxTexture1DMipmappedWidth);
	p->maxTexture2D[0] = A(MaxTexture2DWidth);
	p->maxTexture2D[1] = A(MaxTexture2DHeight);
	p->maxTexture2DMipmap[0] = A(MaxTexture2DMipmappedWidth);
	p->maxTexture2DMipmap[1] = A(MaxTexture2DMipmappedHeight);
	p->maxTexture2DLinear[0] = A(MaxTexture2DLinearWidth);
	p->maxTexture2DLinear[1] = A(MaxTexture2DLinearHeight);
	p->maxTexture2DLinear[2] = A(MaxTexture2DLinearPitch);
	p->maxTexture2DGather[0] = A(MaxTexture2DGatherWidth);
	p->maxTexture2DGather[1] = A(MaxTexture2DGatherHeight);
	p->maxTexture3D[0] = A(MaxTexture3DWidth);
	p->maxTexture3D[1] = A(MaxTexture3DHeight);
	p->maxTexture3D[2] = A(MaxTexture3DDepth);
	p->maxTexture3DAlt[0] = A(MaxTexture3DWidthAlt);
	p->maxTexture3DAlt[1] = A(MaxTexture3DHeightAlt);
	p->maxTexture3DAlt[2] = A(MaxTexture3DDepthAlt);
	p->maxTextureCubemap = A(MaxTextureCubemapWidth);
	p->maxTexture1DLayered[0] = A(MaxTexture1DLayeredWidth);
	p->maxTexture1DLayered[1] = A(MaxTexture1DLayeredLayers);
	p->maxTexture2DLayered[0] = A(MaxTexture2DLayeredWidth);
	p->maxTexture2DLayered[1] = A(MaxTexture2DLayeredHeight);
	p->maxTexture2DLayered[2] = A(MaxTexture2DLayeredLayers);
	p->maxTextureCubemapLayered[0] = A(MaxTextureCubemapLayeredWidth);
	p->maxTextureCubemapLayered[1] = A(MaxTextureCubemapLayeredLayers);
	p->maxSurface1D = A(MaxSurface1DWidth);
	p->maxSurface2D[0] = A(MaxSurface2DWidth);
	p->maxSurface2D[1] = A(MaxSurface2DHeight);
	p->maxSurface3D[0] = A(MaxSurface3DWidth);
	p->maxSurface3D[1] = A(MaxSurface3DHeight);
	p->maxSurface3D[2] = A(MaxSurface3DDepth);
	p->maxSurface1DLayered[0] = A(MaxSurface1DLayeredWidth);
	p->maxSurface1DLayered[1] = A(MaxSurface1DLayeredLayers);
	p->maxSurface2DLayered[0] = A(MaxSurface2DLayeredWidth);
	p->maxSurface2DLayered[1] = A(MaxSurface2DLayeredHeight);
	p->maxSurface2DLayered[2] = A(MaxSurface2DLayeredLayers);
	p->maxSurfaceCubemap = A(MaxSurfaceCubemapWidth);
	p->maxSurfaceCubemapLayered[0] = A(MaxSurfaceCubemapLayeredWidth);
	p->maxSurfaceCubemapLayered[1] = A(MaxSurfaceCubemapLayeredLayers);
	p->surfaceAlignment = (size_t)A(SurfaceAlignment);
	p->concurrentKernels = A(ConcurrentKernels);
	p->ECCEnabled = A(EccEnabled);
	p->pciBusID = A(PciBusId);
	p->pciDeviceID = A(PciDeviceId);
	p->pciDomainID = A(PciDomainId);
	p->tccDriver = A(TccDriver);
	p->asyncEngineCount = A(AsyncEngineCount);
	p->unifiedAddressing = A(UnifiedAddressing);
	p->memoryBusWidth = A(GlobalMemoryBusWidth);
	p->l2CacheSize = A(L2CacheSize);
	p->persistingL2CacheMaxSize = A(MaxPersistingL2CacheSize);
	p->maxThreadsPerMultiProcessor = A(MaxThreadsPerMultiProcessor);
	p->streamPrioritiesSupported = A(StreamPrioritiesSupported);
	p->globalL1CacheSupported = A(GlobalL1CacheSupported);
	p->localL1CacheSupported = A(LocalL1CacheSupported);
	p->sharedMemPerMultiprocessor = (size_t)A(MaxSharedMemoryPerMultiprocessor);
	p->regsPerMultiprocessor = A(MaxRegistersPerMultiprocessor);
	p->managedMemory = A(ManagedMemory);
	p->isMultiGpuBoard = A(IsMultiGpuBoard);
	p->multiGpuBoardGroupID = A(MultiGpuBoardGroupID);
	p->hostNativeAtomicSupported = A(HostNativeAtomicSupported);
	p->pageableMemoryAccess = A(PageableMemoryAccess);
	p->concurrentManagedAccess = A(ConcurrentManagedAccess);
	p->computePreemptionSupported = A(ComputePreemptionSupported);
	p->canUseHostPointerForRegisteredMem = A(CanUseHostPointerForRegisteredMem);
	p->cooperativeLaunch = A(CooperativeLaunch);
	p->sharedMemPerBlockOptin = (size_t)A(MaxSharedMemoryPerBlockOptin);
	p->pageableMemoryAccessUsesHostPageTables = A(PageableMemoryAccessUsesHostPageTables);
	p->directManagedMemAccessFromHost = A(DirectManagedMemAccessFromHost);
	p->maxBlocksPerMultiProcessor = A(MaxBlocksPerMultiprocessor);
	p->accessPolicyMaxWindowSize = A(MaxAccessPolicyWindowSize);
	p->reservedSharedMemPerBlock = (size_t)A(ReservedSharedMemoryPerBlock);
	p->hostRegisterSupported = A(HostRegisterSupported);
	p->sparseCudaArraySupported = A(SparseCudaArraySupported);
	p->hostRegisterReadOnlySupported = A(HostRegisterReadOnlySupported);
	p->timelineSemaphoreInteropSupported = A(TimelineSemaphoreInteropSupported);
	p->memoryPoolsSupported = A(MemoryPoolsSupported);
	p->gpuDirectRDMASupported = A(GPUDirectRDMASupported);
	p->gpuDirectRDMAFlushWritesOptions = (unsigned)A(GPUDirectRDMAFlushWritesOptions);
	p->gpuDirectRDMAWritesOrdering = A(GPUDirectRDMAWritesOrdering);
	p->memoryPoolSupportedHandleTypes = (unsigned)A(MemoryPoolSupportedHandleTypes);
	p->deferredMappingCudaArraySupported = A(DeferredMappingCudaArraySupported);
	p->ipcEventSupported = A(IpcEventSupport);
	p->clusterLaunch = A(ClusterLaunch);
	p->deviceNumaConfig = A(NumaConfig);
	p->deviceNumaId = A(NumaId);
	p->mpsEnabled = A(MpsEnabled);
	p->hostNumaId = A(HostNumaId);
	p->gpuPciDeviceID = (unsigned)A(GpuPciDeviceId);
	p->gpuPciSubsystemID = (unsigned)A(GpuPciSubsystemId);
	p->hostNumaMultinodeIpcSupported = A(HostNumaMultinodeIpcSupported);
#undef A
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	if (!device || !text || length < 13)
		return gm_sim_error(device ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
	snprintf(text, (size_t)length, "0000:%02X:00.0",
	        (unsigned)attribute(device, cudaDevAttrPciBusId));
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *index, const char *text)
{
	unsigned domain, bus, slot, function;
	if (index && text && sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
		for (unsigned i = 0; i < gm_sim_device_count(); i++)
			if (!domain && !slot && !function &&
			        bus == GM_SIM_FIRST_BUS + gm_sim_device_facts((int)i)->physical) {
				*index = (int)i;
				return cudaSuccess;
			}
	return gm_sim_error(cudaErrorInvalidDevice);
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	/* The answer of data-centre GPUs since Volta. */
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return cudaSuccess;
}

/* The default limits by enum cudaLimit; new values are stored, because programs read them back. */
static _Atomic size_t limits[] = {1024, 7340032, 8388608, 2, 2048, 128, 0};

GM_SIM_EXPORT cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	if (!value || (unsigned)limit >= sizeof(limits) / sizeof(limits[0]))
		return gm_sim_error(cudaErrorInvalidValue);
	*value = limits[limit];
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	if ((unsigned)limit >= sizeof(limits) / sizeof(limits[0]))
		return gm_sim_error(cudaErrorInvalidValue);
	limits[limit] = value;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
	if (!config)
		return gm_sim_error(cudaErrorInvalidValue);
	*config = cudaFuncCachePreferNone;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
	return cudaSuccess;
}

/* Devices of one profile reach each other as the profile says. Enabled access is stored, because
 * CUDA refuses to enable it twice. */
static _Atomic bool peers[GM_SIM_DEVICES_MAX][GM_SIM_DEVICES_MAX];

GM_SIM_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int index, int peer)
{
	if (!gm_sim_device_facts(index) || !gm_sim_device_facts(peer))
		return gm_sim_error(cudaErrorInvalidDevice);
	if (!can)
		return gm_sim_error(cudaErrorInvalidValue);
	*can = index != peer && gm_sim_device_facts(index)->choice.profile.peers != GM_SIM_NO_PEERS;
	return cudaSuccess;
}

static int peer_change(int peer, bool enable)
{
	int self = gm_sim_current_index();
	if (!gm_sim_device_facts(peer) || !gm_sim_device_facts(self) || peer == self)
		return gm_sim_error(cudaErrorInvalidDevice);
	if (gm_sim_device_facts(self)->choice.profile.peers == GM_SIM_NO_PEERS)
		return gm_sim_error(
		        enable ? cudaErrorPeerAccessUnsupported : cudaErrorPeerAccessNotEnabled);
	if (atomic_exchange(&peers[self][peer], enable) == enable)
		return gm_sim_error(
		        enable ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	/* The flags are reserved. */
	if (flags)
		return gm_sim_error(cudaErrorInvalidValue);
	return (cudaError_t)peer_change(peer, true);
}

GM_SIM_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	return (cudaError_t)peer_change(peer, false);
}

GM_SIM_EXPORT cudaError_t cudaDeviceReset(void)
{
	struct gm_sim_device *device = gm_sim_device_facts(gm_sim_current_index());
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	int code = gm_sim_capture_device_waits();
	if (code != cudaSuccess)
		return (cudaError_t)code;
	gm_sim_works_wait_all();
	gm_sim_memory_reset(device);
	for (unsigned peer = 0; peer < GM_SIM_DEVICES_MAX; peer++)
		peers[device->index][peer] = false;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetP2PAttribute(
        int *value, enum cudaDeviceP2PAttr id, int from, int to)
{
	if (!gm_sim_device_facts(from) || !gm_sim_device_facts(to) || from == to)
		return gm_sim_error(cudaErrorInvalidDevice);
	if (!value)
		return gm_sim_error(cudaErrorInvalidValue);
	enum gm_sim_peers how = gm_sim_device_facts(from)->choice.profile.peers;
	*value = (id == cudaDevP2PAttrAccessSupported && how != GM_SIM_NO_PEERS) ||
	         (id == cudaDevP2PAttrNativeAtomicSupported && how == GM_SIM_NVLINK);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
	if (!version)
		return gm_sim_error(cudaErrorInvalidValue);
	*version = GM_SIM_RUNTIME;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return gm_sim_error(cudaErrorInvalidValue);
	*version = GM_SIM_RUNTIME;
	return cudaSuccess;
}

/* cuda_profiler_api.h, which is in the Toolkit and not in the wheels. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

GM_SIM_EXPORT cudaError_t cudaProfilerStart(void)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaProfilerStop(void)
{
	return cudaSuccess;
}
