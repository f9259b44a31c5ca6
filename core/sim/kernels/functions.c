/* The result of one element. Computed in double precision or in 64 bits, and rounded to the type in
 * which ATen computes. */
#include "sim/kernels/functions.h"

#include <math.h>

#include "sim/kernels/kernels.h"

/* enum class OpType {GE, GT, LE, LT} (CompareKernels.cu); for equality {EQ, NE}
 * (CompareEQKernel.cu). */
enum { GE, GT, LE, LT };

#if defined(__x86_64__) && defined(__GLIBC__)
/* The same function as that of glibc 2.35, but for errno: the only one that would need a glibc that
 * RHEL 9 does not have. */
__asm__(".symver hypot, hypot@GLIBC_2.2.5");
#endif

static bool compare(int64_t how, struct gm_sim_value a, struct gm_sim_value b)
{
	if (a.is_real || b.is_real) {
		double x = gm_sim_as_real(a), y = gm_sim_as_real(b);
		return how == GE ? x >= y : how == GT ? x > y : how == LE ? x <= y : x < y;
	}
	int order = gm_sim_order_integers(a, b);
	return how == GE ? order >= 0 : how == GT ? order > 0 : how == LE ? order <= 0 : order < 0;
}

static bool equal(struct gm_sim_value a, struct gm_sim_value b)
{
	return a.is_real || b.is_real ? gm_sim_as_real(a) == gm_sim_as_real(b)
	                              : a.integer == b.integer;
}

static bool truth(struct gm_sim_value a)
{
	return a.is_real ? a.real != 0 : a.integer != 0;
}

static bool not_a_number(struct gm_sim_value a)
{
	return a.is_real && isnan(a.real);
}

static int64_t wrap(uint64_t bits)
{
	return (int64_t)bits;
}

/* Division by zero is undefined on a GPU too; it gives -1. */
static int64_t divide(int64_t a, int64_t b)
{
	return b == 0 ? -1 : b == -1 ? wrap(0 - (uint64_t)a) : a / b;
}

static int64_t modulo(int64_t a, int64_t b)
{
	return b == 0 ? -1 : b == -1 ? 0 : a % b;
}

static int64_t power(int64_t base, int64_t exponent)
{
	if (exponent < 0)
		return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
	uint64_t result = 1, factor = (uint64_t)base;
	for (; exponent; exponent >>= 1, factor *= factor)
		if (exponent & 1)
			result *= factor;
	return wrap(result);
}

static struct gm_sim_value integers(int function, int64_t a, int64_t b, int64_t c)
{
	int64_t result = 0;
	switch (function) {
	case GM_FN_ABS:
		result = a < 0 ? wrap(0 - (uint64_t)a) : a;
		break;
	case GM_FN_NEG:
		result = wrap(0 - (uint64_t)a);
		break;
	case GM_FN_SIGN:
		result = (a > 0) - (a < 0);
		break;
	case GM_FN_ADD:
		result = wrap((uint64_t)a + (uint64_t)b * (uint64_t)c);
		break;
	case GM_FN_MUL:
		result = wrap((uint64_t)a * (uint64_t)b);
		break;
	case GM_FN_DIV:
	case GM_FN_DIV_TRUNC:
		result = divide(a, b);
		break;
	case GM_FN_DIV_FLOOR:
		result = divide(a, b);
		if (b && modulo(a, b) != 0 && (a < 0) != (b < 0))
			result--;
		break;
	case GM_FN_FMOD:
		result = modulo(a, b);
		break;
	case GM_FN_REMAINDER:
		result = modulo(a, b);
		if (b && result != 0 && (result < 0) != (b < 0))
			result += b;
		break;
	case GM_FN_POW:
		result = power(a, b);
		break;
	case GM_FN_MSE:
		result = wrap(((uint64_t)a - (uint64_t)b) * ((uint64_t)a - (uint64_t)b));
		break;
	case GM_FN_ADDCMUL:
		result = wrap((uint64_t)b * (uint64_t)c);
		break;
	default: /* CEIL, FLOOR, ROUND, TRUNC: unchanged */
		result = a;
	}
	return gm_sim_integer(result);
}

static double reals(int function, double a, double b, double c)
{
	switch (function) {
	case GM_FN_ABS:
		return fabs(a);
	case GM_FN_NEG:
		return -a;
	case GM_FN_SIGN:
		return (a > 0) - (a < 0);
	case GM_FN_EXP:
		return exp(a);
	case GM_FN_EXP2:
		return exp2(a);
	case GM_FN_EXPM1:
		return expm1(a);
	case GM_FN_LOG:
		return log(a);
	case GM_FN_LOG2:
		return log2(a);
	case GM_FN_LOG10:
		return log10(a);
	case GM_FN_LOG1P:
		return log1p(a);
	case GM_FN_SQRT:
		return sqrt(a);
	case GM_FN_RSQRT:
		return 1 / sqrt(a);
	case GM_FN_RECIPROCAL:
		return 1 / a;
	case GM_FN_SIGMOID:
		return 1 / (1 + exp(-a));
	case GM_FN_TANH:
		return tanh(a);
	case GM_FN_SIN:
		return sin(a);
	case GM_FN_COS:
		return cos(a);
	case GM_FN_TAN:
		return tan(a);
	case GM_FN_ASIN:
		return asin(a);
	case GM_FN_ACOS:
		return acos(a);
	case GM_FN_ATAN:
		return atan(a);
	case GM_FN_SINH:
		return sinh(a);
	case GM_FN_COSH:
		return cosh(a);
	case GM_FN_ERF:
		return erf(a);
	case GM_FN_ERFC:
		return erfc(a);
	case GM_FN_CEIL:
		return ceil(a);
	case GM_FN_FLOOR:
		return floor(a);
	case GM_FN_ROUND:
		return nearbyint(a);
	case GM_FN_TRUNC:
		return trunc(a);
	case GM_FN_FRAC:
		return a - trunc(a);
	case GM_FN_SILU:
		return a / (1 + exp(-a));
	case GM_FN_ADD:
		return a + b * c;
	case GM_FN_MUL:
		return a * b;
	case GM_FN_DIV:
		return a / b;
	case GM_FN_DIV_FLOOR: {
		/* Like Python's division (c10/util/generic_math.h). */
		if (b == 0)
			return a / b;
		double rest = fmod(a, b), quotient = (a - rest) / b;
		if (rest != 0 && (b < 0) != (rest < 0))
			quotient -= 1;
		double floored = floor(quotient);
		return quotient == 0 ? copysign(0, a / b)
		                     : floored + (quotient - floored > 0.5 ? 1 : 0);
	}
	case GM_FN_FMOD:
		return fmod(a, b);
	case GM_FN_REMAINDER: {
		double rest = fmod(a, b);
		return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
	}
	case GM_FN_POW:
		return pow(a, b);
	case GM_FN_FMAX:
		return fmax(a, b);
	case GM_FN_FMIN:
		return fmin(a, b);
	case GM_FN_ATAN2:
		return atan2(a, b);
	case GM_FN_HYPOT:
		return hypot(a, b);
	case GM_FN_COPYSIGN:
		return copysign(a, b);
	case GM_FN_MSE:
		return (a - b) * (a - b);
	case GM_FN_XLOGY:
		return a == 0 && !isnan(b) ? 0 : a * log(b);
	case GM_FN_LERP:
		return fabs(c) < 0.5 ? a + c * (b - a) : b - (b - a) * (1 - c);
	case GM_FN_COPY:
	default:
		return a;
	}
}

static struct gm_sim_value arithmetic(int function, bool real, struct gm_sim_value a,
        struct gm_sim_value b, struct gm_sim_value c)
{
	if (real)
		return gm_sim_real(
		        reals(function, gm_sim_as_real(a), gm_sim_as_real(b), gm_sim_as_real(c)));
	return integers(function, gm_sim_as_integer(a), gm_sim_as_integer(b), gm_sim_as_integer(c));
}

static struct gm_sim_value clamp(const struct gm_sim_bound *bound, struct gm_sim_value a)
{
	enum { MIN, MAX }; /* at::native::detail::ClampLimits {Min, Max, MinMax} */
	int64_t which = bound->capture[0].integer;
	if (not_a_number(a))
		return a;
	if (which != MAX && compare(LT, a, bound->capture[1]))
		a = bound->capture[1];
	struct gm_sim_value top = bound->capture[which == MAX ? 1 : 2];
	return which != MIN && compare(GT, a, top) ? top : a;
}

static struct gm_sim_value gelu(unsigned approximation, double x)
{
	if (approximation == 1)
		return gm_sim_real(
		        0.5 * x *
		        (1 + tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x))));
	return gm_sim_real(x * 0.5 * (1 + erf(x * M_SQRT1_2)));
}

static struct gm_sim_value nan_to_num(const struct gm_sim_bound *bound, struct gm_sim_value a)
{
	if (!a.is_real)
		return a;
	return isnan(a.real)         ? bound->capture[0]
	       : a.real == INFINITY  ? bound->capture[1]
	       : a.real == -INFINITY ? bound->capture[2]
	                             : a;
}

struct gm_sim_value gm_sim_functor_apply(
        const struct gm_sim_bound *bound, const struct gm_sim_value *in)
{
	const struct gm_sim_functor *functor = bound->functor;
	const struct gm_sim_value *capture = bound->capture, one = gm_sim_integer(1);
	struct gm_sim_value a = in[0], b = in[1], c = in[2];
	if (functor->scalar == GM_SIM_SCALAR_FIRST) {
		b = a;
		a = bound->constant;
	} else if (functor->scalar == GM_SIM_SCALAR_SECOND) {
		b = bound->constant;
	}
	bool real = gm_sim_type_is_real(functor->compute);
	double x = real ? gm_sim_as_real(a) : 0;
	switch (functor->function) {
	case GM_FN_FILL:
		return capture[0];
	case GM_FN_COPY:
		return a;
	case GM_FN_SIGNBIT:
		return gm_sim_integer(real ? signbit(x) != 0 : a.integer < 0);
	case GM_FN_LOGICAL_NOT:
		return gm_sim_integer(!truth(a));
	case GM_FN_BITWISE_NOT:
		return gm_sim_integer(functor->in[0] == GM_SIM_BOOL ? !a.integer : ~a.integer);
	case GM_FN_IS_POSITIVE_INFINITY:
		return gm_sim_integer(x == INFINITY);
	case GM_FN_IS_NEGATIVE_INFINITY:
		return gm_sim_integer(x == -INFINITY);
	case GM_FN_GELU:
		return gelu(functor->number, x);
	case GM_FN_POW_SCALAR:
		if (functor->number == 4)
			return arithmetic(GM_FN_POW, real, a, capture[0], one);
		b = arithmetic(GM_FN_MUL, real, a, a, one);
		return functor->number == 1   ? b
		       : functor->number == 2 ? arithmetic(GM_FN_MUL, real, b, a, one)
		                              : arithmetic(GM_FN_DIV, real, one, b, one);
	case GM_FN_SCALAR_POW:
		return arithmetic(GM_FN_POW, real, capture[0], a, one);
	case GM_FN_CLAMP_SCALAR:
		return clamp(bound, a);
	case GM_FN_COMPARE_SCALAR:
		return gm_sim_integer(compare(capture[0].integer, a, capture[1]));
	case GM_FN_LEAKY_RELU:
		return x > 0 ? a : gm_sim_real(x * gm_sim_as_real(capture[0]));
	case GM_FN_SOFTPLUS: {
		double beta = gm_sim_as_real(capture[0]);
		return x * beta > gm_sim_as_real(capture[1])
		               ? a
		               : gm_sim_real(log1p(exp(x * beta)) / beta);
	}
	case GM_FN_NAN_TO_NUM:
		return nan_to_num(bound, a);
	case GM_FN_ADD_SELF:
		return arithmetic(GM_FN_ADD, real, a, capture[0], capture[1]);
	case GM_FN_DIV_FLOOR_SCALAR:
		return arithmetic(GM_FN_DIV_FLOOR, real, a, capture[0], one);
	case GM_FN_DIV_TRUNC_SCALAR: /* the capture is the scalar's inverse */
		a = arithmetic(GM_FN_MUL, real, a, capture[0], one);
		return arithmetic(GM_FN_TRUNC, real, gm_sim_round(functor->compute, a), one, one);
	case GM_FN_DIV_TRUNC:
		a = arithmetic(GM_FN_DIV, real, a, b, one);
		/* The quotient of two halves is a half again. */
		return real ? arithmetic(GM_FN_TRUNC, real,
		                      gm_sim_round(
		                              functor->in[0], gm_sim_round(functor->compute, a)),
		                      one, one)
		            : a;
	case GM_FN_ADD_OTHER:
		return arithmetic(GM_FN_ADD, real, capture[0], a, capture[1]);
	case GM_FN_ADD:
		if (functor->in[0] == GM_SIM_BOOL) /* alpha is a bool too */
			return gm_sim_integer(truth(a) || (truth(b) && truth(capture[0])));
		return arithmetic(GM_FN_ADD, real, a, b, capture[0]);
	case GM_FN_MAXIMUM:
		return not_a_number(a) || (!not_a_number(b) && compare(GE, a, b)) ? a : b;
	case GM_FN_MINIMUM:
		return not_a_number(a) || (!not_a_number(b) && compare(LE, a, b)) ? a : b;
	case GM_FN_FMAX:
	case GM_FN_FMIN:
		if (!real)
			return compare(functor->function == GM_FN_FMAX ? GE : LE, a, b) ? a : b;
		return arithmetic(functor->function, real, a, b, one);
	case GM_FN_LOGICAL_AND:
		return gm_sim_integer(truth(a) && truth(b));
	case GM_FN_LOGICAL_OR:
		return gm_sim_integer(truth(a) || truth(b));
	case GM_FN_LOGICAL_XOR:
		return gm_sim_integer(truth(a) != truth(b));
	case GM_FN_BITWISE_AND:
		return gm_sim_integer(a.integer & b.integer);
	case GM_FN_BITWISE_OR:
		return gm_sim_integer(a.integer | b.integer);
	case GM_FN_BITWISE_XOR:
		return gm_sim_integer(a.integer ^ b.integer);
	case GM_FN_SHIFT_LEFT:
		return gm_sim_integer(b.integer < 0 || b.integer > 63
		                              ? 0
		                              : wrap((uint64_t)a.integer << b.integer));
	case GM_FN_SHIFT_RIGHT:
		return gm_sim_integer(
		        a.integer >> (b.integer < 0 || b.integer > 63 ? 63 : b.integer));
	case GM_FN_EQUAL:
		return gm_sim_integer(equal(a, b) == (capture[0].integer == 0));
	case GM_FN_COMPARE:
		return gm_sim_integer(compare(capture[0].integer, a, b));
	case GM_FN_MASKED_FILL:
		return truth(b) ? capture[0] : a;
	case GM_FN_THRESHOLD:
		return compare(LE, a, capture[0]) ? capture[1] : b;
	case GM_FN_LERP_SCALAR:
		return arithmetic(GM_FN_LERP, real, a, b, capture[0]);
	case GM_FN_WHERE:
		return truth(a) ? b : c;
	case GM_FN_CLAMP:
		if (not_a_number(a))
			return a;
		if (not_a_number(b) || not_a_number(c))
			return not_a_number(b) ? b : c;
		a = compare(LT, a, b) ? b : a;
		return compare(LT, c, a) ? c : a;
	case GM_FN_ADDCMUL:
		return arithmetic(
		        GM_FN_ADD, real, a, arithmetic(GM_FN_MUL, real, b, c, one), capture[0]);
	case GM_FN_ADDCDIV:
		return arithmetic(
		        GM_FN_ADD, real, a, arithmetic(GM_FN_DIV, real, b, c, one), capture[0]);
	default:
		return arithmetic(functor->function, real, a, b, c);
	}
}
