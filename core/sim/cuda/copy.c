/* All forms of cudaMemcpy and cudaMemset. Each has finished when it returns, so they run in the
 * order of the calls. */
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* Host memory that CUDA knows: a range entirely within a pinned or managed allocation. */
static bool known_host(const void *address, size_t size)
{
	struct gm_sim_range host;
	return (gm_sim_host_find(address, &host) &&
	               size <= host.start + host.size - (uintptr_t)address) ||
	       gm_sim_managed_holds(address, size);
}

/* One contiguous copy. The kind is only a hint, because addresses show which side they belong to.
 * */
static int copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	if (gm_sim_forked())
		return cudaErrorInitializationError;
	if (size == 0)
		return cudaSuccess;
	if (!to || !from || (unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidValue;
	struct gm_sim_device *to_device = gm_sim_device_of(to),
	                     *from_device = gm_sim_device_of(from);
	if ((to_device && !gm_sim_memory_holds(to_device, to, size)) ||
	        (from_device && !gm_sim_memory_holds(from_device, from, size)))
		return cudaErrorInvalidValue;
	/* If the kind requires a device address, a host address is an error on a GPU too. */
	if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !to_device &&
	        !known_host(to, size))
		return cudaErrorInvalidValue;
	if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !from_device &&
	        !known_host(from, size))
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

static bool captured_copy(
        void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return gm_sim_captured(stream, &(struct gm_sim_node){.what = GM_SIM_NODE_COPY,
	                                       .value = (unsigned)kind,
	                                       .to = to,
	                                       .from = from,
	                                       .size = size});
}

static bool captured_fill(void *to, unsigned value, unsigned unit, size_t size, cudaStream_t stream)
{
	return gm_sim_captured(stream, &(struct gm_sim_node){.what = GM_SIM_NODE_FILL,
	                                       .value = value,
	                                       .unit = unit,
	                                       .to = to,
	                                       .size = size});
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
        size_t height, enum cudaMemcpyKind kind)
{
	if (width > to_pitch || width > from_pitch)
		return cudaErrorInvalidPitchValue;
	for (size_t row = 0; row < height; row++) {
		int code = copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
		        width, kind);
		if (code != cudaSuccess)
			return code;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemcpy(
        void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	gm_sim_stream_finish(NULL);
	return gm_sim_error(copy(to, from, size, kind));
}

GM_SIM_EXPORT cudaError_t cudaMemcpyAsync(
        void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (captured_copy(to, from, size, kind, stream))
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	return gm_sim_error(copy(to, from, size, kind));
}

GM_SIM_EXPORT cudaError_t cudaMemcpyPeer(
        void *to, int to_device, const void *from, int from_device, size_t size)
{
	if (!gm_sim_device_facts(to_device) || !gm_sim_device_facts(from_device))
		return gm_sim_error(cudaErrorInvalidDevice);
	return gm_sim_error(copy(to, from, size, cudaMemcpyDefault));
}

GM_SIM_EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
        int from_device, size_t size, cudaStream_t stream)
{
	if (captured_copy(to, from, size, cudaMemcpyDefault, stream))
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	return cudaMemcpyPeer(to, to_device, from, from_device, size);
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from,
        size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return gm_sim_error(copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}

GM_SIM_EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
        size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
        cudaStream_t stream)
{
	size_t row = 0;
	while (row < height && captured_copy((char *)to + row * to_pitch,
	                               (const char *)from + row * from_pitch, width, kind, stream))
		row++;
	if (row && row == height)
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	return gm_sim_error(copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}

/* What is to be set, a page of it at a time. */
static void fill_elements(
        struct gm_sim_device *device, char *to, unsigned value, unsigned unit, size_t size)
{
	char page[4096];
	for (size_t i = 0; i < sizeof(page); i += unit)
		memcpy(page + i, &value, unit); /* little endian */
	for (size_t n, done = 0; done < size; done += n) {
		n = size - done < sizeof(page) ? size - done : sizeof(page);
		if (device)
			gm_sim_data_in(device, to + done, page, n);
		else
			memcpy(to + done, page, n);
	}
}

static int fill(void *to, unsigned value, unsigned unit, size_t size)
{
	if (gm_sim_forked())
		return cudaErrorInitializationError;
	if (size == 0)
		return cudaSuccess;
	struct gm_sim_device *device = gm_sim_device_of(to);
	if (device ? !gm_sim_memory_holds(device, to, size) : !known_host(to, size))
		return cudaErrorInvalidValue;
	uint32_t whole = unit == 1 ? value & 0xff : unit == 2 ? value & 0xffff : value;
	bool bytes = unit == 1 || whole == (value & 0xff) * (unit == 2 ? 0x101u : 0x1010101u);
	if (!bytes)
		fill_elements(device, to, value, unit, size);
	else if (device) /* zero and the like: no page of it is needed */
		gm_sim_data_fill(device, to, (int)(value & 0xff), size);
	else
		memset(to, (int)(value & 0xff), size);
	return cudaSuccess;
}

int gm_sim_fill(void *to, unsigned value, unsigned unit, size_t size)
{
	return gm_sim_error(fill(to, value, unit, size));
}

int gm_sim_fill_on(cudaStream_t stream, void *to, unsigned value, unsigned unit, size_t size)
{
	if (captured_fill(to, value, unit, size, stream))
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	return gm_sim_fill(to, value, unit, size);
}

static int fill_rows(void *to, size_t pitch, int value, size_t width, size_t height)
{
	if (width > pitch)
		return cudaErrorInvalidPitchValue;
	for (size_t row = 0; row < height; row++) {
		int code = fill((char *)to + row * pitch, (unsigned)value, 1, width);
		if (code != cudaSuccess)
			return code;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemset(void *to, int value, size_t size)
{
	return (cudaError_t)gm_sim_fill(to, (unsigned)value, 1, size);
}

GM_SIM_EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
	return (cudaError_t)gm_sim_fill_on(stream, to, (unsigned)value, 1, size);
}

GM_SIM_EXPORT cudaError_t cudaMemset2D(
        void *to, size_t pitch, int value, size_t width, size_t height)
{
	return gm_sim_error(fill_rows(to, pitch, value, width, height));
}

GM_SIM_EXPORT cudaError_t cudaMemset2DAsync(
        void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	size_t row = 0;
	while (row < height &&
	        captured_fill((char *)to + row * pitch, (unsigned)value, 1, width, stream))
		row++;
	if (row && row == height)
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	return gm_sim_error(fill_rows(to, pitch, value, width, height));
}
