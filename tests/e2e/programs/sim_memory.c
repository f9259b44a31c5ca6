/*
 * Every memory call of CUDA's runtime, and the driver's, against what the documentation says of it.
 * Built for CUDA 13 and run on two simulated devices of 1 GiB (context 100 MiB); prints the lines
 * that did not hold, and how many did.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holds.h"

#define MIB(n) ((size_t)(n) << 20)

/* The code that a call returns, which the thread's last error must then be too. */
#define IS(code, call)                                                     \
	do {                                                               \
		cudaGetLastError();                                        \
		int got_ = (call);                                         \
		check(got_ == (code), __LINE__, #call " gives " #code);    \
		if (got_ != cudaSuccess)                                   \
			HOLDS(cudaPeekAtLastError() == (cudaError_t)got_); \
		cudaGetLastError();                                        \
	} while (0)
#define OK(call) IS(cudaSuccess, call)
#define BAD(call) IS(cudaErrorInvalidValue, call)

static size_t available(void)
{
	size_t left = 0, total;
	cudaMemGetInfo(&left, &total);
	return left;
}

static int type_of(const void *pointer)
{
	struct cudaPointerAttributes attributes;
	return cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess ? (int)attributes.type
	                                                                     : -1;
}

static char buffer[1 << 16], other[1 << 16];

static void plain(void)
{
	char *a = NULL, *b = NULL;
	size_t before = available();
	OK(cudaMalloc((void **)&a, 1000));
	HOLDS(before - available() == MIB(2)); /* whole pages */
	OK(cudaMalloc((void **)&b, MIB(3)));
	HOLDS(before - available() == MIB(6));
	HOLDS((uintptr_t)a % 512 == 0 && type_of(a) == cudaMemoryTypeDevice);
	HOLDS(type_of(buffer) == cudaMemoryTypeUnregistered);
	memset(buffer, 7, 1000);
	OK(cudaMemcpy(a, buffer, 1000, cudaMemcpyHostToDevice));
	OK(cudaMemcpy(b, a, 1000, cudaMemcpyDeviceToDevice));
	OK(cudaMemcpy(other, b, 1000, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(buffer, other, 1000) == 0);
	/* Out of range: behind the end, before the start, across the end. */
	BAD(cudaMemcpy(a, buffer, 1001, cudaMemcpyHostToDevice));
	BAD(cudaMemcpy(a + 1000, buffer, 1, cudaMemcpyHostToDevice));
	BAD(cudaMemcpy(other, a + 999, 2, cudaMemcpyDeviceToHost));
	BAD(cudaMemset(b, 0, MIB(3) + 1));
	BAD(cudaMemset(b + MIB(3), 0, 1));
	BAD(cudaMemset(buffer, 0, 1));
	OK(cudaMemcpy(a + 999, buffer, 1, cudaMemcpyHostToDevice));
	/* What is no start of an allocation, or was freed. */
	BAD(cudaFree(a + 512));
	BAD(cudaFree(buffer));
	OK(cudaFree(a));
	BAD(cudaFree(a));
	BAD(cudaMemcpy(a, buffer, 1, cudaMemcpyHostToDevice));
	BAD(cudaMemset(a, 0, 1));
	HOLDS(type_of(a) == cudaMemoryTypeUnregistered);
	OK(cudaFree(b));
	OK(cudaFree(NULL));
	HOLDS(available() == before);
	/* More than there is. */
	IS(cudaErrorMemoryAllocation, cudaMalloc((void **)&a, MIB(1024)));
	IS(cudaErrorMemoryAllocation, cudaMalloc((void **)&a, SIZE_MAX));
	BAD(cudaMalloc(NULL, 1));
	OK(cudaMalloc((void **)&a, 0));
	HOLDS(a == NULL);
	/* A freed page holds nothing of the last owner's. */
	OK(cudaMalloc((void **)&a, 1000));
	OK(cudaMemcpy(other, a, 1000, cudaMemcpyDeviceToHost));
	memset(buffer, 0, 1000);
	HOLDS(memcmp(buffer, other, 1000) == 0);
	OK(cudaFree(a));
}

static void pitched(void)
{
	char *a;
	size_t pitch;
	OK(cudaMallocPitch((void **)&a, &pitch, 100, 10));
	HOLDS(pitch == 512);
	for (int i = 0; i < 1000; i++)
		buffer[i] = (char)i;
	OK(cudaMemcpy2D(a, pitch, buffer, 100, 100, 10, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2D(other, 100, a, pitch, 100, 10, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(buffer, other, 1000) == 0);
	OK(cudaMemset2D(a, pitch, 9, 50, 10));
	OK(cudaMemcpy2D(other, 100, a, pitch, 100, 10, cudaMemcpyDeviceToHost));
	HOLDS(other[149] == 9 && other[150] == buffer[150]);
	IS(cudaErrorInvalidPitchValue,
	        cudaMemcpy2D(a, 99, buffer, 100, 100, 10, cudaMemcpyHostToDevice));
	BAD(cudaMemcpy2D(a, pitch, buffer, 100, 100, 11, cudaMemcpyHostToDevice));
	BAD(cudaMemset2D(a, pitch, 0, 512, 11));
	BAD(cudaMallocPitch((void **)&a, &pitch, SIZE_MAX - 1, 2));
	OK(cudaFree(a));

	struct cudaPitchedPtr box;
	OK(cudaMalloc3D(&box, (struct cudaExtent){30, 4, 5}));
	HOLDS(box.pitch == 512 && box.xsize == 30 && box.ysize == 4);
	struct cudaMemcpy3DParms in = {.srcPtr = {buffer, 30, 30, 4},
	        .dstPtr = box,
	        .extent = {30, 4, 5},
	        .kind = cudaMemcpyHostToDevice};
	OK(cudaMemcpy3D(&in));
	struct cudaMemcpy3DParms out = {.srcPtr = box,
	        .srcPos = {1, 1, 1},
	        .dstPtr = {other, 10, 10, 2},
	        .extent = {10, 2, 2},
	        .kind = cudaMemcpyDeviceToHost};
	OK(cudaMemcpy3DAsync(&out, NULL));
	HOLDS(other[0] == buffer[1 + 30 + 120] && other[10] == buffer[1 + 60 + 120] &&
	        other[20] == buffer[1 + 30 + 240]);
	OK(cudaMemset3D(box, 3, (struct cudaExtent){30, 4, 5}));
	OK(cudaMemcpy3D(&out));
	HOLDS(other[0] == 3 && other[39] == 3);
	in.extent.depth = 6;
	BAD(cudaMemcpy3D(&in));
	BAD(cudaMemset3D(box, 3, (struct cudaExtent){30, 4, 6}));
	OK(cudaFree(box.ptr));
}

static void arrays(void)
{
	cudaArray_t array, cube;
	struct cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat}, asked;
	struct cudaExtent extent;
	unsigned flags;
	size_t before = available();
	OK(cudaMallocArray(&array, &format, 50, 20, 0));
	HOLDS(available() < before);
	OK(cudaArrayGetInfo(&asked, &extent, &flags, array));
	HOLDS(asked.x == 32 && extent.width == 50 && extent.height == 20 && extent.depth == 0);
	for (int i = 0; i < 4000; i++)
		buffer[i] = (char)(i * 7);
	OK(cudaMemcpy2DToArray(array, 0, 0, buffer, 200, 200, 20, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DFromArray(other, 40, array, 8, 3, 40, 10, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(other + 40, buffer + 4 * 200 + 8, 40) == 0);
	BAD(cudaMemcpy2DToArray(array, 0, 1, buffer, 200, 200, 20, cudaMemcpyHostToDevice));
	OK(cudaMalloc3DArray(&cube, &format, (struct cudaExtent){5, 4, 3}, 0));
	/* With an array, widths and columns of it are in elements. */
	struct cudaMemcpy3DParms in = {.srcPtr = {buffer, 20, 5, 4},
	        .dstArray = cube,
	        .extent = {5, 4, 3},
	        .kind = cudaMemcpyHostToDevice};
	OK(cudaMemcpy3D(&in));
	struct cudaMemcpy3DParms out = {.srcArray = cube,
	        .srcPos = {1, 2, 1},
	        .dstPtr = {other, 8, 2, 1},
	        .extent = {2, 1, 2},
	        .kind = cudaMemcpyDeviceToHost};
	OK(cudaMemcpy3D(&out));
	HOLDS(memcmp(other, buffer + 80 + 40 + 4, 8) == 0 &&
	        memcmp(other + 8, buffer + 160 + 40 + 4, 8) == 0);
	out.srcPos.x = 4;
	BAD(cudaMemcpy3D(&out));
	OK(cudaFreeArray(cube));
	OK(cudaFreeArray(array));
	OK(cudaFreeArray(NULL));
	HOLDS(available() == before);
	format.x = 3;
	IS(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &format, 50, 20, 0));
}

static void host(void)
{
	char *pinned, *device;
	unsigned flags = 0;
	OK(cudaHostAlloc((void **)&pinned, 5000, cudaHostAllocPortable | cudaHostAllocMapped));
	HOLDS(type_of(pinned) == cudaMemoryTypeHost &&
	        type_of(pinned + 4999) == cudaMemoryTypeHost);
	OK(cudaHostGetFlags(&flags, pinned));
	HOLDS(flags == (cudaHostAllocPortable | cudaHostAllocMapped));
	OK(cudaHostGetDevicePointer((void **)&device, pinned, 0));
	HOLDS(device == pinned);
	BAD(cudaFree(pinned));
	BAD(cudaFreeHost(pinned + 8));
	OK(cudaFreeHost(pinned));
	BAD(cudaFreeHost(pinned));
	HOLDS(type_of(pinned) == cudaMemoryTypeUnregistered);
	BAD(cudaHostGetFlags(&flags, pinned));
	BAD(cudaHostAlloc((void **)&pinned, 1, 0x100));
	OK(cudaMallocHost((void **)&pinned, 100));
	OK(cudaFreeHost(pinned));
	OK(cudaFreeHost(NULL));

	char *own = malloc(8192);
	OK(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
	HOLDS(type_of(own + 8191) == cudaMemoryTypeHost &&
	        type_of(own + 8192) != cudaMemoryTypeHost);
	IS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own, 8192, 0));
	IS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own + 4096, 4096, 0));
	BAD(cudaFreeHost(own));
	IS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own + 1));
	OK(cudaHostUnregister(own));
	IS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
	BAD(cudaHostRegister(NULL, 1, 0));
	BAD(cudaHostRegister(own, 0, 0));
	OK(cudaMalloc((void **)&device, 100));
	BAD(cudaHostRegister(device, 100, 0));
	OK(cudaFree(device));
	free(own);
}

static const struct cudaMemLocation ON_0 = {cudaMemLocationTypeDevice, 0},
                                    ON_1 = {cudaMemLocationTypeDevice, 1},
                                    ON_9 = {cudaMemLocationTypeDevice, 9},
                                    ON_HOST = {cudaMemLocationTypeHost, 0};

static int range_value(enum cudaMemRangeAttribute which, const void *address, size_t size)
{
	int value = -77;
	return cudaMemRangeGetAttribute(&value, sizeof(value), which, address, size) == cudaSuccess
	               ? value
	               : -99;
}

static void managed(void)
{
	char *a = NULL, *big = NULL, *c = NULL;
	size_t before = available();
	OK(cudaMallocManaged((void **)&a, MIB(10) + 1, cudaMemAttachGlobal));
	HOLDS(type_of(a) == cudaMemoryTypeManaged && type_of(a + MIB(10)) == cudaMemoryTypeManaged);
	HOLDS(available() == before);
	/* The program reads and writes it, and so do copies. */
	memset(a, 5, MIB(10) + 1);
	OK(cudaMemset(a, 6, 100));
	HOLDS(a[99] == 6 && a[100] == 5);
	OK(cudaMemcpy(other, a, 200, cudaMemcpyDefault));
	OK(cudaMemcpy(other, a, 200, cudaMemcpyDeviceToHost));
	HOLDS(other[99] == 6 && other[100] == 5);
	BAD(cudaMemset(a + MIB(10), 0, 2));
	/* Prefetched it is on the device, and back. */
	OK(cudaMemPrefetchAsync(a, MIB(10) + 1, ON_0, 0, NULL));
	HOLDS(before - available() == MIB(12));
	HOLDS(range_value(cudaMemRangeAttributeLastPrefetchLocation, a, MIB(10)) == 0);
	OK(cudaMemPrefetchAsync(a, MIB(4), ON_HOST, 0, NULL));
	HOLDS(before - available() == MIB(8));
	HOLDS(range_value(cudaMemRangeAttributeLastPrefetchLocation, a, MIB(10)) ==
	        cudaInvalidDeviceId);
	HOLDS(range_value(cudaMemRangeAttributeLastPrefetchLocation, a, MIB(4)) == cudaCpuDeviceId);
	OK(cudaMemPrefetchAsync(a, MIB(4), ON_1, 0, NULL));
	HOLDS(before - available() == MIB(8));
	IS(cudaErrorInvalidDevice, cudaMemPrefetchAsync(a, MIB(4), ON_9, 0, NULL));
	BAD(cudaMemPrefetchAsync(a, MIB(10) + 2, ON_0, 0, NULL));
	BAD(cudaMemPrefetchAsync(buffer, 100, ON_0, 0, NULL));
	BAD(cudaMemPrefetchAsync(a, 0, ON_0, 0, NULL));
	/* Advice is kept. */
	OK(cudaMemAdvise(a, MIB(10), cudaMemAdviseSetReadMostly, ON_0));
	HOLDS(range_value(cudaMemRangeAttributeReadMostly, a, MIB(10)) == 1);
	OK(cudaMemAdvise(a, MIB(2), cudaMemAdviseUnsetReadMostly, ON_0));
	HOLDS(range_value(cudaMemRangeAttributeReadMostly, a, MIB(10)) == 0);
	OK(cudaMemAdvise(a, MIB(10), cudaMemAdviseSetPreferredLocation, ON_1));
	HOLDS(range_value(cudaMemRangeAttributePreferredLocation, a, MIB(10)) == 1);
	HOLDS(range_value(cudaMemRangeAttributePreferredLocationType, a, MIB(10)) ==
	        cudaMemLocationTypeDevice);
	OK(cudaMemAdvise(a, MIB(10), cudaMemAdviseUnsetPreferredLocation, ON_1));
	HOLDS(range_value(cudaMemRangeAttributePreferredLocation, a, MIB(10)) ==
	        cudaInvalidDeviceId);
	OK(cudaMemAdvise(a, MIB(10), cudaMemAdviseSetAccessedBy, ON_1));
	OK(cudaMemAdvise(a, MIB(10), cudaMemAdviseSetAccessedBy, ON_HOST));
	int by[4];
	OK(cudaMemRangeGetAttribute(by, sizeof(by), cudaMemRangeAttributeAccessedBy, a, MIB(10)));
	HOLDS(by[0] == 1 && by[1] == cudaCpuDeviceId && by[2] == cudaInvalidDeviceId);
	BAD(cudaMemAdvise(a, MIB(10), (enum cudaMemoryAdvise)77, ON_0));
	BAD(cudaMemAdvise(buffer, 10, cudaMemAdviseSetReadMostly, ON_0));
	BAD(cudaMemRangeGetAttribute(by, 3, cudaMemRangeAttributeAccessedBy, a, MIB(10)));
	/* More than the device has; what does not fit stays behind, and an allocation drives it
	 * out. */
	OK(cudaMallocManaged((void **)&big, MIB(3000), cudaMemAttachGlobal));
	OK(cudaMemPrefetchAsync(big, MIB(3000), ON_0, 0, NULL));
	HOLDS(available() < MIB(2));
	OK(cudaMalloc((void **)&c, MIB(500)));
	HOLDS(available() == before - MIB(500));
	OK(cudaFree(c));
	OK(cudaFree(big));
	BAD(cudaFree(a + MIB(2)));
	BAD(cudaFreeHost(a));
	OK(cudaFree(a));
	BAD(cudaFree(a));
	HOLDS(type_of(a) == cudaMemoryTypeUnregistered && available() == before);
	BAD(cudaMallocManaged((void **)&a, 0, cudaMemAttachGlobal));
	BAD(cudaMallocManaged((void **)&a, 1, 99));
}

static uint64_t pool_value(cudaMemPool_t pool, enum cudaMemPoolAttr which)
{
	uint64_t value = 0;
	return cudaMemPoolGetAttribute(pool, which, &value) == cudaSuccess ? value : UINT64_MAX;
}

static void pools(void)
{
	char *a, *b;
	cudaMemPool_t first, pool, now;
	size_t before = available();
	OK(cudaDeviceGetDefaultMemPool(&first, 0));
	OK(cudaMallocAsync((void **)&a, 1000, NULL));
	HOLDS(before - available() == MIB(32) && type_of(a) == cudaMemoryTypeDevice);
	BAD(cudaMemset(a, 0, 1001));
	HOLDS(pool_value(first, cudaMemPoolAttrUsedMemCurrent) == 1024);
	OK(cudaFreeAsync(a, NULL));
	BAD(cudaFreeAsync(a, NULL));
	BAD(cudaMemset(a, 0, 1));
	HOLDS(available() == before);
	/* A pool of the program's own, with a threshold and a most. */
	struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
	        .location = {cudaMemLocationTypeDevice, 0},
	        .maxSize = MIB(64)};
	OK(cudaMemPoolCreate(&pool, &props));
	uint64_t keep = UINT64_MAX;
	OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	OK(cudaMallocFromPoolAsync((void **)&a, MIB(10), pool, NULL));
	OK(cudaMallocFromPoolAsync((void **)&b, MIB(10), pool, NULL));
	HOLDS(before - available() == MIB(32));
	HOLDS(pool_value(pool, cudaMemPoolAttrUsedMemCurrent) == MIB(20));
	HOLDS(pool_value(first, cudaMemPoolAttrUsedMemCurrent) == 0);
	char *c;
	IS(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync((void **)&c, MIB(60), pool, NULL));
	OK(cudaFreeAsync(a, NULL));
	OK(cudaFree(b));
	HOLDS(before - available() == MIB(32)); /* below the threshold it is kept */
	OK(cudaMemPoolTrimTo(pool, 0));
	HOLDS(available() == before);
	/* As the device's current pool. */
	OK(cudaDeviceSetMemPool(0, pool));
	OK(cudaDeviceGetMemPool(&now, 0));
	HOLDS(now == pool);
	OK(cudaMallocAsync((void **)&a, MIB(1), NULL));
	HOLDS(pool_value(pool, cudaMemPoolAttrUsedMemCurrent) == MIB(1));
	BAD(cudaDeviceSetMemPool(1, pool));
	/* Access by the other device. */
	enum cudaMemAccessFlags flags;
	struct cudaMemLocation where = ON_1;
	OK(cudaMemPoolGetAccess(&flags, pool, &where));
	HOLDS(flags == cudaMemAccessFlagsProtNone);
	struct cudaMemAccessDesc access = {ON_1, cudaMemAccessFlagsProtReadWrite};
	OK(cudaMemPoolSetAccess(pool, &access, 1));
	OK(cudaMemPoolGetAccess(&flags, pool, &where));
	HOLDS(flags == cudaMemAccessFlagsProtReadWrite);
	access.location = ON_9;
	BAD(cudaMemPoolSetAccess(pool, &access, 1));
	/* Destroyed, it goes with what it handed out, and the default one is back. */
	OK(cudaMemPoolDestroy(pool));
	BAD(cudaMemPoolDestroy(pool));
	BAD(cudaMallocFromPoolAsync((void **)&b, 1, pool, NULL));
	OK(cudaDeviceGetMemPool(&now, 0));
	HOLDS(now == first);
	OK(cudaMemset(a, 1, MIB(1)));
	HOLDS(available() < before);
	OK(cudaFreeAsync(a, NULL));
	HOLDS(available() == before);
	BAD(cudaMemPoolDestroy(first));
	props.location = ON_9;
	IS(cudaErrorInvalidDevice, cudaMemPoolCreate(&pool, &props));
	props.location = ON_HOST;
	IS(cudaErrorNotSupported, cudaMemPoolCreate(&pool, &props));
}

static void driver(void)
{
	CUdeviceptr a, base;
	size_t size, left, total, before = available();
	HOLDS(cuInit(0) == CUDA_SUCCESS);
	HOLDS(cuMemAlloc(&a, 5000) == CUDA_SUCCESS);
	HOLDS(cuMemGetInfo(&left, &total) == CUDA_SUCCESS && before - left == MIB(2));
	HOLDS(cuMemGetAddressRange(&base, &size, a + 4000) == CUDA_SUCCESS && base == a &&
	        size == 5000);
	HOLDS(cuMemsetD16(a, 0x1234, 2500) == CUDA_SUCCESS);
	HOLDS(cuMemcpyDtoH(other, a, 5000) == CUDA_SUCCESS && other[4998] == 0x34);
	HOLDS(cuMemsetD32(a, 0x01020304, 1250) == CUDA_SUCCESS);
	HOLDS(cuMemcpyHtoD(a + 4, "x", 1) == CUDA_SUCCESS);
	HOLDS(cuMemcpyDtoH(other, a, 8) == CUDA_SUCCESS &&
	        memcmp(other, "\4\3\2\1x\3\2\1", 8) == 0);
	HOLDS(cuMemcpyHtoD(a, buffer, 5001) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(cuMemFree(a + 512) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(cuMemFree(a) == CUDA_SUCCESS);
	HOLDS(cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(cuMemGetAddressRange(&base, &size, a) == CUDA_ERROR_NOT_FOUND);
	HOLDS(cuMemAlloc(&a, MIB(2000)) == CUDA_ERROR_OUT_OF_MEMORY);
	HOLDS(cuMemAlloc(&a, 0) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(cuMemAllocManaged(&a, 100, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
	HOLDS(cuMemFree(a) == CUDA_SUCCESS);
	void *pinned;
	HOLDS(cuMemHostAlloc(&pinned, 100, 0) == CUDA_SUCCESS &&
	        cuMemFreeHost(pinned) == CUDA_SUCCESS);
	HOLDS(cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(available() == before);
}

static void peers(void)
{
	char *here, *there;
	int can = 0;
	OK(cudaMalloc((void **)&here, 100));
	OK(cudaSetDevice(1));
	size_t before = available();
	OK(cudaMalloc((void **)&there, 100));
	HOLDS(before - available() == MIB(2));
	OK(cudaDeviceCanAccessPeer(&can, 1, 0));
	HOLDS(can == 1);
	OK(cudaDeviceEnablePeerAccess(0, 0));
	IS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
	OK(cudaDeviceDisablePeerAccess(0));
	IS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
	strcpy(buffer, "across");
	OK(cudaMemcpy(here, buffer, 7, cudaMemcpyHostToDevice));
	OK(cudaMemcpyPeer(there, 1, here, 0, 7));
	OK(cudaMemcpy(other, there, 7, cudaMemcpyDeviceToHost));
	HOLDS(strcmp(other, "across") == 0);
	BAD(cudaMemcpyPeer(there, 1, here, 0, 101));
	/* An allocation may be freed while another device is current. */
	OK(cudaFree(here));
	OK(cudaFree(there));
	OK(cudaSetDevice(0));
	IS(cudaErrorInvalidDevice, cudaSetDevice(2));
}

int main(int argc, char **argv)
{
	/* A name runs that part alone: on a GPU an error in one may end the context. */
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"plain", plain}, {"pitched", pitched}, {"arrays", arrays}, {"host", host},
	        {"managed", managed}, {"pools", pools}, {"driver", driver}, {"peers", peers}};
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (argc < 2 || strcmp(argv[1], parts[i].name) == 0)
			parts[i].run();
	printf("%d hold, %d do not\n", held, failed);
	return failed != 0;
}
