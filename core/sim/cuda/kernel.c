/*
 * Kernels: the program's start-up code registers them with their names; launches are counted, and
 * not executed here.
 *
 * Every __global__ function has a host-side stub; its address is the key that the runtime uses.
 * torch registers tens of thousands while it loads, so the table is a growing hash table of
 * pointers, and a registration stores only pointers to the program's own read-only data.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/work.h"
#include "sim/kernels/captured.h"
#include "sim/kernels/plan.h"

#define KERNEL UINT64_C(0x006c656e72656b47)

/* Functions that CUDA's compiler makes every program call (crt/host_runtime.h and host_defines.h,
 * CUDA 13.0). */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
        int limit, void *thread, void *block, dim3 *block_dim, dim3 *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
        size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *ret, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
        size_t shared, cudaStream_t stream);

/* A variable of the device: its offset in the context's own part of each device's memory. */
struct variable {
	const void *host;
	const char *name;
	size_t size;
	uint64_t offset;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_kernel **table; /* open addressing; the capacity is a power of two */
static size_t places, kernels;
static struct variable *variables;
static size_t variable_count, variable_capacity;
static uint64_t variable_bytes;

void gm_sim_kernel_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

static size_t place_of(const void *host, size_t count)
{
	return (size_t)(((uintptr_t)host >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (count - 1);
}

static bool grow(void)
{
	size_t more = places ? places * 2 : 4096;
	struct gm_sim_kernel **wider = calloc(more, sizeof(*wider));
	if (!wider)
		return false;
	for (size_t i = 0; i < places; i++) {
		if (!table[i])
			continue;
		size_t at = place_of(table[i]->host, more);
		while (wider[at])
			at = (at + 1) & (more - 1);
		wider[at] = table[i];
	}
	free(table);
	table = wider;
	places = more;
	return true;
}

static struct gm_sim_kernel *find(const void *host)
{
	if (!places)
		return NULL;
	for (size_t at = place_of(host, places); table[at]; at = (at + 1) & (places - 1))
		if (table[at]->host == host)
			return table[at];
	return NULL;
}

/* Kernels are allocated in arrays: one allocation for each would be larger than the kernel. */
static struct gm_sim_kernel *new_kernel(void)
{
	static struct gm_sim_kernel *block;
	static size_t left;
	if (!left) {
		left = 512;
		block = calloc(left, sizeof(*block));
		if (!block) {
			left = 0;
			return NULL;
		}
	}
	left--;
	return block++;
}

GM_SIM_EXPORT void **__cudaRegisterFatBinary(void *binary)
{
	/* Of the device code only its architectures are needed; never freed, because kernels point
	 * to it. */
	void **module = malloc(sizeof(*module));
	static void *none;
	if (!module)
		return &none;
	*module = binary;
	return module;
}

GM_SIM_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
}

GM_SIM_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
}

GM_SIM_EXPORT char __cudaInitModule(void **handle)
{
	return 1;
}

/* Call with the lock held. */
static struct gm_sim_kernel *add(const void *host, const char *name)
{
	if (kernels * 2 >= places && !grow())
		return NULL;
	struct gm_sim_kernel *kernel = new_kernel();
	if (!kernel)
		return NULL;
	kernel->magic = KERNEL;
	kernel->host = host ? host : kernel;
	kernel->name = name;
	size_t at = place_of(kernel->host, places);
	while (table[at])
		at = (at + 1) & (places - 1);
	table[at] = kernel;
	kernels++;
	return kernel;
}

struct gm_sim_kernel *gm_sim_kernel_add(const char *name)
{
	char *copy = strdup(name);
	if (!copy)
		return NULL;
	pthread_mutex_lock(&lock);
	struct gm_sim_kernel *kernel = add(NULL, copy);
	pthread_mutex_unlock(&lock);
	if (!kernel)
		free(copy);
	return kernel;
}

GM_SIM_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
        const char *name, int limit, void *thread, void *block, dim3 *block_dim, dim3 *grid_dim,
        int *warp_size)
{
	pthread_mutex_lock(&lock);
	if (!find(host)) {
		struct gm_sim_kernel *kernel = add(host, name ? name : "?");
		if (kernel)
			kernel->fatbin = handle ? *handle : NULL;
	}
	pthread_mutex_unlock(&lock);
}

GM_SIM_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
        int external, size_t size, int constant, int global)
{
	pthread_mutex_lock(&lock);
	if (variable_count == variable_capacity) {
		size_t capacity = variable_capacity ? variable_capacity * 2 : 64;
		struct variable *more = reallocarray(variables, capacity, sizeof(*more));
		if (!more) {
			pthread_mutex_unlock(&lock);
			return;
		}
		variables = more;
		variable_capacity = capacity;
	}
	variables[variable_count++] = (struct variable){host, name, size, variable_bytes};
	variable_bytes += (size + 511) & ~(uint64_t)511;
	pthread_mutex_unlock(&lock);
}

static bool find_variable(const void *host, struct variable *ret)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < variable_count && !found; i++)
		if (variables[i].host == host) {
			*ret = variables[i];
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

GM_SIM_EXPORT cudaError_t cudaGetSymbolAddress(void **ret, const void *symbol)
{
	struct variable variable;
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (!ret || !find_variable(symbol, &variable) ||
	        variable.offset + variable.size > device->account->context)
		return gm_sim_error(cudaErrorInvalidSymbol);
	*ret = device->base + variable.offset;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetSymbolSize(size_t *ret, const void *symbol)
{
	struct variable variable;
	if (!ret || !find_variable(symbol, &variable))
		return gm_sim_error(cudaErrorInvalidSymbol);
	*ret = variable.size;
	return cudaSuccess;
}

static int symbol_range(const void *symbol, size_t size, size_t offset, char **ret)
{
	struct variable variable;
	void *address = NULL;
	int code = cudaGetSymbolAddress(&address, symbol);
	if (code != cudaSuccess)
		return code;
	if (!find_variable(symbol, &variable))
		return gm_sim_error(cudaErrorInvalidSymbol);
	if (offset > variable.size || size > variable.size - offset)
		return gm_sim_error(cudaErrorInvalidValue);
	*ret = (char *)address + offset;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemcpyToSymbol(
        const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	char *to = NULL;
	int code = symbol_range(symbol, size, offset, &to);
	return code == cudaSuccess ? cudaMemcpy(to, from, size, kind) : (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size,
        size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	char *to = NULL;
	int code = symbol_range(symbol, size, offset, &to);
	return code == cudaSuccess ? cudaMemcpyAsync(to, from, size, kind, stream)
	                           : (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaMemcpyFromSymbol(
        void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	char *from = NULL;
	int code = symbol_range(symbol, size, offset, &from);
	return code == cudaSuccess ? cudaMemcpy(to, from, size, kind) : (cudaError_t)code;
}

GM_SIM_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t size,
        size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	char *from = NULL;
	int code = symbol_range(symbol, size, offset, &from);
	return code == cudaSuccess ? cudaMemcpyAsync(to, from, size, kind, stream)
	                           : (cudaError_t)code;
}

/* <<<grid, block, shared, stream>>> pushes, the kernel's host-side stub pops: calls in arguments
 * may nest. */
static _Thread_local struct configuration {
	dim3 grid, block;
	size_t shared;
	void *stream;
} stack[16];
static _Thread_local unsigned depth;

GM_SIM_EXPORT unsigned __cudaPushCallConfiguration(
        dim3 grid, dim3 block, size_t shared, void *stream)
{
	if (depth >= sizeof(stack) / sizeof(stack[0]))
		return 1; /* then the caller does not launch the kernel */
	stack[depth++] = (struct configuration){grid, block, shared, stream};
	return 0;
}

GM_SIM_EXPORT cudaError_t __cudaPopCallConfiguration(
        dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	if (!depth)
		return gm_sim_error(cudaErrorMissingConfiguration);
	struct configuration *top = &stack[--depth];
	*grid = top->grid;
	*block = top->block;
	*shared = top->shared;
	*(void **)stream = top->stream;
	return cudaSuccess;
}

static struct gm_sim_kernel *kernel_of(const void *function)
{
	/* A function may be given as the host stub or, since CUDA 12, as the handle from
	 * cudaGetKernel. */
	pthread_mutex_lock(&lock);
	struct gm_sim_kernel *kernel = find(function);
	pthread_mutex_unlock(&lock);
	if (!kernel && function && ((uintptr_t)function & 7) == 0 &&
	        ((const struct gm_sim_kernel *)function)->magic == KERNEL)
		kernel = (struct gm_sim_kernel *)(uintptr_t)function;
	return kernel;
}

GM_SIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *ret, const void *host)
{
	struct gm_sim_kernel *kernel = kernel_of(host);
	if (!kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	*ret = (cudaKernel_t)kernel;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGetKernel(cudaKernel_t *ret, const void *host)
{
	return __cudaGetKernel(ret, host);
}

GM_SIM_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t *ret, const void *host)
{
	return __cudaGetKernel((cudaKernel_t *)ret, host);
}

void gm_sim_kernel_count(struct gm_sim_kernel *kernel, bool computed)
{
	atomic_fetch_add_explicit(&kernel->launches, 1, memory_order_relaxed);
	GM_SIM_COUNT(gpumem_sim_account.launches, 1);
	if (computed)
		atomic_fetch_add_explicit(&kernel->computed, 1, memory_order_relaxed);
	else
		GM_SIM_COUNT(gpumem_sim_account.not_computed, 1);
}

static int launch(struct gm_sim_kernel *kernel, dim3 grid, dim3 block, void **arguments,
        size_t shared, cudaStream_t stream)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_no_device();
	if (!kernel)
		return cudaErrorInvalidDeviceFunction;
	/* Refuses what a GPU refuses: an empty grid or block, or one beyond the device's limits. */
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
	        grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 || block.z > 64 ||
	        (uint64_t)block.x * block.y * block.z > 1024)
		return cudaErrorInvalidConfiguration;
	int known, optin = gm_sim_profile_attribute(&device->choice.profile,
	                   cudaDevAttrMaxSharedMemoryPerBlockOptin, &known);
	if (shared > (size_t)optin)
		return cudaErrorInvalidValue;
	gm_sim_code_load_of_kernel(device, kernel);
	struct gm_sim_kernel_launch what = {
	        {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, arguments};
	if (gm_sim_stream_captures(stream)) {
		struct gm_sim_kept *kept = gm_sim_kernel_planned(kernel->name, &kernel->plan)
		                                   ? gm_sim_launch_keep(kernel->name, &what)
		                                   : NULL;
		if (gm_sim_captured(stream,
		            &(struct gm_sim_node){
		                    .what = GM_SIM_NODE_KERNEL, .kernel = kernel, .kept = kept}))
			return cudaSuccess;
		gm_sim_kept_free(kept); /* the capture has ended meanwhile */
	}
	/* What is computed waits for the stream's collectives; other kernels read nothing. */
	if (atomic_load(&gm_sim_outstanding) &&
	        gm_sim_kernel_fits(kernel->name, &kernel->plan, &what))
		gm_sim_stream_finish(stream);
	gm_sim_kernel_count(kernel, gm_sim_kernel_compute(kernel->name, &kernel->plan, &what));
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
        void **arguments, size_t shared, cudaStream_t stream)
{
	struct gm_sim_kernel *known = (struct gm_sim_kernel *)kernel;
	if (!known || known->magic != KERNEL)
		known = NULL;
	return gm_sim_error(launch(known, grid, block, arguments, shared, stream));
}

GM_SIM_EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
        void **arguments, size_t shared, cudaStream_t stream)
{
	return gm_sim_error(launch(kernel_of(function), grid, block, arguments, shared, stream));
}

GM_SIM_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
        void **arguments, size_t shared, cudaStream_t stream)
{
	return gm_sim_error(launch(kernel_of(function), grid, block, arguments, shared, stream));
}

GM_SIM_EXPORT cudaError_t cudaLaunchKernelExC(
        const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
	if (!config)
		return gm_sim_error(cudaErrorInvalidValue);
	return gm_sim_error(launch(kernel_of(function), config->gridDim, config->blockDim,
	        arguments, config->dynamicSmemBytes, config->stream));
}

GM_SIM_EXPORT cudaError_t cudaFuncGetAttributes(
        struct cudaFuncAttributes *ret, const void *function)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	struct gm_sim_kernel *kernel = kernel_of(function);
	if (!ret || !kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	int known, major, minor;
	const struct gm_sim_profile *profile = &device->choice.profile;
	major = gm_sim_profile_attribute(profile, cudaDevAttrComputeCapabilityMajor, &known);
	minor = gm_sim_profile_attribute(profile, cudaDevAttrComputeCapabilityMinor, &known);
	memset(ret, 0, sizeof(*ret));
	ret->maxThreadsPerBlock = 1024;
	ret->numRegs = 32;
	int architecture = gm_sim_fatbin_architecture(kernel->fatbin, major * 10 + minor);
	ret->binaryVersion = ret->ptxVersion = architecture ? architecture : major * 10 + minor;
	ret->maxDynamicSharedSizeBytes = kernel->shared_max ? kernel->shared_max : 48 << 10;
	ret->preferredShmemCarveout = -1;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaFuncSetAttribute(
        const void *function, enum cudaFuncAttribute attribute, int value)
{
	struct gm_sim_kernel *kernel = kernel_of(function);
	if (!kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
		int known, most = gm_sim_profile_attribute(&device->choice.profile,
		                   cudaDevAttrMaxSharedMemoryPerBlockOptin, &known);
		if (value < 0 || value > most)
			return gm_sim_error(cudaErrorInvalidValue);
		kernel->shared_max = value;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaFuncGetName(const char **name, const void *function)
{
	struct gm_sim_kernel *kernel = kernel_of(function);
	if (!name || !kernel)
		return gm_sim_error(cudaErrorInvalidDeviceFunction);
	*name = kernel->name;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *ret, const void *function, int block, size_t shared, unsigned flags)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (!ret || block <= 0)
		return gm_sim_error(cudaErrorInvalidValue);
	const struct gm_sim_profile *profile = &device->choice.profile;
	int known;
	/* Limited by threads, blocks and shared memory, for a kernel with 32 registers (which then
	 * never limit). */
	int threads = (block + 31) / 32 * 32;
	int fit =
	        gm_sim_profile_attribute(profile, cudaDevAttrMaxThreadsPerMultiProcessor, &known) /
	        threads;
	int most = gm_sim_profile_attribute(profile, cudaDevAttrMaxBlocksPerMultiprocessor, &known);
	size_t memory = (size_t)gm_sim_profile_attribute(
	        profile, cudaDevAttrMaxSharedMemoryPerMultiprocessor, &known);
	size_t each = shared + (size_t)gm_sim_profile_attribute(
	                               profile, cudaDevAttrReservedSharedMemoryPerBlock, &known);
	if (fit > most)
		fit = most;
	if (each && memory / each < (size_t)fit)
		fit = (int)(memory / each);
	*ret = threads > 1024 ? 0 : fit;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        int *ret, const void *function, int block, size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	        ret, function, block, shared, 0);
}

void gm_sim_kernel_each(void (*visit)(const struct gm_sim_kernel *, void *), void *data)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < places; i++)
		if (table[i] && table[i]->launches)
			visit(table[i], data);
	pthread_mutex_unlock(&lock);
}
