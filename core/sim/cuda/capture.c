/*
 * Captures: what is put on a capturing stream goes into a graph (graph.c), and what is not safe, or
 * cannot be, meanwhile is refused. The rules are those of "Prohibited and Unhandled Operations" in
 * CUDA's programming guide.
 */
#include <stdlib.h>

#include "sim/cuda/graph_nodes.h"
#include "sim/cuda/stream_state.h"
#include "sim/kernels/captured.h"

struct gm_sim_capture *gm_sim_capture_of(cudaStream_t stream)
{
	struct gm_sim_capture *capture = gm_sim_stream_special(stream) ? NULL : stream->capture;
	return capture && capture->status != cudaStreamCaptureStatusNone ? capture : NULL;
}

/* One that has ended stays so. */
static void invalidate(struct gm_sim_capture *capture)
{
	enum cudaStreamCaptureStatus active = cudaStreamCaptureStatusActive;
	atomic_compare_exchange_strong(
	        &capture->status, &active, cudaStreamCaptureStatusInvalidated);
}

int gm_sim_capture_invalidate(struct gm_sim_capture *capture, int code)
{
	invalidate(capture);
	return gm_sim_error(code);
}

/* The stream is in the capture from now on. */
static void enter(cudaStream_t stream, struct gm_sim_capture *capture)
{
	stream->place = atomic_fetch_add(&capture->places, 1);
	stream->after = (struct gm_sim_after){{0}};
	stream->capture = capture;
}

bool gm_sim_captured(cudaStream_t stream, const struct gm_sim_node *node)
{
	if (gm_sim_stream_special(stream) || stream->magic != GM_SIM_STREAM)
		return false;
	struct gm_sim_capture *capture = gm_sim_capture_of(stream);
	if (!capture)
		return false;
	if (!gm_sim_graph_add(capture->graph, node)) {
		gm_sim_kept_free(node->kept);
		invalidate(capture);
	}
	if (stream->place < GM_SIM_PLACES)
		stream->after.of[stream->place] =
		        atomic_fetch_add(&capture->count[stream->place], 1) + 1;
	return true;
}

bool gm_sim_stream_captures(cudaStream_t stream)
{
	return !gm_sim_stream_special(stream) && stream->magic == GM_SIM_STREAM &&
	       gm_sim_capture_of(stream);
}

static struct gm_sim_capture *_Atomic latest;

bool gm_sim_graph_captures(void)
{
	struct gm_sim_capture *capture = latest;
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

bool gm_sim_stream_capturing(cudaStream_t stream)
{
	return gm_sim_capture_of(stream) != NULL;
}

int gm_sim_capture_waits(cudaStream_t stream)
{
	struct gm_sim_capture *capture = gm_sim_capture_of(stream);
	return capture ? gm_sim_capture_invalidate(capture, cudaErrorStreamCaptureUnsupported)
	               : cudaSuccess;
}

int gm_sim_capture_device_waits(void)
{
	struct gm_sim_capture *capture = latest;
	return gm_sim_graph_captures() && capture->device == gm_sim_current_index()
	               ? gm_sim_capture_invalidate(capture, cudaErrorStreamCaptureUnsupported)
	               : cudaSuccess;
}

void gm_sim_capture_record(cudaStream_t stream, cudaEvent_t event, bool external)
{
	/* An external event is one of the graph's work, not of its order. */
	event->capture = external ? NULL : gm_sim_capture_of(stream);
	if (event->capture)
		event->after = stream->after;
}

bool gm_sim_capture_wait(cudaStream_t stream, cudaEvent_t event, bool external, int *ret)
{
	struct gm_sim_capture *here = gm_sim_capture_of(stream), *there = event->capture;
	*ret = cudaSuccess;
	if (!there || there->status == cudaStreamCaptureStatusNone) {
		/* The graph cannot wait for what was before it. */
		if (here && event->time && !external)
			*ret = gm_sim_capture_invalidate(here, cudaErrorStreamCaptureIsolation);
		return here != NULL;
	}
	if (here && here != there) {
		invalidate(there);
		*ret = gm_sim_capture_invalidate(here, cudaErrorStreamCaptureMerge);
		return true;
	}
	if (!here && there->status != cudaStreamCaptureStatusActive)
		return false;
	if (gm_sim_stream_special(stream)) {
		*ret = gm_sim_error(cudaErrorStreamCaptureImplicit);
		return true;
	}
	if (!here)
		enter(stream, there);
	for (unsigned i = 0; i < GM_SIM_PLACES; i++)
		if (event->after.of[i] > stream->after.of[i])
			stream->after.of[i] = event->after.of[i];
	return true;
}

/* True where all that is in the capture is before the end of its first stream. */
static bool joined(const struct gm_sim_capture *capture)
{
	for (unsigned i = 0; i < GM_SIM_PLACES; i++)
		if (capture->count[i] > capture->origin->after.of[i])
			return false;
	return true;
}

GM_SIM_EXPORT cudaError_t cudaStreamBeginCapture(
        cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	static _Atomic unsigned long long ids = 1;
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
		return gm_sim_error(cudaErrorInvalidValue);
	/* The default streams cannot be captured. */
	if (gm_sim_stream_special(stream))
		return gm_sim_error(cudaErrorStreamCaptureUnsupported);
	if (gm_sim_capture_of(stream))
		return gm_sim_error(cudaErrorIllegalState);
	struct gm_sim_capture *capture = calloc(1, sizeof(*capture));
	if (!capture || !(capture->graph = gm_sim_graph_create())) {
		free(capture);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	capture->origin = stream;
	capture->id = atomic_fetch_add(&ids, 1);
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->device = stream->device;
	capture->status = cudaStreamCaptureStatusActive;
	enter(stream, capture);
	latest = capture;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret)
{
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	struct gm_sim_capture *capture = gm_sim_capture_of(stream);
	if (!ret || !capture)
		return gm_sim_error(ret ? cudaErrorIllegalState : cudaErrorInvalidValue);
	if (capture->origin != stream)
		return gm_sim_error(cudaErrorStreamCaptureUnmatched);
	if (capture->mode != cudaStreamCaptureModeRelaxed &&
	        !pthread_equal(capture->thread, pthread_self()))
		return gm_sim_error(cudaErrorStreamCaptureWrongThread);
	code = capture->status == cudaStreamCaptureStatusInvalidated
	               ? cudaErrorStreamCaptureInvalidated
	       : joined(capture) ? cudaSuccess
	                         : cudaErrorStreamCaptureUnjoined;
	capture->status = cudaStreamCaptureStatusNone;
	stream->capture = NULL;
	*ret = capture->graph;
	capture->graph = NULL;
	if (code == cudaSuccess)
		return cudaSuccess;
	gm_sim_graph_free(*ret);
	*ret = NULL;
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaStreamIsCapturing(
        cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	int code = gm_sim_stream_check(stream);
	if (code == cudaSuccess && !status)
		code = gm_sim_error(cudaErrorInvalidValue);
	if (code == cudaSuccess) {
		struct gm_sim_capture *capture = gm_sim_capture_of(stream);
		*status = capture ? capture->status : cudaStreamCaptureStatusNone;
	}
	return (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
        enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count)
{
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	struct gm_sim_capture *capture = gm_sim_capture_of(stream);
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
	struct gm_sim_capture *capture = latest;
	if (!gm_sim_graph_captures() || of_thread == cudaStreamCaptureModeRelaxed ||
	        capture->mode == cudaStreamCaptureModeRelaxed)
		return false;
	if (!pthread_equal(capture->thread, pthread_self()) &&
	        (of_thread != cudaStreamCaptureModeGlobal ||
	                capture->mode != cudaStreamCaptureModeGlobal))
		return false;
	invalidate(capture);
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
