/*
 * The driver's modules. Device code that a program brings itself (Triton's and NVRTC's) is accepted
 * without being read. Its kernels are known by the names that the program looks up; launches are
 * counted and compute nothing.
 */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define MODULE UINT64_C(0x656c75646f6d5347)

/* A module, or a library in CUDA 12: a list of the kernels that were looked up. */
struct module {
	uint64_t magic;
	struct gm_sim_kernel **kernels;
	size_t count;
};

static CUresult load(struct module **ret, const void *image)
{
	if (!ret || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_sim_current())
		return (CUresult)gm_sim_no_device();
	struct module *module = calloc(1, sizeof(*module));
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->magic = MODULE;
	*ret = module;
	return CUDA_SUCCESS;
}

static CUresult unload(struct module *module)
{
	if (!module || module->magic != MODULE)
		return CUDA_ERROR_INVALID_HANDLE;
	module->magic = 0;
	free(module->kernels); /* the kernels stay, because the counters name them */
	free(module);
	return CUDA_SUCCESS;
}

static CUresult get(struct module *module, const char *name, struct gm_sim_kernel **ret)
{
	if (!module || module->magic != MODULE)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	struct gm_sim_kernel *found = NULL;
	for (size_t i = 0; i < module->count && !found; i++)
		if (strcmp(module->kernels[i]->name, name) == 0)
			found = module->kernels[i];
	struct gm_sim_kernel **more =
	        found ? NULL
	              : reallocarray(module->kernels, module->count + 1, sizeof(*module->kernels));
	if (more) {
		module->kernels = more;
		found = gm_sim_kernel_add(name);
		if (found)
			module->kernels[module->count++] = found;
	}
	pthread_mutex_unlock(&lock);
	*ret = found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

GM_SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load((struct module **)module, image);
}

GM_SIM_EXPORT CUresult cuModuleLoadDataEx(
        CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
	return load((struct module **)module, image);
}

GM_SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return load((struct module **)module, image);
}

GM_SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	return load((struct module **)module, path);
}

GM_SIM_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return unload((struct module *)module);
}

GM_SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
	return get((struct module *)module, name, (struct gm_sim_kernel **)ret);
}

GM_SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit,
        void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values,
        unsigned count)
{
	return load((struct module **)library, image);
}

GM_SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	return unload((struct module *)library);
}

GM_SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary library, const char *name)
{
	return get((struct module *)library, name, (struct gm_sim_kernel **)ret);
}

GM_SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *ret, CUlibrary library)
{
	*ret = (CUmodule)library;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *ret, CUkernel kernel)
{
	*ret = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuFuncGetAttribute(
        int *value, CUfunction_attribute attribute, CUfunction function)
{
	struct cudaFuncAttributes all;
	int code = GM_SIM_KEEP_ERROR(cudaFuncGetAttributes(&all, function));
	if (code != cudaSuccess || !value)
		return code == cudaSuccess ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = all.maxThreadsPerBlock;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = all.numRegs;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = all.ptxVersion;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = all.binaryVersion;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = all.maxDynamicSharedSizeBytes;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = -1;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuFuncSetAttribute(
        CUfunction function, CUfunction_attribute attribute, int value)
{
	/* The runtime's attribute has the same number as the driver's. */
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaFuncSetAttribute(function, (enum cudaFuncAttribute)attribute, value));
}

GM_SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
        CUstream stream, void **parameters, void **extra)
{
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaLaunchKernel(function, (dim3){grid_x, grid_y, grid_z},
	                (dim3){block_x, block_y, block_z}, parameters, shared, stream));
}

GM_SIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
        unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
        unsigned shared, CUstream stream, void **parameters)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
	        stream, parameters, NULL);
}

GM_SIM_EXPORT CUresult cuLaunchKernelEx(
        const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
	        config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes,
	        config->hStream, parameters, extra);
}

GM_SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *ret, CUfunction function, int block, size_t shared)
{
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaOccupancyMaxActiveBlocksPerMultiprocessor(ret, function, block, shared));
}

GM_SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *ret, CUfunction function, int block, size_t shared, unsigned flags)
{
	return (CUresult)GM_SIM_KEEP_ERROR(
	        cudaOccupancyMaxActiveBlocksPerMultiprocessor(ret, function, block, shared));
}

GM_SIM_EXPORT CUresult cuOccupancyMaxActiveClusters(
        int *ret, CUfunction function, const CUlaunchConfig *config)
{
	int known;
	struct gm_sim_device *device = gm_sim_current();
	if (!device || !ret || !config)
		return CUDA_ERROR_INVALID_VALUE;
	int processors = gm_sim_profile_attribute(
	        &device->choice.profile, cudaDevAttrMultiProcessorCount, &known);
	unsigned cluster = 1;
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			cluster = config->attrs[i].value.clusterDim.x *
			          config->attrs[i].value.clusterDim.y *
			          config->attrs[i].value.clusterDim.z;
	*ret = cluster ? processors / (int)cluster : processors;
	return CUDA_SUCCESS;
}

/* The descriptor from which a kernel's tensor memory accelerator would read; nothing reads it here.
 * */
GM_SIM_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type,
        cuuint32_t rank, void *address, const cuuint64_t *sizes, const cuuint64_t *strides,
        const cuuint32_t *box, const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	if (!map || !rank || rank > 5)
		return CUDA_ERROR_INVALID_VALUE;
	memset(map, 0, sizeof(*map));
	memcpy(map, &address, sizeof(address));
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceGetLimit(value, (enum cudaLimit)limit));
}

GM_SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	return (CUresult)GM_SIM_KEEP_ERROR(cudaDeviceSetLimit((enum cudaLimit)limit, value));
}
