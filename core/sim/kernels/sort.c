/*
 * Sorts and top-k of slices, and running sums along a dimension (ATen/native/cuda: SortUtils.cuh,
 * TensorTopK.cu, ScanUtils.cuh).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/kernels.h"

struct item {
	struct gm_sim_value key;
	uint64_t place; /* its original index: the sort is stable */
};

/* LTOp and GTOp (SortingCommon.cuh): NaN is the greatest. */
static int order(struct gm_sim_value a, struct gm_sim_value b)
{
	if (!a.is_real)
		return gm_sim_order_integers(a, b);
	bool x = isnan(a.real), y = isnan(b.real);
	return x || y ? x - y : (a.real > b.real) - (a.real < b.real);
}

static int ascending(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int how = order(x->key, y->key);
	return how ? how : (x->place > y->place) - (x->place < y->place);
}

static int descending(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int how = order(y->key, x->key);
	return how ? how : (x->place > y->place) - (x->place < y->place);
}

static uint64_t number(const struct gm_sim_plan *plan, const void *at)
{
	uint64_t value = 0;
	memcpy(&value, at, plan->number[0] ? 8 : 4);
	return value;
}

/* The slices are one more dimension of the calculator, so that its extent covers them. */
static bool with_slice(struct gm_sim_offsets *offsets, uint64_t size, uint64_t stride)
{
	if (offsets->dims == GM_SIM_DIMS || !size || size > INT32_MAX)
		return false;
	offsets->sizes[offsets->dims] = (uint32_t)size;
	offsets->strides[offsets->dims++][0] = (int64_t)stride;
	return true;
}

/* (TensorInfo keys, slices, slice_size, slice_stride, TensorInfo values, slice_stride, comparator
 * or descending) */
static bool compute_sort(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	bool wide = plan->number[0] != 0, down = plan->number[1] != 0;
	unsigned key = gm_sim_type_size(plan->type[0]), value = gm_sim_type_size(plan->type[1]);
	struct gm_sim_info keys, values;
	if (!gm_sim_info_read(a[0], wide, key, &keys) ||
	        !gm_sim_info_read(a[4], wide, value, &values))
		return false;
	if (plan->form)
		down = *(const bool *)a[6];
	uint64_t slices = number(plan, a[1]), size = number(plan, a[2]);
	uint64_t stride = number(plan, a[3]) * key, value_stride = number(plan, a[5]) * value;
	struct gm_sim_offsets all = keys.offsets, all_values = values.offsets;
	if (slices != keys.numel || slices > values.numel || !with_slice(&all, size, stride) ||
	        !with_slice(&all_values, size, value_stride))
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_in_place(&use, &all, keys.data, key);
	gm_sim_use_in_place(&use, &all_values, values.data, value);
	if (!gm_sim_use_good(&use))
		return false;
	struct item *items = calloc(size, sizeof(*items));
	uint64_t *moved = calloc(size, sizeof(*moved));
	for (uint64_t s = 0; items && moved && s < slices; s++) {
		int64_t at, at_value;
		gm_sim_offsets_get(&keys.offsets, s, &at);
		gm_sim_offsets_get(&values.offsets, s, &at_value);
		char *k = keys.data + at, *v = values.data + at_value;
		for (uint64_t i = 0; i < size; i++) {
			items[i] = (struct item){gm_sim_load(plan->type[0], k + i * stride), i};
			memcpy(&moved[i], v + i * value_stride, value);
		}
		qsort(items, size, sizeof(*items), down ? descending : ascending);
		for (uint64_t i = 0; i < size; i++) {
			gm_sim_store(plan->type[0], k + i * stride, items[i].key);
			memcpy(v + i * value_stride, &moved[items[i].place], value);
		}
	}
	bool done = items && moved;
	free(items);
	free(moved);
	if (done) {
		gm_sim_use_wrote_operand(&use, &all, 0, keys.data, key);
		gm_sim_use_wrote_operand(&use, &all_values, 0, values.data, value);
	}
	return done;
}

/*
 * sbtopk::gatherTopK(TensorInfo input, slice_size, k, bool largest, slices, input_stride,
 * TensorInfo top, stride, TensorInfo indices, stride, T *kth_values)
 */
static bool compute_top(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	bool wide = plan->number[0] != 0, largest = *(const bool *)a[3];
	unsigned key = gm_sim_type_size(plan->type[0]);
	struct gm_sim_info input, top, indices;
	if (!gm_sim_info_read(a[0], wide, key, &input) ||
	        !gm_sim_info_read(a[6], wide, key, &top) ||
	        !gm_sim_info_read(a[8], wide, 8, &indices))
		return false;
	uint64_t size = number(plan, a[1]), k = number(plan, a[2]), slices = number(plan, a[4]);
	uint64_t stride = number(plan, a[5]) * key, top_stride = number(plan, a[7]) * key,
	         index_stride = number(plan, a[9]) * 8;
	struct gm_sim_offsets all = input.offsets, all_top = top.offsets,
	                      all_indices = indices.offsets;
	if (k > size || slices != input.numel || slices > top.numel || slices > indices.numel ||
	        !with_slice(&all, size, stride) || !with_slice(&all_top, k, top_stride) ||
	        !with_slice(&all_indices, k, index_stride))
		return false;
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_operand(&use, &all, 0, input.data, key, false);
	gm_sim_use_operand(&use, &all_top, 0, top.data, key, true);
	gm_sim_use_operand(&use, &all_indices, 0, indices.data, 8, true);
	struct item *items = gm_sim_use_good(&use) ? calloc(size, sizeof(*items)) : NULL;
	if (!items)
		return false;
	for (uint64_t s = 0; s < slices; s++) {
		int64_t at, to, to_index;
		gm_sim_offsets_get(&input.offsets, s, &at);
		gm_sim_offsets_get(&top.offsets, s, &to);
		gm_sim_offsets_get(&indices.offsets, s, &to_index);
		for (uint64_t i = 0; i < size; i++)
			items[i] = (struct item){
			        gm_sim_load(plan->type[0], input.data + at + i * stride), i};
		qsort(items, size, sizeof(*items), largest ? descending : ascending);
		for (uint64_t i = 0; i < k; i++) {
			gm_sim_store(plan->type[0], top.data + to + i * top_stride, items[i].key);
			gm_sim_store(GM_SIM_I64, indices.data + to_index + i * index_stride,
			        gm_sim_integer((int64_t)items[i].place));
		}
	}
	free(items);
	gm_sim_use_wrote_operand(&use, &all_top, 0, top.data, key);
	gm_sim_use_wrote_operand(&use, &all_indices, 0, indices.data, 8);
	return true;
}

enum scan { PLUS, TIMES, LARGEST, SMALLEST };

/*
 * tensor_kernel_scan_innermost_dim(T *to, const T *from, rows, row_size, …), …_outer_dim(to, from,
 * outer, inner, row_size, …); with indices (from, to, int64_t *places, …).
 */
static bool compute_scan(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	bool indexed = plan->number[1] == LARGEST || plan->number[1] == SMALLEST,
	     outer = plan->form;
	char *to = gm_sim_load_pointer(a[indexed ? 1 : 0]),
	     *from = gm_sim_load_pointer(a[indexed ? 0 : 1]),
	     *places = indexed ? gm_sim_load_pointer(a[2]) : NULL;
	unsigned first = indexed ? 3 : 2, size = gm_sim_type_size(plan->type[0]);
	uint32_t words[3];
	for (unsigned i = 0; i < 3; i++)
		memcpy(&words[i], a[first + i], sizeof(words[i]));
	uint64_t rows = words[0], inner = outer ? words[1] : 1, row = words[outer ? 2 : 1];
	if (!rows || !inner || !row || rows > INT32_MAX || inner > INT32_MAX || row > INT32_MAX ||
	        rows * inner > INT32_MAX)
		return false;
	uint64_t bytes = rows * inner * row * size;
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_read(&use, from, bytes);
	gm_sim_use_write(&use, to, bytes);
	if (indexed)
		gm_sim_use_write(&use, places, rows * inner * row * 8);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t line = 0; line < rows * inner; line++) {
		uint64_t start = line / inner * inner * row + line % inner, place = 0;
		struct gm_sim_value sum = {0};
		for (uint64_t i = 0; i < row; i++) {
			uint64_t at = start + i * inner;
			struct gm_sim_value v = gm_sim_load(plan->type[0], from + at * size);
			if (i == 0) {
				sum = v;
			} else if (plan->number[1] == PLUS) {
				sum.real = gm_sim_limited(plan->type[0], sum.real + v.real);
				sum.integer =
				        (int64_t)((uint64_t)sum.integer + (uint64_t)v.integer);
			} else if (plan->number[1] == TIMES) {
				sum.real = gm_sim_limited(plan->type[0], sum.real * v.real);
				sum.integer =
				        (int64_t)((uint64_t)sum.integer * (uint64_t)v.integer);
			} else {
				bool nan = v.is_real && isnan(v.real),
				     had = sum.is_real && isnan(sum.real);
				int how = nan || had ? 0 : order(v, sum);
				if (nan || (!had && (plan->number[1] == LARGEST ? how >= 0
				                                                : how <= 0))) {
					sum = v;
					place = i;
				}
			}
			gm_sim_store(plan->type[0], to + at * size, sum);
			if (indexed)
				gm_sim_store(GM_SIM_I64, places + at * 8,
				        gm_sim_integer((int64_t)place));
		}
	}
	gm_sim_use_wrote(&use, to, bytes);
	if (indexed)
		gm_sim_use_wrote(&use, places, rows * inner * row * 8);
	return true;
}

bool gm_sim_sort_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	if (gm_sim_text_is(base, "bitonicSortKVInPlace") ||
	        gm_sim_text_is(base, "warpMergeSortKVInPlace") ||
	        gm_sim_text_is(base, "radixSortKVInPlace")) {
		ret->form = gm_sim_text_is(base, "radixSortKVInPlace");
		/* <…, K, V, comparison or descending, index[, warp size (a merge's, since
		 * torch 2.12)]> */
		bool warp = count == 9 && gm_sim_text_is(base, "warpMergeSortKVInPlace");
		if (count != (ret->form ? 7u : 8u) && !warp)
			return false;
		ret->type[0] = gm_sim_type_of(arguments[4]);
		ret->type[1] = gm_sim_type_of(arguments[5]);
		ret->number[0] = gm_sim_text_has(arguments[warp ? 7 : count - 1], "long");
		ret->number[1] = gm_sim_text_begins(arguments[6], "GTOp");
		ret->compute = compute_sort;
		return ret->type[0] && ret->type[1];
	}
	if (gm_sim_text_is(base, "gatherTopK") && gm_sim_text_begins(name, "sbtopk::") &&
	        count == 4) {
		ret->type[0] = gm_sim_type_of(arguments[0]);
		ret->number[0] = gm_sim_text_has(arguments[1], "long");
		ret->compute = compute_top;
		return ret->type[0] != GM_SIM_NONE;
	}
	if (gm_sim_text_begins(base, "tensor_kernel_scan_") && count >= 2) {
		struct gm_sim_text op = arguments[count - 1];
		ret->type[0] = gm_sim_type_of(arguments[0]);
		ret->form = gm_sim_text_begins(base, "tensor_kernel_scan_outer_dim");
		ret->number[1] = gm_sim_text_has(op, "plus<")            ? PLUS
		                 : gm_sim_text_has(op, "multiplies<")    ? TIMES
		                 : gm_sim_text_has(op, "greater_equal<") ? LARGEST
		                 : gm_sim_text_has(op, "less_equal<")    ? SMALLEST
		                                                         : -1;
		ret->compute = compute_scan;
		return ret->type[0] && ret->number[1] >= 0;
	}
	return false;
}
