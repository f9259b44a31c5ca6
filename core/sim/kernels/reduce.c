/*
 * reduce_kernel<threads, vector, ReduceOp<scalar_t, ops_t, index_t, out_scalar_t, …>>
 * (ATen/native/cuda/Reduce.cuh): sums, means, extrema with and without indices, any and all, norms,
 * variances.
 *
 * ReduceOp has ops_t ops; arg_t ident; ReduceConfig config; OffsetCalculator<1> input;
 * OffsetCalculator<2> output; const void *src; const char *dst[2]; … . ops_t and arg_t determine
 * the offsets of the rest.
 */
#include <math.h>
#include <string.h>

#include "sim/kernels/kernels.h"

enum form {
	SUM,
	PRODUCT,
	ANY,
	ALL,
	MAX,
	MIN,
	ARG_MAX,
	ARG_MIN,
	MEAN,
	NORM_2,
	NORM_1,
	NORM_0,
	NORM_P,
	NORM_MAX,
	NORM_MIN,
	VARIANCE,
	NAN_SUM,
	PARITY,
	EXTREMA,
	FORMS
};

/* ops_t: part of its name, its members, and the form of its accumulator. */
static const struct {
	const char *name;
	uint8_t form;
	char members; /* 0: none (one byte); f: one of the accumulator's type; w: WelfordOps' two */
	char accumulator; /* a: the operation's own arithmetic type; p: a pair with an int64; w:
	                     WelfordData; m: two of the arithmetic type */
} operations[] = {
        {"sum_functor", SUM, 0, 'a'},
        {"prod_functor", PRODUCT, 0, 'a'},
        {"or_kernel_cuda", ANY, 0, 'a'},
        {"and_kernel_cuda", ALL, 0, 'a'},
        {"MaxNanFunctor", MAX, 0, 'a'},
        {"MinNanFunctor", MIN, 0, 'a'},
        {"ArgMaxOps", ARG_MAX, 0, 'p'},
        {"ArgMinOps", ARG_MIN, 0, 'p'},
        {"MinMaxOps", EXTREMA, 0, 'm'},
        {"MaxOps", MAX, 0, 'p'},
        {"MinOps", MIN, 0, 'p'},
        {"MeanOps", MEAN, 'f', 'a'},
        {"NormTwoOps", NORM_2, 0, 'a'},
        {"NormOneOps", NORM_1, 0, 'a'},
        {"NormZeroOps", NORM_0, 0, 'a'},
        {"NormOps", NORM_P, 'f', 'a'},
        {"AbsMaxOps", NORM_MAX, 0, 'a'},
        {"AbsMinOps", NORM_MIN, 0, 'a'},
        {"WelfordOps", VARIANCE, 'w', 'w'},
        {"NanSumOps", NAN_SUM, 0, 'a'},
        {"xor_sum_kernel_cuda", PARITY, 0, 'a'},
};

/* ReduceConfig: 6 ints, input_mult[3], output_mult[2], width, height, threads, bool,
 * output_vec_size. */
enum { CONFIG_BYTES = 64, NUM_INPUTS = 4, NUM_OUTPUTS = 8 };

static size_t align(size_t at, size_t to)
{
	return (at + to - 1) & ~(to - 1);
}

struct reduction {
	struct gm_sim_offsets input, output;
	uint64_t inputs, outputs;
	const char *src;
	char *dst[2];
	double member[2];
};

/* plan->number: where ReduceConfig stands; type 0 input, 1 output, 2 the accumulator's. */
static bool read(const struct gm_sim_plan *plan, const char *op, struct reduction *ret)
{
	size_t at = (size_t)plan->number[0];
	int32_t inputs, outputs;
	memcpy(&inputs, op + at + NUM_INPUTS, sizeof(inputs));
	memcpy(&outputs, op + at + NUM_OUTPUTS, sizeof(outputs));
	at += CONFIG_BYTES;
	if (inputs <= 0 || outputs <= 0)
		return false;
	ret->inputs = (uint64_t)inputs;
	ret->outputs = (uint64_t)outputs;
	if (!gm_sim_offsets_read(op + at, 1, ret->inputs, &ret->input))
		return false;
	at += gm_sim_offsets_bytes(1);
	if (!gm_sim_offsets_read(op + at, 2, ret->outputs, &ret->output))
		return false;
	at = align(at + gm_sim_offsets_bytes(2), 8);
	memcpy(&ret->src, op + at, sizeof(ret->src));
	memcpy(ret->dst, op + at + 8, sizeof(ret->dst));
	if (plan->number[1] == 'f') {
		ret->member[0] = gm_sim_as_real(gm_sim_load(plan->type[2], op));
	} else if (plan->number[1] == 'w') {
		ret->member[0] = gm_sim_as_real(gm_sim_load(plan->type[2], op));
		ret->member[1] = op[gm_sim_type_size(plan->type[2])];
	}
	/* bool accumulate: a part of a reduction that is too large for 32-bit indices is not
	 * computed. */
	const char *flags = op + at + 8 + 16 + 3 * 8 + 8;
	return flags[0] == 0 && flags[1] == 1;
}

/* Reduces the elements of one output: the result, and the index of an extremum. For EXTREMA `mean`
 * and `most` are the largest. */
struct state {
	double real, mean, count;
	int64_t integer, place, most;
	bool any;
};

static bool better(const struct gm_sim_plan *plan, const struct state *state, struct gm_sim_value v)
{
	bool most = plan->form == MAX || plan->form == ARG_MAX;
	if (!v.is_real)
		return most ? v.integer > state->integer : v.integer < state->integer;
	if (isnan(state->real))
		return false;
	return isnan(v.real) || (most ? v.real > state->real : v.real < state->real);
}

static void add(const struct gm_sim_plan *plan, const struct reduction *r, struct state *state,
        struct gm_sim_value v, int64_t place)
{
	enum gm_sim_type type = plan->type[2];
	double x = gm_sim_as_real(v), size = fabs(x), delta;
	switch ((enum form)plan->form) {
	case NAN_SUM:
		if (isnan(x))
			break;
		/* fall through */
	case SUM:
	case MEAN:
		state->real = gm_sim_limited(type, state->real + x);
		state->integer =
		        (int64_t)((uint64_t)state->integer + (uint64_t)(v.is_real ? 0 : v.integer));
		break;
	case PRODUCT:
		state->real = state->any ? gm_sim_limited(type, state->real * x) : x;
		state->integer = state->any
		                         ? (int64_t)((uint64_t)state->integer * (uint64_t)v.integer)
		                         : v.integer;
		break;
	case ANY:
	case ALL:
		state->integer = state->any ? (plan->form == ANY ? state->integer || x != 0
		                                                 : state->integer && x != 0)
		                            : x != 0;
		break;
	case PARITY:
		state->integer ^= gm_sim_as_integer(v);
		break;
	case MAX:
	case MIN:
	case ARG_MAX:
	case ARG_MIN:
		if (!state->any || better(plan, state, v)) {
			state->real = v.real;
			state->integer = v.integer;
			state->place = place;
		}
		break;
	case NORM_2:
		state->real = gm_sim_limited(type, state->real + gm_sim_limited(type, x * x));
		break;
	case NORM_1:
		state->real = gm_sim_limited(type, state->real + size);
		break;
	case NORM_0:
		state->real += x != 0;
		break;
	case NORM_P:
		delta = gm_sim_limited(type, pow(size, r->member[0]));
		state->real = gm_sim_limited(type, state->real + delta);
		break;
	case NORM_MAX:
	case NORM_MIN:
		if (!state->any || isnan(size) ||
		        (plan->form == NORM_MAX ? size > state->real : size < state->real))
			state->real = isnan(state->real) ? state->real : size;
		break;
	case VARIANCE:
		state->count++;
		delta = gm_sim_limited(type, x - state->mean);
		state->mean = gm_sim_limited(type, state->mean + delta / state->count);
		delta = gm_sim_limited(type, delta * (x - state->mean));
		state->real = gm_sim_limited(type, state->real + delta);
		break;
	case EXTREMA:
		if (!state->any || isnan(x) || x < state->real)
			state->real = isnan(state->real) ? state->real : x;
		if (!state->any || isnan(x) || x > state->mean)
			state->mean = isnan(state->mean) ? state->mean : x;
		if (!state->any || v.integer < state->integer)
			state->integer = v.integer;
		if (!state->any || v.integer > state->most)
			state->most = v.integer;
		break;
	case FORMS:
		break;
	}
	state->any = true;
}

static void finish(const struct gm_sim_plan *plan, const struct reduction *r,
        const struct state *state, char *out, char *second)
{
	bool real = gm_sim_type_is_real(plan->type[0]);
	struct gm_sim_value value =
	        real ? gm_sim_real(state->real) : gm_sim_integer(state->integer);
	switch ((enum form)plan->form) {
	case ANY:
	case ALL:
	case PARITY:
		value = gm_sim_integer(state->integer);
		break;
	case ARG_MAX:
	case ARG_MIN:
		value = gm_sim_integer(state->place);
		break;
	case MEAN:
		value = gm_sim_real(state->real * r->member[0]);
		break;
	case NORM_2:
		value = gm_sim_real(plan->number[2] ? sqrt(state->real) : state->real);
		break;
	case NORM_P:
		value = gm_sim_real(
		        plan->number[2] ? pow(state->real, 1 / r->member[0]) : state->real);
		break;
	case NORM_0:
	case NORM_1:
	case NORM_MAX:
	case NORM_MIN:
		value = gm_sim_real(state->real);
		break;
	case VARIANCE: {
		double divisor = state->count > r->member[0] ? state->count - r->member[0] : 0;
		double variance = state->real / divisor;
		value = gm_sim_real(r->member[1] != 0 ? sqrt(variance) : variance);
		if (second)
			gm_sim_store(plan->type[1], second, gm_sim_real(state->mean));
		break;
	}
	case EXTREMA:
		if (second)
			gm_sim_store(plan->type[1], second,
			        real ? gm_sim_real(state->mean) : gm_sim_integer(state->most));
		break;
	default:
		if (second && plan->number[3]) /* values and indices */
			gm_sim_store(GM_SIM_I64, second, gm_sim_integer(state->place));
	}
	gm_sim_store(plan->type[1], out, value);
}

/*
 * Of many truth values that rest on what was never computed, all are true: a program that asks so
 * checks its values (torch.distributions does, by default), and ends with an error where they are
 * not as they must be. Few are computed from the zeros that stand there: a loop that generates text
 * asks so whether each sequence has ended.
 */
enum { CHECKS = 128 };

static bool hold_true(const struct gm_sim_plan *plan, const struct reduction *r)
{
	unsigned out = gm_sim_type_size(plan->type[1]);
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_operand(&use, &r->output, 0, r->dst[0], out, true);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t o = 0; o < r->outputs; o++) {
		int64_t at[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&r->output, o, at);
		gm_sim_store(plan->type[1], r->dst[0] + at[0], gm_sim_integer(1));
	}
	use.unknown = true;
	gm_sim_use_wrote_operand(&use, &r->output, 0, r->dst[0], out);
	return true;
}

static bool compute(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	struct reduction r;
	if (!read(plan, launch->arguments[0], &r))
		return false;
	unsigned in = gm_sim_type_size(plan->type[0]), out = gm_sim_type_size(plan->type[1]);
	bool two = plan->number[3] || plan->form == VARIANCE || plan->form == EXTREMA;
	/* noutputs: the last int of ReduceOp. A second output has the shape of the first, with its
	 * own element size. */
	unsigned out2 = plan->number[3] ? 8 : out;
	if (two) {
		size_t at = (size_t)plan->number[0] + CONFIG_BYTES + gm_sim_offsets_bytes(1);
		at = align(at + gm_sim_offsets_bytes(2), 8) + 8 + 16 + 3 * 8 + 8 + 4;
		int32_t outputs;
		memcpy(&outputs, (const char *)launch->arguments[0] + at, sizeof(outputs));
		two = outputs == 2;
	}
	struct gm_sim_use use = {.wide = true};
	/* The input elements of an output are within the input's extent, from the output's offset
	 * on. */
	struct gm_sim_offsets whole = r.input;
	if (whole.dims + r.output.dims > GM_SIM_DIMS)
		return false;
	for (unsigned i = 0; i < r.output.dims; i++) {
		whole.sizes[whole.dims] = r.output.sizes[i];
		whole.strides[whole.dims++][0] = r.output.strides[i][1];
	}
	gm_sim_use_operand(&use, &whole, 0, r.src, in, false);
	gm_sim_use_operand(&use, &r.output, 0, r.dst[0], out, true);
	struct gm_sim_offsets second = r.output;
	for (unsigned i = 0; two && i < second.dims; i++)
		second.strides[i][0] = second.strides[i][0] / (int64_t)out * (int64_t)out2;
	if (two)
		gm_sim_use_operand(&use, &second, 0, r.dst[1], out2, true);
	if (plan->form == ALL && r.inputs * r.outputs >= CHECKS &&
	        (use.unknown || !gm_sim_use_good(&use)))
		return hold_true(plan, &r);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t o = 0; o < r.outputs; o++) {
		int64_t at[GM_SIM_OPERANDS], inner[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&r.output, o, at);
		struct state state = {0};
		for (uint64_t i = 0; i < r.inputs; i++) {
			gm_sim_offsets_get(&r.input, i, inner);
			add(plan, &r, &state, gm_sim_load(plan->type[0], r.src + at[1] + inner[0]),
			        (int64_t)i);
		}
		finish(plan, &r, &state, r.dst[0] + at[0],
		        two ? r.dst[1] + at[0] / (int64_t)out * (int64_t)out2 : NULL);
	}
	gm_sim_use_wrote_operand(&use, &r.output, 0, r.dst[0], out);
	if (two)
		gm_sim_use_wrote_operand(&use, &second, 0, r.dst[1], out2);
	return true;
}

/* The type of the accumulator: the type in which the operation computes. */
static enum gm_sim_type accumulator(
        struct gm_sim_text ops, struct gm_sim_text base, enum gm_sim_type input)
{
	struct gm_sim_text types[6];
	unsigned number, count;
	if (gm_sim_text_is(base, "func_wrapper_t")) {
		/* func_wrapper_t<out, functor>: its combine(arg, scalar) shows the type; functors
		 * have one type. */
		count = gm_sim_name_lambda(ops, types, 6, &number);
		if (count)
			return gm_sim_type_of(types[0]);
		struct gm_sim_text inner[2], functor, own[2];
		if (gm_sim_name_template(ops, &base, inner, 2) != 2 ||
		        gm_sim_name_template(inner[1], &functor, own, 2) != 1)
			return GM_SIM_NONE;
		return gm_sim_type_of(own[0]);
	}
	count = gm_sim_name_template(ops, &base, types, 6);
	/* ArgMaxOps<scalar_t>, NanSumOps<acc_t, data_t> */
	if (count == 1 || gm_sim_text_is(base, "NanSumOps"))
		return gm_sim_type_of(types[0]);
	/* <scalar_t, acc_t, …> of all others */
	return count >= 2 && count <= 6 ? gm_sim_type_of(types[1]) : input;
}

/*
 * prod(), which PyTorch compiles at run time: reduction_prod_kernel(ReduceJitOp), which is ReduceOp
 * without ops_t (Reduce.cuh). Its name has no type. Where the accumulator has 8 bytes, 1 as its
 * bits shows an integer or a double (which are also what is read and written); with 4 bytes the
 * elements may be halves of either kind.
 */
static bool compute_product(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	static const double one = 1;
	const char *op = launch->arguments[0];
	struct gm_sim_plan known = {.form = PRODUCT, .number = {sizeof(int64_t)}};
	int64_t identity;
	int32_t size;
	memcpy(&identity, op, sizeof(identity));
	memcpy(&size, op + sizeof(identity), sizeof(size));
	if (size != sizeof(identity))
		return false;
	if (memcmp(&identity, &one, sizeof(one)) == 0)
		known.type[0] = GM_SIM_F64;
	else if (identity == 1)
		known.type[0] = GM_SIM_I64;
	else
		return false;
	known.type[1] = known.type[2] = known.type[0];
	return compute(&known, launch);
}

bool gm_sim_product_plan(const char *name, struct gm_sim_plan *ret)
{
	ret->compute = compute_product;
	return gm_sim_name_is_product(name);
}

bool gm_sim_reduce_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	struct gm_sim_text op, own[6], ops;
	if (!gm_sim_text_is(base, "reduce_kernel") || count != 3)
		return false;
	unsigned parts = gm_sim_name_template(arguments[2], &op, own, 6);
	if (!gm_sim_text_is(op, "ReduceOp") || parts < 5 || parts > 6 ||
	        !gm_sim_text_is(own[2], "unsigned int"))
		return false;
	gm_sim_name_template(own[1], &ops, NULL, 0);
	ret->type[0] = gm_sim_type_of(own[0]);
	ret->type[1] = gm_sim_type_of(own[3]);
	ret->type[2] = accumulator(own[1], ops, ret->type[0]);
	if (!ret->type[0] || !ret->type[1] || !ret->type[2])
		return false;
	size_t which = 0, known = sizeof(operations) / sizeof(operations[0]);
	bool wrapped = gm_sim_text_is(ops, "func_wrapper_t");
	for (; which < known; which++)
		if (wrapped ? gm_sim_text_has(own[1], operations[which].name)
		            : gm_sim_text_is(ops, operations[which].name))
			break;
	if (which == known)
		return false;
	ret->form = operations[which].form;
	size_t size = gm_sim_type_size(ret->type[2]), at = 1, accumulator_size = size,
	       accumulator_align = size;
	if (operations[which].members == 'f')
		at = size;
	else if (operations[which].members == 'w')
		at = 2 * size;
	if (operations[which].accumulator == 'p') {
		accumulator_align = 8;
		accumulator_size = 16;
	} else if (operations[which].accumulator == 'm') {
		accumulator_size = 2 * size;
	} else if (operations[which].accumulator == 'w') {
		/* WelfordData: acc mean, m2; index_t n (int); acc nf. */
		accumulator_size = size == 8 ? 32 : 16;
	}
	at = align(align(at, accumulator_align) + accumulator_size, 4);
	ret->number[0] = (int64_t)at;
	ret->number[1] = operations[which].members;
	/* NormTwoOps<scalar, acc, out, apply_root>; older ones do not have that parameter and take
	 * the root. */
	ret->number[2] = !gm_sim_text_has(own[1], ", false");
	ret->number[3] =
	        operations[which].accumulator == 'p' && (ret->form == MAX || ret->form == MIN);
	ret->compute = compute;
	return true;
}
