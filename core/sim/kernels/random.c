/*
 * Random numbers: cuRAND's Philox 4x32-10 as PyTorch's kernels use it
 * (ATen/native/cuda/DistributionTemplates.h), so that a seed has the same result as on a GPU.
 *
 * Each thread of the launch has its own subsequence. Which element gets which number depends on the
 * grid, and so on the profile's number of multiprocessors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/kernels/kernels.h"

enum form { UNIFORM, NORMAL, INTEGERS, EXPONENTIAL, BERNOULLI, ANY_INTEGER, LOG_NORMAL };

/* Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten rounds. */
static void philox(uint64_t seed, uint64_t counter, uint64_t subsequence, uint32_t ret[4])
{
	uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)subsequence,
	        (uint32_t)(subsequence >> 32)};
	uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
		uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
		        (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
		memcpy(c, next, sizeof(c));
		k[0] += 0x9E3779B9u;
		k[1] += 0xBB67AE85u;
	}
	memcpy(ret, c, sizeof(c));
}

/* The four numbers that a thread draws `draws` after it began at `offset` (curand_init with an
 * offset). */
static void draw(uint64_t seed, uint64_t offset, uint64_t thread, uint64_t draws, uint32_t ret[4])
{
	uint64_t first = offset / 4 + draws;
	unsigned within = offset % 4;
	uint32_t numbers[8];
	philox(seed, first, thread, numbers);
	if (within)
		philox(seed, first + 1, thread, numbers + 4);
	memcpy(ret, numbers + within, 4 * sizeof(uint32_t));
}

/* curand_uniform: (0, 1]. */
static float uniform(uint32_t x)
{
	return (float)x * 2.3283064e-10f + (2.3283064e-10f / 2.0f);
}

static double uniform_double(uint32_t x, uint32_t y)
{
	uint64_t z = (uint64_t)x ^ (uint64_t)y << 21;
	return (double)z * 1.1102230246251565e-16 + 1.1102230246251565e-16 / 2;
}

/* Box-Muller transform: curand_normal4 pairs x with y and z with w. */
static void normals(const uint32_t x[4], double ret[4])
{
	for (int i = 0; i < 4; i += 2) {
		float u = (float)x[i] * 2.3283064e-10f + (2.3283064e-10f / 2.0f);
		float v = (float)x[i + 1] * 1.46291807e-9f + (1.46291807e-9f / 2.0f);
		float s = sqrtf(-2.0f * logf(u));
		ret[i] = sinf(v) * s;
		ret[i + 1] = cosf(v) * s;
	}
}

static void normals_double(const uint32_t x[4], double ret[2])
{
	double u = uniform_double(x[0], x[1]);
	uint64_t z = (uint64_t)x[2] ^ (uint64_t)x[3] << 21;
	double v = (double)z * 2.2204460492503131e-16 + 2.2204460492503131e-16 / 2;
	double s = sqrt(-2 * log(u));
	ret[0] = sin(v * M_PI) * s;
	ret[1] = cos(v * M_PI) * s;
}

/* plan->type: 0 the elements', 1 what is computed in; number[0]: sizeof numel; number[1]: numbers a
 * draw. */
struct transform {
	struct gm_sim_value value[3];
};

static struct gm_sim_value result(
        const struct gm_sim_plan *plan, const struct transform *t, double x, uint64_t bits)
{
	double a = gm_sim_as_real(t->value[0]), b = gm_sim_as_real(t->value[1]);
	bool single = plan->type[1] == GM_SIM_F32;
	switch ((enum form)plan->form) {
	case UNIFORM: {
		/* [range, from, to]: reversed from (0, 1] to [0, 1) */
		double value = single ? (double)((float)x * (float)a + (float)b) : x * a + b;
		struct gm_sim_value rounded = gm_sim_round(plan->type[0], gm_sim_real(value));
		return rounded.real == gm_sim_as_real(t->value[2]) ? gm_sim_real(b) : rounded;
	}
	case NORMAL:
		return gm_sim_real(single ? (double)((float)x * (float)b + (float)a) : x * b + a);
	case LOG_NORMAL:
		return gm_sim_real(exp(x * b + a));
	case EXPONENTIAL: {
		double epsilon = single ? 1.1920929e-07 : 2.220446049250313e-16;
		double l = x >= 1 - epsilon / 2 ? -epsilon / 2
		           : single             ? (double)logf((float)x)
		                                : log(x);
		return gm_sim_real(-1 / a * l);
	}
	case BERNOULLI:
		return gm_sim_integer(x < a);
	case INTEGERS:
		return gm_sim_integer((int64_t)(bits % (uint64_t)t->value[0].integer +
		                                (uint64_t)t->value[1].integer));
	case ANY_INTEGER:
		break;
	}
	return gm_sim_integer((int64_t)bits);
}

/* The captures of the transformation: [range, from, to], [mean, std], [range, base], [lambda], [p].
 * */
static bool read_transform(const struct gm_sim_plan *plan, const char *at, struct transform *ret)
{
	enum gm_sim_type own = plan->type[0], wide = plan->type[1];
	enum gm_sim_type types[3] = {wide, wide, wide};
	unsigned count = 2, offset = 0;
	if (plan->form == UNIFORM) {
		types[1] = types[2] = own;
		count = 3;
	} else if (plan->form == INTEGERS) {
		types[0] = types[1] = GM_SIM_I64;
	} else if (plan->form == EXPONENTIAL) {
		count = 1;
	} else if (plan->form == BERNOULLI) {
		types[0] = GM_SIM_F64;
		count = 1;
	} else if (plan->form == ANY_INTEGER) {
		count = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		unsigned size = gm_sim_type_size(types[i]);
		offset = (offset + size - 1) & ~(size - 1);
		ret->value[i] = gm_sim_load(types[i], at + offset);
		offset += size;
	}
	return plan->form != INTEGERS || ret->value[0].integer != 0;
}

/* The widest alignment among the captures of the transformation. */
static unsigned alignment(const struct gm_sim_plan *plan)
{
	switch ((enum form)plan->form) {
	case INTEGERS:
	case BERNOULLI:
		return 8;
	case ANY_INTEGER:
		return 1;
	default:
		return gm_sim_type_size(plan->type[1]);
	}
}

/*
 * at::PhiloxCudaState (ATen/cuda/detail/PhiloxCudaStateRaw.cuh): seed, offset, offset in the graph,
 * captured. If it was captured in a graph, the first two are addresses on the device, where each
 * replay stores its own. The flag is not at the same place in all versions: until 2.9 the offset in
 * the graph has 32 bits, from 2.10 on 64, and what is behind the shorter structure can be anything.
 * No seed is an address on the device by chance.
 */
static bool state(const char *at, uint64_t *ret_seed, uint64_t *ret_offset)
{
	uint32_t inside;
	memcpy(ret_seed, at, sizeof(*ret_seed));
	memcpy(ret_offset, at + 8, sizeof(*ret_offset));
	memcpy(&inside, at + 16, sizeof(inside));
	const void *seed = (const void *)(uintptr_t)*ret_seed,
	           *offset = (const void *)(uintptr_t)*ret_offset;
	if (!gm_sim_device_of(seed) || !gm_sim_device_of(offset) || (!at[20] && !at[24]))
		return true;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, seed, 8);
	gm_sim_use_read(&use, offset, 8);
	if (!gm_sim_use_good(&use) || use.unknown)
		return false;
	memcpy(ret_seed, seed, sizeof(*ret_seed));
	memcpy(ret_offset, offset, sizeof(*ret_offset));
	*ret_offset += inside;
	return true;
}

/* (numel, PhiloxCudaState {seed, offset, intragraph, captured}, how to draw, [out, stride or
 * offsets, transform]) */
static bool compute(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t numel = 0, seed, offset, threads = (uint64_t)launch->grid[0] * launch->block[0];
	memcpy(&numel, a[0], (size_t)plan->number[0]);
	if (!state(a[1], &seed, &offset))
		return false;
	const char *f = a[3];
	char *out;
	struct gm_sim_offsets offsets;
	if (!numel || numel > INT32_MAX)
		return false;
	unsigned size = gm_sim_type_size(plan->type[0]), at;
	if (plan->number[2]) { /* OffsetCalculator<1>, char *out */
		if (!gm_sim_offsets_read(f, 1, numel, &offsets))
			return false;
		memcpy(&out, f + 408, sizeof(out));
		at = 416;
	} else { /* char *out, int stride */
		int32_t stride;
		memcpy(&out, f, sizeof(out));
		memcpy(&stride, f + 8, sizeof(stride));
		gm_sim_offsets_trivial(numel, 1, &size, &offsets);
		offsets.strides[0][0] = stride;
		at = 12;
	}
	at = (at + alignment(plan) - 1) & ~(alignment(plan) - 1);
	struct gm_sim_use use = {.wide = plan->form == EXPONENTIAL};
	gm_sim_use_operand(&use, &offsets, 0, out, size, true);
	struct transform transform = {0};
	if (!gm_sim_use_good(&use) || !read_transform(plan, f + at, &transform))
		return false;
	unsigned each = (unsigned)plan->number[1];
	for (uint64_t thread = 0; thread < threads && thread < numel; thread++)
		for (uint64_t draws = 0, base = thread; base < numel;
		        draws++, base += threads * each) {
			uint32_t x[4];
			double real[4] = {0};
			uint64_t bits[4] = {0};
			draw(seed, offset, thread, draws, x);
			if (plan->form == NORMAL || plan->form == LOG_NORMAL) {
				if (each == 2)
					normals_double(x, real);
				else
					normals(x, real);
			}
			for (unsigned i = 0; i < each; i++) {
				bool two = each == 2;
				bits[i] = two ? (uint64_t)x[2 * i] << 32 | x[2 * i + 1] : x[i];
				if (plan->form != NORMAL && plan->form != LOG_NORMAL)
					real[i] = two ? uniform_double(x[2 * i], x[2 * i + 1])
					              : (double)uniform(x[i]);
				uint64_t place = base + threads * i;
				if (place >= numel)
					continue;
				int64_t to;
				gm_sim_offsets_get(&offsets, place, &to);
				gm_sim_store(plan->type[0], out + to,
				        result(plan, &transform, real[i], bits[i]));
			}
		}
	gm_sim_use_wrote_operand(&use, &offsets, 0, out, size);
	return true;
}

bool gm_sim_random_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	static const struct {
		const char *name;
		uint8_t form;
	} kernels[] = {
	        {"templates::cuda::uniform_kernel<", UNIFORM},
	        {"templates::cuda::normal_kernel<", NORMAL},
	        {"templates::cuda::log_normal_kernel<", LOG_NORMAL},
	        {"templates::cuda::random_from_to_kernel<", INTEGERS},
	        {"templates::cuda::random_full_64_bits_range_kernel<", ANY_INTEGER},
	        {"templates::cuda::exponential_kernel<", EXPONENTIAL},
	        {"templates::cuda::bernoulli_kernel<", BERNOULLI},
	};
	struct gm_sim_text outer, own[8], parameters[4];
	if (!gm_sim_text_is(base, "distribution_elementwise_grid_stride_kernel") || count != 4 ||
	        gm_sim_name_parameters(name, parameters, 4) != 4)
		return false;
	/* distribution_nullary_kernel<scalar_t, accscalar_t, …>(…)::{lambda(int, acc)#1 or #2} */
	if (gm_sim_name_template(arguments[3], &outer, own, 8) < 2 ||
	        !gm_sim_text_is(outer, "distribution_nullary_kernel"))
		return false;
	size_t i = 0, known = sizeof(kernels) / sizeof(kernels[0]);
	while (i < known && !gm_sim_text_has(arguments[2], kernels[i].name))
		i++;
	if (i == known)
		return false;
	ret->form = kernels[i].form;
	ret->type[0] = gm_sim_type_of(own[0]);
	ret->type[1] = gm_sim_type_of(own[1]);
	ret->number[0] = gm_sim_text_is(parameters[0], "int") ? 4 : 8;
	ret->number[1] = (int64_t)strtol(arguments[1].at, NULL, 10);
	struct gm_sim_text types[2];
	unsigned lambda;
	gm_sim_name_lambda(arguments[3], types, 2, &lambda);
	ret->number[2] = lambda == 2;
	ret->compute = compute;
	return ret->type[0] && ret->type[1] && (ret->number[1] == 4 || ret->number[1] == 2);
}
