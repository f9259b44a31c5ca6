/*
 * Every other entry point of the libraries in front of which we stand, from the export lists: a call that is
 * not simulated says its name once and fails as the library says "not supported"; one that only computes
 * succeeds and is counted. All are weak: a definition in another file wins. They are declared without
 * arguments, which on x86-64 takes any: the caller cleans up.
 */
#include <stddef.h>

#include "sim/cuda/sim.h"

enum {
	RUNTIME_NOT_SUPPORTED = 801, /* cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED */
	BLAS_NOT_SUPPORTED = 15,     /* CUBLAS_STATUS_NOT_SUPPORTED */
};

int gm_sim_refuse(struct gm_sim_site *site, int code, bool runtime)
{
	GM_SIM_COUNT(gpumem_sim_account.not_simulated, 1);
	if (atomic_fetch_add(&site->calls, 1) == 0)
		gm_sim_say("%s: not simulated: the call failed with \"not supported\" (%d); said once", site->name,
			code);
	return runtime ? gm_sim_error(code) : code;
}

int gm_sim_compute_nothing(struct gm_sim_site *site)
{
	atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed);
	GM_SIM_COUNT(gpumem_sim_account.library_not_computed, 1);
	return 0;
}

/* Stubs stand together in a section of their own, so that one is known by its address. */
#define WEAK __attribute__((weak, visibility("default"), section("gpumem_stubs"), noinline))
extern const char __start_gpumem_stubs[] __attribute__((visibility("hidden")));
extern const char __stop_gpumem_stubs[] __attribute__((visibility("hidden")));

bool gm_sim_is_stub(const void *code)
{
	return (const char *)code >= __start_gpumem_stubs && (const char *)code < __stop_gpumem_stubs;
}

#define DEFINE(name_, answer)                                                                      \
	WEAK int name_(void);                                                                      \
	int name_(void)                                                                            \
	{                                                                                          \
		static struct gm_sim_site site = { .name = #name_ };                               \
		return answer;                                                                     \
	}
#define COMPUTE(name) DEFINE(name, gm_sim_compute_nothing(&site))

#define STUB(name) DEFINE(name, gm_sim_refuse(&site, RUNTIME_NOT_SUPPORTED, true))
#include "sim/exports/libcudart13.inc"
#undef STUB

#define STUB(name) DEFINE(name, gm_sim_refuse(&site, RUNTIME_NOT_SUPPORTED, false))
#include "sim/exports/libcuda1.inc"
#undef STUB

#define STUB(name) DEFINE(name, gm_sim_refuse(&site, BLAS_NOT_SUPPORTED, false))
#include "sim/exports/libcublas13.inc"
#include "sim/exports/libcublasLt13.inc"
#undef STUB
