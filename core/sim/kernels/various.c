/* Other kernels: softmax, a loss, searches, counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/kernels.h"

static int64_t number(enum gm_sim_type type, const void *at)
{
	return gm_sim_load(type, at).integer;
}

/*
 * Softmax over the last dimension: softmax_warp_forward<in, out, acc, log2, is_log, masked[, warp
 * size]>(out, in, rows, stride, columns, …) (PersistentSoftmax.cuh), cunn_SoftMaxForward…<…,
 * Epilogue>(out, in, columns), a block a row (SoftMax.cu); over another one:
 * cunn_SpatialSoftMaxForward(out, in, outer, columns, inner).
 */
enum { WARP, BLOCK, SPATIAL };
static bool compute_softmax(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	enum { ROWS = 512 };
	void **a = launch->arguments;
	char *out = gm_sim_load_pointer(a[0]);
	const char *in = gm_sim_load_pointer(a[1]);
	int64_t rows = launch->grid[0], columns, stride, inner = 1;
	columns = number(plan->type[2], a[plan->form == WARP ? 4 : plan->form == BLOCK ? 2 : 3]);
	stride = columns;
	if (plan->form == WARP) {
		rows = number(GM_SIM_I32, a[2]);
		stride = number(GM_SIM_I32, a[3]);
	} else if (plan->form == SPATIAL) {
		inner = number(plan->type[2], a[4]);
		rows = number(plan->type[2], a[2]);
		if (rows <= 0 || inner <= 0 || rows > INT32_MAX || inner > INT32_MAX)
			return false;
		rows *= inner;
	}
	unsigned in_size = gm_sim_type_size(plan->type[0]),
	         out_size = gm_sim_type_size(plan->type[1]);
	if (rows <= 0 || columns <= 0 || stride < columns || rows > INT32_MAX || stride > INT32_MAX)
		return false;
	uint64_t elements = (uint64_t)(rows - 1) * (uint64_t)stride + (uint64_t)columns;
	/*
	 * A few rows over many columns choose a word. They are computed even if little of them is
	 * known, so that the probabilities add up to one and sampling continues.
	 */
	struct gm_sim_use use = {.wide = rows <= ROWS};
	gm_sim_use_read(&use, in, elements * in_size);
	gm_sim_use_write(&use, out, elements * out_size);
	if (use.wide)
		use.unwritten = false;
	if (!gm_sim_use_good(&use))
		return false;
	double *row = malloc((size_t)columns * sizeof(*row));
	if (!row)
		return false;
	for (int64_t r = 0; r < rows; r++) {
		double most = -INFINITY, sum = 0;
		int64_t first = r / inner * inner * stride + r % inner;
		for (int64_t i = 0; i < columns; i++) {
			row[i] =
			        gm_sim_load(plan->type[0], in + (first + i * inner) * in_size).real;
			most = row[i] > most ? row[i] : most;
		}
		for (int64_t i = 0; i < columns; i++)
			sum += exp(row[i] - most);
		for (int64_t i = 0; i < columns; i++)
			gm_sim_store(plan->type[1], out + (first + i * inner) * out_size,
			        gm_sim_real(plan->number[0] ? row[i] - most - log(sum)
			                                    : exp(row[i] - most) / sum));
	}
	free(row);
	gm_sim_use_wrote(&use, out, elements * out_size);
	return true;
}

static bool plan_softmax(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	struct gm_sim_text p[10];
	unsigned known = gm_sim_name_parameters(name, p, 10);
	if (gm_sim_text_is(base, "softmax_warp_forward") && (count == 6 || count == 7) &&
	        known == 8) {
		ret->type[0] = gm_sim_type_of(arguments[0]);
		ret->type[1] = gm_sim_type_of(arguments[1]);
		ret->type[2] = GM_SIM_I32;
		ret->number[0] = gm_sim_text_is(arguments[4], "true");
		if (!gm_sim_text_is(arguments[5], "false"))
			return false;
	} else if (gm_sim_text_begins(base, "cunn_SoftMaxForward") && known == 3) {
		/* <ILP, scalar_t, accscalar_t, outscalar_t, Epilogue, …> */
		if (count < 5)
			return false;
		ret->form = BLOCK;
		ret->type[0] = gm_sim_type_of(p[1]);
		ret->type[1] = gm_sim_type_of(p[0]);
		ret->type[2] = gm_sim_type_of(p[2]);
		ret->number[0] = gm_sim_text_has(name, "LogSoftMaxForwardEpilogue");
	} else if (gm_sim_text_is(base, "cunn_SpatialSoftMaxForward") && known == 5) {
		ret->form = SPATIAL;
		ret->type[0] = gm_sim_type_of(p[1]);
		ret->type[1] = gm_sim_type_of(p[0]);
		ret->type[2] = gm_sim_type_of(p[3]);
		ret->number[0] = gm_sim_text_has(name, "LogSoftMaxForwardEpilogue");
	} else {
		return false;
	}
	ret->compute = compute_softmax;
	return gm_sim_type_is_real(ret->type[0]) && gm_sim_type_is_real(ret->type[1]) &&
	       ret->type[2];
}

/*
 * nll_loss_forward_reduce_cuda_kernel_2d<T, acc, index>(out, total_weight, in, target, weights,
 * bool mean, int64_t rows, int64_t dims, int64_t classes, int64_t ignored) (Loss.cu).
 */
static bool compute_nll(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	char *out = gm_sim_load_pointer(a[0]), *total = gm_sim_load_pointer(a[1]);
	const char *in = gm_sim_load_pointer(a[2]), *target = gm_sim_load_pointer(a[3]),
	           *weights = gm_sim_load_pointer(a[4]);
	bool mean = *(const bool *)a[5];
	int64_t rows = number(GM_SIM_I64, a[6]), dims = number(GM_SIM_I64, a[7]),
	        classes = number(GM_SIM_I64, a[8]), ignored = number(GM_SIM_I64, a[9]);
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	if (rows <= 0 || dims <= 0 || classes <= 0 || rows > INT32_MAX || dims > INT32_MAX)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, (uint64_t)rows * (uint64_t)dims * size);
	gm_sim_use_read(&use, target, (uint64_t)rows * width);
	if (weights)
		gm_sim_use_read(&use, weights, (uint64_t)classes * size);
	gm_sim_use_write(&use, out, size);
	gm_sim_use_write(&use, total, size);
	if (!gm_sim_use_good(&use))
		return false;
	double sum = 0, weight = 0;
	for (int64_t i = 0; i < rows; i++) {
		int64_t t = number(plan->type[1], target + i * width);
		if (t == ignored)
			continue;
		if (t < 0 || t >= classes || t >= dims)
			return false;
		double w = weights ? gm_sim_load(plan->type[0], weights + t * size).real : 1;
		sum -= gm_sim_load(plan->type[0], in + (i * dims + t) * size).real * w;
		weight += w;
	}
	gm_sim_store(plan->type[0], total, gm_sim_real(weight));
	gm_sim_store(plan->type[0], out, gm_sim_real(mean ? sum / weight : sum));
	gm_sim_use_wrote(&use, out, size);
	gm_sim_use_wrote(&use, total, size);
	return true;
}

/*
 * searchsorted_cuda_kernel<T, out_t>(out, in, boundaries, sorter, int64_t in_row, int64_t row,
 * int64_t n, bool right, bool one_dimension) (Bucketization.cu).
 */
static bool compute_search(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	char *out = gm_sim_load_pointer(a[0]);
	const char *in = gm_sim_load_pointer(a[1]), *rows = gm_sim_load_pointer(a[2]);
	int64_t in_row = number(GM_SIM_I64, a[4]), row = number(GM_SIM_I64, a[5]),
	        n = number(GM_SIM_I64, a[6]);
	bool right = *(const bool *)a[7], one = *(const bool *)a[8];
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	if (gm_sim_load_pointer(a[3]) || n <= 0 || row < 0 || in_row <= 0 || n > INT32_MAX ||
	        row > INT32_MAX)
		return false;
	uint64_t boundaries = (uint64_t)(one ? row : (n + in_row - 1) / in_row * row);
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, (uint64_t)n * size);
	gm_sim_use_read(&use, rows, boundaries * size);
	gm_sim_use_write(&use, out, (uint64_t)n * width);
	if (!gm_sim_use_good(&use))
		return false;
	for (int64_t i = 0; i < n; i++) {
		const char *first = one ? rows : rows + i / in_row * row * size;
		struct gm_sim_value x = gm_sim_load(plan->type[0], in + i * size);
		int64_t low = 0, high = row;
		while (low < high) {
			int64_t middle = low + (high - low) / 2;
			struct gm_sim_value y = gm_sim_load(plan->type[0], first + middle * size);
			bool more = y.is_real ? y.real > x.real : y.integer > x.integer;
			bool equal = y.is_real ? y.real == x.real : y.integer == x.integer;
			if (!more && (right || !equal))
				low = middle + 1;
			else
				high = middle;
		}
		gm_sim_store(plan->type[1], out + i * width, gm_sim_integer(low));
	}
	gm_sim_use_wrote(&use, out, (uint64_t)n * width);
	return true;
}

/*
 * kernelHistogram1D<out, in, index, …>(TensorInfo counts, TensorInfo partial, TensorInfo in,
 * int64_t bins, min, max, n, weight) without weights (SummaryOps.cu): bincount of integers.
 */
static bool compute_histogram(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	struct gm_sim_info counts, in;
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	if (!gm_sim_info_read(a[0], plan->number[0] != 0, size, &counts) ||
	        !gm_sim_info_read(a[2], plan->number[0] != 0, width, &in))
		return false;
	int64_t bins = number(GM_SIM_I64, a[3]), least = number(GM_SIM_I64, a[4]),
	        most = number(GM_SIM_I64, a[5]);
	if (bins <= 0 || (uint64_t)bins > counts.numel || most <= least)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_operand(&use, &in.offsets, 0, in.data, width, false);
	gm_sim_use_in_place(&use, &counts.offsets, counts.data, size);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t i = 0; i < in.numel; i++) {
		int64_t from, to;
		gm_sim_offsets_get(&in.offsets, i, &from);
		int64_t value = number(plan->type[1], in.data + from);
		if (value < least || value > most)
			continue;
		int64_t bin = (int64_t)((__int128)(value - least) * bins / (most - least));
		gm_sim_offsets_get(&counts.offsets, (uint64_t)(bin == bins ? bins - 1 : bin), &to);
		gm_sim_store(plan->type[0], counts.data + to,
		        gm_sim_integer(number(plan->type[0], counts.data + to) + 1));
	}
	gm_sim_use_wrote_operand(&use, &counts.offsets, 0, counts.data, size);
	return true;
}

/* unique_bool_write_output(int n, const int *true, bool *out, int64_t *counts) (UniqueCub.cu) */
static bool compute_truths(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	const char *sum = gm_sim_load_pointer(a[1]);
	char *out = gm_sim_load_pointer(a[2]), *counts = gm_sim_load_pointer(a[3]);
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, sum, 4);
	/* Both have two elements, however many of them are kept. */
	gm_sim_use_write(&use, out, 2);
	gm_sim_use_write(&use, counts, 2 * 8);
	if (!gm_sim_use_good(&use))
		return false;
	int64_t n = number(GM_SIM_I32, a[0]), truths = number(GM_SIM_I32, sum),
	        falsehoods = n - truths;
	uint64_t values = (uint64_t)((truths > 0) + (falsehoods > 0));
	if (truths < 0 || falsehoods < 0 || !values)
		return false;
	for (uint64_t i = 0; i < values; i++) {
		bool truth = i || !falsehoods;
		gm_sim_store(GM_SIM_BOOL, out + i, gm_sim_integer(truth));
		gm_sim_store(
		        GM_SIM_I64, counts + i * 8, gm_sim_integer(truth ? truths : falsehoods));
	}
	gm_sim_use_wrote(&use, out, values);
	gm_sim_use_wrote(&use, counts, values * 8);
	return true;
}

/* unique_bool_write_inverse_indices(int n, const int *true, const bool *in, int64_t *inverse) */
static bool compute_truth_places(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	const char *sum = gm_sim_load_pointer(a[1]), *in = gm_sim_load_pointer(a[2]);
	char *inverse = gm_sim_load_pointer(a[3]);
	int64_t n = number(GM_SIM_I32, a[0]);
	struct gm_sim_use use = {0};
	if (n <= 0)
		return false;
	gm_sim_use_read(&use, sum, 4);
	gm_sim_use_read(&use, in, (uint64_t)n);
	gm_sim_use_write(&use, inverse, (uint64_t)n * 8);
	if (!gm_sim_use_good(&use))
		return false;
	bool both = number(GM_SIM_I32, sum) < n;
	for (int64_t i = 0; i < n; i++)
		gm_sim_store(GM_SIM_I64, inverse + i * 8,
		        gm_sim_integer(both && number(GM_SIM_BOOL, in + i)));
	gm_sim_use_wrote(&use, inverse, (uint64_t)n * 8);
	return true;
}

bool gm_sim_various_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	if (plan_softmax(name, base, arguments, count, ret))
		return true;
	if (gm_sim_text_is(base, "unique_bool_write_output"))
		ret->compute = compute_truths;
	else if (gm_sim_text_is(base, "unique_bool_write_inverse_indices"))
		ret->compute = compute_truth_places;
	if (ret->compute)
		return true;
	ret->type[0] = count ? gm_sim_type_of(arguments[0]) : GM_SIM_NONE;
	if (!ret->type[0])
		return false;
	if (gm_sim_text_is(base, "nll_loss_forward_reduce_cuda_kernel_2d") && count >= 3) {
		ret->type[1] = gm_sim_type_of(arguments[2]);
		ret->compute = compute_nll;
	} else if (gm_sim_text_is(base, "searchsorted_cuda_kernel") && count == 2) {
		ret->type[1] = gm_sim_type_of(arguments[1]);
		ret->compute = compute_search;
	} else if (gm_sim_text_is(base, "kernelHistogram1D") && count >= 8 &&
	           gm_sim_text_has(arguments[7], "{lambda(long)#2}")) {
		ret->type[1] = gm_sim_type_of(arguments[1]);
		ret->number[0] = gm_sim_text_has(arguments[2], "long");
		ret->compute = compute_histogram;
		return ret->type[1] && !gm_sim_type_is_real(ret->type[0]) &&
		       !gm_sim_type_is_real(ret->type[1]);
	} else {
		return false;
	}
	return true;
}
