/*
 * The CUDA runtime's cudaMalloc and cudaFree: memory that PyTorch's allocator gets from CUDA and
 * returns, and memory that other libraries get.
 */
#include "agent/runtime.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "torch/allocator.h"
#include "agent/allocator.h"
#include "agent/block.h"
#include "agent/caller.h"
#include "agent/event.h"
#include "agent/lookup.h"
#include "agent/state.h"

typedef int malloc_function(void **, size_t);
typedef int free_function(void *);
typedef int query_function(void *);

GM_AGENT_EXPORT malloc_function cudaMalloc;
GM_AGENT_EXPORT free_function cudaFree;
GM_AGENT_EXPORT query_function cudaEventQuery;

enum { SUCCESS = 0, NOT_INITIALIZED = 3 /* cudaErrorInitializationError */ };

static void *_Atomic before_malloc, *_Atomic before_free, *_Atomic before_query;

const struct gm_agent_hook gm_agent_runtime_hooks[] = {
        {"cudaMalloc", (void *)cudaMalloc, &before_malloc},
        {"cudaFree", (void *)cudaFree, &before_free},
        {"cudaEventQuery", (void *)cudaEventQuery, &before_query},
        {NULL, NULL, NULL},
};

static void *go_on(void *_Atomic *before, const char *symbol)
{
	void *function = atomic_load_explicit(before, memory_order_relaxed);
	if (!function) {
		function = gm_agent_lookup("libcudart.so", symbol);
		atomic_store_explicit(before, function, memory_order_relaxed);
	}
	return function;
}

static bool any_waits(void)
{
	for (int i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		if (gm_agent_blocks_wait(i))
			return true;
	return false;
}

static void all_completions(const struct gm_agent_registers *at)
{
	for (int16_t i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		if (gm_agent_blocks_wait(i))
			gm_agent_completions(i, at);
}

static enum gm_agent_source source_of(uint64_t address)
{
	return gm_agent_is_allocator(address) ? GM_AGENT_C10 : GM_AGENT_RUNTIME;
}

static void see(enum gm_agent_action action, uint64_t address, uint64_t size,
        const struct gm_agent_registers *at)
{
	const struct gm_agent_event event = {
	        .action = (uint8_t)action,
	        .device_type = 1,
	        .source = (uint8_t)source_of(at->rip),
	        .device = source_of(at->rip) == GM_AGENT_C10 ? GM_AGENT_DEVICE_UNKNOWN
	                                                     : gm_agent_current_device(),
	        .address = address,
	        .size = size,
	        .requested = size,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .at = at,
	};
	/* the allocator has looked for them before this call */
	if (event.source == GM_AGENT_C10)
		all_completions(at);
	gm_agent_event(&event);
}

int cudaMalloc(void **pointer, size_t size)
{
	malloc_function *function;
	*(void **)&function = go_on(&before_malloc, "cudaMalloc");
	if (!function)
		return NOT_INITIALIZED;
	if (!gm_agent_may_record(GM_AGENT_CUDA) || !gm_agent_enter())
		return function(pointer, size);
	const struct gm_agent_registers at = gm_agent_caller();
	int result = function(pointer, size);
	if (result == SUCCESS && *pointer)
		see(GM_AGENT_SEGMENT_ALLOC, (uint64_t)*pointer, size, &at);
	if (result == SUCCESS && source_of(at.rip) != GM_AGENT_C10)
		gm_agent_allocator_look();
	gm_agent_leave();
	return result;
}

/* Recorded before the call: after it another thread may get the address. */
int cudaFree(void *pointer)
{
	free_function *function;
	*(void **)&function = go_on(&before_free, "cudaFree");
	if (!function)
		return NOT_INITIALIZED;
	if (!pointer || !gm_agent_may_record(GM_AGENT_CUDA) || !gm_agent_enter())
		return function(pointer);
	const struct gm_agent_registers at = gm_agent_caller();
	see(GM_AGENT_SEGMENT_FREE, (uint64_t)pointer, 0, &at);
	int result = function(pointer);
	gm_agent_leave();
	return result;
}

/*
 * How PyTorch's allocator finds out which waiting frees have completed: it queries one event after
 * the other (process_events(), c10/cuda/CUDACachingAllocator.cpp) and completes a free when its
 * last event is over. So between two queries at most one free completes, and their order is known.
 */
int cudaEventQuery(void *event)
{
	query_function *function;
	*(void **)&function = go_on(&before_query, "cudaEventQuery");
	if (!function)
		return NOT_INITIALIZED;
	if (any_waits() && gm_agent_may_record(GM_AGENT_CUDA) && gm_agent_enter()) {
		const struct gm_agent_registers at = gm_agent_caller();
		if (source_of(at.rip) == GM_AGENT_C10)
			all_completions(&at);
		gm_agent_leave();
	}
	return function(event);
}
