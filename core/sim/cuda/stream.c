/*
 * Streams, events and captures. All work is done when its call returns, so a stream is only a name,
 * and an event a time.
 *
 * Callbacks of a stream run at once on the calling thread, because every call before them is done
 * already. (CUDA runs them on a separate thread; a callback may not call CUDA, so it cannot
 * notice.)
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/graph_nodes.h"
#include "sim/kernels/captured.h"
#include "sim/cuda/work.h"

/*
 * A capture, from its beginning on one stream to its end there. Never freed: streams and events
 * that were in it may exist longer, and it is small.
 */
struct capture {
	struct CUgraph_st *graph;
	struct CUstream_st *origin;
	unsigned long long id;
	enum cudaStreamCaptureMode mode;
	pthread_t thread; /* that began it */
	_Atomic enum cudaStreamCaptureStatus status;
};

struct CUstream_st {
	uint64_t magic;
	struct capture *_Atomic capture;
	unsigned long long id;
	int device, priority;
	unsigned flags;
	struct gm_sim_works works;
};

struct CUevent_st {
	uint64_t magic;
	unsigned flags;
	struct capture *_Atomic capture; /* in which it was recorded */
	_Atomic uint64_t time;           /* nanoseconds of the device's clock; 0: not recorded */
	struct gm_sim_works works;       /* work in progress when it was recorded */
};

#define STREAM                                                                                   \
	UINT64_C(0x6d61657274735347) /* "GSstream" without its last letter; freed handles have 0 \
	                              */
#define EVENT UINT64_C(0x00746e6576655347)

static _Atomic unsigned long long stream_ids = 16;

/* The legacy and the per-thread default streams are small numbers; any other must be one that we
 * created. */
static bool special(cudaStream_t stream)
{
	return (uintptr_t)stream <= 2;
}

static bool valid(cudaStream_t stream)
{
	return special(stream) || stream->magic == STREAM;
}

/* The capture that a stream is in, or NULL. */
static struct capture *capture_of(cudaStream_t stream)
{
	struct capture *capture = special(stream) ? NULL : stream->capture;
	return capture && capture->status != cudaStreamCaptureStatusNone ? capture : NULL;
}

bool gm_sim_captured(cudaStream_t stream, const struct gm_sim_node *node)
{
	if (special(stream) || stream->magic != STREAM)
		return false;
	struct capture *capture = capture_of(stream);
	if (!capture)
		return false;
	if (!gm_sim_graph_add(capture->graph, node)) {
		gm_sim_kept_free(node->kept);
		capture->status = cudaStreamCaptureStatusInvalidated;
	}
	return true;
}

bool gm_sim_stream_captures(cudaStream_t stream)
{
	return !special(stream) && stream->magic == STREAM && capture_of(stream);
}

static struct capture *_Atomic latest;

bool gm_sim_graph_captures(void)
{
	struct capture *capture = latest;
	return capture && capture->status == cudaStreamCaptureStatusActive;
}

bool gm_sim_captured_latest(const struct gm_sim_node *node)
{
	return gm_sim_graph_captures() && gm_sim_captured(latest->origin, node);
}

bool gm_sim_captured_library(void)
{
	return gm_sim_captured_latest(&(struct gm_sim_node){.what = GM_SIM_NODE_LIBRARY});
}

struct gm_sim_works *gm_sim_stream_works(cudaStream_t stream)
{
	static struct gm_sim_works defaults[GM_SIM_DEVICES_MAX][3];
	if (!special(stream))
		return &stream->works;
	return &defaults[gm_sim_current_index() % GM_SIM_DEVICES_MAX][(uintptr_t)stream];
}

void gm_sim_stream_finish(cudaStream_t stream)
{
	if (atomic_load_explicit(&gm_sim_outstanding, memory_order_relaxed) && valid(stream))
		gm_sim_works_wait(gm_sim_stream_works(stream));
}

bool gm_sim_stream_capturing(cudaStream_t stream)
{
	return capture_of(stream) != NULL;
}

/* A call that waits for the host cannot be captured, and invalidates the capture. */
static int waits(cudaStream_t stream)
{
	struct capture *capture = capture_of(stream);
	if (!capture)
		return cudaSuccess;
	capture->status = cudaStreamCaptureStatusInvalidated;
	return gm_sim_error(cudaErrorStreamCaptureUnsupported);
}

static int check(cudaStream_t stream)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	return valid(stream) ? cudaSuccess : gm_sim_error(cudaErrorInvalidResourceHandle);
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
	stream->magic = STREAM;
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
	if (special(stream) || stream->magic != STREAM)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	/* On a GPU the stream's work continues after it; here nothing else refers to the stream. */
	gm_sim_works_wait(&stream->works);
	gm_sim_works_clear(&stream->works);
	stream->magic = 0;
	free(stream);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	int code = check(stream);
	if (code == cudaSuccess)
		code = waits(stream);
	if (code == cudaSuccess)
		gm_sim_stream_finish(stream);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	int code = check(stream);
	if (code == cudaSuccess)
		code = waits(stream);
	if (code == cudaSuccess && !gm_sim_works_done(gm_sim_stream_works(stream)))
		code = gm_sim_error(cudaErrorNotReady);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamWaitEvent(
        cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	if (!event || event->magic != EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	int code = check(stream);
	struct capture *capture = event->capture;
	if (code == cudaSuccess && capture && capture->status == cudaStreamCaptureStatusActive) {
		if (special(stream))
			return gm_sim_error(cudaErrorStreamCaptureImplicit);
		stream->capture = capture; /* it joins */
	} else if (code == cudaSuccess) {
		gm_sim_works_merge(gm_sim_stream_works(stream), &event->works);
	}
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	int code = check(stream);
	if (code == cudaSuccess)
		*priority = special(stream) ? 0 : stream->priority;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	int code = check(stream);
	if (code == cudaSuccess)
		*flags = special(stream) ? 0 : stream->flags;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	int code = check(stream);
	if (code == cudaSuccess)
		*id = special(stream) ? (uintptr_t)stream : stream->id;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	int code = check(stream);
	if (code == cudaSuccess)
		*device = special(stream) ? gm_sim_current_index() : stream->device;
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamAddCallback(
        cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags)
{
	int code = check(stream);
	gm_sim_stream_finish(stream);
	if (code == cudaSuccess)
		callback(stream, cudaSuccess, data);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	int code = check(stream);
	gm_sim_stream_finish(stream);
	if (code == cudaSuccess)
		function(data);
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamBeginCapture(
        cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	static _Atomic unsigned long long ids = 1;
	int code = check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
		return gm_sim_error(cudaErrorInvalidValue);
	/* The default streams cannot be captured. */
	if (special(stream))
		return gm_sim_error(cudaErrorStreamCaptureUnsupported);
	if (capture_of(stream))
		return gm_sim_error(cudaErrorIllegalState);
	struct capture *capture = calloc(1, sizeof(*capture));
	if (!capture || !(capture->graph = gm_sim_graph_create())) {
		free(capture);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	capture->origin = stream;
	capture->id = atomic_fetch_add(&ids, 1);
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->status = cudaStreamCaptureStatusActive;
	stream->capture = capture;
	latest = capture;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret)
{
	int code = check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	struct capture *capture = capture_of(stream);
	if (!ret || !capture)
		return gm_sim_error(ret ? cudaErrorIllegalState : cudaErrorInvalidValue);
	if (capture->origin != stream)
		return gm_sim_error(cudaErrorStreamCaptureUnmatched);
	bool spoiled = capture->status == cudaStreamCaptureStatusInvalidated;
	capture->status = cudaStreamCaptureStatusNone;
	stream->capture = NULL;
	*ret = capture->graph;
	capture->graph = NULL;
	if (!spoiled)
		return cudaSuccess;
	gm_sim_graph_free(*ret);
	*ret = NULL;
	return gm_sim_error(cudaErrorStreamCaptureInvalidated);
}

GM_SIM_EXPORT cudaError_t cudaStreamIsCapturing(
        cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	int code = check(stream);
	if (code == cudaSuccess) {
		struct capture *capture = capture_of(stream);
		*status = capture ? capture->status : cudaStreamCaptureStatusNone;
	}
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
        enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count)
{
	int code = check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	struct capture *capture = capture_of(stream);
	if (status)
		*status = capture ? capture->status : cudaStreamCaptureStatusNone;
	if (id && capture)
		*id = capture->id;
	if (graph)
		*graph = capture ? capture->graph : NULL;
	if (dependencies)
		*dependencies = NULL;
	if (edges)
		*edges = NULL;
	if (count)
		*count = 0;
	return cudaSuccess;
}

static _Thread_local enum cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;

/* The rules are those of cudaThreadExchangeStreamCaptureMode() in CUDA's documentation. A real
 * device (an H200) then returns from the call with an error, and invalidates the capture. */
bool gm_sim_capture_forbids(void)
{
	struct capture *capture = latest;
	if (!gm_sim_graph_captures() || of_thread == cudaStreamCaptureModeRelaxed ||
	        capture->mode == cudaStreamCaptureModeRelaxed)
		return false;
	if (!pthread_equal(capture->thread, pthread_self()) &&
	        (of_thread != cudaStreamCaptureModeGlobal ||
	                capture->mode != cudaStreamCaptureModeGlobal))
		return false;
	capture->status = cudaStreamCaptureStatusInvalidated;
	return true;
}

GM_SIM_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return gm_sim_error(cudaErrorInvalidValue);
	enum cudaStreamCaptureMode before = of_thread;
	of_thread = *mode;
	*mode = before;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
	if (!ret || flags & ~7u)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct CUevent_st *event = calloc(1, sizeof(*event));
	if (!event)
		return gm_sim_error(cudaErrorMemoryAllocation);
	event->magic = EVENT;
	event->flags = flags;
	*ret = event;
	return cudaSuccess;
}

int gm_sim_event_interprocess(cudaEvent_t event)
{
	if (!event || event->magic != EVENT)
		return cudaErrorInvalidResourceHandle;
	return event->flags & cudaEventInterprocess ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

GM_SIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *ret)
{
	return cudaEventCreateWithFlags(ret, cudaEventDefault);
}

GM_SIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	if (!event || event->magic != EVENT)
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
	if (!event || event->magic != EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	int code = check(stream);
	if (code == cudaSuccess) {
		event->capture = capture_of(stream);
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

GM_SIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	if (!event || event->magic != EVENT)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	return (cudaError_t)gm_sim_error(
	        gm_sim_works_done(&event->works) ? cudaSuccess : cudaErrorNotReady);
}

GM_SIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (event && event->magic == EVENT)
		gm_sim_works_wait(&event->works);
	return cudaEventQuery(event);
}

GM_SIM_EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	if (!ms)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!start || !end || start->magic != EVENT || end->magic != EVENT ||
	        (start->flags | end->flags) & cudaEventDisableTiming || !start->time || !end->time)
		return gm_sim_error(cudaErrorInvalidResourceHandle);
	*ms = (float)((double)((int64_t)end->time - (int64_t)start->time) / 1e6);
	return cudaSuccess;
}
