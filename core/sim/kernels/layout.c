/* Kernels that arrange elements: arange and linspace, concatenation, triangles, rolls, numbers to
 * coordinates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/kernels.h"

static int64_t number(enum gm_sim_type type, const void *at)
{
	return gm_sim_load(type, at).integer;
}

/*
 * linspace's step is a float where T is an integer, and of T else; since torch 2.15 a float for the
 * halves too. Their names and sizes are the same, so the value decides: a float that is the step.
 */
static enum gm_sim_type step_type(
        enum gm_sim_type type, const void *at, double start, double end, int64_t steps)
{
	if (!gm_sim_type_is_real(type))
		return GM_SIM_F32;
	if (gm_sim_type_wide(type) == type || steps < 2)
		return type;
	double step = (end - start) / (double)(steps - 1);
	double wide = gm_sim_load(GM_SIM_F32, at).real;
	return fabs(wide - step) <= fabs(step) * 1e-5 ? GM_SIM_F32 : type;
}

/*
 * elementwise_kernel_with_index<index_t, LAMBDA>(index_t n, LAMBDA, T *out) (RangeFactories.cu).
 * arange's lambda has [start, step] of the accumulation type, linspace's [start, end, steps, step,
 * half]. T appears in the name only through the number of the lambda to which the type was
 * dispatched.
 */
static bool compute_range(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	int64_t count = number(plan->type[2], a[0]);
	const char *f = a[1];
	char *out = gm_sim_load_pointer(a[2]);
	unsigned size = gm_sim_type_size(plan->type[0]), wide = gm_sim_type_size(plan->type[1]);
	struct gm_sim_use use = {0};
	if (count <= 0 || count > INT32_MAX)
		return false;
	gm_sim_use_write(&use, out, (uint64_t)count * size);
	if (!gm_sim_use_good(&use))
		return false;
	bool real = gm_sim_type_is_real(plan->type[1]), linspace = plan->form;
	struct gm_sim_value start = gm_sim_load(plan->type[1], f),
	                    second = gm_sim_load(plan->type[1], f + wide);
	int64_t steps = 0, half = 0;
	struct gm_sim_value step = second;
	if (linspace) {
		unsigned at = (2 * wide + 7) & ~7u;
		steps = number(GM_SIM_I64, f + at);
		enum gm_sim_type type = step_type(plan->type[1], f + at + 8, gm_sim_as_real(start),
		        gm_sim_as_real(second), steps);
		step = gm_sim_load(type, f + at + 8);
		at = (at + 8 + gm_sim_type_size(type) + 7) & ~7u;
		half = number(GM_SIM_I64, f + at);
		if (steps != count)
			return false;
	}
	for (int64_t i = 0; i < count; i++) {
		struct gm_sim_value value;
		if (linspace)
			value = gm_sim_real(
			        i < half ? gm_sim_as_real(start) + gm_sim_as_real(step) * (double)i
			                 : gm_sim_as_real(second) -
			                           gm_sim_as_real(step) * (double)(steps - i - 1));
		else if (real)
			value = gm_sim_real(start.real + step.real * (double)i);
		else
			value = gm_sim_integer((int64_t)((uint64_t)start.integer +
			                                 (uint64_t)step.integer * (uint64_t)i));
		gm_sim_store(plan->type[0], out + i * size, value);
	}
	gm_sim_use_wrote(&use, out, (uint64_t)count * size);
	return true;
}

static bool plan_range(struct gm_sim_text base, const struct gm_sim_text *arguments, unsigned count,
        struct gm_sim_plan *ret)
{
	if (!gm_sim_text_is(base, "elementwise_kernel_with_index") || count != 2)
		return false;
	/* AT_DISPATCH_ALL_TYPES_AND2(Half, BFloat16): its order of types. */
	static const enum gm_sim_type types[] = {GM_SIM_U8, GM_SIM_I8, GM_SIM_I32, GM_SIM_I64,
	        GM_SIM_I16, GM_SIM_F64, GM_SIM_F32, GM_SIM_F16, GM_SIM_BF16};
	static const enum gm_sim_type reals[] = {
	        GM_SIM_F64, GM_SIM_F32, GM_SIM_NONE, GM_SIM_NONE, GM_SIM_F16, GM_SIM_BF16};
	bool linspace = gm_sim_text_begins(arguments[1], "linspace_cuda_out");
	if (!linspace && !gm_sim_text_begins(arguments[1], "arange_cuda_out"))
		return false;
	static const char first[] = "::{lambda()#", second[] = "::operator()() const::{lambda()#";
	const char *at = memmem(arguments[1].at, arguments[1].size, first, sizeof(first) - 1);
	const char *end = arguments[1].at + arguments[1].size;
	const char *next = at ? memmem(at, (size_t)(end - at), second, sizeof(second) - 1) : NULL;
	if (!next)
		return false;
	unsigned branch = (unsigned)strtoul(at + sizeof(first) - 1, NULL, 10);
	unsigned which = (unsigned)strtoul(next + sizeof(second) - 1, NULL, 10);
	if (!which)
		return false;
	if (linspace && branch == 2) /* the second dispatch: FLOATING_AND_COMPLEX_TYPES_AND2 */
		ret->type[0] =
		        which <= sizeof(reals) / sizeof(reals[0]) ? reals[which - 1] : GM_SIM_NONE;
	else
		ret->type[0] =
		        which <= sizeof(types) / sizeof(types[0]) ? types[which - 1] : GM_SIM_NONE;
	ret->form = linspace;
	/* arange: at::acc_type on CUDA; linspace computes in the type itself. */
	ret->type[1] = linspace                            ? ret->type[0]
	               : gm_sim_type_is_real(ret->type[0]) ? gm_sim_type_wide(ret->type[0])
	                                                   : GM_SIM_I64;
	ret->type[2] = gm_sim_type_of(arguments[0]);
	ret->compute = compute_range;
	return ret->type[0] && ret->type[2];
}

/*
 * CatArrayBatchedCopy…<T, unsigned, DIMS, BATCH, STRIDES, …>(T *out, CatArrInputTensorMetadata,
 * TensorSizeStride, int dim, unsigned dim_stride) (Shape.cu). The metadata: input[BATCH]; offset,
 * dimSize, nElements[BATCH]; isContiguous[BATCH]; TensorSizeStride[STRIDES] of size[4], stride[4].
 */
struct place {
	uint32_t size[4], stride[4];
};

static int64_t place_of(
        const struct place *p, unsigned dims, uint32_t dim_size, unsigned dim, uint64_t index)
{
	int64_t offset = 0;
	for (unsigned i = dims - 1; i >= 1; i--) {
		uint32_t size = i == dim ? dim_size : p->size[i];
		offset += (int64_t)(index % size) * p->stride[i];
		index /= size;
	}
	return offset + (int64_t)index * p->stride[0];
}

static bool compute_cat(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t batch = (uint64_t)plan->number[1], dims = (uint64_t)plan->number[0];
	const char *meta = a[1], *words = meta + 8 * batch, *contiguous = words + 12 * batch;
	const char *strides = contiguous + ((batch + 3) & ~UINT64_C(3));
	char *out = gm_sim_load_pointer(a[0]);
	struct place to;
	memcpy(&to, a[2], sizeof(to));
	int64_t dim = number(GM_SIM_I32, a[3]), dim_stride = (uint32_t)number(GM_SIM_I32, a[4]);
	/* The vectorized kernel counts in units of several elements. */
	uint64_t unit = plan->form ? (uint64_t)plan->number[3] : 1;
	unsigned size = gm_sim_type_size(plan->type[0]) * (unsigned)unit;
	if (dim < 0 || dim >= 4)
		return false;
	for (int pass = 0; pass < 2; pass++) {
		struct gm_sim_use use = {0};
		for (uint64_t t = 0; t < launch->grid[1] && t < batch; t++) {
			const char *in = gm_sim_load_pointer(meta + 8 * t);
			uint32_t offset, dim_size, elements;
			memcpy(&offset, words + 4 * t, 4);
			memcpy(&dim_size, words + 4 * batch + 4 * t, 4);
			memcpy(&elements, words + 8 * batch + 4 * t, 4);
			struct place from = {{0}, {0}};
			bool plain = plan->number[2] == 1 || contiguous[t];
			if (!plain)
				memcpy(&from, strides + 32 * t, sizeof(from));
			uint64_t count = elements / unit;
			uint64_t start = plan->form ? offset * (uint64_t)dim_stride / unit
			                            : offset * (uint64_t)dim_stride;
			uint32_t along =
			        plan->form ? (uint32_t)(dim_size * (uint64_t)dim_stride / unit)
			                   : dim_size;
			if (!count)
				continue;
			for (unsigned d = 1; d < dims; d++)
				if (!(d == dim ? along : to.size[d]))
					return false;
			uint64_t last = start + (uint64_t)place_of(&to, (unsigned)dims, along,
			                                (unsigned)dim, count - 1);
			uint64_t in_last = plain ? count - 1
			                         : (uint64_t)place_of(&from, (unsigned)dims, along,
			                                   (unsigned)dim, count - 1);
			if (pass == 0) {
				gm_sim_use_read(&use, in, (in_last + 1) * size);
				struct gm_sim_use wrote = {.bytes = 0, .wide = true};
				gm_sim_use_write(
				        &wrote, out + start * size, (last - start + 1) * size);
				use.wrong |= wrote.wrong;
				continue;
			}
			struct gm_sim_use known = {.wide = true};
			gm_sim_use_read(&known, in, (in_last + 1) * size);
			for (uint64_t i = 0; i < count; i++) {
				int64_t at = (int64_t)start +
				             place_of(&to, (unsigned)dims, along, (unsigned)dim, i);
				int64_t from_at = plain ? (int64_t)i
				                        : place_of(&from, (unsigned)dims, along,
				                                  (unsigned)dim, i);
				memcpy(out + at * size, in + from_at * size, size);
			}
			gm_sim_use_wrote(&known, out + start * size, (last - start + 1) * size);
		}
		if (!gm_sim_use_good(&use))
			return false;
	}
	return true;
}

static bool plan_cat(struct gm_sim_text base, const struct gm_sim_text *arguments, unsigned count,
        struct gm_sim_plan *ret)
{
	if (!gm_sim_text_begins(base, "CatArrayBatchedCopy") || count < 5 ||
	        !gm_sim_text_is(arguments[1], "unsigned int"))
		return false;
	ret->type[0] = gm_sim_type_of(arguments[0]);
	ret->form = gm_sim_text_is(base, "CatArrayBatchedCopy_vectorized");
	ret->number[0] = strtol(arguments[2].at, NULL, 10);
	ret->number[1] = strtol(arguments[3].at, NULL, 10);
	ret->number[2] = strtol(arguments[4].at, NULL, 10);
	ret->number[3] = count > 6 ? strtol(arguments[6].at, NULL, 10) : 1;
	ret->compute = compute_cat;
	return ret->type[0] && ret->number[0] >= 1 && ret->number[0] <= 4 && ret->number[1] >= 1 &&
	       ret->number[1] <= 1024 && ret->number[2] >= 1 && ret->number[3] >= 1;
}

/* triu_tril_kernel<T, index_t, bool upper, …>(TensorInfo out, TensorInfo in, int64_t k, …)
 * (TriangularOps.cu) */
static bool compute_triangle(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	unsigned size = gm_sim_type_size(plan->type[0]);
	struct gm_sim_info out, in;
	if (!gm_sim_info_read(a[0], plan->number[0] != 0, size, &out) ||
	        !gm_sim_info_read(a[1], plan->number[0] != 0, size, &in) || out.numel != in.numel ||
	        in.offsets.dims < 2)
		return false;
	int64_t k = number(GM_SIM_I64, a[2]);
	struct gm_sim_use use = {0};
	gm_sim_use_operand(&use, &in.offsets, 0, in.data, size, false);
	gm_sim_use_operand(&use, &out.offsets, 0, out.data, size, true);
	if (!gm_sim_use_good(&use))
		return false;
	uint64_t columns = in.offsets.sizes[0], rows = in.offsets.sizes[1];
	for (uint64_t i = 0; i < in.numel; i++) {
		int64_t column = (int64_t)(i % columns), row = (int64_t)(i / columns % rows), to,
		        from;
		gm_sim_offsets_get(&out.offsets, i, &to);
		gm_sim_offsets_get(&in.offsets, i, &from);
		if (plan->form ? column - row >= k : column - row <= k)
			memmove(out.data + to, in.data + from, size);
		else
			memset(out.data + to, 0, size);
	}
	gm_sim_use_wrote_operand(&use, &out.offsets, 0, out.data, size);
	return true;
}

/* roll_cuda_kernel<T>(in, out, n, dim, start, size, stride, dims) (TensorTransformations.cu) */
static bool compute_roll(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	const char *in = gm_sim_load_pointer(a[0]);
	char *out = gm_sim_load_pointer(a[1]);
	int64_t n = number(GM_SIM_I64, a[2]), start = number(GM_SIM_I64, a[4]),
	        size = number(GM_SIM_I64, a[5]), stride = number(GM_SIM_I64, a[6]);
	unsigned width = gm_sim_type_size(plan->type[0]);
	/* The stride of a dimension of one element may be anything. */
	if (n <= 0 || n > INT32_MAX || size <= 0 || size > n || stride <= 0 || stride > INT32_MAX ||
	        start < 0 || start > size)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, (uint64_t)n * width);
	gm_sim_use_write(&use, out, (uint64_t)n * width);
	if (!gm_sim_use_good(&use))
		return false;
	for (int64_t i = 0; i < n; i++) {
		int64_t along = i % (stride * size) / stride;
		int64_t from =
		        along >= size - start ? i - (size - start) * stride : i + start * stride;
		if (from < 0 || from >= n)
			return false;
		memcpy(out + i * width, in + from * width, width);
	}
	gm_sim_use_wrote(&use, out, (uint64_t)n * width);
	return true;
}

/* write_indices<index_t>(int64_t *places, TensorDims dims, int dims, index_t n, …) (Nonzero.cu):
 * numbers to coordinates. */
static bool compute_coordinates(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	enum { DIMS = 16 };
	void **a = launch->arguments;
	char *places = gm_sim_load_pointer(a[0]);
	const char *sizes = a[1];
	int64_t dims = number(GM_SIM_I32, a[2]), n = number(plan->type[0], a[3]);
	unsigned width = gm_sim_type_size(plan->type[0]);
	if (dims <= 0 || dims > DIMS || n <= 0 || n > INT32_MAX)
		return false;
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_read(&use, places, (uint64_t)n * 8);
	gm_sim_use_write(&use, places, (uint64_t)(n * dims) * 8);
	/* A static size, followed by a total: nonzero_static. */
	if (plan->number[0] && gm_sim_load_pointer(a[4]))
		return false;
	if (!gm_sim_use_good(&use))
		return false;
	for (int64_t i = 0; i < n; i++) {
		uint64_t flat = (uint64_t)number(GM_SIM_I64, places + i * 8);
		for (int64_t d = dims - 1; d >= 0; d--) {
			uint64_t size = (uint64_t)number(plan->type[0], sizes + d * width);
			if (!size)
				return false;
			gm_sim_store(GM_SIM_I64, places + (i + d * n) * 8,
			        gm_sim_integer((int64_t)(flat % size)));
			flat /= size;
		}
	}
	gm_sim_use_wrote(&use, places, (uint64_t)(n * dims) * 8);
	return true;
}

bool gm_sim_layout_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	if (plan_range(base, arguments, count, ret) || plan_cat(base, arguments, count, ret))
		return true;
	ret->type[0] = count ? gm_sim_type_of(arguments[0]) : GM_SIM_NONE;
	if (!ret->type[0])
		return false;
	if (gm_sim_text_is(base, "triu_tril_kernel") && count >= 3) {
		ret->number[0] = gm_sim_text_has(arguments[1], "long");
		ret->form = gm_sim_text_is(arguments[2], "true");
		ret->compute = compute_triangle;
	} else if (gm_sim_text_is(base, "roll_cuda_kernel")) {
		ret->compute = compute_roll;
	} else if (gm_sim_text_is(base, "write_indices")) {
		struct gm_sim_text p[8];
		ret->number[0] = gm_sim_name_parameters(name, p, 8) > 4;
		ret->compute = compute_coordinates;
	} else {
		return false;
	}
	return true;
}
