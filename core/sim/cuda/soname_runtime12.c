/*
 * The name libcudart.so.12, the runtime of torch 2.4 to 2.10. Nearly all of its functions are in
 * libgpumem-sim.so, which it depends on. Here are the functions that CUDA 12 and 13 have under the
 * same name with a different meaning; functions that only CUDA 12 has are in runtime12.c.
 *
 * CUDA's header is not included: that of CUDA 13 has its own prototypes for these names.
 */
#include <stddef.h>

#define API(type, name, ...)    \
	type name(__VA_ARGS__); \
	__attribute__((visibility("default"))) type name(__VA_ARGS__)

/* CUDA 12.8 and its cuBLAS 12.8.4, as in torch 2.8 to 2.10; older ones get the same answer. */
enum { RUNTIME = 12080, BLAS = 120804 };
/* cudaErrorInvalidValue, cudaErrorNotSupported; CUBLAS_STATUS_INVALID_VALUE */
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_SUPPORTED = 801, BLAS_INVALID_VALUE = 7 };

int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
        const void **dependencies, size_t *count);

API(int, cudaRuntimeGetVersion, int *version)
{
	if (!version)
		return INVALID_VALUE;
	*version = RUNTIME;
	return SUCCESS;
}

/* That of CUDA 11: programs built with CUDA 12 call cudaGetDeviceProperties_v2 (cuda_runtime_api.h,
 * 12.8). */
API(int, cudaGetDeviceProperties, void *ret, int index)
{
	return NOT_SUPPORTED;
}

int gm_sim_pointer_attributes12(void *ret, const void *pointer);

API(int, cudaPointerGetAttributes, void *ret, const void *pointer)
{
	return gm_sim_pointer_attributes12(ret, pointer);
}

int gm_sim_prefetch12(const void *address, size_t size, int device, void *stream);
int gm_sim_advise12(const void *address, size_t size, int advice, int device);

API(int, cudaMemPrefetchAsync, const void *address, size_t size, int device, void *stream)
{
	return gm_sim_prefetch12(address, size, device, stream);
}

API(int, cudaMemAdvise, const void *address, size_t size, int advice, int device)
{
	return gm_sim_advise12(address, size, advice, device);
}

/* That of CUDA 10: programs built with CUDA 12 call cudaStreamGetCaptureInfo_v2. */
API(int, cudaStreamGetCaptureInfo, void *stream, int *status, unsigned long long *id)
{
	return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

API(int, cublasGetVersion_v2, void *handle, int *ret)
{
	if (!ret)
		return BLAS_INVALID_VALUE;
	*ret = BLAS;
	return SUCCESS;
}

API(int, cublasGetProperty, int type, int *ret)
{
	static const int version[] = {BLAS / 10000, BLAS / 100 % 100, BLAS % 100};
	if (type < 0 || type > 2 || !ret)
		return BLAS_INVALID_VALUE;
	*ret = version[type];
	return SUCCESS;
}

API(size_t, cublasGetCudartVersion, void)
{
	return RUNTIME;
}

API(size_t, cublasLtGetVersion, void)
{
	return BLAS;
}

API(size_t, cublasLtGetCudartVersion, void)
{
	return RUNTIME;
}
