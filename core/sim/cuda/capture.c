/*
 * Captures: what is put on a capturing stream goes into a graph (graph.c), and what is not safe, or
 * cannot be, meanwhile is refused. The rules are those of "Prohibited and Unhandled Operations" in
 * CUDA's programming guide.
 */
#include <stdlib.h>

#include "sim/cuda/graph_nodes.h"
#include "sim/cuda/stream_state.h"

/* Of the list, of each capture's graph and of what its streams and events know of its order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_capture *captures; /* in progress */

/*
 * Where the stream that this thread named last is in a capture. A library is told its stream in a
 * call of its own, and an allocation is not told one: such a call belongs to the stream that the
 * same thread named just before. A capture is never freed, so this never dangles.
 */
static _Thread_local struct {
	struct gm_sim_capture *capture;
	unsigned place;
} here;

void gm_sim_capture_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

struct gm_sim_capture *gm_sim_capture_select(cudaStream_t stream)
{
	struct gm_sim_capture *capture = gm_sim_stream_special(stream) ? NULL : stream->capture;
	if (capture && capture->status == cudaStreamCaptureStatusNone)
		capture = NULL;
	here.capture = capture;
	here.place = capture ? stream->place : 0;
	return capture;
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
	stream->after = (struct gm_sim_after){{0}};
	stream->place = capture->places++;
	stream->capture = capture;
}

/* False where the capture has ended meanwhile: then the node is the caller's still. */
static bool put(const struct gm_sim_node *node)
{
	struct gm_sim_capture *capture = here.capture;
	if (!capture)
		return false;
	pthread_mutex_lock(&lock);
	bool there = capture->graph;
	if (there && !gm_sim_graph_add(capture->graph, node)) {
		gm_sim_node_free(node);
		invalidate(capture);
	}
	if (there && here.place < GM_SIM_PLACES)
		capture->count[here.place]++;
	pthread_mutex_unlock(&lock);
	return there;
}

bool gm_sim_captured(cudaStream_t stream, const struct gm_sim_node *node)
{
	return gm_sim_stream_captures(stream) && put(node);
}

bool gm_sim_stream_captures(cudaStream_t stream)
{
	if (gm_sim_stream_special(stream) || stream->magic == GM_SIM_STREAM)
		return gm_sim_capture_select(stream);
	here.capture = NULL;
	return false;
}

bool gm_sim_captures_here(void)
{
	return here.capture && here.capture->status == cudaStreamCaptureStatusActive;
}

bool gm_sim_captured_here(const struct gm_sim_node *node)
{
	return gm_sim_captures_here() && put(node);
}

bool gm_sim_captured_library(void)
{
	return gm_sim_captured_here(&(struct gm_sim_node){.what = GM_SIM_NODE_LIBRARY});
}

bool gm_sim_stream_capturing(cudaStream_t stream)
{
	return gm_sim_capture_select(stream) != NULL;
}

int gm_sim_capture_waits(cudaStream_t stream)
{
	struct gm_sim_capture *capture = gm_sim_capture_select(stream);
	return capture ? gm_sim_capture_invalidate(capture, cudaErrorStreamCaptureUnsupported)
	               : cudaSuccess;
}

/* Invalidates those in progress that forbid a call; true where there are any. */
static bool invalidate_each(bool (*forbids)(const struct gm_sim_capture *capture))
{
	bool any = false;
	pthread_mutex_lock(&lock);
	for (struct gm_sim_capture *capture = captures; capture; capture = capture->next) {
		if (capture->status != cudaStreamCaptureStatusActive || !forbids(capture))
			continue;
		invalidate(capture);
		any = true;
	}
	pthread_mutex_unlock(&lock);
	return any;
}

static bool on_current_device(const struct gm_sim_capture *capture)
{
	return capture->device == gm_sim_current_index();
}

int gm_sim_capture_device_waits(void)
{
	return invalidate_each(on_current_device) ? gm_sim_error(cudaErrorStreamCaptureUnsupported)
	                                          : cudaSuccess;
}

void gm_sim_capture_record(cudaStream_t stream, cudaEvent_t event, bool external)
{
	/* An external event is one of the graph's work, not of its order. */
	struct gm_sim_capture *capture = gm_sim_capture_select(stream);
	if (external)
		capture = NULL;
	if (!capture && !event->capture)
		return;
	pthread_mutex_lock(&lock);
	event->capture = capture;
	if (capture) {
		event->after = stream->after;
		if (here.place < GM_SIM_PLACES)
			event->after.of[here.place] = capture->count[here.place];
	}
	pthread_mutex_unlock(&lock);
}

/* Call with the lock held. */
static bool wait_for(cudaStream_t stream, cudaEvent_t event, bool external, int *ret)
{
	struct gm_sim_capture *here_in = gm_sim_capture_select(stream), *there = event->capture;
	if (!there || there->status == cudaStreamCaptureStatusNone) {
		/* The graph cannot wait for what was before it. */
		if (here_in && event->time && !external)
			*ret = gm_sim_capture_invalidate(here_in, cudaErrorStreamCaptureIsolation);
		return here_in != NULL;
	}
	if (here_in && here_in != there) {
		invalidate(there);
		*ret = gm_sim_capture_invalidate(here_in, cudaErrorStreamCaptureMerge);
		return true;
	}
	if (!here_in && there->status != cudaStreamCaptureStatusActive)
		return false;
	if (gm_sim_stream_special(stream)) {
		*ret = gm_sim_error(cudaErrorStreamCaptureImplicit);
		return true;
	}
	if (!here_in)
		enter(stream, there);
	for (unsigned i = 0; i < GM_SIM_PLACES; i++)
		if (event->after.of[i] > stream->after.of[i])
			stream->after.of[i] = event->after.of[i];
	return true;
}

bool gm_sim_capture_wait(cudaStream_t stream, cudaEvent_t event, bool external, int *ret)
{
	*ret = cudaSuccess;
	if (!gm_sim_capture_select(stream) && !event->capture)
		return false;
	pthread_mutex_lock(&lock);
	bool its = wait_for(stream, event, external, ret);
	pthread_mutex_unlock(&lock);
	return its;
}

/* True where all that is in the capture is before the end of its first stream, whose place is 0. */
static bool joined(const struct gm_sim_capture *capture)
{
	for (unsigned i = 1; i < GM_SIM_PLACES; i++)
		if (capture->count[i] > capture->origin->after.of[i])
			return false;
	return true;
}

/* It has ended: its graph, which is the caller's. Call with the lock held. */
static struct CUgraph_st *take_out(struct gm_sim_capture *capture)
{
	struct gm_sim_capture **at = &captures;
	while (*at != capture)
		at = &(*at)->next;
	*at = capture->next;
	struct CUgraph_st *graph = capture->graph;
	capture->status = cudaStreamCaptureStatusNone;
	capture->graph = NULL;
	capture->origin->capture = NULL;
	return graph;
}

void gm_sim_capture_abandon(cudaStream_t stream)
{
	struct gm_sim_capture *capture = gm_sim_capture_select(stream);
	struct CUgraph_st *graph = NULL;
	pthread_mutex_lock(&lock);
	if (capture && capture->graph && capture->origin == stream)
		graph = take_out(capture);
	pthread_mutex_unlock(&lock);
	if (graph)
		gm_sim_graph_free(graph);
}

GM_SIM_EXPORT cudaError_t cudaStreamBeginCapture(
        cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	static unsigned long long ids = 1;
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
		return gm_sim_error(cudaErrorInvalidValue);
	/* The default streams cannot be captured. */
	if (gm_sim_stream_special(stream))
		return gm_sim_error(cudaErrorStreamCaptureUnsupported);
	struct gm_sim_capture *capture = calloc(1, sizeof(*capture));
	if (!capture || !(capture->graph = gm_sim_graph_create())) {
		free(capture);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	capture->origin = stream;
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->device = stream->device;
	capture->status = cudaStreamCaptureStatusActive;
	pthread_mutex_lock(&lock);
	bool captured = gm_sim_capture_select(stream);
	if (!captured) {
		capture->id = ids++;
		enter(stream, capture);
		gm_sim_capture_select(stream);
		capture->next = captures;
		captures = capture;
	}
	pthread_mutex_unlock(&lock);
	if (!captured)
		return cudaSuccess;
	gm_sim_graph_free(capture->graph);
	free(capture);
	return gm_sim_error(cudaErrorIllegalState);
}

GM_SIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret)
{
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	struct gm_sim_capture *capture = gm_sim_capture_select(stream);
	if (!ret || !capture)
		return gm_sim_error(ret ? cudaErrorIllegalState : cudaErrorInvalidValue);
	if (capture->origin != stream)
		return gm_sim_error(cudaErrorStreamCaptureUnmatched);
	if (capture->mode != cudaStreamCaptureModeRelaxed &&
	        !pthread_equal(capture->thread, pthread_self()))
		return gm_sim_error(cudaErrorStreamCaptureWrongThread);
	pthread_mutex_lock(&lock);
	code = capture->status == cudaStreamCaptureStatusInvalidated
	               ? cudaErrorStreamCaptureInvalidated
	       : joined(capture) ? cudaSuccess
	                         : cudaErrorStreamCaptureUnjoined;
	*ret = capture->graph ? take_out(capture) : NULL;
	pthread_mutex_unlock(&lock);
	if (!*ret) /* another thread has ended it */
		return gm_sim_error(cudaErrorIllegalState);
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
		struct gm_sim_capture *capture = gm_sim_capture_select(stream);
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
	struct gm_sim_capture *capture = gm_sim_capture_select(stream);
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

/* The rules are those of cudaThreadExchangeStreamCaptureMode() in CUDA's documentation. */
static bool forbids_this_thread(const struct gm_sim_capture *capture)
{
	if (capture->mode == cudaStreamCaptureModeRelaxed)
		return false;
	return pthread_equal(capture->thread, pthread_self()) ||
	       (of_thread == cudaStreamCaptureModeGlobal &&
	               capture->mode == cudaStreamCaptureModeGlobal);
}

/* A real device (an H200) then returns from the call with an error, and invalidates the capture. */
bool gm_sim_capture_forbids(void)
{
	return of_thread != cudaStreamCaptureModeRelaxed && invalidate_each(forbids_this_thread);
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
