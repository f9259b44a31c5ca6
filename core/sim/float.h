/*
 * Floating-point types smaller than float, in software: fp16, bf16 and any of a sign, an exponent
 * and a mantissa.
 *
 * Conversions to them round to the nearest, ties to even, once, and give CUDA's NaN (0x7fff), as a
 * GPU's do.
 */
#ifndef GM_SIM_FLOAT_H
#define GM_SIM_FLOAT_H

#include <stdint.h>

float gm_sim_of_half(uint16_t bits);
uint16_t gm_sim_to_half(double value);
float gm_sim_of_bfloat16(uint16_t bits);
uint16_t gm_sim_to_bfloat16(float value);

/* `exponent` and `mantissa`: their bits, below a sign. Every code is a number here: infinities are
 * the caller's. */
float gm_sim_of_small(unsigned bits, unsigned exponent, unsigned mantissa);
/* No NaN. `largest` is the greatest finite number's code, `over` what is beyond it. */
unsigned gm_sim_to_small(
        double value, unsigned exponent, unsigned mantissa, unsigned largest, unsigned over);

#endif
