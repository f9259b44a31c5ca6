/* Errors: the last one of each thread, names and texts. */
#include <stddef.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

static _Thread_local cudaError_t last;

int gm_sim_error(int code)
{
	/* cudaErrorNotReady is an answer, not a failure: the runtime does not store it. */
	if (code != cudaSuccess && code != cudaErrorNotReady)
		last = (cudaError_t)code;
	return code;
}

int gm_sim_error_last(void)
{
	return last;
}

void gm_sim_error_restore(int code)
{
	last = (cudaError_t)code;
}

int gm_sim_no_device(void)
{
	if (gm_sim_forked())
		return cudaErrorInitializationError;
	if (gm_sim_device_count() == 0)
		return cudaErrorNoDevice;
	return gm_sim_device_facts(gm_sim_current_index()) ? cudaErrorMemoryAllocation
	                                                   : cudaErrorInvalidDevice;
}

GM_SIM_EXPORT cudaError_t cudaGetLastError(void)
{
	cudaError_t code = last;
	last = cudaSuccess;
	return code;
}

GM_SIM_EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
#define ERROR(code, name, text) {code, name, text},
#include "sim/exports/errors13.inc"
#undef ERROR
};

GM_SIM_EXPORT const char *cudaGetErrorName(cudaError_t code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == (int)code)
			return errors[i].name;
	return "unrecognized error code";
}

GM_SIM_EXPORT const char *cudaGetErrorString(cudaError_t code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == (int)code)
			return errors[i].text;
	return "unrecognized error code";
}
