/*
 * What CUDA 13's runtime header needs of crt/host_defines.h, for gcc and clang compiling C.
 *
 * The torch wheel brings cuda_runtime_api.h but not this one (it is in the compiler's package), so
 * this stands behind the CUDA headers on the include path: a Toolkit's own is found first.
 */
#ifndef GM_SIM_CRT_HOST_DEFINES_H
#define GM_SIM_CRT_HOST_DEFINES_H

#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __location__(a)
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDAAPI
#define CUDART_CB

#endif
