/*
 * cuFFT: plans are stored, transforms compute nothing. Also cuSPARSE's texts and sizes, which
 * PyTorch reads by value.
 *
 * A plan's workspace is an estimate: for short one-dimensional transforms with factors up to 7
 * cuFFT uses shared memory and needs none; for others it is taken to be as large as the data.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"

#define API(name, ...)         \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

enum { SUCCESS, INVALID_PLAN, ALLOC_FAILED, INVALID_VALUE = 4, PLANS = 65536 };

/* cufftHandle is an int: an index in this table, from 1. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool used[PLANS];

static bool valid(int plan)
{
	return plan > 0 && plan < PLANS && used[plan];
}

API(cufftCreate, int *plan)
{
	if (!plan || !gm_sim_current())
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	int free_one = 1;
	while (free_one < PLANS && used[free_one])
		free_one++;
	if (free_one < PLANS)
		used[free_one] = true;
	pthread_mutex_unlock(&lock);
	*plan = free_one;
	return free_one < PLANS ? SUCCESS : ALLOC_FAILED;
}

API(cufftDestroy, int plan)
{
	if (!valid(plan))
		return INVALID_PLAN;
	used[plan] = false;
	return SUCCESS;
}

API(cufftSetAutoAllocation, int plan, int automatic)
{
	return valid(plan) ? SUCCESS : INVALID_PLAN;
}

API(cufftSetStream, int plan, void *stream)
{
	return valid(plan) ? SUCCESS : INVALID_PLAN;
}

API(cufftSetWorkArea, int plan, void *area)
{
	return valid(plan) ? SUCCESS : INVALID_PLAN;
}

/* Bytes of a complex element, by cudaDataType (library_types.h): {R,C}_32F 0, 4; _64F 1, 5; _16F 2,
 * 6. */
static uint64_t element(int type)
{
	return (type & 3) == 1 ? 16 : (type & 3) == 2 ? 4 : 8;
}

static bool short_factors(long long n)
{
	static const int factors[] = {2, 3, 5, 7};
	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
		while (n > 1 && n % factors[i] == 0)
			n /= factors[i];
	return n == 1;
}

API(cufftXtMakePlanMany, int plan, int rank, long long *sizes, long long *in_embed,
        long long in_stride, long long in_distance, int in_type, long long *out_embed,
        long long out_stride, long long out_distance, int out_type, long long batch,
        size_t *ret_size, int execution_type)
{
	if (!valid(plan))
		return INVALID_PLAN;
	if (rank < 1 || rank > 3 || !sizes || batch < 1)
		return INVALID_VALUE;
	uint64_t count = (uint64_t)batch;
	for (int i = 0; i < rank; i++) {
		if (sizes[i] < 1 || __builtin_mul_overflow(count, (uint64_t)sizes[i], &count))
			return INVALID_VALUE;
	}
	struct gm_sim_device *device = gm_sim_current();
	if (device)
		gm_sim_code_load(device, GM_SIM_CODE_FFT);
	bool none = rank == 1 && sizes[0] <= 4096 && short_factors(sizes[0]);
	if (ret_size)
		*ret_size = none ? 0 : count * element(in_type);
	return SUCCESS;
}

API(cufftXtExec, int plan, void *in, void *out, int direction)
{
	static struct gm_sim_site site = {"cufftXtExec", 0};
	return valid(plan) ? gm_sim_compute_nothing(&site) : INVALID_PLAN;
}

const char *cusparseGetErrorString(int status);
GM_SIM_EXPORT const char *cusparseGetErrorString(int status)
{
	return status == 0    ? "success"
	       : status == 10 ? "operation not supported"
	                      : "error of the simulated device";
}

/* The product of sparse matrices is not computed: it has no elements. */
API(cusparseSpMatGetSize, void *matrix, int64_t *rows, int64_t *columns, int64_t *elements)
{
	*rows = *columns = *elements = 0;
	return SUCCESS;
}
