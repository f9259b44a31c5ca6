/*
 * Streams, events and captures, for stream.c, event.c and capture.c.
 *
 * A capture must end where it began, with all that was put on other streams meanwhile waited for.
 * So each stream of a capture has a place in it, whose entries are counted; a stream and an event
 * know of each other place up to which count they come after it (a vector clock). All this is
 * changed by several threads at once and has the lock of capture.c.
 */
#ifndef GM_SIM_STREAM_STATE_H
#define GM_SIM_STREAM_STATE_H

#include <pthread.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/work.h"

/* Streams of one capture of which it is known what comes after what; of more it is not asked. */
enum { GM_SIM_PLACES = 32 };

struct gm_sim_after {
	uint32_t of[GM_SIM_PLACES];
};

/*
 * A capture, from its beginning on one stream to its end there. Never freed: streams and events
 * that were in it may exist longer, and it is small.
 */
struct gm_sim_capture {
	struct gm_sim_capture *next; /* in progress as well */
	struct CUgraph_st *graph;    /* NULL: it has ended */
	struct CUstream_st *origin;
	unsigned long long id;
	enum cudaStreamCaptureMode mode;
	pthread_t thread; /* that began it */
	int device;
	_Atomic enum cudaStreamCaptureStatus status;
	unsigned places;
	uint32_t count[GM_SIM_PLACES];
};

struct CUstream_st {
	uint64_t magic;
	struct gm_sim_capture *_Atomic capture;
	_Atomic unsigned place; /* in it */
	struct gm_sim_after after;
	unsigned long long id;
	int device, priority;
	unsigned flags;
	struct gm_sim_works works;
};

struct CUevent_st {
	uint64_t magic;
	unsigned flags;
	struct gm_sim_capture *_Atomic capture; /* in which it was recorded */
	struct gm_sim_after after;
	_Atomic uint64_t time;     /* nanoseconds of the device's clock; 0: not recorded */
	struct gm_sim_works works; /* work in progress when it was recorded */
};

#define GM_SIM_STREAM                                                                            \
	UINT64_C(0x6d61657274735347) /* "GSstream" without its last letter; freed handles have 0 \
	                              */
#define GM_SIM_EVENT UINT64_C(0x00746e6576655347)

/* The legacy and the per-thread default streams are small numbers; any other must be one that we
 * created. */
static inline bool gm_sim_stream_special(cudaStream_t stream)
{
	return (uintptr_t)stream <= 2;
}

static inline bool gm_sim_stream_valid(cudaStream_t stream)
{
	return gm_sim_stream_special(stream) || stream->magic == GM_SIM_STREAM;
}

/* The error of a call that is given the stream, or cudaSuccess. */
static inline int gm_sim_stream_check(cudaStream_t stream)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	return gm_sim_stream_valid(stream) ? cudaSuccess
	                                   : gm_sim_error(cudaErrorInvalidResourceHandle);
}

/* The capture that a stream is in, or NULL. The thread's later calls that name no stream, such as
 * those of cuBLAS and cuDNN, are then captured there (gm_sim_captured_here()). */
struct gm_sim_capture *gm_sim_capture_select(cudaStream_t stream);
/* Ends it with an error, and returns the code, as the thread's last error. */
int gm_sim_capture_invalidate(struct gm_sim_capture *capture, int code);
/* A call that waits for the host cannot be captured, and invalidates the capture. */
int gm_sim_capture_waits(cudaStream_t stream);
void gm_sim_capture_record(cudaStream_t stream, cudaEvent_t event, bool external);
/* The stream is destroyed: what was begun on it has no end. */
void gm_sim_capture_abandon(cudaStream_t stream);
/* True where the wait is a capture's matter: with its error in *ret. */
bool gm_sim_capture_wait(cudaStream_t stream, cudaEvent_t event, bool external, int *ret);

#endif
