/*
 * Streams. All work is done when its call returns, so a stream is only a name.
 *
 * Callbacks of a stream run at once on the calling thread, because every call before them is done
 * already. (CUDA runs them on a separate thread; a callback may not call CUDA, so it cannot
 * notice.)
 */
#include <stdlib.h>

#include "sim/cuda/stream_state.h"

static _Atomic unsigned long long stream_ids = 16;

struct gm_sim_works *gm_sim_stream_works(cudaStream_t stream)
{
	static struct gm_sim_works defaults[GM_SIM_DEVICES_MAX][3];
	if (!gm_sim_stream_special(stream))
		return &stream->works;
	return &defaults[gm_sim_current_index() % GM_SIM_DEVICES_MAX][(uintptr_t)stream];
}

void gm_sim_stream_finish(cudaStream_t stream)
{
	if (atomic_load_explicit(&gm_sim_outstanding, memory_order_relaxed) &&
	        gm_sim_stream_valid(stream))
		gm_sim_works_wait(gm_sim_stream_works(stream));
}

GM_SIM_EXPORT cudaError_t cudaStreamCreateWithPriority(
        cudaStream_t *ret, unsigned flags, int priority)
{
	if (!ret || flags & ~1u)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct CUstream_st *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return gm_sim_error(cudaErrorMemoryAllocation);
	stream->magic = GM_SIM_STREAM;
	stream->id = atomic_fetch_add(&stream_ids, 1);
	stream->device = gm_sim_current_index();
	stream->flags = flags;
	stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	*ret = stream;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
	return cudaStreamCreateWithPriority(ret, flags, 0);
}

GM_SIM_EXPORT cudaError_t cudaStreamCreate(cudaStream_t *ret)
{
	return cudaStreamCreateWithPriority(ret, cudaStreamDefault, 0);
}

GM_SIM_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	if (gm_sim_stream_special(stream) || stream->magic != GM_SIM_STREAM)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	gm_sim_capture_abandon(stream);
	/* On a GPU the stream's work continues after it; here nothing else refers to the stream. */
	gm_sim_works_wait(&stream->works);
	gm_sim_works_clear(&stream->works);
	stream->magic = 0;
	free(stream);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess)
		code = gm_sim_capture_waits(stream);
	if (code == cudaSuccess)
		gm_sim_stream_finish(stream);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess)
		code = gm_sim_capture_waits(stream);
	if (code == cudaSuccess && !gm_sim_works_done(gm_sim_stream_works(stream)))
		code = gm_sim_error(cudaErrorNotReady);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamWaitEvent(
        cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	if (!event || event->magic != GM_SIM_EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess &&
	        !gm_sim_capture_wait(stream, event, flags & cudaEventWaitExternal, &code))
		gm_sim_works_merge(gm_sim_stream_works(stream), &event->works);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !priority)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess)
		*priority = gm_sim_stream_special(stream) ? 0 : stream->priority;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !flags)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess)
		*flags = gm_sim_stream_special(stream) ? 0 : stream->flags;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !id)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess)
		*id = gm_sim_stream_special(stream) ? (uintptr_t)stream : stream->id;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !device)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess)
		*device = gm_sim_stream_special(stream) ? gm_sim_current_index() : stream->device;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamAddCallback(
        cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !callback)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess)
		code = gm_sim_capture_waits(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	gm_sim_stream_finish(stream);
	callback(stream, cudaSuccess, data);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !function)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code != cudaSuccess ||
	        gm_sim_captured(
	                stream, &(struct gm_sim_node){
	                                .what = GM_SIM_NODE_HOST, .host = function, .to = data}))
		return (cudaError_t)code;
	gm_sim_stream_finish(stream);
	function(data);
	return cudaSuccess;
}
