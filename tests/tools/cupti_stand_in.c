/*
 * A stand-in for CUPTI and the driver under it, for machines without a GPU: a few of the driver's
 * memory calls, around each of which callbacks are delivered as CUPTI delivers them, with its own
 * structures (cupti.h, of the CUDA headers). Memory is the host's. CUPTI_TAKEN=1: there is a
 * subscriber already.
 */
#include <cupti.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static CUpti_CallbackFunc subscribed;
static void *user;
static char enabled[1024];
static uint32_t correlation;

EXPORT CUptiResult CUPTIAPI cuptiSubscribe(
        CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *data)
{
	if (subscribed || getenv("CUPTI_TAKEN"))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	subscribed = callback;
	user = data;
	*subscriber = (CUpti_SubscriberHandle)&subscribed;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	subscribed = NULL;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
        CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < sizeof(enabled))
		enabled[id] = (char)enable;
	return CUPTI_SUCCESS;
}

/* A call between its two callbacks. */
#define CALL(name, parameters, work)                                              \
	do {                                                                      \
		CUresult result = CUDA_SUCCESS;                                   \
		uint64_t data = 0;                                                \
		CUpti_CallbackData record = {.callbackSite = CUPTI_API_ENTER,     \
		        .functionName = #name,                                    \
		        .functionParams = parameters,                             \
		        .functionReturnValue = &result,                           \
		        .correlationData = &data,                                 \
		        .correlationId = ++correlation};                          \
		int told = subscribed && enabled[CUPTI_DRIVER_TRACE_CBID_##name]; \
		if (told)                                                         \
			subscribed(user, CUPTI_CB_DOMAIN_DRIVER_API,              \
			        CUPTI_DRIVER_TRACE_CBID_##name, &record);         \
		work;                                                             \
		record.callbackSite = CUPTI_API_EXIT;                             \
		if (told)                                                         \
			subscribed(user, CUPTI_CB_DOMAIN_DRIVER_API,              \
			        CUPTI_DRIVER_TRACE_CBID_##name, &record);         \
		return result;                                                    \
	} while (0)

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
	cuMemAlloc_v2_params parameters = {pointer, size};
	CALL(cuMemAlloc_v2, &parameters, {
		*pointer = size >> 40 ? 0 : (CUdeviceptr)malloc(size);
		result = *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	});
}

EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr pointer)
{
	cuMemFree_v2_params parameters = {pointer};
	CALL(cuMemFree_v2, &parameters, free((void *)pointer));
}

EXPORT CUresult CUDAAPI cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
	cuMemHostAlloc_params parameters = {pointer, size, flags};
	CALL(cuMemHostAlloc, &parameters, *pointer = malloc(size));
}

EXPORT CUresult CUDAAPI cuMemFreeHost(void *pointer)
{
	cuMemFreeHost_params parameters = {pointer};
	CALL(cuMemFreeHost, &parameters, free(pointer));
}

EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(
        CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
	cuMemAllocPitch_v2_params parameters = {pointer, pitch, width, height, element};
	CALL(cuMemAllocPitch_v2, &parameters, {
		*pitch = (width + 511) / 512 * 512;
		*pointer = (CUdeviceptr)malloc(*pitch * height);
	});
}

EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(
        CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream)
{
	cuMemAllocFromPoolAsync_params parameters = {pointer, size, pool, stream};
	CALL(cuMemAllocFromPoolAsync, &parameters, *pointer = (CUdeviceptr)malloc(size));
}

EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	cuMemFreeAsync_params parameters = {pointer, stream};
	CALL(cuMemFreeAsync, &parameters, free((void *)pointer));
}

EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	cuMemMap_params parameters = {pointer, size, offset, handle, flags};
	CALL(cuMemMap, &parameters, (void)0);
}

EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr pointer, size_t size)
{
	cuMemUnmap_params parameters = {pointer, size};
	CALL(cuMemUnmap, &parameters, (void)0);
}

EXPORT CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
	cuArrayCreate_v2_params parameters = {array, descriptor};
	CALL(cuArrayCreate_v2, &parameters, *array = malloc(64));
}
