/*
 * CUB's device-wide algorithms, as nonzero, masks, unique, sorts and one-dimensional sums use them
 * (CUDA 12 and 13; cub/device/dispatch/kernels). Each uses several launches. The first launch that
 * has everything it needs does the whole work; the preparing and finishing launches do nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/kernels.h"

enum form {
	COUNT_TILE,
	COUNT_MANY,
	SELECT_FLAGGED,
	SELECT_UNIQUE,
	SCAN,
	RUNS,
	SORT_TILE,
	SORT_PASS,
	NOTHING,
	DIFFERENCE,
	SCATTER
};

static uint64_t number(enum gm_sim_type type, const void *at)
{
	return (uint64_t)gm_sim_load(type, at).integer;
}

static bool truth(enum gm_sim_type type, const char *at)
{
	struct gm_sim_value value = gm_sim_load(type, at);
	return value.is_real ? value.real != 0 : value.integer != 0;
}

/* operator== of the type: no NaN equals itself, and -0 equals 0. */
static bool same(enum gm_sim_type type, const char *a, const char *b)
{
	if (type == GM_SIM_BOOL)
		return truth(type, a) == truth(type, b);
	return gm_sim_type_is_real(type) ? gm_sim_load(type, a).real == gm_sim_load(type, b).real
	                                 : memcmp(a, b, gm_sim_type_size(type)) == 0;
}

/*
 * plan->type: 0 input, 1 output, 2 the counts' type, 3 the number of items'. plan->number: 0 its
 * argument, 1 what the family says, 2 where in the input's iterator the pointer stands.
 */
static bool items_of(const struct gm_sim_plan *plan, void **arguments, uint64_t *ret)
{
	*ret = number(plan->type[3], arguments[plan->number[0]]);
	return *ret <= INT32_MAX;
}

/* DeviceReduce{SingleTile}Kernel(in, out, items, …): the number of elements that are not zero, or a
 * sum of int. */
static bool compute_count(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items, total = 0;
	const char *in = gm_sim_load_pointer((char *)a[0] + plan->number[2]);
	char *out = gm_sim_load_pointer(a[1]);
	unsigned size = gm_sim_type_size(plan->type[0]);
	if (!items_of(plan, a, &items))
		return false;
	unsigned partial = plan->form == COUNT_MANY ? launch->grid[0] : 1;
	unsigned width = gm_sim_type_size(plan->type[1]);
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_read(&use, in, items * size);
	gm_sim_use_write(&use, out, (uint64_t)partial * width);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t i = 0; i < items; i++)
		total += plan->number[1] ? truth(plan->type[0], in + i * size)
		                         : number(plan->type[0], in + i * size);
	for (unsigned i = 0; i < partial;
	        i++) /* the sums of the blocks, added by the next launch */
		gm_sim_store(
		        plan->type[1], out + i * width, gm_sim_integer(i ? 0 : (int64_t)total));
	gm_sim_use_wrote(&use, out, (uint64_t)partial * width);
	return true;
}

/* DeviceSelectSweepKernel(in, flags, out, count, tile state, select, equal, items, …) */
static bool compute_select(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items, kept = 0;
	char *out = gm_sim_load_pointer(a[2]), *count = gm_sim_load_pointer(a[3]);
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	bool flagged = plan->form == SELECT_FLAGGED;
	const char *in = gm_sim_load_pointer((char *)a[flagged ? 1 : 0] + plan->number[2]);
	int64_t counter;
	memcpy(&counter, a[0], sizeof(counter));
	if (!items_of(plan, a, &items))
		return false;
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_read(&use, in, items * size);
	gm_sim_use_write(&use, count, gm_sim_type_size(plan->type[2]));
	if (!gm_sim_use_good(&use))
		return false;
	for (int pass = 0; pass < 2; pass++) {
		kept = 0;
		for (uint64_t i = 0; i < items; i++) {
			const char *item = in + i * size;
			if (flagged ? !truth(plan->type[0], item)
			            : i && same(plan->type[0], item, item - size))
				continue;
			if (pass && flagged)
				gm_sim_store(plan->type[1], out + kept * width,
				        gm_sim_integer(counter + (int64_t)i));
			else if (pass)
				memcpy(out + kept * width, item, width);
			kept++;
		}
		if (!pass) {
			gm_sim_use_write(&use, out, kept * width);
			if (!gm_sim_use_good(&use))
				return false;
		}
	}
	gm_sim_store(plan->type[2], count, gm_sim_integer((int64_t)kept));
	gm_sim_use_wrote(&use, out, kept * width);
	gm_sim_use_wrote(&use, count, gm_sim_type_size(plan->type[2]));
	return true;
}

/* DeviceScanKernel(in, out, tile state, int first_tile, operation, no initial value, items):
 * inclusive sums, or products. */
static bool compute_scan(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items;
	const char *in = gm_sim_load_pointer(a[0]);
	char *out = gm_sim_load_pointer(a[1]);
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	if (!items_of(plan, a, &items))
		return false;
	if (number(GM_SIM_I32, a[3]) != 0)
		return true; /* the first launch has done everything */
	struct gm_sim_use use = {.wide = true};
	gm_sim_use_read(&use, in, items * size);
	gm_sim_use_write(&use, out, items * width);
	if (!gm_sim_use_good(&use))
		return false;
	bool product = plan->number[1] != 0, reals = gm_sim_type_is_real(plan->type[0]);
	double real = product;
	uint64_t integer = product;
	for (uint64_t i = 0; i < items; i++) {
		struct gm_sim_value value = gm_sim_load(plan->type[0], in + i * size);
		real = gm_sim_limited(
		        plan->type[1], product ? real * value.real : real + value.real);
		integer = product ? integer * (uint64_t)value.integer
		                  : integer + (uint64_t)value.integer;
		gm_sim_store(plan->type[1], out + i * width,
		        reals ? gm_sim_real(real) : gm_sim_integer((int64_t)integer));
	}
	gm_sim_use_wrote(&use, out, items * width);
	return true;
}

/*
 * DeviceReduceByKeyKernel(keys, unique, ones, counts, number of runs, …, items[, context, …]):
 * run-length encoding. CUB 3.2's context (CUDA 13.2; dispatch_reduce_by_key.cuh) begins with two
 * bools: the first part of the items, and the last.
 */
static bool compute_runs(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items, runs = 0;
	const char *in = gm_sim_load_pointer((char *)a[0] + plan->number[2]);
	char *unique = gm_sim_load_pointer(a[1]), *counts = gm_sim_load_pointer(a[3]),
	     *total = gm_sim_load_pointer(a[4]);
	unsigned size = gm_sim_type_size(plan->type[0]);
	static const bool whole[2] = {true, true};
	if (plan->number[1] && memcmp(a[plan->number[1]], whole, sizeof(whole)) != 0)
		return false; /* more items than an int can count are processed in parts */
	if (!items_of(plan, a, &items))
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, items * size);
	for (uint64_t i = 0; i < items && gm_sim_use_good(&use); i++)
		runs += !i || !same(plan->type[0], in + i * size, in + (i - 1) * size);
	gm_sim_use_write(&use, unique, runs * size);
	gm_sim_use_write(&use, counts, runs * 8);
	gm_sim_use_write(&use, total, 8);
	if (!gm_sim_use_good(&use))
		return false;
	int64_t length = 0;
	uint64_t run = 0;
	for (uint64_t i = 0; i < items; i++) {
		length++;
		if (i + 1 < items && same(plan->type[0], in + i * size, in + (i + 1) * size))
			continue;
		memcpy(unique + run * size, in + i * size, size);
		gm_sim_store(GM_SIM_I64, counts + run++ * 8, gm_sim_integer(length));
		length = 0;
	}
	gm_sim_store(GM_SIM_I64, total, gm_sim_integer((int64_t)runs));
	gm_sim_use_wrote(&use, unique, runs * size);
	gm_sim_use_wrote(&use, counts, runs * 8);
	gm_sim_use_wrote(&use, total, 8);
	return true;
}

struct item {
	uint64_t key, place;
};

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
	                        : (x->place > y->place) - (x->place < y->place);
}

/* A key's bits in an order that unsigned comparison gives (cub::Traits::TwiddleIn). */
static uint64_t ordered(enum gm_sim_type type, const char *at)
{
	unsigned bits = gm_sim_type_size(type) * 8;
	uint64_t key = 0, top = UINT64_C(1) << (bits - 1);
	memcpy(&key, at, bits / 8);
	if (gm_sim_type_is_real(type)) {
		if (key == top)
			key = 0; /* -0 is 0 */
		return key & top ? ~key & (top | (top - 1)) : key | top;
	}
	bool sign =
	        type == GM_SIM_I8 || type == GM_SIM_I16 || type == GM_SIM_I32 || type == GM_SIM_I64;
	return sign ? key ^ top : key;
}

/* By the key's bits [first, first + count): all of them in a single tile, a digit in one pass of a
 * larger sort. */
static bool compute_sort(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	bool pass = plan->form == SORT_PASS;
	const char *keys = gm_sim_load_pointer(a[pass ? 5 : 0]),
	           *values = gm_sim_load_pointer(a[pass ? 7 : 2]);
	char *out = gm_sim_load_pointer(a[pass ? 4 : 1]),
	     *values_out = gm_sim_load_pointer(a[pass ? 6 : 3]);
	uint64_t items = number(plan->type[3], a[pass ? 8 : 4]);
	uint64_t first = number(GM_SIM_I32, a[pass ? 9 : 5]),
	         last = number(GM_SIM_I32, a[pass ? 10 : 6]);
	uint64_t bits = pass ? last : last - first;
	unsigned size = gm_sim_type_size(plan->type[0]), width = gm_sim_type_size(plan->type[1]);
	if (items > INT32_MAX || first > 63 || !bits || bits > 64 - first)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, keys, items * size);
	gm_sim_use_write(&use, out, items * size);
	if (width) {
		gm_sim_use_read(&use, values, items * width);
		gm_sim_use_write(&use, values_out, items * width);
	}
	struct item *sorted = gm_sim_use_good(&use) ? calloc(items + 1, sizeof(*sorted)) : NULL;
	char *copy = sorted ? malloc(items * (size + width) + 1) : NULL;
	if (!copy) {
		free(sorted);
		return false;
	}
	for (uint64_t i = 0; i < items; i++) {
		uint64_t key = ordered(plan->type[0], keys + i * size) >> first;
		key = bits == 64 ? key : key & ((UINT64_C(1) << bits) - 1);
		sorted[i] = (struct item){plan->number[1] ? ~key : key, i};
	}
	qsort(sorted, items, sizeof(*sorted), by_key);
	/* Source and destination may be the same. */
	memcpy(copy, keys, items * size);
	if (width)
		memcpy(copy + items * size, values, items * width);
	for (uint64_t i = 0; i < items; i++) {
		memcpy(out + i * size, copy + sorted[i].place * size, size);
		if (width)
			memcpy(values_out + i * width,
			        copy + items * size + sorted[i].place * width, width);
	}
	free(copy);
	free(sorted);
	gm_sim_use_wrote(&use, out, items * size);
	gm_sim_use_wrote(&use, values_out, items * width);
	return true;
}

/* Launches that only prepare, or add up, for the kernels above. */
static bool compute_nothing(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	return true;
}

/* internal::adjacent_difference_kernel(int64_t n, const T *in, int *out): 1 if an element differs
 * from the previous one. */
static bool compute_difference(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items = number(GM_SIM_I64, a[0]);
	const char *in = gm_sim_load_pointer((char *)a[1] + plan->number[2]);
	char *out = gm_sim_load_pointer(a[2]);
	unsigned size = gm_sim_type_size(plan->type[0]);
	if (items > INT32_MAX)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, items * size);
	gm_sim_use_write(&use, out, items * 4);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t i = 0; i < items; i++)
		gm_sim_store(GM_SIM_I32, out + i * 4,
		        gm_sim_integer(
		                i && !same(plan->type[0], in + i * size, in + (i - 1) * size)));
	gm_sim_use_wrote(&use, out, items * 4);
	return true;
}

/* internal::scatter_kernel(int64_t n, const int64_t *in, const int64_t *places, int64_t *out) */
static bool compute_scatter(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	void **a = launch->arguments;
	uint64_t items = number(GM_SIM_I64, a[0]);
	const char *in = gm_sim_load_pointer(a[1]), *places = gm_sim_load_pointer(a[2]);
	char *out = gm_sim_load_pointer(a[3]);
	if (items > INT32_MAX)
		return false;
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, in, items * 8);
	gm_sim_use_read(&use, places, items * 8);
	gm_sim_use_write(&use, out, items * 8);
	if (!gm_sim_use_good(&use))
		return false;
	for (uint64_t i = 0; i < items; i++) {
		uint64_t place = number(GM_SIM_I64, places + i * 8);
		if (place < items)
			memcpy(out + place * 8, in + i * 8, 8);
	}
	gm_sim_use_wrote(&use, out, items * 8);
	return true;
}

/*
 * T of "T const*", or of an iterator that tests whether a T is not zero; *ret_flag shows which. An
 * iterator that loads truth values from bytes has the type bool.
 * *ret_at is the pointer's offset in it: thrust's iterator has it first, CUB's own (CUDA 12) has
 * the function before it.
 */
static enum gm_sim_type iterated(struct gm_sim_text text, bool *ret_flag, int64_t *ret_at)
{
	*ret_flag = false;
	*ret_at = 0;
	enum gm_sim_type type = gm_sim_type_of(text);
	if (type)
		return text.at[text.size - 1] == '*' ? type : GM_SIM_NONE;
	struct gm_sim_text base, own[4], inner[2];
	if (gm_sim_name_template(text, &base, own, 4) < 2)
		return GM_SIM_NONE;
	bool older = gm_sim_text_is(base, "TransformInputIterator"),
	     transform = older || gm_sim_text_is(base, "transform_iterator");
	/* thrust: <function, iterator, …>; cub's older: <bool, function, iterator, …> */
	for (unsigned i = 0; transform && i < 2; i++) {
		bool of_type = gm_sim_name_template(own[i], &base, inner, 2) == 1;
		bool loads = gm_sim_text_is(base, "LoadBoolOp");
		*ret_flag = (of_type && gm_sim_text_is(base, "NonZeroOp")) ||
		            gm_sim_text_is(base, "MapNumberOfTrueValues");
		*ret_at = older ? 8 : 0;
		if (*ret_flag || loads)
			return loads ? GM_SIM_BOOL : gm_sim_type_of(own[i + 1]);
	}
	return GM_SIM_NONE;
}

bool gm_sim_cub_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	struct gm_sim_text p[16];
	bool flag = false;
	if (gm_sim_text_is(base, "adjacent_difference_kernel") && count == 1) {
		ret->type[0] = gm_sim_type_of(arguments[0]);
		if (!ret->type[0])
			ret->type[0] = iterated(arguments[0], &flag, &ret->number[2]);
		ret->compute = compute_difference;
		return ret->type[0] != GM_SIM_NONE;
	}
	if (gm_sim_text_begins(name, "internal::scatter_kernel(")) {
		ret->compute = compute_scatter;
		return true;
	}
	unsigned known = gm_sim_name_parameters(name, p, 16);
	if (!gm_sim_text_has(name, "cub::") || known > 16)
		return false;
	if (gm_sim_text_is(base, "DeviceReduceSingleTileKernel") ||
	        gm_sim_text_is(base, "DeviceReduceKernel")) {
		bool many = gm_sim_text_is(base, "DeviceReduceKernel");
		const struct gm_sim_text *sum = &p[many ? 4 : 3];
		if (known < 5 ||
		        (!gm_sim_text_has(*sum, "plus") && !gm_sim_text_has(*sum, "cub::Sum")))
			return false;
		ret->form = many ? COUNT_MANY : COUNT_TILE;
		ret->type[0] = iterated(p[0], &flag, &ret->number[2]);
		ret->type[1] = gm_sim_type_of(p[1]);
		ret->type[3] = gm_sim_type_of(p[2]);
		ret->number[0] = 2;
		ret->number[1] = flag;
		ret->compute = compute_count;
		return ret->type[0] && ret->type[1] && ret->type[3] &&
		       !gm_sim_type_is_real(ret->type[1]);
	}
	if (gm_sim_text_is(base, "DeviceSelectSweepKernel") && known >= 9) {
		bool unique =
		        gm_sim_text_has(p[6], "equal_to") || gm_sim_text_has(p[6], "cub::Equality");
		ret->form = unique ? SELECT_UNIQUE : SELECT_FLAGGED;
		ret->type[0] = iterated(p[unique ? 0 : 1], &flag, &ret->number[2]);
		ret->type[1] = gm_sim_type_of(p[2]);
		ret->type[2] = gm_sim_type_of(p[3]);
		ret->type[3] = gm_sim_type_of(p[7]);
		ret->number[0] = 7;
		ret->compute = compute_select;
		struct gm_sim_text iterator;
		gm_sim_name_template(p[0], &iterator, NULL, 0);
		/* The numbers of the selected elements: nonzero. */
		bool good = unique || gm_sim_text_is(iterator, "counting_iterator") ||
		            gm_sim_text_is(iterator, "CountingInputIterator");
		return good && ret->type[0] && ret->type[1] && ret->type[2] && ret->type[3];
	}
	if (gm_sim_text_is(base, "DeviceScanKernel") && known == 7) {
		bool product = gm_sim_text_has(p[4], "multiplies<");
		if ((!product && !gm_sim_text_has(p[4], "plus<") &&
		            !gm_sim_text_has(p[4], "cub::Sum")) ||
		        !gm_sim_text_has(p[5], "NullType"))
			return false;
		ret->form = SCAN;
		ret->number[1] = product;
		ret->type[0] = iterated(p[0], &flag, &ret->number[2]);
		ret->type[1] = gm_sim_type_of(p[1]);
		ret->type[3] = gm_sim_type_of(p[6]);
		ret->number[0] = 6;
		ret->compute = compute_scan;
		return ret->type[0] && ret->type[1] && ret->type[3] && !flag;
	}
	if (gm_sim_text_is(base, "DeviceReduceByKeyKernel") && known >= 9 && known <= 12) {
		bool context = known > 10 && gm_sim_text_has(p[10], "streaming_context");
		unsigned items = known > 10 ? 9 : known - 1;
		if (!gm_sim_text_has(p[2], "onstant") || gm_sim_type_of(p[3]) != GM_SIM_I64 ||
		        gm_sim_type_of(p[4]) != GM_SIM_I64)
			return false;
		ret->type[0] = iterated(p[0], &flag, &ret->number[2]);
		if (known > 10 && !context)
			return false;
		ret->type[3] = gm_sim_type_of(p[items]);
		ret->number[0] = items;
		ret->number[1] = context ? 10 : 0;
		ret->compute = compute_runs;
		return ret->type[0] && ret->type[3];
	}
	bool tile = gm_sim_text_is(base, "DeviceRadixSortSingleTileKernel"),
	     pass = gm_sim_text_is(base, "DeviceRadixSortOnesweepKernel");
	if ((tile && known >= 7) || (pass && known >= 11)) {
		ret->form = tile ? SORT_TILE : SORT_PASS;
		ret->type[0] = gm_sim_type_of(p[tile ? 0 : 4]);
		ret->type[1] = gm_sim_type_of(p[tile ? 2 : 6]); /* none: only keys */
		ret->type[3] = gm_sim_type_of(p[tile ? 4 : 8]);
		ret->number[1] = gm_sim_text_has(name, "SortOrder)1");
		ret->compute = compute_sort;
		bool pairs = gm_sim_text_has(p[tile ? 2 : 6], "NullType");
		return ret->type[0] && ret->type[3] && (ret->type[1] || pairs);
	}
	static const char *const preparing[] = {"DeviceScanInitKernel", "DeviceCompactInitKernel",
	        "DeviceRadixSortHistogramKernel", "DeviceRadixSortExclusiveSumKernel"};
	for (size_t i = 0; i < sizeof(preparing) / sizeof(preparing[0]); i++)
		if (gm_sim_text_is(base, preparing[i])) {
			ret->form = NOTHING;
			ret->compute = compute_nothing;
			return true;
		}
	return false;
}
