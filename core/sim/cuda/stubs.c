/*
 * All functions that are not simulated: one stub for each symbol of the export lists.
 *
 * A stub is weak: a function of the same name in another file replaces it. It takes no arguments,
 * which a caller on x86-64 cannot notice (the caller cleans up). Stubs are in a section of their
 * own, so that a look-up of an entry point can tell "simulated" from "refused".
 */
#include <stdlib.h>

#include "sim/cuda/sim.h"

/* Statuses of the libraries: cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED,
   CUBLAS_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, ncclInvalidUsage,
   NVML_ERROR_NOT_SUPPORTED, and those of the solvers. */
enum {
	CUDA_REFUSED = 801,
	CUBLAS_REFUSED = 15,
	CUDNN_REFUSED = 3000,
	CUSOLVER_REFUSED = 9,
	CUSPARSE_REFUSED = 10,
	CUFFT_REFUSED = 16,
	NCCL_REFUSED = 5,
	NVML_REFUSED = 3
};

int gm_sim_refuse(struct gm_sim_site *site, int code, bool runtime)
{
	GM_SIM_COUNT(gpumem_sim_account.not_simulated, 1);
	if (atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed) == 0)
		gm_sim_say("%s: not simulated: returned %s", site->name,
		        runtime                    ? "cudaErrorNotSupported"
		        : code == CUBLAS_REFUSED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
		        : code == CUDNN_REFUSED    ? "CUDNN_STATUS_NOT_SUPPORTED"
		        : code == CUSOLVER_REFUSED ? "CUSOLVER_STATUS_NOT_SUPPORTED"
		        : code == CUSPARSE_REFUSED ? "CUSPARSE_STATUS_NOT_SUPPORTED"
		        : code == NCCL_REFUSED     ? "ncclInvalidUsage"
		        : code == NVML_REFUSED     ? "NVML_ERROR_NOT_SUPPORTED"
		        : code == CUFFT_REFUSED    ? "CUFFT_NOT_SUPPORTED"
		                                   : "CUDA_ERROR_NOT_SUPPORTED");
	return runtime ? gm_sim_error(code) : code;
}

int gm_sim_compute_nothing(struct gm_sim_site *site)
{
	atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed);
	if (!gm_sim_captured_library())
		GM_SIM_COUNT(gpumem_sim_account.library_not_computed, 1);
	return 0;
}

#define STUB_SECTION "gm_sim_stubs"
extern const char stubs_start[] __asm__("__start_" STUB_SECTION);
extern const char stubs_end[] __asm__("__stop_" STUB_SECTION);

bool gm_sim_is_stub(const void *code)
{
	return (const char *)code >= stubs_start && (const char *)code < stubs_end;
}

#define DEFINE(symbol, answer)                                                                \
	int symbol(void);                                                                     \
	GM_SIM_EXPORT __attribute__((weak, section(STUB_SECTION), noinline)) int symbol(void) \
	{                                                                                     \
		static struct gm_sim_site site = {#symbol, 0};                                \
		return answer;                                                                \
	}

#define COMPUTE(symbol) DEFINE(symbol, gm_sim_compute_nothing(&site))

#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUDA_REFUSED, true))
#include "sim/exports/libcudart13.inc"
#include "sim/exports/libcudart12.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUDA_REFUSED, false))
#include "sim/exports/libcuda1.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUBLAS_REFUSED, false))
#include "sim/exports/libcublas13.inc"
#include "sim/exports/libcublasLt13.inc"
#include "sim/exports/libcublasLt12.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUDNN_REFUSED, false))
#include "sim/exports/libcudnn9.inc"

/* Libraries of solvers: the content of handles is never read, workspaces have size 0. */
static int create(void **ret, enum gm_sim_code what)
{
	enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 2, SIZE = 512 };
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return NOT_INITIALIZED;
	gm_sim_code_load(device, what);
	*ret = calloc(1, SIZE);
	return *ret ? 0 : ALLOC_FAILED;
}

#define CREATE(symbol)                                             \
	int symbol(void **ret);                                    \
	GM_SIM_EXPORT __attribute__((weak)) int symbol(void **ret) \
	{                                                          \
		return create(ret, LOADS);                         \
	}
#define DESTROY(symbol)                                           \
	int symbol(void *box);                                    \
	GM_SIM_EXPORT __attribute__((weak)) int symbol(void *box) \
	{                                                         \
		free(box);                                        \
		return 0;                                         \
	}
#define ACCEPT(symbol)                                       \
	int symbol(void);                                    \
	GM_SIM_EXPORT __attribute__((weak)) int symbol(void) \
	{                                                    \
		return 0;                                    \
	}
/* None of these has a floating-point parameter, so each parameter is one word. */
#define WORDS                                                                                      \
	uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, \
	        uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k, uintptr_t l, uintptr_t m,      \
	        uintptr_t n, uintptr_t o, uintptr_t p, uintptr_t q, uintptr_t r, uintptr_t s,      \
	        uintptr_t t, uintptr_t u, uintptr_t v, uintptr_t w, uintptr_t x
#define QUERY(symbol, type, first, last)                                                         \
	int symbol(WORDS);                                                                       \
	GM_SIM_EXPORT __attribute__((weak)) int symbol(WORDS)                                    \
	{                                                                                        \
		uintptr_t all[] = {                                                              \
		        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x}; \
		if (all[first])                                                                  \
			*(type *)all[first] = 0;                                                 \
		if (all[last])                                                                   \
			*(type *)all[last] = 0;                                                  \
		return 0;                                                                        \
	}
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUSOLVER_REFUSED, false))
#define LOADS GM_SIM_CODE_SOLVER
#include "sim/exports/libcusolver12.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUSPARSE_REFUSED, false))
#undef LOADS
#define LOADS GM_SIM_CODE_SPARSE
#include "sim/exports/libcusparse12.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, CUFFT_REFUSED, false))
#include "sim/exports/libcufft12.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, NCCL_REFUSED, false))
#include "sim/exports/libnccl2.inc"
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, NVML_REFUSED, false))
#include "sim/exports/libnvidia-ml1.inc"
