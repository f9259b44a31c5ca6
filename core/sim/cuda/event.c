/* Events. All work but collectives is done when its call returns, so an event is a time. */
#include <stdlib.h>
#include <time.h>

#include "sim/cuda/stream_state.h"

GM_SIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
	if (!ret || flags & ~7u)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct CUevent_st *event = calloc(1, sizeof(*event));
	if (!event)
		return gm_sim_error(cudaErrorMemoryAllocation);
	event->magic = GM_SIM_EVENT;
	event->flags = flags;
	*ret = event;
	return cudaSuccess;
}

int gm_sim_event_interprocess(cudaEvent_t event)
{
	if (!event || event->magic != GM_SIM_EVENT)
		return cudaErrorInvalidResourceHandle;
	return event->flags & cudaEventInterprocess ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

GM_SIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *ret)
{
	return cudaEventCreateWithFlags(ret, cudaEventDefault);
}

GM_SIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	if (!event || event->magic != GM_SIM_EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	gm_sim_works_clear(&event->works);
	event->magic = 0;
	free(event);
	return cudaSuccess;
}

/* The device's clock: that of the host, but always increasing, so that a later event has a later
 * time. */
static uint64_t tick(void)
{
	static _Atomic uint64_t last;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	uint64_t before = atomic_load(&last);
	do {
		if (time <
		        before + 1000) /* the resolution of a GPU's events is about half of that */
			time = before + 1000;
	} while (!atomic_compare_exchange_weak(&last, &before, time));
	return time;
}

GM_SIM_EXPORT cudaError_t cudaEventRecordWithFlags(
        cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
	if (!event || event->magic != GM_SIM_EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess) {
		gm_sim_capture_record(stream, event, flags & cudaEventRecordExternal);
		gm_sim_works_clear(&event->works);
		gm_sim_works_merge(&event->works, gm_sim_stream_works(stream));
	}
	if (code == cudaSuccess)
		event->time = event->flags & cudaEventDisableTiming ? 1 : tick();
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecordWithFlags(event, stream, 0);
}

/* It stands for no work that will be done, also after the capture. */
static int captured(cudaEvent_t event)
{
	struct gm_sim_capture *capture = event->capture;
	return capture ? gm_sim_capture_invalidate(capture, cudaErrorCapturedEvent) : cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	if (!event || event->magic != GM_SIM_EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	int code = captured(event);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	return (cudaError_t)gm_sim_error(
	        gm_sim_works_done(&event->works) ? cudaSuccess : cudaErrorNotReady);
}

GM_SIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (event && event->magic == GM_SIM_EVENT && !event->capture)
		gm_sim_works_wait(&event->works);
	return cudaEventQuery(event);
}

GM_SIM_EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	if (!ms)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!start || !end || start->magic != GM_SIM_EVENT || end->magic != GM_SIM_EVENT ||
	        (start->flags | end->flags) & cudaEventDisableTiming || !start->time || !end->time)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	*ms = (float)((double)((int64_t)end->time - (int64_t)start->time) / 1e6);
	return cudaSuccess;
}
