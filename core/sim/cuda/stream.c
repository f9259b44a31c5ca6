/*
 * Streams and events. The device does each thing at once, in the caller's order, so every stream is always
 * idle and every recorded event has happened. An event keeps the host's clock at its recording, so that
 * elapsed times grow.
 */
#include <stdlib.h>
#include <time.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

struct stream {
	int device, priority;
	unsigned flags;
	unsigned long long id;
};

struct event {
	unsigned flags;
	bool recorded;
	double milliseconds;
};

static _Atomic unsigned long long streams_made = 16; /* ids of the legacy and per-thread ones are below */

/* The stream's own record; NULL for the default ones (0, cudaStreamLegacy, cudaStreamPerThread). */
static struct stream *own(cudaStream_t stream)
{
	return (uintptr_t)stream > 2 ? (struct stream *)stream : NULL;
}

GM_SIM_EXPORT cudaError_t cudaStreamCreateWithPriority(
	cudaStream_t *stream, unsigned flags, int priority)
{
	if (!stream)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct stream *made = malloc(sizeof(*made));
	if (!made)
		return gm_sim_error(cudaErrorMemoryAllocation);
	*made = (struct stream){ .device = gm_sim_current_index(),
		.priority = priority < -5 ? -5 : priority > 0 ? 0 : priority,
		.flags = flags,
		.id = streams_made++ };
	*stream = (cudaStream_t)made;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, 0, 0);
}

GM_SIM_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

GM_SIM_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	if (!own(stream))
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	free(own(stream));
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	*priority = own(stream) ? own(stream)->priority : 0;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	*flags = own(stream) ? own(stream)->flags : 0;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	*id = own(stream) ? own(stream)->id : (uintptr_t)stream;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	*device = own(stream) ? own(stream)->device : gm_sim_current_index();
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamIsCapturing(
	cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	*status = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
	enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
	const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count)
{
	*status = cudaStreamCaptureStatusNone;
	if (id)
		*id = 0;
	if (graph)
		*graph = NULL;
	if (count)
		*count = 0;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	static _Thread_local enum cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
	enum cudaStreamCaptureMode before = current;
	current = *mode;
	*mode = before;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	function(data);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamAddCallback(
	cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags)
{
	callback(stream, cudaSuccess, data);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	if (!event)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct event *made = calloc(1, sizeof(*made));
	if (!made)
		return gm_sim_error(cudaErrorMemoryAllocation);
	made->flags = flags;
	*event = (cudaEvent_t)made;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

GM_SIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct event *e = (struct event *)event;
	if (!e)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	e->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
	e->recorded = true;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventRecordWithFlags(
	cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
	return cudaEventRecord(event, stream);
}

GM_SIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	const struct event *from = (const struct event *)start, *to = (const struct event *)end;
	if (!milliseconds || !from || !to || !from->recorded || !to->recorded ||
		(from->flags | to->flags) & cudaEventDisableTiming)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	*milliseconds = (float)(to->milliseconds - from->milliseconds);
	return cudaSuccess;
}
