/*
 * Kernels: the program registers each with its name when its libraries are loaded; a launch is counted and
 * computes nothing. Registration and launch use the runtime's internal entry points (__cuda…), as nvcc's
 * host code calls them (CUDA 13.0, crt/host_runtime.h and crt/host_defines.h); the handle of a kernel is
 * our own record of it.
 */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define KERNEL_MAGIC UINT64_C(0x6c656e72656b6d67)

struct entry {
	struct gm_sim_kernel kernel;
	UT_hash_handle hh;
};

struct variable {
	const void *host;
	size_t size;
	void *device; /* given when first asked for */
	UT_hash_handle hh;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *kernels;
static struct variable *variables;

/* prototypes that no public header has */
GM_SIM_EXPORT void **__cudaRegisterFatBinary(void *binary);
GM_SIM_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
GM_SIM_EXPORT void __cudaUnregisterFatBinary(void **handle);
GM_SIM_EXPORT char __cudaInitModule(void **handle);
GM_SIM_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
	const char *name, int threads, void *a, void *b, void *c, void *d, int *e);
GM_SIM_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
	int external, size_t size, int constant, int global);
GM_SIM_EXPORT unsigned __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared, void *stream);
GM_SIM_EXPORT cudaError_t __cudaPopCallConfiguration(
	struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);
GM_SIM_EXPORT cudaError_t __cudaGetKernel(void **kernel, const void *host);
GM_SIM_EXPORT cudaError_t __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block,
	void **arguments, size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary)
{
	/* A handle of its own per module; nothing reads it. */
	return calloc(1, sizeof(void *));
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

void __cudaUnregisterFatBinary(void **handle)
{
	free(handle);
}

char __cudaInitModule(void **handle)
{
	return 1;
}

static struct gm_sim_kernel *find(const void *host)
{
	struct entry *entry;
	pthread_rwlock_rdlock(&lock);
	HASH_FIND_PTR(kernels, &host, entry);
	pthread_rwlock_unlock(&lock);
	return entry ? &entry->kernel : NULL;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
	int threads, void *a, void *b, void *c, void *d, int *e)
{
	struct entry *entry;
	pthread_rwlock_wrlock(&lock);
	HASH_FIND_PTR(kernels, &host, entry);
	if (!entry && (entry = calloc(1, sizeof(*entry)))) {
		entry->kernel.magic = KERNEL_MAGIC;
		entry->kernel.host = host;
		/* The name lies in the module's data; a module that is unloaded would take it along. */
		entry->kernel.name = strdup(name);
		HASH_ADD_PTR(kernels, kernel.host, entry);
	}
	pthread_rwlock_unlock(&lock);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
	size_t size, int constant, int global)
{
	struct variable *variable;
	const void *key = host;
	pthread_rwlock_wrlock(&lock);
	HASH_FIND_PTR(variables, &key, variable);
	if (!variable && (variable = calloc(1, sizeof(*variable)))) {
		variable->host = host;
		variable->size = size;
		HASH_ADD_PTR(variables, host, variable);
	}
	pthread_rwlock_unlock(&lock);
}

/* Module variables live in the context's own part of the memory, which no cudaMalloc hands out. */
GM_SIM_EXPORT cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol)
{
	static uint64_t next;
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	struct variable *variable;
	pthread_rwlock_wrlock(&lock);
	HASH_FIND_PTR(variables, &symbol, variable);
	if (variable && !variable->device && next + variable->size < device->account->context) {
		variable->device = device->base + next;
		next += (variable->size + 255) & ~(uint64_t)255;
	}
	void *address = variable ? variable->device : NULL;
	pthread_rwlock_unlock(&lock);
	if (!address)
		return gm_sim_error(cudaErrorInvalidSymbol);
	*pointer = address;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemcpyToSymbol(
	const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t code = cudaGetSymbolAddress(&address, symbol);
	return code == cudaSuccess ? cudaMemcpy((char *)address + offset, from, size, kind) : code;
}

void gm_sim_kernel_each(void (*visit)(const struct gm_sim_kernel *, void *), void *data)
{
	pthread_rwlock_rdlock(&lock);
	for (struct entry *entry = kernels; entry; entry = entry->hh.next)
		if (entry->kernel.launches)
			visit(&entry->kernel, data);
	pthread_rwlock_unlock(&lock);
}

static cudaError_t launch(struct gm_sim_kernel *kernel)
{
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	if (!kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	atomic_fetch_add_explicit(&kernel->launches, 1, memory_order_relaxed);
	GM_SIM_COUNT(gpumem_sim_account.launches, 1);
	GM_SIM_COUNT(gpumem_sim_account.not_computed, 1);
	return cudaSuccess;
}

/* A kernel's own handle or its host-side stub, whichever the caller has. */
static struct gm_sim_kernel *kernel_of(const void *any)
{
	struct gm_sim_kernel *kernel = find(any);
	if (kernel)
		return kernel;
	struct entry *entry = NULL;
	pthread_rwlock_rdlock(&lock);
	for (entry = kernels; entry && (const void *)&entry->kernel != any; entry = entry->hh.next)
		;
	pthread_rwlock_unlock(&lock);
	return entry ? &entry->kernel : NULL;
}

cudaError_t __cudaGetKernel(void **kernel, const void *host)
{
	struct gm_sim_kernel *found = find(host);
	if (!found)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	*kernel = found;
	return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
	size_t shared, cudaStream_t stream)
{
	/* The handle is what __cudaGetKernel gave: no search on the path every launch takes. */
	struct gm_sim_kernel *own = kernel;
	return launch(own && own->magic == KERNEL_MAGIC ? own : kernel_of(kernel));
}

GM_SIM_EXPORT cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block,
	void **arguments, size_t shared, cudaStream_t stream)
{
	return launch(kernel_of(function));
}

GM_SIM_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *function, struct dim3 grid,
	struct dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
	return launch(kernel_of(function));
}

GM_SIM_EXPORT cudaError_t cudaLaunchKernelExC(
	const cudaLaunchConfig_t *configuration, const void *function, void **arguments)
{
	return launch(kernel_of(function));
}

/* <<<grid, block, shared, stream>>> pushes, the host stub that it calls pops. */
struct configuration {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
};
enum { CONFIGURATIONS = 16 };
static _Thread_local struct configuration pushed[CONFIGURATIONS];
static _Thread_local unsigned pushed_count;

unsigned __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
	if (pushed_count == CONFIGURATIONS)
		return 1;
	pushed[pushed_count++] = (struct configuration){ grid, block, shared, stream };
	return 0;
}

cudaError_t __cudaPopCallConfiguration(
	struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
	if (!pushed_count)
		return gm_sim_error(cudaErrorMissingConfiguration);
	const struct configuration *top = &pushed[--pushed_count];
	*grid = top->grid;
	*block = top->block;
	*shared = top->shared;
	*(void **)stream = top->stream;
	return cudaSuccess;
}

static int attribute_of(enum cudaDeviceAttr attribute, int fallback)
{
	int value;
	int index = gm_sim_current_index();
	return cudaDeviceGetAttribute(&value, attribute, index) == cudaSuccess ? value : fallback;
}

GM_SIM_EXPORT cudaError_t cudaFuncGetAttributes(
	struct cudaFuncAttributes *attributes, const void *function)
{
	struct gm_sim_kernel *kernel = kernel_of(function);
	if (!kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	memset(attributes, 0, sizeof(*attributes));
	attributes->maxThreadsPerBlock = attribute_of(cudaDevAttrMaxThreadsPerBlock, 1024);
	attributes->numRegs = 32;
	int version = attribute_of(cudaDevAttrComputeCapabilityMajor, 9) * 10 +
		      attribute_of(cudaDevAttrComputeCapabilityMinor, 0);
	attributes->ptxVersion = attributes->binaryVersion = version;
	attributes->maxDynamicSharedSizeBytes = kernel->shared_max ? kernel->shared_max : 48 << 10;
	attributes->preferredShmemCarveout = -1;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaFuncSetAttribute(
	const void *function, enum cudaFuncAttribute attribute, int value)
{
	struct gm_sim_kernel *kernel = kernel_of(function);
	if (!kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
		if (value > attribute_of(cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 << 10))
			return gm_sim_error(cudaErrorInvalidValue);
		kernel->shared_max = value;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache configuration)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *function, int block_size, size_t shared, unsigned flags)
{
	if (!blocks || block_size <= 0)
		return gm_sim_error(cudaErrorInvalidValue);
	/* By threads and shared memory; what the registers would allow is not known. */
	int most = attribute_of(cudaDevAttrMaxBlocksPerMultiprocessor, 16);
	int by_threads = attribute_of(cudaDevAttrMaxThreadsPerMultiProcessor, 1024) / block_size;
	size_t room = (size_t)attribute_of(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 64 << 10);
	int by_shared = shared ? (int)(room / shared) : most;
	*blocks = most < by_threads ? most : by_threads;
	if (by_shared < *blocks)
		*blocks = by_shared;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, const void *function, int block_size, size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		blocks, function, block_size, shared, 0);
}
