/*
 * Replay: repeats the requests of a recording with PyTorch's own caching allocator and other
 * settings, in a Python on the simulated device.
 *
 * The reserved memory is a function of the allocator's settings, the device's memory and the
 * sequence of requests: sizes, streams, when each block could be reused, when empty_cache() was
 * called. A recording has all of these; no tensor is made and nothing is computed.
 *
 * This room may include model, log and base, and the simulated device's header for starting a
 * program.
 */
#ifndef GM_REPLAY_REPLAY_H
#define GM_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gm_model;

enum gm_replay_kind {
	GM_REPLAY_ALLOC = 1,   /* number: bytes as the program asked for them */
	GM_REPLAY_FREE,        /* number: of the allocation, from 0 */
	GM_REPLAY_EMPTY_CACHE, /* number: 0 */
	GM_REPLAY_REFUSED,     /* number: bytes that PyTorch did not get: an out-of-memory error */
};

/* One device's, in their order. */
struct gm_replay_requests {
	uint8_t *kinds;     /* enum gm_replay_kind */
	int64_t *numbers;   /* see the kinds */
	uint16_t *streams;  /* of allocations, from 0; 0 is the default stream */
	uint32_t *events;   /* the recording's */
	size_t count;       /* of each array */
	size_t allocations; /* how many of them */
	size_t stream_count;
	/* What makes a replay differ from the run. */
	size_t earlier; /* blocks that were allocated before the recording began */
	size_t unknown; /* frees of blocks that it does not have: left out */
	/* Of the run. */
	uint64_t peak_allocated, peak_reserved; /* bytes */
	uint64_t total; /* the device's memory; 0: the recording does not tell */
	size_t refused; /* out-of-memory errors */
};

/* `device`: index of gm_model_device(). GM_TARGET where it has no requests. */
struct gm_error *gm_replay_requests_create(
        const struct gm_model *model, size_t device, struct gm_replay_requests *ret_requests);
void gm_replay_requests_deinit(struct gm_replay_requests *requests);

/* Of the simulated device. */
struct gm_replay_profile {
	char name[32];  /* as it was asked for: gm_sim_profile_parse() */
	uint64_t total; /* bytes */
};
/* `wanted`; NULL: a device with as much memory as the recording tells, else the default one. */
struct gm_error *gm_replay_choose_profile(const struct gm_replay_requests *requests,
        const char *wanted, struct gm_replay_profile *ret_profile);

enum gm_replay_outcome {
	GM_REPLAY_COMPLETE = 1,
	GM_REPLAY_OUT_OF_MEMORY, /* a request that the run had got was refused: it ends there */
	GM_REPLAY_NO_SETTING,    /* this PyTorch does not know the setting: `why` */
};

/* What one setting did. Sizes in bytes, as torch.cuda.memory_stats() has them. */
struct gm_replay_result {
	enum gm_replay_outcome outcome;
	uint64_t peak_allocated, peak_reserved;
	uint64_t peak_unusable; /* the most that was free within segments in parts (inactive_split)
	                         */
	uint64_t retries;       /* how often it had to give cached memory back to go on */
	size_t got; /* of the requests that the run was refused, how many it got; it gives them
	               back at once */
	/* Of GM_REPLAY_OUT_OF_MEMORY. */
	uint32_t event;    /* the recording's event that it could not follow */
	uint64_t size;     /* asked for */
	uint64_t reserved; /* then */
	double seconds;    /* of the requests alone */
	char why[256];
};

struct gm_replay_run {
	const char *python;          /* with the PyTorch; looked for in PATH where it has no '/' */
	const char *profile;         /* of the simulated device: gm_sim_profile_parse() */
	const char *const *settings; /* of PYTORCH_CUDA_ALLOC_CONF; "": PyTorch's defaults */
	size_t count;
	/* Called when one more is done, with how many are. NULL: nobody. */
	void (*progress)(void *data, size_t done);
	void *data;
};

/* One after the other. `ret_version`: of PyTorch. GM_TARGET where the Python cannot do it. */
struct gm_error *gm_replay_run(const struct gm_replay_requests *requests,
        const struct gm_replay_run *run, struct gm_replay_result *ret_results,
        char ret_version[64]);

#endif
