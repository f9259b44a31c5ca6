/*
 * Which allocator PyTorch uses. Its own caching allocator reports its blocks;
 * `backend:cudaMallocAsync` and pluggable ones do not. For these the recording has their requests
 * to CUDA, which may be less than their blocks, so a gap reports it.
 */
#include "agent/allocator.h"

#include <stdatomic.h>
#include <string.h>

#include "torch/names.h"
#include "agent/gap.h"
#include "agent/lookup.h"

/* The class name of an object: its virtual table is preceded by {.., type information}, which is
 * {.., name} (Itanium C++ ABI, 2.9.5). */
static const char *class_name(void *const *functions)
{
	void *const *type = functions[-1];
	const char *name = type ? type[1] : NULL;
	return name ? name : "";
}

void gm_agent_allocator_look(void)
{
	static void *_Atomic seen;
	void **allocator = gm_agent_lookup("libc10_cuda.so", GM_TORCH_ALLOCATOR);
	void *object = allocator ? __atomic_load_n(allocator, __ATOMIC_ACQUIRE) : NULL;
	void *const *functions = object ? *(void *const **)object : NULL;
	if (!functions || atomic_exchange(&seen, (void *)functions) == (void *)functions)
		return;
	const char *name = class_name(functions);
	if (strstr(name, "CudaMallocAsyncAllocator"))
		gm_agent_gap("PyTorch's allocator is backend:cudaMallocAsync: each block is a "
		             "request to CUDA; what CUDA's pool keeps in addition is not recorded");
	else if (strstr(name, "PluggableAllocator"))
		gm_agent_gap("PyTorch's allocator is a pluggable one: the recording has its "
		             "requests to CUDA; how it divides that memory is not recorded");
}
