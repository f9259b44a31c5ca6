/*
 * NCCL's arithmetic: all of its types, sum, product, minimum, maximum, average and pre-multiplied
 * sum.
 *
 * Values are widened, added in the order of the ranks and rounded once. NCCL rounds 16- and 8-bit
 * types at each hop of its ring, so with more than two ranks the last bit of these may differ from
 * a GPU's.
 */
#include <math.h>
#include <string.h>

#include "sim/float.h"
#include "sim/nccl/nccl.h"

size_t gm_nccl_type_size(ncclDataType_t type)
{
	static const unsigned char sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return (unsigned)type < ncclNumTypes ? sizes[type] : 0;
}

static float half_values[1 << 16], fp8_values[2][256];

static void fill_tables(void)
{
	for (unsigned i = 0; i < 1 << 16; i++)
		half_values[i] = gm_sim_of_half((uint16_t)i);
	for (unsigned i = 0; i < 256; i++) {
		fp8_values[0][i] = (i & 127) == 127 ? NAN : gm_sim_of_small(i, 4, 3);
		unsigned e = i >> 2 & 31;
		fp8_values[1][i] = e == 31 ? i & 3    ? NAN
		                             : i >> 7 ? -INFINITY
		                                      : INFINITY
		                           : gm_sim_of_small(i, 5, 2);
	}
}

/* The type of a type's widened values. */
enum wide { FLOAT, DOUBLE, SIGNED, UNSIGNED };

static enum wide class_of(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
	case ncclInt32:
	case ncclInt64:
		return SIGNED;
	case ncclUint8:
	case ncclUint32:
	case ncclUint64:
		return UNSIGNED;
	case ncclFloat64:
		return DOUBLE;
	default:
		return FLOAT;
	}
}

static void widen(ncclDataType_t type, void *wide, const void *from, size_t count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	float *f = wide;
	double *d = wide;
	int64_t *i = wide;
	uint64_t *u = wide;
#define EACH(to, source, value)                    \
	{                                          \
		const source *x = from;            \
		for (size_t n = 0; n < count; n++) \
			(to)[n] = value;           \
		break;                             \
	}
	switch (type) {
	case ncclInt8:
		EACH(i, int8_t, x[n])
	case ncclUint8:
		EACH(u, uint8_t, x[n])
	case ncclInt32:
		EACH(i, int32_t, x[n])
	case ncclUint32:
		EACH(u, uint32_t, x[n])
	case ncclInt64:
		EACH(i, int64_t, x[n])
	case ncclUint64:
		EACH(u, uint64_t, x[n])
	case ncclFloat32:
		EACH(f, float, x[n])
	case ncclFloat64:
		EACH(d, double, x[n])
	case ncclBfloat16:
		EACH(f, uint16_t, gm_sim_of_bfloat16(x[n]))
	case ncclFloat16:
		pthread_once(&once, fill_tables);
		EACH(f, uint16_t, half_values[x[n]])
	case ncclFloat8e4m3:
		pthread_once(&once, fill_tables);
		EACH(f, uint8_t, fp8_values[0][x[n]])
	case ncclFloat8e5m2:
		pthread_once(&once, fill_tables);
		EACH(f, uint8_t, fp8_values[1][x[n]])
	default:
		break;
	}
#undef EACH
}

void gm_nccl_widen(ncclDataType_t type, const struct gm_nccl_operator *op, uint64_t scalar,
        void *wide, const void *from, size_t count)
{
	widen(type, wide, from, count);
	if (op->kind != ncclNumOps)
		return;
	uint64_t factor = 0;
	widen(type, &factor, &scalar, 1);
#define EACH(kind)                                 \
	{                                          \
		kind *x = wide, by;                \
		memcpy(&by, &factor, sizeof(by));  \
		for (size_t n = 0; n < count; n++) \
			x[n] *= by;                \
		break;                             \
	}
	switch (class_of(type)) {
	case FLOAT:
		EACH(float)
	case DOUBLE:
		EACH(double)
	case SIGNED: /* wraps as unsigned numbers do */
	case UNSIGNED:
		EACH(uint64_t)
	}
#undef EACH
}

void gm_nccl_combine(
        ncclDataType_t type, ncclRedOp_t op, void *wide, const void *other, size_t count)
{
#define LOOP(expression)                   \
	for (size_t n = 0; n < count; n++) \
		x[n] = expression;         \
	break
/* NaN stays NaN in a sum; a minimum or maximum ignores it, as NCCL's do. */
#define EACH(kind)                                                       \
	{                                                                \
		kind *x = wide;                                          \
		const kind *y = other;                                   \
		switch (op) {                                            \
		case ncclProd:                                           \
			LOOP(x[n] * y[n]);                               \
		case ncclMax:                                            \
			LOOP(y[n] > x[n] || x[n] != x[n] ? y[n] : x[n]); \
		case ncclMin:                                            \
			LOOP(y[n] < x[n] || x[n] != x[n] ? y[n] : x[n]); \
		default:                                                 \
			LOOP(x[n] + y[n]);                               \
		}                                                        \
		break;                                                   \
	}
	enum wide class = class_of(type);
	if (class == SIGNED && op != ncclMax && op != ncclMin)
		class = UNSIGNED;
	switch (class) {
	case FLOAT:
		EACH(float)
	case DOUBLE:
		EACH(double)
	case SIGNED:
		EACH(int64_t)
	case UNSIGNED:
		EACH(uint64_t)
	}
#undef EACH
#undef LOOP
}

static void divide(ncclDataType_t type, unsigned ranks, void *wide, size_t count)
{
	float *f = wide;
	double *d = wide;
	int64_t *i = wide;
	uint64_t *u = wide;
	for (size_t n = 0; n < count; n++)
		switch (class_of(type)) {
		case FLOAT:
			f[n] /= (float)ranks;
			break;
		case DOUBLE:
			d[n] /= ranks;
			break;
		case SIGNED:
			i[n] /= (int64_t)ranks;
			break;
		case UNSIGNED:
			u[n] /= ranks;
			break;
		}
}

void gm_nccl_narrow(ncclDataType_t type, ncclRedOp_t op, unsigned ranks, void *to, const void *from,
        size_t count)
{
	void *wide = (void *)(uintptr_t)from;
	if (op == ncclAvg)
		divide(type, ranks, wide, count);
	const float *f = wide;
	const double *d = wide;
	const uint64_t *u = wide;
#define EACH(target, value)                        \
	{                                          \
		target *x = to;                    \
		for (size_t n = 0; n < count; n++) \
			x[n] = (target)(value);    \
		break;                             \
	}
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		EACH(uint8_t, u[n])
	case ncclInt32:
	case ncclUint32:
		EACH(uint32_t, u[n])
	case ncclInt64:
	case ncclUint64:
		EACH(uint64_t, u[n])
	case ncclFloat32:
		EACH(float, f[n])
	case ncclFloat64:
		EACH(double, d[n])
	case ncclBfloat16:
		EACH(uint16_t, gm_sim_to_bfloat16(f[n]))
	case ncclFloat16:
		EACH(uint16_t, gm_sim_to_half(f[n]))
	case ncclFloat8e4m3:
		/* Values beyond the largest become the largest, as in CUDA's conversion. */
		EACH(uint8_t, f[n] != f[n] ? 0x7f : gm_sim_to_small(f[n], 4, 3, 0x7e, 0x7e))
	case ncclFloat8e5m2:
		EACH(uint8_t, f[n] != f[n] ? 0x7f : gm_sim_to_small(f[n], 5, 2, 0x7b, 0x7b))
	default:
		break;
	}
#undef EACH
}
