/*
 * The CUDA runtime's allocation functions other than cudaMalloc: those that other libraries use,
 * for host memory, and for memory that is mapped in parts. They are always hooked in import tables
 * (patch.c): none of these names is exported, so that no program mistakes the agent for a CUDA
 * runtime.
 *
 * An allocation is recorded when the call has returned, a release before the call, because
 * afterwards another thread may have the address. Calls that the runtime makes inside are ignored,
 * because the thread is within the agent.
 */
#include "agent/runtime_more.h"

#include <string.h>

#include "agent/patch.h"
#include "agent/allocator.h"
#include "agent/caller.h"
#include "agent/event.h"
#include "agent/state.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 3 /* cudaErrorInitializationError */ };

/* driver_types.h of CUDA 12 and 13 */
struct extent {
	size_t width, height, depth;
};
struct pitched {
	void *pointer;
	size_t pitch, width, height;
};
struct channels {
	int x, y, z, w, kind;
};
struct ipc_handle {
	char reserved[64];
};

void gm_agent_memory(enum gm_agent_action action, enum gm_agent_source source, uint64_t address,
        uint64_t size, uint64_t stream, const struct gm_agent_registers *at)
{
	if (source == GM_AGENT_RUNTIME && gm_agent_is_allocator(at->rip))
		source = GM_AGENT_C10;
	const struct gm_agent_event event = {
	        .action = (uint8_t)action,
	        .device_type = 1,
	        .source = (uint8_t)source,
	        .device = source == GM_AGENT_C10 ? GM_AGENT_DEVICE_UNKNOWN
	                                         : gm_agent_current_device(),
	        .address = address,
	        .size = size,
	        .requested = size,
	        .stream = stream,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .at = at,
	};
	gm_agent_event(&event);
	/* its own caching allocator gets segments; blocks are reported elsewhere */
	if (action == GM_AGENT_SEGMENT_ALLOC &&
	        (source == GM_AGENT_POOL || source == GM_AGENT_RUNTIME))
		gm_agent_allocator_look();
}

static bool enter(void)
{
	return gm_agent_may_record(GM_AGENT_CUDA) && gm_agent_enter();
}

/* A function that is called through a hook was found when the hook was installed. */
#define ORIGINAL(name, type)                              \
	static void *_Atomic before_##name;               \
	static type *original_##name(void)                \
	{                                                 \
		void *found = before_##name;              \
		type *function;                           \
		memcpy(&function, &found, sizeof(found)); \
		return function;                          \
	}

/* An allocation: `parameters` as declared, `arguments` as passed on; address and size if it has
 * succeeded. */
#define ALLOCATION(name, parameters, arguments, source, address, size, stream)    \
	typedef int type_##name parameters;                                       \
	ORIGINAL(name, type_##name)                                               \
	static int hook_##name parameters                                         \
	{                                                                         \
		type_##name *function = original_##name();                        \
		if (!function)                                                    \
			return NOT_INITIALIZED;                                   \
		if (!enter())                                                     \
			return function arguments;                                \
		const struct gm_agent_registers at = gm_agent_caller();           \
		int result = function arguments;                                  \
		if (result == SUCCESS && (address))                               \
			gm_agent_memory(GM_AGENT_SEGMENT_ALLOC, source,           \
			        (uint64_t)(uintptr_t)(address), (uint64_t)(size), \
			        (uint64_t)(uintptr_t)(stream), &at);              \
		gm_agent_leave();                                                 \
		return result;                                                    \
	}

#define RELEASE(name, parameters, arguments, source, address, stream)                             \
	typedef int type_##name parameters;                                                       \
	ORIGINAL(name, type_##name)                                                               \
	static int hook_##name parameters                                                         \
	{                                                                                         \
		type_##name *function = original_##name();                                        \
		if (!function)                                                                    \
			return NOT_INITIALIZED;                                                   \
		if (!(address) || !enter())                                                       \
			return function arguments;                                                \
		const struct gm_agent_registers at = gm_agent_caller();                           \
		gm_agent_memory(GM_AGENT_SEGMENT_FREE, source, (uint64_t)(uintptr_t)(address), 0, \
		        (uint64_t)(uintptr_t)(stream), &at);                                      \
		int result = function arguments;                                                  \
		gm_agent_leave();                                                                 \
		return result;                                                                    \
	}

/* --- device memory ---------------------------------------------------------------------------- */

ALLOCATION(cudaMallocAsync, (void **pointer, size_t size, void *stream), (pointer, size, stream),
        GM_AGENT_POOL, *pointer, size, stream)
ALLOCATION(cudaMallocAsync_ptsz, (void **pointer, size_t size, void *stream),
        (pointer, size, stream), GM_AGENT_POOL, *pointer, size, stream)
ALLOCATION(cudaMallocFromPoolAsync, (void **pointer, size_t size, void *pool, void *stream),
        (pointer, size, pool, stream), GM_AGENT_POOL, *pointer, size, stream)
ALLOCATION(cudaMallocFromPoolAsync_ptsz, (void **pointer, size_t size, void *pool, void *stream),
        (pointer, size, pool, stream), GM_AGENT_POOL, *pointer, size, stream)
RELEASE(cudaFreeAsync, (void *pointer, void *stream), (pointer, stream), GM_AGENT_POOL, pointer,
        stream)
RELEASE(cudaFreeAsync_ptsz, (void *pointer, void *stream), (pointer, stream), GM_AGENT_POOL,
        pointer, stream)
ALLOCATION(cudaMallocManaged, (void **pointer, size_t size, unsigned flags), (pointer, size, flags),
        GM_AGENT_MANAGED, *pointer, size, NULL)
ALLOCATION(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height),
        (pointer, pitch, width, height), GM_AGENT_RUNTIME, *pointer, *pitch *height, NULL)
ALLOCATION(cudaMalloc3D, (struct pitched * pointer, struct extent extent), (pointer, extent),
        GM_AGENT_RUNTIME, pointer->pointer, pointer->pitch *extent.height *extent.depth, NULL)

static size_t array_size(const struct channels *channels, size_t width, size_t height, size_t depth)
{
	size_t bits = (size_t)(channels->x + channels->y + channels->z + channels->w);
	return bits / 8 * width * (height ? height : 1) * (depth ? depth : 1);
}

ALLOCATION(cudaMallocArray,
        (void **array, const struct channels *channels, size_t width, size_t height,
                unsigned flags),
        (array, channels, width, height, flags), GM_AGENT_ARRAY, *array,
        array_size(channels, width, height, 0), NULL)
ALLOCATION(cudaMalloc3DArray,
        (void **array, const struct channels *channels, struct extent extent, unsigned flags),
        (array, channels, extent, flags), GM_AGENT_ARRAY, *array,
        array_size(channels, extent.width, extent.height, extent.depth), NULL)
RELEASE(cudaFreeArray, (void *array), (array), GM_AGENT_ARRAY, array, NULL)

/* Another process's memory: it is counted there. */
ALLOCATION(cudaIpcOpenMemHandle, (void **pointer, struct ipc_handle handle, unsigned flags),
        (pointer, handle, flags), GM_AGENT_IPC, *pointer, 0, NULL)
RELEASE(cudaIpcCloseMemHandle, (void *pointer), (pointer), GM_AGENT_IPC, pointer, NULL)

/* --- host memory ------------------------------------------------------------------------------ */

ALLOCATION(cudaMallocHost, (void **pointer, size_t size), (pointer, size), GM_AGENT_HOST, *pointer,
        size, NULL)
ALLOCATION(cudaHostAlloc, (void **pointer, size_t size, unsigned flags), (pointer, size, flags),
        GM_AGENT_HOST, *pointer, size, NULL)
RELEASE(cudaFreeHost, (void *pointer), (pointer), GM_AGENT_HOST, pointer, NULL)
ALLOCATION(cudaHostRegister, (void *pointer, size_t size, unsigned flags), (pointer, size, flags),
        GM_AGENT_HOST, pointer, size, NULL)
RELEASE(cudaHostUnregister, (void *pointer), (pointer), GM_AGENT_HOST, pointer, NULL)

/* ---- expandable segments: mapped piece by piece, by functions of the driver, which the runtime
 * hands out or dlsym() */

typedef int map_function(uint64_t, size_t, size_t, uint64_t, uint64_t);
ORIGINAL(cuMemMap, map_function)
static int hook_cuMemMap(
        uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
	map_function *function = original_cuMemMap();
	if (!function)
		return NOT_INITIALIZED;
	if (!enter())
		return function(address, size, offset, handle, flags);
	const struct gm_agent_registers at = gm_agent_caller();
	int result = function(address, size, offset, handle, flags);
	if (result == SUCCESS)
		gm_agent_memory(GM_AGENT_SEGMENT_MAP, GM_AGENT_RUNTIME, address, size, 0, &at);
	gm_agent_leave();
	return result;
}

typedef int unmap_function(uint64_t, size_t);
ORIGINAL(cuMemUnmap, unmap_function)
static int hook_cuMemUnmap(uint64_t address, size_t size)
{
	unmap_function *function = original_cuMemUnmap();
	if (!function)
		return NOT_INITIALIZED;
	if (!enter())
		return function(address, size);
	const struct gm_agent_registers at = gm_agent_caller();
	gm_agent_memory(GM_AGENT_SEGMENT_UNMAP, GM_AGENT_RUNTIME, address, size, 0, &at);
	int result = function(address, size);
	gm_agent_leave();
	return result;
}

static void replace(const char *symbol, void **function)
{
	if (!symbol || !function || !*function)
		return;
	if (strcmp(symbol, "cuMemMap") == 0 && *function != (void *)hook_cuMemMap) {
		before_cuMemMap = *function;
		*function = (void *)hook_cuMemMap;
	} else if (strcmp(symbol, "cuMemUnmap") == 0 && *function != (void *)hook_cuMemUnmap) {
		before_cuMemUnmap = *function;
		*function = (void *)hook_cuMemUnmap;
	}
}

typedef int entry_function(const char *, void **, unsigned long long, int *);
ORIGINAL(cudaGetDriverEntryPoint, entry_function)
static int hook_cudaGetDriverEntryPoint(
        const char *symbol, void **function, unsigned long long flags, int *status)
{
	entry_function *original = original_cudaGetDriverEntryPoint();
	int result = original ? original(symbol, function, flags, status) : NOT_INITIALIZED;
	if (result == SUCCESS)
		replace(symbol, function);
	return result;
}

typedef int version_function(const char *, void **, unsigned, unsigned long long, int *);
ORIGINAL(cudaGetDriverEntryPointByVersion, version_function)
static int hook_cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
        unsigned version, unsigned long long flags, int *status)
{
	version_function *original = original_cudaGetDriverEntryPointByVersion();
	int result =
	        original ? original(symbol, function, version, flags, status) : NOT_INITIALIZED;
	if (result == SUCCESS)
		replace(symbol, function);
	return result;
}

/* ---- all of them ----------------------------------------------------------------------------- */

#define ROW(name)                                          \
	{                                                  \
#name, (void *)hook_##name, &before_##name \
	}

const struct gm_agent_hook gm_agent_memory_hooks[] = {
        ROW(cudaMallocAsync),
        ROW(cudaMallocAsync_ptsz),
        ROW(cudaMallocFromPoolAsync),
        ROW(cudaMallocFromPoolAsync_ptsz),
        ROW(cudaFreeAsync),
        ROW(cudaFreeAsync_ptsz),
        ROW(cudaMallocManaged),
        ROW(cudaMallocPitch),
        ROW(cudaMalloc3D),
        ROW(cudaMallocArray),
        ROW(cudaMalloc3DArray),
        ROW(cudaFreeArray),
        ROW(cudaIpcOpenMemHandle),
        ROW(cudaIpcCloseMemHandle),
        ROW(cudaMallocHost),
        ROW(cudaHostAlloc),
        ROW(cudaFreeHost),
        ROW(cudaHostRegister),
        ROW(cudaHostUnregister),
        ROW(cuMemMap),
        ROW(cuMemUnmap),
        ROW(cudaGetDriverEntryPoint),
        ROW(cudaGetDriverEntryPointByVersion),
        {NULL, NULL, NULL},
};
