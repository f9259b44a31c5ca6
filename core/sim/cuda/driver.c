/*
 * The driver's entry points that PyTorch uses, and how it finds them.
 *
 * The library replaces libcuda.so.1 too: libgpumem-sim-driver.so has only that SONAME, so that a
 * library linked with the driver loads, and dlsym() on it finds the functions here.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* A context is a device: handles are distinguished only by address. */
static char contexts[GM_SIM_DEVICES_MAX];

static CUcontext context_of(int index)
{
	return (CUcontext)(void *)&contexts[index];
}

static int index_of(CUcontext context)
{
	uintptr_t at = (uintptr_t)context - (uintptr_t)contexts;
	return at < GM_SIM_DEVICES_MAX ? (int)at : -1;
}

/* The driver's codes are those of the runtime for all answers here. */
static CUresult result(int code)
{
	return (CUresult)code;
}

GM_SIM_EXPORT CUresult cuInit(unsigned flags)
{
	return gm_sim_device_count() ? CUDA_SUCCESS : result(gm_sim_no_device());
}

GM_SIM_EXPORT CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = GM_SIM_RUNTIME;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)gm_sim_device_count();
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int index)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_sim_device_facts(index))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = index;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts || !name || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)length, "%s", facts->choice.profile.device_name);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = facts->choice.profile.memory;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDeviceGetAttribute(
        int *value, CUdevice_attribute attribute, CUdevice device)
{
	/* Codes of the driver that the runtime has no names for (cuda.h, CUDA 13.0): vmm.c. */
	if (value && gm_sim_device_facts(device))
		switch ((int)attribute) {
		case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
		case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
			*value = 1;
			return CUDA_SUCCESS;
		case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
		case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
		case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
		case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
			*value = 0;
			return CUDA_SUCCESS;
		default:
			break;
		}
	return result(GM_SIM_KEEP_ERROR(
	        cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device)));
}

GM_SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags)
		*flags = 0;
	if (active)
		*active = facts->active;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = context_of(device);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_device *facts = gm_sim_device_facts(gm_sim_current_index());
	*context = facts && facts->active ? context_of(gm_sim_current_index()) : NULL;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!context)
		return CUDA_SUCCESS;
	int index = index_of(context);
	if (index < 0 || !gm_sim_device_facts(index))
		return CUDA_ERROR_INVALID_CONTEXT;
	gm_sim_set_current_index(index);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = gm_sim_current_index();
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuCtxSynchronize(void)
{
	int code = GM_SIM_KEEP_ERROR(gm_sim_capture_device_waits());
	if (code == cudaSuccess)
		gm_sim_works_wait_all();
	return result(code);
}

GM_SIM_EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = cudaGetErrorString((cudaError_t)code);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = cudaGetErrorName((cudaError_t)code);
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuPointerGetAttribute(
        void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cudaPointerAttributes attributes;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	(void)GM_SIM_KEEP_ERROR(
	        cudaPointerGetAttributes(&attributes, (const void *)(uintptr_t)pointer));
	if (attributes.type == cudaMemoryTypeUnregistered)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = context_of(attributes.device);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = attributes.type == cudaMemoryTypeDevice ? CU_MEMORYTYPE_DEVICE
		                                                            : CU_MEMORYTYPE_HOST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(void **)data = attributes.devicePointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = attributes.device;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* The driver's own log (CUDA 12.9 on): nothing is ever written to it. */
GM_SIM_EXPORT CUresult cuLogsRegisterCallback(
        CUlogsCallback function, void *data, CUlogsCallbackHandle *ret_handle)
{
	static char registered;
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	if (ret_handle)
		*ret_handle = (CUlogsCallbackHandle)(void *)&registered;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
	return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Reports once for each entry point that a program looked it up by name and that it is not
 * simulated. */
static void asked_for(const char *name)
{
	/* PyTorch looks these up together with the virtual-memory calls, for programs that use
	 * features which need them. */
	static const char *const in_advance[] = {"cuGreenCtx", "cuMulticast", "cuCtxP",
	        "cuCtxFromGreenCtx", "cuDevSmResource", "cuDevResource", "cuDeviceGetDevResource"};
	for (size_t i = 0; i < sizeof(in_advance) / sizeof(in_advance[0]); i++)
		if (strncmp(name, in_advance[i], strlen(in_advance[i])) == 0)
			return;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char said[64][64];
	static unsigned count;
	pthread_mutex_lock(&lock);
	bool new = count < sizeof(said) / sizeof(said[0]);
	for (unsigned i = 0; i < count && new; i++)
		new = strcmp(said[i], name) != 0;
	if (new &&strlen(name) < sizeof(said[0]))
		strcpy(said[count++], name);
	pthread_mutex_unlock(&lock);
	if (new)
		gm_sim_say(
		        "%s: not simulated: the driver reports it to the program as missing", name);
}

/* An entry point by its plain name: the newest simulated version. `report`: report if there is
 * none. */
static void *entry_point(const char *name, bool report)
{
	static const char *const versions[] = {"_v3", "_v2", ""};
	char text[128];
	bool stub = false;
	if (!name || strncmp(name, "cu", 2) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		if (snprintf(text, sizeof(text), "%s%s", name, versions[i]) >= (int)sizeof(text))
			return NULL;
		void *code = dlsym(RTLD_DEFAULT, text);
		if (code && !gm_sim_is_stub(code))
			return code;
		stub |= code != NULL;
	}
	if (stub && report)
		asked_for(name);
	return NULL;
}

GM_SIM_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **code,
        unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	if (!symbol || !code)
		return gm_sim_error(cudaErrorInvalidValue);
	*code = entry_point(symbol, true);
	if (status)
		*status = *code ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}

GM_SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **code, int version,
        cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !code)
		return CUDA_ERROR_INVALID_VALUE;
	/* A CUDA runtime begins by asking for nothing, and then asks for everything that exists. */
	bool runtime = gm_sim_own_runtime(__builtin_return_address(0), !*symbol);
	*code = entry_point(symbol, !runtime);
	if (status)
		*status =
		        *code ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *code ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
