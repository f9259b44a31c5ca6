/*
 * Copies and memsets. Streams are in order and complete at once, so the asynchronous calls are the
 * synchronous ones. What an address is (device, host) is known from the address itself, as under CUDA's
 * unified addressing; the `kind` argument is not needed.
 */
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

static int copy(void *to, const void *from, size_t size)
{
	if (!size)
		return cudaSuccess;
	if (!to || !from)
		return cudaErrorInvalidValue;
	struct gm_sim_device *to_device = gm_sim_device_of(to), *from_device = gm_sim_device_of(from);
	if ((to_device && !gm_sim_memory_holds(to_device, to, size)) ||
		(from_device && !gm_sim_memory_holds(from_device, from, size)))
		return cudaErrorInvalidValue;
	if (to_device && from_device)
		gm_sim_data_across(to_device, to, from_device, from, size);
	else if (to_device)
		gm_sim_data_in(to_device, to, from, size);
	else if (from_device)
		gm_sim_data_out(from_device, to, from, size);
	else
		memmove(to, from, size);
	return cudaSuccess;
}

static int fill(void *to, int value, size_t size)
{
	if (!size)
		return cudaSuccess;
	struct gm_sim_device *device = gm_sim_device_of(to);
	struct gm_sim_range host;
	if (device) {
		if (!gm_sim_memory_holds(device, to, size))
			return cudaErrorInvalidValue;
		gm_sim_data_fill(device, to, value, size);
		return cudaSuccess;
	}
	if (!gm_sim_host_find(to, &host))
		return cudaErrorInvalidValue;
	memset(to, value, size);
	return cudaSuccess;
}

static int ready(int code)
{
	/* Every copy makes the context, as on a GPU; without a device it fails as CUDA does. */
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	return gm_sim_current() ? gm_sim_error(copy(to, from, size)) : ready(0);
}

GM_SIM_EXPORT cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpy(to, from, size, kind);
}

GM_SIM_EXPORT cudaError_t cudaMemcpyPeer(
	void *to, int to_device, const void *from, int from_device, size_t size)
{
	return cudaMemcpy(to, from, size, cudaMemcpyDefault);
}

GM_SIM_EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
	int from_device, size_t size, cudaStream_t stream)
{
	return cudaMemcpy(to, from, size, cudaMemcpyDefault);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from,
	size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	if (width > to_pitch || width > from_pitch)
		return gm_sim_error(cudaErrorInvalidPitchValue);
	int code = cudaSuccess;
	for (size_t row = 0; row < height && code == cudaSuccess; row++)
		code = copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
	return ready(code);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
	size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}

GM_SIM_EXPORT cudaError_t cudaMemset(void *to, int value, size_t size)
{
	return gm_sim_current() ? gm_sim_error(fill(to, value, size)) : ready(0);
}

GM_SIM_EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
	return cudaMemset(to, value, size);
}

GM_SIM_EXPORT cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
	if (width > pitch)
		return gm_sim_error(cudaErrorInvalidPitchValue);
	int code = cudaSuccess;
	for (size_t row = 0; row < height && code == cudaSuccess; row++)
		code = fill((char *)to + row * pitch, value, width);
	return ready(code);
}

GM_SIM_EXPORT cudaError_t cudaMemset2DAsync(
	void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	return cudaMemset2D(to, pitch, value, width, height);
}
