/* Elements of tensors: their types, and single values. */
#include <math.h>
#include <string.h>

#include "sim/float.h"
#include "sim/kernels/kernels.h"

static const struct {
	const char *name;
	uint8_t size;
	int8_t scalar; /* c10::ScalarType (c10/core/ScalarType.h; numbers are kept by serialised
	                  files) */
} types[] = {
        [GM_SIM_F64] = {"double", 8, 7},
        [GM_SIM_F32] = {"float", 4, 6},
        [GM_SIM_F16] = {"c10::Half", 2, 5},
        [GM_SIM_BF16] = {"c10::BFloat16", 2, 15},
        [GM_SIM_BOOL] = {"bool", 1, 11},
        [GM_SIM_I8] = {"signed char", 1, 1},
        [GM_SIM_U8] = {"unsigned char", 1, 0},
        [GM_SIM_I16] = {"short", 2, 2},
        [GM_SIM_U16] = {"unsigned short", 2, 27},
        [GM_SIM_I32] = {"int", 4, 3},
        [GM_SIM_U32] = {"unsigned int", 4, 28},
        [GM_SIM_I64] = {"long", 8, 4},
        [GM_SIM_U64] = {"unsigned long", 8, 29},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

enum gm_sim_type gm_sim_type_of(struct gm_sim_text name)
{
	/* "float const&", "float*": the element. */
	static const char *const ends[] = {"&", "*", " ", "const"};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t length = strlen(ends[i]);
		if (name.size > length &&
		        memcmp(name.at + name.size - length, ends[i], length) == 0) {
			name.size -= length;
			i = (size_t)-1;
		}
	}
	for (int type = 1; type < TYPES; type++)
		if (gm_sim_text_is(name, types[type].name))
			return (enum gm_sim_type)type;
	/* OpaqueType is copied, never computed with: an integer of the same size is enough. */
	static const struct {
		const char *name;
		enum gm_sim_type type;
	} others[] = {
	        {"long long", GM_SIM_I64},
	        {"unsigned long long", GM_SIM_U64},
	        {"__half", GM_SIM_F16}, /* as CUB gets the halves */
	        {"__nv_bfloat16", GM_SIM_BF16},
	        {"OpaqueType<1>", GM_SIM_U8},
	        {"OpaqueType<2>", GM_SIM_U16},
	        {"OpaqueType<4>", GM_SIM_U32},
	        {"OpaqueType<8>", GM_SIM_U64},
	        {"OpaqueType<1u>", GM_SIM_U8},
	        {"OpaqueType<2u>", GM_SIM_U16},
	        {"OpaqueType<4u>", GM_SIM_U32},
	        {"OpaqueType<8u>", GM_SIM_U64},
	        {"at::cuda::cub::detail::OpaqueType<1>", GM_SIM_U8},
	        {"at::cuda::cub::detail::OpaqueType<2>", GM_SIM_U16},
	        {"at::cuda::cub::detail::OpaqueType<4>", GM_SIM_U32},
	        {"at::cuda::cub::detail::OpaqueType<8>", GM_SIM_U64},
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (gm_sim_text_is(name, others[i].name))
			return others[i].type;
	return GM_SIM_NONE;
}

enum gm_sim_type gm_sim_type_of_scalar(int scalar_type)
{
	for (int type = 1; type < TYPES; type++)
		if (types[type].scalar == scalar_type)
			return (enum gm_sim_type)type;
	return GM_SIM_NONE;
}

unsigned gm_sim_type_size(enum gm_sim_type type)
{
	return types[type].size;
}

bool gm_sim_type_is_real(enum gm_sim_type type)
{
	return type >= GM_SIM_F64 && type <= GM_SIM_BF16;
}

enum gm_sim_type gm_sim_type_wide(enum gm_sim_type type)
{
	return type == GM_SIM_F16 || type == GM_SIM_BF16 ? GM_SIM_F32 : type;
}

/* A GPU's arithmetic gives one NaN, whose sign is positive; where it stands after a radix sort
 * depends on that. */
struct gm_sim_value gm_sim_real(double real)
{
	return (struct gm_sim_value){.real = isnan(real) ? NAN : real, .is_real = true};
}

static struct gm_sim_value loaded(double real)
{
	return (struct gm_sim_value){.real = real, .is_real = true};
}

struct gm_sim_value gm_sim_integer(int64_t integer)
{
	return (struct gm_sim_value){.integer = integer};
}

double gm_sim_as_real(struct gm_sim_value value)
{
	return value.is_real       ? value.real
	       : value.is_unsigned ? (double)(uint64_t)value.integer
	                           : (double)value.integer;
}

int gm_sim_order_integers(struct gm_sim_value a, struct gm_sim_value b)
{
	if (a.is_unsigned || b.is_unsigned)
		return ((uint64_t)a.integer > (uint64_t)b.integer) -
		       ((uint64_t)a.integer < (uint64_t)b.integer);
	return (a.integer > b.integer) - (a.integer < b.integer);
}

/* Saturated too. */
static uint64_t as_unsigned(struct gm_sim_value value)
{
	if (!value.is_real)
		return (uint64_t)value.integer;
	if (!(value.real > 0))
		return 0;
	return value.real >= 0x1p64 ? UINT64_MAX : (uint64_t)value.real;
}

int64_t gm_sim_as_integer(struct gm_sim_value value)
{
	if (!value.is_real)
		return value.integer;
	/* Saturated, like a GPU's conversion. */
	if (isnan(value.real))
		return 0;
	if (value.real >= 9.2233720368547758e18)
		return INT64_MAX;
	return value.real <= -9.2233720368547758e18 ? INT64_MIN : (int64_t)value.real;
}

#define LOAD(type)                                     \
	({                                             \
		type loaded_;                          \
		memcpy(&loaded_, at, sizeof(loaded_)); \
		loaded_;                               \
	})

struct gm_sim_value gm_sim_load(enum gm_sim_type type, const void *at)
{
	switch (type) {
	case GM_SIM_F64:
		return loaded(LOAD(double));
	case GM_SIM_F32:
		return loaded(LOAD(float));
	case GM_SIM_F16:
		return loaded(gm_sim_of_half(LOAD(uint16_t)));
	case GM_SIM_BF16:
		return loaded(gm_sim_of_bfloat16(LOAD(uint16_t)));
	case GM_SIM_BOOL:
		return gm_sim_integer(LOAD(uint8_t) != 0);
	case GM_SIM_I8:
		return gm_sim_integer(LOAD(int8_t));
	case GM_SIM_U8:
		return gm_sim_integer(LOAD(uint8_t));
	case GM_SIM_I16:
		return gm_sim_integer(LOAD(int16_t));
	case GM_SIM_U16:
		return gm_sim_integer(LOAD(uint16_t));
	case GM_SIM_I32:
		return gm_sim_integer(LOAD(int32_t));
	case GM_SIM_U32:
		return gm_sim_integer(LOAD(uint32_t));
	case GM_SIM_I64:
		return gm_sim_integer(LOAD(int64_t));
	case GM_SIM_U64:
		return (struct gm_sim_value){.integer = LOAD(int64_t), .is_unsigned = true};
	case GM_SIM_NONE:
		break;
	}
	return gm_sim_integer(0);
}

void gm_sim_store(enum gm_sim_type type, void *at, struct gm_sim_value value)
{
	uint64_t bits = 0;
	switch (type) {
	case GM_SIM_F64: {
		double real = gm_sim_as_real(value);
		memcpy(&bits, &real, sizeof(real));
		break;
	}
	case GM_SIM_F32: {
		float real = (float)gm_sim_as_real(value);
		memcpy(&bits, &real, sizeof(real));
		break;
	}
	case GM_SIM_F16:
		bits = gm_sim_to_half(gm_sim_as_real(value));
		break;
	case GM_SIM_BF16:
		bits = gm_sim_to_bfloat16((float)gm_sim_as_real(value));
		break;
	case GM_SIM_BOOL:
		bits = value.is_real ? value.real != 0 : value.integer != 0;
		break;
	case GM_SIM_U64:
		bits = as_unsigned(value);
		break;
	default:
		bits = (uint64_t)gm_sim_as_integer(value);
	}
	memcpy(at, &bits, types[type].size); /* little endian */
}

struct gm_sim_value gm_sim_round(enum gm_sim_type type, struct gm_sim_value value)
{
	uint64_t bits = 0;
	gm_sim_store(type, &bits, value);
	return gm_sim_load(type, &bits);
}

double gm_sim_limited(enum gm_sim_type type, double real)
{
	if (!gm_sim_type_is_real(type))
		return real;
	/* Below the least normal number a type has fewer bits. */
	double least = type == GM_SIM_F64 ? 0 : type == GM_SIM_F16 ? 0x1p-14 : 0x1p-126;
	double rounded = gm_sim_round(type, gm_sim_real(real)).real;
	return isinf(rounded) || fabs(rounded) < least ? rounded : real;
}
