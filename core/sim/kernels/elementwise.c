/*
 * TensorIterator's loops over elements (ATen/native/cuda/CUDALoops.cuh): vectorized, unrolled, and
 * the one for strided operands. The lambda of the latter has the offset calculator, the pointers
 * and the functor, in this order, and then the operands' types if they are cast.
 */
#include <string.h>

#include "sim/kernels/kernels.h"

enum { MANY = 1 << 18 }; /* elements, which take about ten milliseconds */

enum form { VECTORIZED, UNROLLED, UNROLLED_CAST, STRIDED, STRIDED_CAST };

struct operands {
	uint64_t numel;
	char *data[GM_SIM_OPERANDS];
	enum gm_sim_type type[GM_SIM_OPERANDS];
	struct gm_sim_offsets offsets;
	const void *functor;
};

static unsigned align(size_t at, unsigned to)
{
	return (unsigned)((at + to - 1) & ~(size_t)(to - 1));
}

static bool read_types(const void *at, unsigned count, enum gm_sim_type *ret)
{
	for (unsigned i = 0; i < count; i++)
		if (!(ret[i] = gm_sim_type_of_scalar(((const int8_t *)at)[i])))
			return false;
	return true;
}

/* LoadWithCast<N> and StoreWithCast<N> (MemoryAccess.cuh) begin with std::array<ScalarType, max(N,
 * 1)>. */
static bool read_casts(const struct gm_sim_plan *plan, void **arguments, struct operands *ret)
{
	return read_types(arguments[6], 1, ret->type) &&
	       read_types(arguments[5], plan->functor.arity, ret->type + 1);
}

static bool read(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch,
        struct operands *ret)
{
	const struct gm_sim_functor *functor = &plan->functor;
	unsigned operands = functor->arity + 1;
	int32_t numel = *(const int32_t *)launch->arguments[0];
	if (numel <= 0)
		return false;
	ret->numel = (uint64_t)numel;
	ret->type[0] = functor->out;
	for (unsigned i = 0; i < functor->arity; i++)
		ret->type[i + 1] = functor->in[i];
	const char *lambda = launch->arguments[1];
	if (plan->form == STRIDED || plan->form == STRIDED_CAST) {
		unsigned at = align(gm_sim_offsets_bytes(operands), 8);
		if (!gm_sim_offsets_read(lambda, operands, ret->numel, &ret->offsets))
			return false;
		memcpy(ret->data, lambda + at, operands * sizeof(char *));
		at = align(at + operands * sizeof(char *), functor->align);
		ret->functor = lambda + at;
		return plan->form == STRIDED ||
		       read_types(lambda + at + functor->size, operands, ret->type);
	}
	ret->functor = lambda;
	memcpy(ret->data, launch->arguments[2], operands * sizeof(char *));
	if (plan->form == UNROLLED_CAST && !read_casts(plan, launch->arguments, ret))
		return false;
	unsigned sizes[GM_SIM_OPERANDS];
	for (unsigned i = 0; i < operands; i++)
		sizes[i] = gm_sim_type_size(ret->type[i]);
	gm_sim_offsets_trivial(ret->numel, operands, sizes, &ret->offsets);
	return true;
}

static bool compute(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	const struct gm_sim_functor *functor = &plan->functor;
	struct operands operands;
	if (!read(plan, launch, &operands))
		return false;
	struct gm_sim_use use = {.integers = operands.numel <= MANY};
	for (unsigned i = 0; i <= functor->arity; i++)
		use.integers &= !gm_sim_type_is_real(operands.type[i]);
	for (unsigned i = 0; i <= functor->arity; i++)
		gm_sim_use_operand(&use, &operands.offsets, i, operands.data[i],
		        gm_sim_type_size(operands.type[i]), i == 0);
	if (!gm_sim_use_good(&use))
		return false;
	struct gm_sim_bound bound;
	gm_sim_functor_bind(functor, operands.functor, &bound);
	struct gm_sim_value in[GM_SIM_OPERANDS] = {{0}};
	for (uint64_t i = 0; i < operands.numel; i++) {
		int64_t at[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&operands.offsets, i, at);
		for (unsigned k = 0; k < functor->arity; k++) {
			in[k] = gm_sim_load(operands.type[k + 1], operands.data[k + 1] + at[k + 1]);
			if (operands.type[k + 1] != functor->in[k])
				in[k] = gm_sim_round(functor->in[k], in[k]);
		}
		struct gm_sim_value out = gm_sim_functor_apply(&bound, in);
		if (operands.type[0] != functor->out)
			out = gm_sim_round(functor->out, out);
		gm_sim_store(operands.type[0], operands.data[0] + at[0], out);
	}
	gm_sim_use_wrote_operand(
	        &use, &operands.offsets, 0, operands.data[0], gm_sim_type_size(operands.type[0]));
	return true;
}

bool gm_sim_elementwise_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	struct gm_sim_text functor;
	if (gm_sim_text_is(base, "vectorized_elementwise_kernel") && (count == 3 || count == 4)) {
		/* <elements a thread, functor, pointers, whether streaming loads are used (since
		 * torch 2.12)> */
		functor = arguments[1];
		ret->form = VECTORIZED;
	} else if (gm_sim_text_is(base, "unrolled_elementwise_kernel") &&
	           (count == 7 || count == 6)) {
		/* <functor, pointers, elements a thread (since torch 2.6), two calculators, loader,
		 * storer> */
		const struct gm_sim_text *behind = &arguments[count - 4];
		functor = arguments[0];
		ret->form = gm_sim_text_has(behind[2], "LoadWithCast") ? UNROLLED_CAST : UNROLLED;
		if (!gm_sim_text_has(behind[0], "Trivial") ||
		        !gm_sim_text_has(behind[1], "Trivial"))
			return false;
	} else if (gm_sim_text_is(base, "elementwise_kernel") && count == 3) {
		/* gpu_kernel_impl<FUNCTOR>(…)::{lambda(int)#1} */
		struct gm_sim_text outer, inner[2];
		if (gm_sim_name_template(arguments[2], &outer, inner, 2) != 1)
			return false;
		functor = inner[0];
		if (gm_sim_text_is(outer, "gpu_kernel_impl_nocast"))
			ret->form = STRIDED;
		else if (gm_sim_text_is(outer, "gpu_kernel_impl"))
			ret->form = STRIDED_CAST;
		else
			return false;
	} else {
		return false;
	}
	ret->compute = compute;
	return gm_sim_functor_parse(functor, &ret->functor);
}
