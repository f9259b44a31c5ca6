/*
 * cuFFT: plans are stored, transforms compute nothing. Also cuSPARSE's texts and sizes, which
 * PyTorch reads by value.
 *
 * A plan's workspace follows from the lengths. The rules were found from 2,000 plans on an H100
 * (cuFFT of CUDA 13.0); which lengths have kernels without a workspace is not documented, and known
 * in part only.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"

#define API(name, ...)         \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

/* More elements than any memory has; below it no size overflows. */
#define MOST (1ull << 48)

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
	if (!valid(plan))
		return INVALID_PLAN;
	gm_sim_stream_captures(stream);
	return SUCCESS;
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

static int64_t up(int64_t value, int64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static int64_t largest_factor(int64_t n)
{
	int64_t largest = 1;
	for (int64_t factor = 2; factor * factor <= n; factor++)
		while (n % factor == 0) {
			largest = factor;
			n /= factor;
		}
	return n > largest ? n : largest;
}

static bool power_of_two(int64_t n)
{
	return (n & (n - 1)) == 0;
}

/* The next number with no other factors than 2, 3 and 5. */
static int64_t smooth(int64_t least)
{
	int64_t best = INT64_MAX;
	for (int64_t five = 1; five < 5 * least; five *= 5)
		for (int64_t three = five; three < 3 * least; three *= 3) {
			int64_t n = three;
			while (n < least)
				n *= 2;
			if (n < best)
				best = n;
		}
	return best;
}

/* Bluestein's algorithm, for lengths with a factor above 127: two buffers that hold a convolution
 * of twice the length. Short ones fit in shared memory. In elements. */
static int64_t bluestein(int64_t n, int64_t batch, bool wide)
{
	if (n <= (wide ? 2048 : 4096) || largest_factor(n) <= 127)
		return 0;
	return 2 * up(smooth(2 * n - 1) * batch, 128);
}

/* Whether a complex transform works from memory to memory: lengths that do not fit in shared
 * memory, and products with a prime that no kernel has. */
static bool through_memory(int64_t n, bool outer, bool wide)
{
	int64_t factor = largest_factor(n);
	if (outer && n % 2 == 0 && factor >= 13 && factor <= 31)
		return true;
	return n > (wide ? 16384 : 32768) || (outer && n % 49 == 0) ||
	       (factor > 31 && factor <= 127 && factor < n);
}

/* The same of a transform between real and complex numbers. */
static bool real_through_memory(int64_t n)
{
	int64_t factor = largest_factor(n);
	if (n % 49 == 0 || factor > 127)
		return true;
	if (n % 2)
		return n > 2048 || (factor >= 13 && factor < n);
	return (n > 1000 && !power_of_two(n)) || n > 16384 || factor > 31 ||
	       (factor >= 17 && n > 150);
}

/* In elements (complex numbers). A real transform of even length is a complex one of half the
 * length; of an odd length, two of the batch are one complex transform. */
static int64_t work(int rank, const long long *sizes, int64_t batch, bool real, bool wide)
{
	int64_t last = sizes[rank - 1], outer = batch, most = 0, rows;
	for (int i = 0; i < rank - 1; i++)
		outer *= sizes[i];
	int64_t row = real ? last / 2 + 1 : last;
	for (int i = 0; i < rank - 1; i++)
		if (through_memory(sizes[i], true, wide))
			most = outer * row;
	if (!real) {
		int64_t long_one = rank == 1 ? bluestein(last, batch, wide) : 0;
		return long_one                            ? long_one
		       : through_memory(last, false, wide) ? outer * last
		                                           : most;
	}
	if (!real_through_memory(last))
		return most;
	if (last % 2 == 0) {
		rows = outer * (last / 2 + (rank == 1 ? 1 : 0)) + bluestein(last / 2, outer, wide);
	} else {
		int64_t pairs = outer / batch * ((batch + 1) / 2);
		int64_t padded = bluestein(last, pairs, wide);
		rows = pairs * last * (padded ? 1 : 2) + padded;
	}
	return rows > most ? rows : most;
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
		if (sizes[i] < 1 || __builtin_mul_overflow(count, (uint64_t)sizes[i], &count) ||
		        count > MOST)
			return INVALID_VALUE;
	}
	struct gm_sim_device *device = gm_sim_current();
	if (device)
		gm_sim_code_load(device, GM_SIM_CODE_FFT);
	/* cudaDataType: the complex types are those with bit 2 (library_types.h). */
	bool real = !(in_type & 4) || !(out_type & 4), wide = element(in_type) == 16;
	if (ret_size)
		*ret_size = (uint64_t)work(rank, sizes, batch, real, wide) * element(in_type);
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
