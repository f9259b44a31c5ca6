/*
 * cuBLAS and cuBLASLt: handles, settings and the heuristic. Calls that compute are generated
 * (stubs.c): they succeed, compute nothing and are counted. Declared here as the callers see them; the
 * types are the handles' and enumerations' sizes only (cublas_api.h, cublasLt.h, CUDA 13.0).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"

enum { CUBLAS_SUCCESS = 0, CUBLAS_NOT_INITIALIZED = 1, CUBLAS_INVALID_VALUE = 7 };

/* The product's version of the wheels that torch 2.11 brings. */
enum { CUBLAS_VERSION = 130100 };

struct handle {
	void *stream;
	int math, pointer, atomics;
};

#define EXPORT(name, ...) GM_SIM_EXPORT int name(__VA_ARGS__); int name(__VA_ARGS__)

EXPORT(cublasCreate_v2, struct handle **ret)
{
	if (!gm_sim_current() || !(*ret = calloc(1, sizeof(**ret))))
		return CUBLAS_NOT_INITIALIZED;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasDestroy_v2, struct handle *handle)
{
	free(handle);
	return CUBLAS_SUCCESS;
}

EXPORT(cublasGetVersion_v2, struct handle *handle, int *version)
{
	*version = CUBLAS_VERSION;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasSetStream_v2, struct handle *handle, void *stream)
{
	handle->stream = stream;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasGetStream_v2, struct handle *handle, void **stream)
{
	*stream = handle->stream;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasSetWorkspace_v2, struct handle *handle, void *workspace, size_t size)
{
	return CUBLAS_SUCCESS;
}

EXPORT(cublasSetMathMode, struct handle *handle, int mode)
{
	handle->math = mode;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasGetMathMode, struct handle *handle, int *mode)
{
	*mode = handle->math;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasSetPointerMode_v2, struct handle *handle, int mode)
{
	handle->pointer = mode;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasGetPointerMode_v2, struct handle *handle, int *mode)
{
	*mode = handle->pointer;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasSetAtomicsMode, struct handle *handle, int mode)
{
	handle->atomics = mode;
	return CUBLAS_SUCCESS;
}

EXPORT(cublasGetAtomicsMode, struct handle *handle, int *mode)
{
	*mode = handle->atomics;
	return CUBLAS_SUCCESS;
}

/*
 * cuBLASLt's descriptors are opaque structs on the heap; what is set in them is kept as far as it is asked
 * back (nothing is), so a block of memory stands for each.
 */
static int descriptor(void **ret)
{
	*ret = calloc(1, 64);
	return *ret ? CUBLAS_SUCCESS : CUBLAS_NOT_INITIALIZED;
}

EXPORT(cublasLtCreate, void **ret)
{
	return gm_sim_current() ? descriptor(ret) : CUBLAS_NOT_INITIALIZED;
}

EXPORT(cublasLtDestroy, void *handle)
{
	free(handle);
	return CUBLAS_SUCCESS;
}

GM_SIM_EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

EXPORT(cublasLtMatmulDescCreate, void **ret, int compute, int scale)
{
	return descriptor(ret);
}

EXPORT(cublasLtMatmulDescDestroy, void *which)
{
	free(which);
	return CUBLAS_SUCCESS;
}

EXPORT(cublasLtMatmulDescSetAttribute, void *which, int attribute, const void *value, size_t size)
{
	return CUBLAS_SUCCESS;
}

EXPORT(cublasLtMatmulPreferenceCreate, void **ret)
{
	return descriptor(ret);
}

EXPORT(cublasLtMatmulPreferenceDestroy, void *which)
{
	free(which);
	return CUBLAS_SUCCESS;
}

EXPORT(cublasLtMatmulPreferenceSetAttribute, void *which, int attribute, const void *value, size_t size)
{
	return CUBLAS_SUCCESS;
}

EXPORT(cublasLtMatrixLayoutCreate, void **ret, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
	return descriptor(ret);
}

EXPORT(cublasLtMatrixLayoutDestroy, void *which)
{
	free(which);
	return CUBLAS_SUCCESS;
}

EXPORT(cublasLtMatrixLayoutSetAttribute, void *which, int attribute, const void *value, size_t size)
{
	return CUBLAS_SUCCESS;
}

/* cublasLtMatmulHeuristicResult_t: the algorithm (8 words), workspace, state, waves, reserved. */
struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

EXPORT(cublasLtMatmulAlgoGetHeuristic, void *handle, void *description, void *a, void *b, void *c,
	void *d, void *preference, int requested, struct heuristic *results, int *ret_count)
{
	/* A caller without any algorithm gives up, so there is always one, which needs no workspace. */
	if (requested < 1 || !results || !ret_count)
		return CUBLAS_INVALID_VALUE;
	memset(results, 0, sizeof(*results));
	results->algorithm[0] = 1;
	results->waves = 1;
	*ret_count = 1;
	return CUBLAS_SUCCESS;
}
