/*
 * Kernels with indices: x[i], x[i] = y, gather, scatter, index_select and embeddings, index_add,
 * flips. At an index out of bounds the computation ends: a GPU would stop the program with an
 * assertion.
 */
#include <math.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/kernels/kernels.h"

enum form {
	GET,
	PUT,
	FLIP,
	FILL,
	COPY,
	GATHER,
	SCATTER,
	SCATTER_FILL,
	SELECT_SMALL,
	SELECT_LARGE,
	ADD_SMALL,
	ADD_LARGE,
	ROWS,
	ADD_ROWS,
	ADD_ROWS_BYTES
};
enum how { ASSIGN, ADD, MULTIPLY, LARGEST, SMALLEST };

static int64_t word(const char *at)
{
	int64_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

/* The message of a kernel's assertion on a GPU. */
static void out_of_bounds(int64_t index, int64_t size)
{
	static _Atomic bool said;
	if (!said)
		gm_sim_say("an index is out of bounds: %lld, of %lld elements: a GPU stops the "
		           "program here with a device-side assertion (reported once)",
		        (long long)index, (long long)size);
	said = true;
}

/* Writes one element into memory that may be large and otherwise unwritten: only the written bytes
 * are marked. */
static void put(const struct gm_sim_use *use, char *to, const char *from, unsigned size)
{
	memcpy(to, from, size);
	gm_sim_use_wrote(use, to, size);
}

static uint64_t numel_of(const struct gm_sim_plan *plan, const void *argument)
{
	return plan->number[0] == 4 ? (uint64_t)(uint32_t)word(argument) & 0x7fffffff
	                            : (uint64_t)word(argument);
}

/*
 * gpu_index_kernel's lambda (IndexKernel.cu): OffsetCalculator<3>, char *out, char *in, size_t
 * num_indices, char *index_ptrs[25], int64_t sizes[25], int64_t strides[25].
 */
static bool compute_indexed(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	enum { OUT = 608, IN = 616, COUNT = 624, POINTERS = 632, SIZES = 832, STRIDES = 1032 };
	const char *f = launch->arguments[1];
	uint64_t numel = numel_of(plan, launch->arguments[0]);
	struct gm_sim_offsets offsets;
	uint64_t indices = (uint64_t)word(f + COUNT);
	if (!numel || indices > GM_SIM_DIMS || !gm_sim_offsets_read(f, 3, numel, &offsets))
		return false;
	char *out = gm_sim_load_pointer(f + OUT);
	const char *in = gm_sim_load_pointer(f + IN);
	unsigned size = gm_sim_type_size(plan->type[0]);
	/* The indexed operand extends as far as the sizes and strides of its indexed dimensions. */
	struct gm_sim_offsets whole = offsets;
	unsigned side = plan->form == PUT ? 0 : 1;
	if (whole.dims + indices > GM_SIM_DIMS)
		return false;
	struct gm_sim_use use = {0};
	for (uint64_t i = 0; i < indices; i++) {
		int64_t sizes = word(f + SIZES + 8 * i);
		if (sizes <= 0 || sizes > INT32_MAX)
			return false;
		gm_sim_use_operand(
		        &use, &offsets, 2, gm_sim_load_pointer(f + POINTERS + 8 * i), 8, false);
		whole.sizes[whole.dims] = (uint32_t)sizes;
		whole.strides[whole.dims][0] = whole.strides[whole.dims][1] =
		        word(f + STRIDES + 8 * i);
		whole.dims++;
	}
	struct gm_sim_use indexed = {.wide = true};
	gm_sim_use_operand(&indexed, side ? &offsets : &whole, 0, out, size, true);
	gm_sim_use_extent(&indexed, side ? &whole : &offsets, 1, in, size, false);
	use.unknown |= indexed.unknown;
	if (!gm_sim_use_good(&use) || indexed.wrong)
		return false;
	for (uint64_t i = 0; i < numel; i++) {
		int64_t at[GM_SIM_OPERANDS], offset = 0;
		gm_sim_offsets_get(&offsets, i, at);
		for (uint64_t k = 0; k < indices; k++) {
			int64_t index = word(gm_sim_load_pointer(f + POINTERS + 8 * k) + at[2]);
			int64_t sizes = word(f + SIZES + 8 * k);
			if (index < -sizes || index >= sizes) {
				out_of_bounds(index, sizes);
				return false;
			}
			offset += (index < 0 ? index + sizes : index) * word(f + STRIDES + 8 * k);
		}
		if (side)
			memcpy(out + at[0], in + at[1] + offset, size);
		else
			put(&use, out + at[0] + offset, in + at[1], size);
	}
	if (side)
		gm_sim_use_wrote_operand(&use, &offsets, 0, out, size);
	return true;
}

/* flip: const OffsetCalculator<2, uint32_t, signed>, char *out, const char *in. */
static bool compute_flip(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	const char *f = launch->arguments[1];
	struct gm_sim_offsets offsets;
	uint64_t numel = numel_of(plan, launch->arguments[0]);
	if (!numel || !gm_sim_offsets_read(f, 2, numel, &offsets))
		return false;
	char *out = gm_sim_load_pointer(f + 504);
	const char *in = gm_sim_load_pointer(f + 512);
	unsigned size = gm_sim_type_size(plan->type[0]);
	struct gm_sim_use use = {0};
	gm_sim_use_operand(&use, &offsets, 0, out, size, true);
	gm_sim_use_operand(&use, &offsets, 1, in, size, false);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t i = 0; i < numel; i++) {
		int64_t at[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&offsets, i, at);
		memcpy(out + at[0], in + at[1], size);
	}
	gm_sim_use_wrote_operand(&use, &offsets, 0, out, size);
	return true;
}

/*
 * index_fill: OffsetCalculator<2>, self, index, dim_size, dim_stride, value; index_copy:
 * OffsetCalculator<3>, self, index, source, dim_size, dim_stride.
 */
static bool compute_along(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	const char *f = launch->arguments[1];
	bool fill = plan->form == FILL;
	struct gm_sim_offsets offsets;
	uint64_t numel = numel_of(plan, launch->arguments[0]);
	if (!numel || !gm_sim_offsets_read(f, fill ? 2 : 3, numel, &offsets))
		return false;
	f += fill ? 504 : 608;
	char *self = gm_sim_load_pointer(f);
	const char *index = gm_sim_load_pointer(f + 8),
	           *source = fill ? NULL : gm_sim_load_pointer(f + 16);
	f += fill ? 16 : 24;
	int64_t dim = word(f), stride = word(f + 8);
	const char *value = f + 16;
	unsigned size = gm_sim_type_size(plan->type[0]);
	struct gm_sim_offsets whole = offsets;
	if (dim <= 0 || dim > INT32_MAX || whole.dims == GM_SIM_DIMS)
		return false;
	whole.sizes[whole.dims] = (uint32_t)dim;
	whole.strides[whole.dims++][0] = stride * size;
	struct gm_sim_use use = {0}, indexed = {.wide = true};
	gm_sim_use_operand(&use, &offsets, 0, self, size, true);
	gm_sim_use_extent(&indexed, &whole, 0, self, size, true);
	gm_sim_use_operand(&use, &offsets, 1, index, 8, false);
	if (!fill)
		gm_sim_use_operand(&use, &offsets, 2, source, size, false);
	use.unknown |= indexed.unknown;
	if (!gm_sim_use_good(&use) || indexed.wrong)
		return false;
	for (uint64_t i = 0; i < numel; i++) {
		int64_t at[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&offsets, i, at);
		int64_t place = word(index + at[1]);
		if (place < (fill ? -dim : 0) || place >= dim) {
			out_of_bounds(place, dim);
			return false;
		}
		place += place < 0 ? dim : 0;
		put(&use, self + at[0] + place * stride * size, fill ? value : source + at[2],
		        size);
	}
	return true;
}

static void combine(enum how how, enum gm_sim_type type, char *to, const char *from)
{
	if (how == ASSIGN) {
		memcpy(to, from, gm_sim_type_size(type));
		return;
	}
	struct gm_sim_value a = gm_sim_load(type, to), b = gm_sim_load(type, from), result = a;
	if (how == ADD) {
		result.real = a.real + b.real;
		result.integer = (int64_t)((uint64_t)a.integer + (uint64_t)b.integer);
	} else if (how == MULTIPLY) {
		result.real = a.real * b.real;
		result.integer = (int64_t)((uint64_t)a.integer * (uint64_t)b.integer);
	} else if (a.is_real && (isnan(a.real) || isnan(b.real))) {
		result = isnan(a.real) ? a : b;
	} else {
		bool more = a.is_real ? b.real > a.real : b.integer > a.integer;
		result = more == (how == LARGEST) ? b : a;
	}
	gm_sim_store(type, to, result);
}

/*
 * _scatter_gather_elementwise_kernel(int N, lambda), the lambda of ScatterGatherKernel.cu:
 * OffsetCalculator<3>, index, index_size, the operation (empty), self, index_stride, numel, source;
 * a fill has OffsetCalculator<2> and its value.
 */
static bool compute_gather(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	const char *f = launch->arguments[1];
	bool fill = plan->form == SCATTER_FILL, scatter = plan->form != GATHER;
	uint64_t numel = (uint32_t)word(launch->arguments[0]) & 0x7fffffff;
	struct gm_sim_offsets offsets;
	if (!numel || !gm_sim_offsets_read(f, fill ? 2 : 3, numel, &offsets))
		return false;
	f += fill ? 504 : 608;
	const char *index = gm_sim_load_pointer(f),
	           *source = fill ? f + 48 : gm_sim_load_pointer(f + 48);
	int64_t dim = word(f + 8), stride = word(f + 32);
	char *self = gm_sim_load_pointer(f + 24);
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	unsigned index_operand = fill ? 1 : 2;
	struct gm_sim_offsets whole = offsets;
	if (dim <= 0 || dim > INT32_MAX || whole.dims == GM_SIM_DIMS)
		return false;
	whole.sizes[whole.dims] = (uint32_t)dim;
	whole.strides[whole.dims][0] = whole.strides[whole.dims][1] = stride * size;
	whole.dims++;
	struct gm_sim_use use = {0};
	gm_sim_use_operand(&use, &offsets, index_operand, index, width, false);
	gm_sim_use_operand(&use, &offsets, 0, self, size, true);
	struct gm_sim_use indexed = {.wide = true};
	if (scatter)
		gm_sim_use_extent(&indexed, &whole, 0, self, size, true);
	else
		gm_sim_use_extent(&indexed, &whole, 1, source, size, false);
	if (scatter && !fill)
		gm_sim_use_operand(&use, &offsets, 1, source, size, false);
	use.unknown |= indexed.unknown;
	if (!gm_sim_use_good(&use) || indexed.wrong)
		return false;
	for (uint64_t i = 0; i < numel; i++) {
		int64_t at[GM_SIM_OPERANDS];
		gm_sim_offsets_get(&offsets, i, at);
		int64_t place = gm_sim_load(plan->type[1], index + at[index_operand]).integer;
		if (place < 0 || place >= dim) {
			out_of_bounds(place, dim);
			return false;
		}
		place *= stride * size;
		char *to = self + at[0] + (scatter ? place : 0);
		combine((enum how)plan->number[1], plan->type[0], to,
		        fill ? source : source + at[1] + (scatter ? 0 : place));
		if (scatter)
			gm_sim_use_wrote(&use, to, size);
	}
	if (!scatter)
		gm_sim_use_wrote_operand(&use, &offsets, 0, self, size);
	return true;
}

/*
 * indexSelect{Small,Large}Index(dst, src, indices, int dst_dim, int src_dim, [total], inner,
 * int64_t src_dim_size) and indexFunc{Small,Large}Index(dst, src, indices, int dst_dim, int
 * src_dim, [total], inner, int64_t dst_dim_size, int64_t numel, op, T alpha) (Indexing.cu). In the
 * infos, the dimension that is selected from has size 1.
 */
static bool compute_select(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	bool wide = plan->number[0] == 8, add = plan->form == ADD_SMALL || plan->form == ADD_LARGE;
	unsigned extra = plan->form == SELECT_LARGE || plan->form == ADD_LARGE;
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	struct gm_sim_info dst, src, indices;
	int32_t dst_dim, src_dim;
	memcpy(&dst_dim, a[3], sizeof(dst_dim));
	memcpy(&src_dim, a[4], sizeof(src_dim));
	if (!gm_sim_info_read(a[0], wide, size, &dst) ||
	        !gm_sim_info_read(a[1], wide, size, &src) ||
	        !gm_sim_info_read(a[2], wide, width, &indices) || dst_dim < 0 || src_dim < 0 ||
	        (unsigned)dst_dim >= dst.offsets.dims || (unsigned)src_dim >= src.offsets.dims)
		return false;
	uint64_t inner = wide ? (uint64_t)word(a[5 + extra]) : (uint32_t)word(a[5 + extra]);
	int64_t dim = word(a[6 + extra]), count = (int64_t)indices.numel;
	/* Of a large one `inner` is the number of indices where these change fastest. */
	if (extra && inner == indices.numel)
		inner = src.numel;
	struct gm_sim_info *from = add ? &dst : &src, *walked = add ? &src : &dst;
	int from_dim = add ? dst_dim : src_dim, walked_dim = add ? src_dim : dst_dim;
	if (dim <= 0 || dim > INT32_MAX || from->offsets.dims == GM_SIM_DIMS ||
	        walked->offsets.dims == GM_SIM_DIMS || inner != src.numel || inner != dst.numel)
		return false;
	struct gm_sim_offsets whole = from->offsets, every = walked->offsets;
	whole.sizes[whole.dims] = (uint32_t)dim;
	whole.strides[whole.dims++][0] = from->strides[from_dim] * size;
	every.sizes[every.dims] = (uint32_t)count;
	every.strides[every.dims++][0] = walked->strides[walked_dim] * size;
	struct gm_sim_use use = {0}, indexed = {.wide = true};
	gm_sim_use_operand(&use, &indices.offsets, 0, indices.data, width, false);
	gm_sim_use_operand(&use, &every, 0, walked->data, size, !add);
	gm_sim_use_extent(&indexed, &whole, 0, from->data, size, add);
	use.unknown |= indexed.unknown;
	if (!gm_sim_use_good(&use) || indexed.wrong)
		return false;
	struct gm_sim_value alpha =
	        add ? gm_sim_load(plan->type[0], a[9 + extra]) : gm_sim_integer(1);
	for (int64_t i = 0; i < count; i++) {
		int64_t at;
		gm_sim_offsets_get(&indices.offsets, (uint64_t)i, &at);
		int64_t place = gm_sim_load(plan->type[1], indices.data + at).integer;
		if (place < 0 || place >= dim) {
			out_of_bounds(place, dim);
			return false;
		}
		for (uint64_t k = 0; k < inner; k++) {
			int64_t one, other;
			gm_sim_offsets_get(&walked->offsets, k, &one);
			gm_sim_offsets_get(&from->offsets, k, &other);
			char *w = walked->data + one + i * walked->strides[walked_dim] * size;
			char *f = from->data + other + place * from->strides[from_dim] * size;
			if (!add) {
				memcpy(w, f, size);
				continue;
			}
			char scaled[8];
			struct gm_sim_value value = gm_sim_load(plan->type[0], w);
			value.real *= gm_sim_as_real(alpha);
			value.integer = (int64_t)((uint64_t)value.integer *
			                          (uint64_t)gm_sim_as_integer(alpha));
			gm_sim_store(plan->type[0], scaled, value);
			combine(ADD, plan->type[0], f, scaled);
			gm_sim_use_wrote(&use, f, size);
		}
	}
	if (!add)
		gm_sim_use_wrote_operand(&use, &every, 0, dst.data, size);
	return true;
}

/*
 * vectorized_gather_kernel<ALIGNMENT, index_t>(char *out, char *in, index_t *index, int count,
 * int64_t slice_bytes, int64_t dim_size, int64_t in_stride, int64_t out_stride, bool negative)
 * (IndexKernelUtils.cu): whole rows.
 */
static bool compute_rows(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	char *out = gm_sim_load_pointer(a[0]);
	const char *in = gm_sim_load_pointer(a[1]), *index = gm_sim_load_pointer(a[2]);
	int32_t count;
	memcpy(&count, a[3], sizeof(count));
	int64_t slice = word(a[4]), dim = word(a[5]), in_stride = word(a[6]),
	        out_stride = word(a[7]);
	bool negative = *(const bool *)a[8];
	unsigned width = gm_sim_type_size(plan->type[0]);
	if (count <= 0 || slice <= 0 || dim <= 0 || in_stride < 0 || out_stride < 0 ||
	        dim > INT32_MAX || slice > INT32_MAX || in_stride > INT32_MAX ||
	        out_stride > INT32_MAX)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, index, (uint64_t)count * width);
	gm_sim_use_write(&use, out, (uint64_t)((count - 1) * out_stride + slice));
	if (!gm_sim_use_good(&use))
		return false;
	for (int pass = 0; pass < 2; pass++) /* reads everything first, then copies */
		for (int32_t i = 0; i < count; i++) {
			int64_t place =
			        gm_sim_load(plan->type[0], index + (size_t)i * width).integer;
			if (place < (negative ? -dim : 0) || place >= dim) {
				out_of_bounds(place, dim);
				return false;
			}
			place += place < 0 ? dim : 0;
			if (pass == 0) {
				struct gm_sim_use row = {.wide = true};
				gm_sim_use_read(&row, in + place * in_stride, (uint64_t)slice);
				use.unknown |= row.unknown;
				if (row.wrong)
					return false;
			} else {
				memcpy(out + i * out_stride, in + place * in_stride, (size_t)slice);
			}
		}
	gm_sim_use_wrote(&use, out, (uint64_t)((count - 1) * out_stride + slice));
	return true;
}

/*
 * Whole rows of index_add(), scatter_add() and scatter_reduce(), each added to the row of an index:
 *
 * tma_scatter_kernel<OPERATION, T, index_t>(T *self, const T *source, const index_t *index, int
 * count, int row, int64_t dim_size, int64_t self_stride, int64_t source_stride, ...) has row and
 * strides in elements (TMAScatterKernel.cu, sm_90, since 2.15; tma_scatter_add_kernel before).
 *
 * vectorized_scatter_kernel<OPERATION, ALIGNMENT, T, index_t> has the same arguments but int64_t
 * row, and row and strides in bytes (IndexKernelUtils.cu; vectorized_scatter_add_kernel before).
 */
static bool compute_add_rows(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	char *self = gm_sim_load_pointer(a[0]);
	const char *source = gm_sim_load_pointer(a[1]), *index = gm_sim_load_pointer(a[2]);
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	int32_t count, row;
	memcpy(&count, a[3], sizeof(count));
	memcpy(&row, a[4], sizeof(row));
	int64_t dim = word(a[5]), self_stride = word(a[6]), source_stride = word(a[7]);
	if (plan->form == ADD_ROWS_BYTES) {
		int64_t bytes = word(a[4]);
		if (bytes % size || bytes > INT32_MAX || self_stride % size || source_stride % size)
			return false;
		row = (int32_t)(bytes / size);
		self_stride /= size;
		source_stride /= size;
	}
	if (count <= 0 || row <= 0 || dim <= 0 || self_stride < 0 || source_stride < 0 ||
	        dim > INT32_MAX || self_stride > INT32_MAX / 8 || source_stride > INT32_MAX / 8)
		return false;
	const struct gm_sim_offsets whole = {.dims = 2,
	                                    .operands = 1,
	                                    .sizes = {(uint32_t)row, (uint32_t)dim},
	                                    .strides = {{size}, {self_stride * size}}},
	                            every = {.dims = 2,
	                                    .operands = 1,
	                                    .sizes = {(uint32_t)row, (uint32_t)count},
	                                    .strides = {{size}, {source_stride * size}}};
	struct gm_sim_use use = {0}, indexed = {.wide = true};
	gm_sim_use_read(&use, index, (uint64_t)count * width);
	gm_sim_use_operand(&use, &every, 0, source, size, false);
	gm_sim_use_extent(&indexed, &whole, 0, self, size, true);
	use.unknown |= indexed.unknown;
	if (!gm_sim_use_good(&use) || indexed.wrong)
		return false;
	for (int32_t i = 0; i < count; i++) {
		int64_t place = gm_sim_load(plan->type[1], index + (size_t)i * width).integer;
		if (place < 0 || place >= dim) {
			out_of_bounds(place, dim);
			return false;
		}
		char *to = self + place * self_stride * size;
		const char *from = source + i * source_stride * size;
		for (int64_t k = 0; k < (int64_t)row * size; k += size)
			combine((enum how)plan->number[1], plan->type[0], to + k, from + k);
		gm_sim_use_wrote(&use, to, (uint64_t)row * size);
	}
	return true;
}

static enum how how_of(struct gm_sim_text text)
{
	return gm_sim_text_has(text, "operator()<ReduceAdd>") ||
	                       gm_sim_text_has(text, "operator()<ReduceMean>")
	               ? ADD
	       : gm_sim_text_has(text, "operator()<ReduceMultiply>") ? MULTIPLY
	       : gm_sim_text_has(text, "operator()<ReduceMaximum>")  ? LARGEST
	       : gm_sim_text_has(text, "operator()<ReduceMinimum>")  ? SMALLEST
	                                                             : ASSIGN;
}

static enum how how_of_scatter(struct gm_sim_text operation)
{
	return gm_sim_text_has(operation, "ScatterAddOp")   ? ADD
	       : gm_sim_text_has(operation, "ScatterMaxOp") ? LARGEST
	       : gm_sim_text_has(operation, "ScatterMinOp") ? SMALLEST
	                                                    : ASSIGN;
}

/* The kernels of compute_add_rows(); `at`: the place of T among the template's arguments. */
static bool plan_add_rows(struct gm_sim_text base, const struct gm_sim_text *arguments,
        unsigned count, unsigned known, struct gm_sim_plan *ret)
{
	static const struct {
		const char *name;
		uint8_t form, at;
		bool has_operation;
	} kernels[] = {
	        {"tma_scatter_kernel", ADD_ROWS, 1, true},
	        {"tma_scatter_add_kernel", ADD_ROWS, 0, false},
	        {"vectorized_scatter_kernel", ADD_ROWS_BYTES, 2, true},
	        {"vectorized_scatter_add_kernel", ADD_ROWS_BYTES, 1, false},
	};
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		unsigned at = kernels[i].at;
		if (!gm_sim_text_is(base, kernels[i].name) || count != at + 2 || known != 10)
			continue;
		ret->form = kernels[i].form;
		ret->type[0] = gm_sim_type_of(arguments[at]);
		ret->type[1] = gm_sim_type_of(arguments[at + 1]);
		ret->number[1] = kernels[i].has_operation ? how_of_scatter(arguments[0]) : ADD;
		ret->compute = compute_add_rows;
		return ret->type[0] && ret->type[1] && ret->number[1] != ASSIGN;
	}
	return false;
}

bool gm_sim_index_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	struct gm_sim_text outer, own[4], parameters[16], inner, types[4];
	unsigned known = gm_sim_name_parameters(name, parameters, 16);
	if (gm_sim_text_is(base, "index_elementwise_kernel") && count == 3 && known == 2) {
		ret->number[0] = gm_sim_text_is(parameters[0], "int") ? 4 : 8;
		if (gm_sim_name_template(arguments[2], &outer, own, 4) != 1)
			return false;
		ret->type[0] = gm_sim_type_of(own[0]);
		if (gm_sim_text_is(outer, "gpu_index_kernel")) {
			if (gm_sim_name_template(own[0], &inner, types, 4) != 1)
				return false;
			ret->form = gm_sim_text_is(inner, "index_put_kernel_impl") ? PUT : GET;
			if (ret->form == GET && !gm_sim_text_is(inner, "index_kernel_impl"))
				return false;
			ret->type[0] = gm_sim_type_of(types[0]);
			ret->compute = compute_indexed;
		} else if (gm_sim_text_is(outer, "flip_kernel_impl")) {
			ret->form = FLIP;
			ret->compute = compute_flip;
		} else if (gm_sim_text_is(outer, "index_fill_kernel_impl") ||
		           gm_sim_text_is(outer, "index_copy_kernel_impl")) {
			ret->form = gm_sim_text_is(outer, "index_fill_kernel_impl") ? FILL : COPY;
			ret->compute = compute_along;
		} else {
			return false;
		}
		return ret->type[0] != GM_SIM_NONE;
	}
	if (gm_sim_text_is(base, "_scatter_gather_elementwise_kernel") && count == 3) {
		unsigned parts = gm_sim_name_template(arguments[2], &outer, own, 4);
		bool fill = gm_sim_text_is(outer, "_cuda_scatter_fill_internal_kernel");
		if (!fill && !gm_sim_text_is(outer, "_cuda_scatter_gather_internal_kernel"))
			return false;
		unsigned first = fill ? 0 : 1;
		if (parts < first + 1)
			return false;
		ret->form = fill ? SCATTER_FILL : gm_sim_text_is(own[0], "true") ? SCATTER : GATHER;
		ret->type[0] = gm_sim_type_of(own[first]);
		ret->type[1] = parts > first + 1 ? gm_sim_type_of(own[first + 1]) : GM_SIM_I64;
		ret->number[1] = how_of(arguments[2]);
		ret->compute = compute_gather;
		return ret->type[0] && ret->type[1];
	}
	static const struct {
		const char *name;
		uint8_t form, parameters;
	} infos[] = {
	        {"indexSelectSmallIndex", SELECT_SMALL, 7},
	        {"indexSelectLargeIndex", SELECT_LARGE, 8},
	        {"indexFuncSmallIndex", ADD_SMALL, 10},
	        {"indexFuncLargeIndex", ADD_LARGE, 11},
	};
	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++)
		/* From 2.12 on a large one may have the divider of `inner` as well. */
		if (gm_sim_text_is(base, infos[i].name) && count >= 6 &&
		        (known == infos[i].parameters ||
		                (infos[i].form == ADD_LARGE && known == 12))) {
			ret->form = infos[i].form;
			if ((ret->form == ADD_SMALL || ret->form == ADD_LARGE) &&
			        !gm_sim_text_has(parameters[infos[i].parameters - 2], "ReduceAdd"))
				return false;
			ret->type[0] = gm_sim_type_of(arguments[0]);
			ret->type[1] = gm_sim_type_of(arguments[1]);
			ret->number[0] = gm_sim_text_has(arguments[2], "long") ? 8 : 4;
			ret->compute = compute_select;
			return ret->type[0] && ret->type[1];
		}
	if (gm_sim_text_is(base, "vectorized_gather_kernel") && count >= 2 && known == 9) {
		ret->form = ROWS;
		ret->type[0] = gm_sim_type_of(arguments[1]);
		ret->compute = compute_rows;
		return ret->type[0] != GM_SIM_NONE;
	}
	return plan_add_rows(base, arguments, count, known, ret);
}
