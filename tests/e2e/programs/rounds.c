/*
 * A CUDA program without CUDA's headers that takes and returns memory of every kind once for each
 * line on its standard input, and then tells what it did: a recording can be held against it. No
 * two rounds have a size in common.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime_calls.h"

struct channels {
	int x, y, z, w, kind;
};
/* CUmemAllocationProp: memory of the first device */
struct property {
	int type, handles, location, device;
	void *none;
	unsigned char flags[8];
};

int cudaMallocArray(
        void **array, const struct channels *channels, size_t width, size_t height, unsigned flags);
int cudaFreeArray(void *array);
int cudaHostRegister(void *pointer, size_t size, unsigned flags);
int cudaHostUnregister(void *pointer);
int cuMemAddressReserve(
        uint64_t *address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags);
int cuMemCreate(
        uint64_t *handle, size_t size, const struct property *property, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemMap(
        uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t size);

static char done[4096];
static size_t used;

static void tell(int result, const char *action, const char *device, size_t size)
{
	if (result) {
		printf("%s of %zu on %s: error %d\n", action, size, device, result);
		exit(1);
	}
	used += (size_t)snprintf(
	        done + used, sizeof(done) - used, "%s %s %zu ", action, device, size);
}

/* An allocation, and its release. */
#define BOTH(device, size, allocation, release)                \
	do {                                                   \
		int result = allocation;                       \
		tell(result, "alloc", device, size);           \
		tell(release, "free_completed", device, size); \
	} while (0)

static void map(size_t size)
{
	const struct property property = {.type = 1, .location = 1};
	uint64_t address, handle;
	if (cuMemAddressReserve(&address, size, 0, 0, 0) ||
	        cuMemCreate(&handle, size, &property, 0))
		exit(1);
	BOTH("cuda", size, cuMemMap(address, size, 0, handle, 0), cuMemUnmap(address, size));
	cuMemRelease(handle);
}

static void one_round(size_t first)
{
	const struct channels floats = {32, 0, 0, 0, 2};
	void *memory;
	size_t pitch, size = (first * 16) << 21;
#define NEXT (size += 1 << 21)
	BOTH("cuda", size, cudaMalloc(&memory, NEXT), cudaFree(memory));
	BOTH("cuda", size, cudaMallocManaged(&memory, NEXT, 1), cudaFree(memory));
	BOTH("cuda", pitch * 100, cudaMallocPitch(&memory, &pitch, NEXT / 128, 100),
	        cudaFree(memory));
	BOTH("cuda", size, cudaMallocArray(&memory, &floats, NEXT / 4096, 1024, 0),
	        cudaFreeArray(memory));
	BOTH("cuda", size, cudaMallocAsync(&memory, NEXT, NULL), cudaFreeAsync(memory, NULL));
	BOTH("pinned", size, cudaMallocHost(&memory, NEXT), cudaFreeHost(memory));
	BOTH("pinned", size, cudaHostAlloc(&memory, NEXT, 0), cudaFreeHost(memory));
	void *own = malloc(NEXT);
	BOTH("pinned", size, cudaHostRegister(own, size, 0), cudaHostUnregister(own));
	free(own);
	map(NEXT);
}

int main(void)
{
	cudaFree(NULL); /* CUDA begins, and with it a recording by the agent that it loads */
	puts("begun");
	fflush(stdout);
	for (size_t number = 1; getchar() == '\n'; number++) {
		used = 0;
		one_round(number);
		puts(done);
		fflush(stdout);
	}
	return 0;
}
