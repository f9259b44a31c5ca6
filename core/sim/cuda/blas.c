/*
 * cuBLAS and cuBLASLt: handles and settings are stored; computation is left to stubs.c, which
 * counts it.
 *
 * NVIDIA's header is not used: its macros rename functions and its prototypes differ between
 * releases, while the arguments of the few functions here have been the same from CUDA 11 to 13.
 * Handles are opaque to the caller.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"

enum {
	SUCCESS = 0,
	NOT_INITIALIZED = 1,
	ALLOC_FAILED = 3,
	INVALID_VALUE = 7,
	NOT_SUPPORTED = 15,
	VERSION = 130100, /* cuBLAS 13.1, as in the wheel of CUDA 13.0.2 */
};

struct blas {
	void *stream;
	int math, pointer, atomics, sm_count;
};

#define API(name, ...)         \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

API(cublasCreate_v2, struct blas **ret)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device || gm_sim_capture_forbids())
		return NOT_INITIALIZED;
	gm_sim_code_load(device, GM_SIM_CODE_BLAS);
	*ret = calloc(1, sizeof(**ret));
	return *ret ? SUCCESS : ALLOC_FAILED;
}

API(cublasDestroy_v2, struct blas *handle)
{
	free(handle);
	return SUCCESS;
}

#define GETTER(Name, type, field)                                        \
	API(cublasGet##Name, struct blas *handle, type *ret)             \
	{                                                                \
		if (!handle || !ret)                                     \
			return handle ? INVALID_VALUE : NOT_INITIALIZED; \
		*ret = handle->field;                                    \
		return SUCCESS;                                          \
	}
#define SETTING(Name, type, field)                            \
	API(cublasSet##Name, struct blas *handle, type value) \
	{                                                     \
		if (!handle)                                  \
			return NOT_INITIALIZED;               \
		handle->field = value;                        \
		return SUCCESS;                               \
	}                                                     \
	GETTER(Name, type, field)

/* PyTorch names a handle's stream before each call; a capture of it then gets the call. */
API(cublasSetStream_v2, struct blas *handle, void *stream)
{
	if (!handle)
		return NOT_INITIALIZED;
	handle->stream = stream;
	gm_sim_stream_captures(stream);
	return SUCCESS;
}

GETTER(Stream_v2, void *, stream)
SETTING(PointerMode_v2, int, pointer)
SETTING(MathMode, int, math)
SETTING(AtomicsMode, int, atomics)
SETTING(SmCountTarget, int, sm_count)

API(cublasSetWorkspace_v2, struct blas *handle, void *workspace, size_t size)
{
	return handle ? SUCCESS : NOT_INITIALIZED;
}

API(cublasGetVersion_v2, struct blas *handle, int *ret)
{
	*ret = VERSION;
	return SUCCESS;
}

API(cublasGetProperty, int type, int *ret)
{
	static const int version[] = {13, 1, 0};
	if (type < 0 || type > 2)
		return INVALID_VALUE;
	*ret = version[type];
	return SUCCESS;
}

static const char *status_name(int status)
{
	switch (status) {
	case SUCCESS:
		return "CUBLAS_STATUS_SUCCESS";
	case NOT_INITIALIZED:
		return "CUBLAS_STATUS_NOT_INITIALIZED";
	case ALLOC_FAILED:
		return "CUBLAS_STATUS_ALLOC_FAILED";
	case INVALID_VALUE:
		return "CUBLAS_STATUS_INVALID_VALUE";
	case NOT_SUPPORTED:
		return "CUBLAS_STATUS_NOT_SUPPORTED";
	default:
		return "CUBLAS_STATUS_INTERNAL_ERROR";
	}
}

#define TEXT(name)                                 \
	const char *name(int status);              \
	GM_SIM_EXPORT const char *name(int status) \
	{                                          \
		return status_name(status);        \
	}

TEXT(cublasGetStatusName)
TEXT(cublasGetStatusString)
TEXT(cublasLtGetStatusName)
TEXT(cublasLtGetStatusString)

/* cuBLASLt: nobody reads the content of descriptors, because nothing is computed from them. */
API(cublasLtCreate, void **ret)
{
	if (!gm_sim_current())
		return NOT_INITIALIZED;
	*ret = calloc(1, sizeof(struct blas));
	return *ret ? SUCCESS : ALLOC_FAILED;
}

API(cublasLtDestroy, void *handle)
{
	free(handle);
	return SUCCESS;
}

size_t cublasLtGetVersion(void);
GM_SIM_EXPORT size_t cublasLtGetVersion(void)
{
	return VERSION;
}

size_t cublasLtGetCudartVersion(void);
GM_SIM_EXPORT size_t cublasLtGetCudartVersion(void)
{
	return GM_SIM_RUNTIME;
}

size_t cublasGetCudartVersion(void);
GM_SIM_EXPORT size_t cublasGetCudartVersion(void)
{
	return GM_SIM_RUNTIME;
}

API(cublasLtMatmulDescCreate, void **ret, int compute, int scale)
{
	*ret = calloc(1, 256);
	return *ret ? SUCCESS : ALLOC_FAILED;
}

API(cublasLtMatrixLayoutCreate, void **ret, int type, uint64_t rows, uint64_t columns,
        int64_t leading)
{
	*ret = calloc(1, 256);
	return *ret ? SUCCESS : ALLOC_FAILED;
}

API(cublasLtMatmulPreferenceCreate, void **ret)
{
	*ret = calloc(1, 256);
	return *ret ? SUCCESS : ALLOC_FAILED;
}

API(cublasLtMatrixTransformDescCreate, void **ret, int scale)
{
	*ret = calloc(1, 256);
	return *ret ? SUCCESS : ALLOC_FAILED;
}

/* The caller's own memory, as the header's inline …Init functions use it. */
#define INIT(kind)                                                        \
	API(cublasLt##kind##Init_internal, void *descriptor, size_t size) \
	{                                                                 \
		if (!descriptor)                                          \
			return INVALID_VALUE;                             \
		memset(descriptor, 0, size);                              \
		return SUCCESS;                                           \
	}

INIT(MatmulDesc)
INIT(MatrixLayout)
INIT(MatmulPreference)
INIT(MatrixTransformDesc)

#define BOX(kind)                                                                             \
	API(cublasLt##kind##Destroy, void *descriptor)                                        \
	{                                                                                     \
		free(descriptor);                                                             \
		return SUCCESS;                                                               \
	}                                                                                     \
	API(cublasLt##kind##SetAttribute, void *descriptor, int attribute, const void *value, \
	        size_t size)                                                                  \
	{                                                                                     \
		return descriptor ? SUCCESS : INVALID_VALUE;                                  \
	}

BOX(MatmulDesc)
BOX(MatrixLayout)
BOX(MatmulPreference)
BOX(MatrixTransformDesc)

/* cublasLtMatmulHeuristicResult_t (cublasLt.h, 13.0): the algorithm is opaque. */
struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

API(cublasLtMatmulAlgoGetHeuristic, void *handle, void *description, void *a, void *b, void *c,
        void *d, void *preference, int wanted, struct heuristic *results, int *ret_count)
{
	if (!handle || !results || !ret_count || wanted < 1)
		return INVALID_VALUE;
	memset(results, 0, sizeof(*results));
	results->algorithm[0] = 1;
	results->waves = 1.0f;
	*ret_count = 1;
	return SUCCESS;
}

API(cublasLtMatmul, void *handle, void *description, const void *alpha, const void *a,
        void *a_layout, const void *b, void *b_layout, const void *beta, const void *c,
        void *c_layout, void *d, void *d_layout, const void *algorithm, void *workspace,
        size_t size, void *stream)
{
	static struct gm_sim_site site = {"cublasLtMatmul", 0};
	if (!handle || !description)
		return INVALID_VALUE;
	gm_sim_stream_captures(stream);
	return gm_sim_compute_nothing(&site);
}

/* ---- functions that report wrong arguments in *info ------------------------------------------ */

static int solve_nothing(int *info)
{
	if (!gm_sim_captured_library())
		GM_SIM_COUNT(gpumem_sim_account.library_not_computed, 1);
	if (info) /* on the host; PyTorch asserts that it is 0 */
		*info = 0;
	return SUCCESS;
}

#define BATCHED_SOLVERS(letter)                                                                 \
	API(cublas##letter##geqrfBatched, struct blas *handle, int m, int n, void *const *a,    \
	        int lda, void *const *tau, int *info, int batch)                                \
	{                                                                                       \
		(void)m, (void)n, (void)a, (void)lda, (void)tau, (void)batch;                   \
		return handle ? solve_nothing(info) : NOT_INITIALIZED;                          \
	}                                                                                       \
	API(cublas##letter##gelsBatched, struct blas *handle, int transpose, int m, int n,      \
	        int count, void *const *a, int lda, void *const *c, int ldc, int *info,         \
	        int *on_device, int batch)                                                      \
	{                                                                                       \
		(void)transpose, (void)m, (void)n, (void)count, (void)a, (void)lda, (void)c;    \
		(void)ldc, (void)on_device, (void)batch;                                        \
		return handle ? solve_nothing(info) : NOT_INITIALIZED;                          \
	}                                                                                       \
	API(cublas##letter##getrsBatched, struct blas *handle, int transpose, int n, int count, \
	        const void *const *a, int lda, const int *pivots, void *const *b, int ldb,      \
	        int *info, int batch)                                                           \
	{                                                                                       \
		(void)transpose, (void)n, (void)count, (void)a, (void)lda, (void)pivots;        \
		(void)b, (void)ldb, (void)batch;                                                \
		return handle ? solve_nothing(info) : NOT_INITIALIZED;                          \
	}
BATCHED_SOLVERS(S)
BATCHED_SOLVERS(D)
BATCHED_SOLVERS(C)
BATCHED_SOLVERS(Z)
