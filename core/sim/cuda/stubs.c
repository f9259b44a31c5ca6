/*
 * Everything that is not simulated: one stub a symbol, from the export lists.
 *
 * A stub is weak: a function of the same name in another file takes its place. It takes no arguments, which
 * on x86-64 a caller cannot tell (the caller cleans up). It stands in a section of its own, so that looking
 * up an entry point can tell "simulated" from "refused".
 */
#include "sim/cuda/sim.h"

/* Statuses of the libraries: cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED,
   CUDNN_STATUS_NOT_SUPPORTED, ncclInvalidUsage. */
enum { CUDA_REFUSED = 801, CUBLAS_REFUSED = 15, CUDNN_REFUSED = 3000, NCCL_REFUSED = 5 };

int gm_sim_refuse(struct gm_sim_site *site, int code, bool runtime)
{
	GM_SIM_COUNT(gpumem_sim_account.not_simulated, 1);
	if (atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed) == 0)
		gm_sim_say("%s: not simulated: returned %s", site->name,
		        code == CUBLAS_REFUSED  ? "CUBLAS_STATUS_NOT_SUPPORTED"
		        : code == CUDNN_REFUSED ? "CUDNN_STATUS_NOT_SUPPORTED"
		        : code == NCCL_REFUSED  ? "ncclInvalidUsage"
		        : runtime               ? "cudaErrorNotSupported"
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
#undef STUB
#define STUB(symbol) DEFINE(symbol, gm_sim_refuse(&site, NCCL_REFUSED, false))
#include "sim/exports/libnccl2.inc"
