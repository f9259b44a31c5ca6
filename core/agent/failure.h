/*
 * The request that failed, while the agent keeps the thread where it failed (--on-oom): for whoever
 * looks at the process, or at the core that is written then. PyTorch has not made its error yet, so
 * nothing else in memory tells.
 *
 * Written by the agent, read by core/ask.
 */
#ifndef GM_AGENT_FAILURE_H
#define GM_AGENT_FAILURE_H

#include <stdint.h>

/* The exported variable gpumem_agent_failure. */
struct gm_agent_failure {
	uint32_t stands; /* 1: the thread stands there now; atomic */
	uint32_t thread; /* as the process knows it */
	int32_t device;
	uint32_t unused;
	/* what c10::reportOutOfMemoryToProfiler() was told */
	uint64_t requested, allocated, reserved;
};

#endif
