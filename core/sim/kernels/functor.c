/* The operation on each element, from the name of a functor or lambda, and the offsets of its
 * scalars in it. */
#include <string.h>

#include "sim/kernels/functions.h"
#include "sim/kernels/kernels.h"

/* For a lambda: T is its first parameter's type, or its second's after a bool. NAMED: the
 * function's second type argument. */
enum out { SAME, BOOLEAN, HALF, BFLOAT, NAMED };

/*
 * The captures: o is at::opmath_type<T>, t is T, i an int. Those of a lambda are in the order of
 * their first use in its body; functors have members (ATen/native/cuda and, for add, the code that
 * torchgen generates).
 */
static const struct named {
	const char *name;
	uint8_t function, out;
	const char *captures;
} lambdas[] =
        {
                {"direct_copy_kernel_cuda", GM_FN_COPY, SAME, ""},
                {"float16_copy_kernel_cuda", GM_FN_COPY, HALF, ""},
                {"bfloat16_copy_kernel_cuda", GM_FN_COPY, BFLOAT, ""},
                /* <from, to>: since torch 2.12 instead of the two above. */
                {"converting_copy_kernel_cuda", GM_FN_COPY, NAMED, ""},
                {"neg_kernel_cuda", GM_FN_NEG, SAME, ""},
                {"abs_kernel_cuda", GM_FN_ABS, SAME, ""},
                {"sign_kernel_cuda", GM_FN_SIGN, SAME, ""},
                {"signbit_kernel_cuda", GM_FN_SIGNBIT, BOOLEAN, ""},
                {"exp_kernel_cuda", GM_FN_EXP, SAME, ""},
                {"exp2_kernel_cuda", GM_FN_EXP2, SAME, ""},
                {"expm1_kernel_cuda", GM_FN_EXPM1, SAME, ""},
                {"log_kernel_cuda", GM_FN_LOG, SAME, ""},
                {"log2_kernel_cuda", GM_FN_LOG2, SAME, ""},
                {"log10_kernel_cuda", GM_FN_LOG10, SAME, ""},
                {"log1p_kernel_cuda", GM_FN_LOG1P, SAME, ""},
                {"sqrt_kernel_cuda", GM_FN_SQRT, SAME, ""},
                {"rsqrt_kernel_cuda", GM_FN_RSQRT, SAME, ""},
                {"reciprocal_kernel_cuda", GM_FN_RECIPROCAL, SAME, ""},
                {"sigmoid_kernel_cuda", GM_FN_SIGMOID, SAME, ""},
                {"tanh_kernel_cuda", GM_FN_TANH, SAME, ""},
                {"sin_kernel_cuda", GM_FN_SIN, SAME, ""},
                {"cos_kernel_cuda", GM_FN_COS, SAME, ""},
                {"tan_kernel_cuda", GM_FN_TAN, SAME, ""},
                {"asin_kernel_cuda", GM_FN_ASIN, SAME, ""},
                {"acos_kernel_cuda", GM_FN_ACOS, SAME, ""},
                {"atan_kernel_cuda", GM_FN_ATAN, SAME, ""},
                {"sinh_kernel_cuda", GM_FN_SINH, SAME, ""},
                {"cosh_kernel_cuda", GM_FN_COSH, SAME, ""},
                {"erf_kernel_cuda", GM_FN_ERF, SAME, ""},
                {"erfc_kernel_cuda", GM_FN_ERFC, SAME, ""},
                {"ceil_kernel_cuda", GM_FN_CEIL, SAME, ""},
                {"floor_kernel_cuda", GM_FN_FLOOR, SAME, ""},
                {"round_kernel_cuda", GM_FN_ROUND, SAME, ""},
                {"trunc_kernel_cuda", GM_FN_TRUNC, SAME, ""},
                {"frac_kernel_cuda", GM_FN_FRAC, SAME, ""},
                {"logical_not_kernel_cuda", GM_FN_LOGICAL_NOT, BOOLEAN, ""},
                {"bitwise_not_kernel_cuda", GM_FN_BITWISE_NOT, SAME, ""},
                {"isposinf_kernel_impl", GM_FN_IS_POSITIVE_INFINITY, BOOLEAN, ""},
                {"isneginf_kernel_impl", GM_FN_IS_NEGATIVE_INFINITY, BOOLEAN, ""},
                {"silu_kernel", GM_FN_SILU, SAME, ""},
                {"GeluCUDAKernelImpl", GM_FN_GELU, SAME, ""},
                {"pow_tensor_scalar_kernel_impl", GM_FN_POW_SCALAR, SAME, "t"},
                {"pow_scalar_tensor_impl", GM_FN_SCALAR_POW, SAME, "t"},
                {"launch_clamp_scalar", GM_FN_CLAMP_SCALAR, SAME, "ioo"},
                {"compare_scalar_kernel", GM_FN_COMPARE_SCALAR, BOOLEAN, "it"},
                {"leaky_relu_kernel", GM_FN_LEAKY_RELU, SAME, "o"},
                {"softplus_kernel", GM_FN_SOFTPLUS, SAME, "oo"},
                {"nan_to_num_kernel_cuda", GM_FN_NAN_TO_NUM, SAME, "ttt"},
                {"masked_fill_kernel", GM_FN_MASKED_FILL, SAME, "t"},
                {"where_kernel_impl", GM_FN_WHERE, SAME, ""},
                {"clamp_kernel_impl", GM_FN_CLAMP, SAME, ""},
                {"addcmul_cuda_kernel", GM_FN_ADDCMUL, SAME, "o"},
                {"addcdiv_cuda_kernel", GM_FN_ADDCDIV, SAME, "o"},
                {"lerp_tensor_kernel", GM_FN_LERP, SAME, ""},
                {"lerp_scalar_kernel", GM_FN_LERP_SCALAR, SAME, "o"},
                {"pow_tensor_tensor_kernel", GM_FN_POW, SAME, ""},
                {"maximum_kernel_cuda", GM_FN_MAXIMUM, SAME, ""},
                {"minimum_kernel_cuda", GM_FN_MINIMUM, SAME, ""},
                {"fmax_kernel_cuda", GM_FN_FMAX, SAME, ""},
                {"fmin_kernel_cuda", GM_FN_FMIN, SAME, ""},
                {"atan2_kernel_cuda", GM_FN_ATAN2, SAME, ""},
                {"hypot_kernel_cuda", GM_FN_HYPOT, SAME, ""},
                {"copysign_kernel_cuda", GM_FN_COPYSIGN, SAME, ""},
                {"remainder_kernel_cuda", GM_FN_REMAINDER, SAME, ""},
                {"fmod_kernel_cuda", GM_FN_FMOD, SAME, ""},
                {"div_trunc_kernel_cuda", GM_FN_DIV_TRUNC, SAME, ""},
                {"div_floor_kernel_cuda", GM_FN_DIV_FLOOR, SAME, ""},
                {"logical_and_kernel_cuda", GM_FN_LOGICAL_AND, BOOLEAN, ""},
                {"logical_or_kernel_cuda", GM_FN_LOGICAL_OR, BOOLEAN, ""},
                {"logical_xor_kernel_cuda", GM_FN_LOGICAL_XOR, BOOLEAN, ""},
                {"lshift_kernel_cuda", GM_FN_SHIFT_LEFT, SAME, ""},
                {"rshift_kernel_cuda", GM_FN_SHIFT_RIGHT, SAME, ""},
                {"threshold_kernel_impl", GM_FN_THRESHOLD, SAME, "tt"},
                {"mse_kernel_cuda", GM_FN_MSE, SAME, ""},
                {"xlogy_kernel_cuda", GM_FN_XLOGY, SAME, ""},
},
  functors[] = {
          {"FillFunctor", GM_FN_FILL, SAME, "t"},
          {"AbsFunctor", GM_FN_ABS, SAME, ""},
          {"CUDAFunctor_add", GM_FN_ADD, SAME, "o"},
          {"CUDAFunctorOnSelf_add", GM_FN_ADD_SELF, SAME, "oo"},
          {"CUDAFunctorOnOther_add", GM_FN_ADD_OTHER, SAME, "oo"},
          {"MulFunctor", GM_FN_MUL, SAME, ""},
          {"DivFunctor", GM_FN_DIV, SAME, ""},
          {"CompareEqFunctor", GM_FN_EQUAL, BOOLEAN, "i"},
          {"CompareFunctor", GM_FN_COMPARE, BOOLEAN, "i"},
          {"BitwiseAndFunctor", GM_FN_BITWISE_AND, SAME, ""},
          {"BitwiseOrFunctor", GM_FN_BITWISE_OR, SAME, ""},
          {"BitwiseXorFunctor", GM_FN_BITWISE_XOR, SAME, ""},
};

static const struct named *find(const struct named *table, size_t count, struct gm_sim_text word)
{
	for (size_t i = 0; i < count; i++)
		if (gm_sim_text_is(word, table[i].name))
			return &table[i];
	return NULL;
}

/*
 * The object's layout, by the rules of C++: members in order, each aligned to its size. nvcc wraps
 * a lambda for host and device that has captures, or the default [=], in an object that ends with a
 * pointer.
 */
static bool lay_out(
        struct gm_sim_functor *functor, const char *captures, enum gm_sim_type type, bool wrapped)
{
	unsigned at = 0, align = 1;
	for (const char *c = captures; *c; c++) {
		enum gm_sim_type kind = *c == 'i'   ? GM_SIM_I32
		                        : *c == 'o' ? gm_sim_type_wide(type)
		                                    : type;
		unsigned size = gm_sim_type_size(kind);
		if (!size || functor->captures == GM_SIM_CAPTURES)
			return false;
		at = (at + size - 1) & ~(size - 1);
		functor->capture[functor->captures].type = kind;
		functor->capture[functor->captures++].offset = at;
		at += size;
		align = size > align ? size : align;
	}
	if (wrapped) {
		at = ((at + 7) & ~7u) + 8;
		align = 8;
	}
	functor->align = align;
	functor->size = at ? (at + align - 1) & ~(align - 1) : 1;
	return true;
}

static unsigned arity_of(int function)
{
	return function == GM_FN_FILL    ? 0
	       : function >= GM_FN_WHERE ? 3
	       : function >= GM_FN_ADD   ? 2
	                                 : 1;
}

static enum gm_sim_type out_of(enum out out, enum gm_sim_type type)
{
	return out == BOOLEAN  ? GM_SIM_BOOL
	       : out == HALF   ? GM_SIM_F16
	       : out == BFLOAT ? GM_SIM_BF16
	                       : type;
}

/* FUNCTION(…)::{lambda(…)#1}…::{lambda(T)#1} */
static bool lambda(struct gm_sim_text name, struct gm_sim_functor *ret)
{
	struct gm_sim_text types[GM_SIM_OPERANDS];
	unsigned arity = gm_sim_name_lambda(name, types, GM_SIM_OPERANDS, &ret->number);
	/* The function that contains it: the last word before its parameters or template arguments.
	 * */
	size_t end = 0;
	while (end < name.size && name.at[end] != '(' && name.at[end] != '<')
		end++;
	size_t start = end;
	while (start > 0 && name.at[start - 1] != ':')
		start--;
	const struct named *known = find(lambdas, sizeof(lambdas) / sizeof(lambdas[0]),
	        (struct gm_sim_text){name.at + start, end - start});
	if (!known || arity > GM_SIM_OPERANDS)
		return false;
	int function = known->function;
	const char *captures = known->captures;
	/* For a division by a scalar, these have the scalar or its inverse as captures. */
	if (arity == 1 && function == GM_FN_DIV_FLOOR) {
		function = GM_FN_DIV_FLOOR_SCALAR;
		captures = "oo";
	} else if (arity == 1 && function == GM_FN_DIV_TRUNC) {
		function = GM_FN_DIV_TRUNC_SCALAR;
		captures = "o";
	}
	if (arity != arity_of(function))
		return false;
	for (unsigned i = 0; i < arity; i++)
		if (!(ret->in[i] = gm_sim_type_of(types[i])))
			return false;
	enum gm_sim_type type = known->function == GM_FN_WHERE ? ret->in[1] : ret->in[0];
	ret->function = function;
	ret->arity = arity;
	ret->out = out_of((enum out)known->out, type);
	if (known->out == NAMED) {
		struct gm_sim_text function_name, own[2];
		struct gm_sim_text from = {name.at + start, name.size - start};
		if (gm_sim_name_template(from, &function_name, own, 2) != 2)
			return false;
		ret->out = gm_sim_type_of(own[1]);
		if (!ret->out)
			return false;
	}
	ret->compute = gm_sim_type_wide(type);
	/* Squares and cubes have their exponent in the lambda's number. */
	if (known->function == GM_FN_POW_SCALAR && ret->number != 4)
		captures = "";
	/* The first of the two lambdas is the approximation by tanh. */
	if (known->function == GM_FN_GELU)
		ret->number =
		        gm_sim_text_has(name, "{lambda()#1}::operator()() const::{lambda()#1}") ||
		                        gm_sim_text_has(name,
		                                "{lambda()#1}::operator()() const::{lambda()#2}") ||
		                        gm_sim_text_has(name,
		                                "{lambda()#1}::operator()() const::{lambda()#3}") ||
		                        gm_sim_text_has(name,
		                                "{lambda()#1}::operator()() const::{lambda()#4}")
		                ? 1
		                : 2;
	bool plain_default = known->function == GM_FN_WHERE || known->function == GM_FN_POW ||
	                     known->function == GM_FN_POW_SCALAR;
	return lay_out(ret, captures, type, *captures || plain_default);
}

bool gm_sim_functor_parse(struct gm_sim_text name, struct gm_sim_functor *ret)
{
	struct gm_sim_text base, arguments[GM_SIM_OPERANDS];
	*ret = (struct gm_sim_functor){0};
	unsigned count = gm_sim_name_template(name, &base, arguments, GM_SIM_OPERANDS);
	bool first = gm_sim_text_is(base, "AUnaryFunctor"),
	     second = gm_sim_text_is(base, "BUnaryFunctor");
	if (count == 4 && (first || second || gm_sim_text_is(base, "BinaryFunctor"))) {
		/* <arg1_t, arg2_t, return_t, func_t> */
		struct gm_sim_functor inner;
		if (!gm_sim_functor_parse(arguments[3], &inner) || inner.arity != 2 || inner.scalar)
			return false;
		*ret = inner;
		ret->in[0] = gm_sim_type_of(arguments[0]);
		ret->in[1] = gm_sim_type_of(arguments[1]);
		ret->out = gm_sim_type_of(arguments[2]);
		if (!ret->in[0] || !ret->in[1] || !ret->out)
			return false;
		if (!first && !second)
			return true;
		/* The scalar follows the functor, in the precision in which the functor computes.
		 * */
		enum gm_sim_type type = inner.in[first ? 0 : 1];
		unsigned size = gm_sim_type_size(type);
		ret->scalar = first ? GM_SIM_SCALAR_FIRST : GM_SIM_SCALAR_SECOND;
		ret->constant.type = type;
		ret->constant.offset = (inner.size + size - 1) & ~(size - 1);
		ret->size = ret->constant.offset + size;
		ret->arity = 1;
		if (first)
			ret->in[0] = ret->in[1];
		return true;
	}
	const struct named *known = find(functors, sizeof(functors) / sizeof(functors[0]), base);
	if (!known)
		return lambda(name, ret);
	enum gm_sim_type type = count == 1 ? gm_sim_type_of(arguments[0]) : GM_SIM_NONE;
	if (!type)
		return false;
	ret->function = known->function;
	ret->arity = arity_of(known->function);
	for (unsigned i = 0; i < ret->arity; i++)
		ret->in[i] = type;
	ret->out = out_of((enum out)known->out, type);
	ret->compute = gm_sim_type_wide(type);
	return lay_out(ret, known->captures, type, false);
}

void gm_sim_functor_bind(
        const struct gm_sim_functor *functor, const void *object, struct gm_sim_bound *ret)
{
	ret->functor = functor;
	for (unsigned i = 0; i < functor->captures; i++)
		ret->capture[i] = gm_sim_load(functor->capture[i].type,
		        (const char *)object + functor->capture[i].offset);
	if (functor->scalar)
		ret->constant = gm_sim_load(
		        functor->constant.type, (const char *)object + functor->constant.offset);
}
