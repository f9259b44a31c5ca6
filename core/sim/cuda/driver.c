/*
 * The few entry points of the driver (libcuda.so.1) that PyTorch asks for before it allocates, and the
 * runtime's way to ask for more: what is a stub is "not there".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define EXPORT(name, ...) GM_SIM_EXPORT int name(__VA_ARGS__); int name(__VA_ARGS__)

/* CUresult's first hundreds equal cudaError_t's (cuda.h, CUDA 13.0). */
EXPORT(cuInit, unsigned flags)
{
	return gm_sim_device_count() ? cudaSuccess : cudaErrorNoDevice;
}

EXPORT(cuDriverGetVersion, int *version)
{
	*version = GM_SIM_RUNTIME;
	return cudaSuccess;
}

EXPORT(cuDeviceGetCount, int *count)
{
	*count = (int)gm_sim_device_count();
	return cudaSuccess;
}

EXPORT(cuDeviceGet, int *device, int ordinal)
{
	if (!gm_sim_device_facts(ordinal))
		return cudaErrorInvalidDevice;
	*device = ordinal;
	return cudaSuccess;
}

EXPORT(cuDeviceGetAttribute, int *value, int attribute, int device)
{
	return cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device);
}

EXPORT(cuDeviceGetName, char *name, int length, int device)
{
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts || length < 1)
		return cudaErrorInvalidDevice;
	snprintf(name, (size_t)length, "%s", facts->choice.profile.device_name);
	return cudaSuccess;
}

EXPORT(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active)
{
	struct gm_sim_device *facts = gm_sim_device_facts(device);
	if (!facts)
		return cudaErrorInvalidDevice;
	*flags = 0;
	*active = facts->active;
	return cudaSuccess;
}

/* A context is its device's record: any pointer that is not NULL will do. */
EXPORT(cuDevicePrimaryCtxRetain, void **context, int device)
{
	return (*context = gm_sim_device(device)) ? cudaSuccess : cudaErrorInvalidDevice;
}

EXPORT(cuCtxGetCurrent, void **context)
{
	*context = gm_sim_current();
	return cudaSuccess;
}

EXPORT(cuCtxSetCurrent, struct gm_sim_device *context)
{
	if (context)
		gm_sim_set_current_index((int)context->index);
	return cudaSuccess;
}

EXPORT(cuCtxGetDevice, int *device)
{
	*device = gm_sim_current_index();
	return cudaSuccess;
}

EXPORT(cuGetErrorString, int code, const char **text)
{
	*text = cudaGetErrorString((cudaError_t)code);
	return cudaSuccess;
}

EXPORT(cuGetErrorName, int code, const char **text)
{
	*text = cudaGetErrorName((cudaError_t)code);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
	unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	void *found = dlsym(RTLD_DEFAULT, symbol);
	if (found && gm_sim_is_stub(found))
		found = NULL;
	*function = found;
	if (status)
		*status = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}
