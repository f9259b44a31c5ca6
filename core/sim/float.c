#include "sim/float.h"

#include <math.h>
#include <string.h>

float gm_sim_of_bfloat16(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return value;
}

uint16_t gm_sim_to_bfloat16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	if (value != value)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float gm_sim_of_small(unsigned bits, unsigned exponent, unsigned mantissa)
{
	unsigned e = bits >> mantissa & ((1u << exponent) - 1), m = bits & ((1u << mantissa) - 1);
	int bias = (1 << (exponent - 1)) - 1;
	float value = e ? ldexpf((float)(m | 1u << mantissa), (int)e - bias - (int)mantissa)
	                : ldexpf((float)m, 1 - bias - (int)mantissa);
	return bits >> (exponent + mantissa) & 1 ? -value : value;
}

unsigned gm_sim_to_small(
        double value, unsigned exponent, unsigned mantissa, unsigned largest, unsigned over)
{
	unsigned sign = (unsigned)(signbit(value) != 0) << (exponent + mantissa);
	int bias = (1 << (exponent - 1)) - 1, e;
	value = fabs(value);
	if (value == 0)
		return sign;
	frexp(value, &e);
	e -= 1; /* value = 1.x * 2^e */
	if (isinf(value) || e > bias + 1)
		return sign | over;
	if (e < 1 - bias)
		e = 1 - bias;
	/* In units of the last place; a carry increments the exponent. */
	double units = rint(ldexp(value, (int)mantissa - e));
	unsigned code = (unsigned)(e + bias - 1) * (1u << mantissa) + (unsigned)units;
	return sign | (code > largest ? over : code);
}

float gm_sim_of_half(uint16_t bits)
{
	if ((bits >> 10 & 31) != 31)
		return gm_sim_of_small(bits, 5, 10);
	return bits & 1023 ? NAN : bits >> 15 ? -INFINITY : INFINITY;
}

uint16_t gm_sim_to_half(double value)
{
	return value != value ? 0x7fff : (uint16_t)gm_sim_to_small(value, 5, 10, 0x7bff, 0x7c00);
}
