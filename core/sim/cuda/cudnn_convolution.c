/*
 * The workspace of a convolution.
 *
 * How cuDNN chooses a kernel is not public. The rules below are fitted to 3,475 random convolutions
 * and their gradients, which ran on an H100 with cuDNN 9.19 and PyTorch 2.11; how close they come
 * is in docs/real-gpus.md. What they say:
 *
 * - Kernels for tensor cores read and write channels-last memory, whose channels are padded to 16
 *   bytes. Tensors that are not like that are transposed into the workspace, which then is exactly
 *   the sum of their padded sizes, and 16 bytes.
 * - Other kernels read the tensors as they are, and need no workspace. They are taken for 1x1
 *   filters with stride 1 (a product of matrices), for short sums (few channels), for small
 *   problems, in double precision, and in single precision without TF32.
 * - The gradient of a filter is a long sum for few results. So several thread blocks each sum up a
 *   part in single precision, each for itself: a copy of the filter for every part.
 *
 * The sizes of transposed tensors are exact, the choice and the number of parts are estimates.
 */
#include "sim/cuda/cudnn.h"

enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 }; /* cudnnDataType_t */

/* Numbers of elements, as double: products of sizes that a caller chooses do not overflow. */
struct problem {
	enum gm_sim_cudnn_pass pass;
	bool half, bfloat16, last, one, strided;
	double element, align, step;
	double groups, channels, filters; /* channels and filters are those of one group */
	double kernel;                    /* elements of the filter for one channel */
	double batch, in, out;            /* in, out: positions of all images of the batch */
	double sum;                       /* terms of a result of the forward pass */
	double operations;
};

static double product(const struct gm_sim_cudnn_tensor *tensor, int from)
{
	double elements = 1;
	for (int i = from; i < tensor->count; i++)
		elements *= (double)tensor->dimension[i];
	return elements;
}

static double up(double value, double unit)
{
	double units = (double)(uint64_t)(value / unit);
	return (units * unit < value ? units + 1 : units) * unit;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* A tensor with one channel or one position is the same in both orders, and tells nothing. */
static bool channels_last(const struct gm_sim_cudnn_tensor *tensor)
{
	return tensor->dimension[1] > 1 && product(tensor, 2) > 1 && tensor->stride[1] == 1;
}

static double x_bytes(const struct problem *p)
{
	return p->in * up(p->channels, p->align) * p->groups * p->element;
}

static double y_bytes(const struct problem *p)
{
	return p->out * up(p->filters, p->align) * p->groups * p->element;
}

static double filter_elements(const struct problem *p)
{
	return up(p->filters, p->align) * p->groups * up(p->channels, p->align) * p->kernel;
}

static bool odd_channels(const struct problem *p)
{
	return up(p->channels, p->align) != p->channels;
}

static bool odd_filters(const struct problem *p)
{
	return up(p->filters, p->align) != p->filters;
}

/* A 1x1 filter is the same in both orders. */
static double filter_bytes(const struct problem *p)
{
	return p->one && !odd_channels(p) && !odd_filters(p) ? 0 : filter_elements(p) * p->element;
}

/* All that tensor cores cannot read as it is, transposed or padded. */
static double transposed(const struct problem *p)
{
	if (!p->last)
		return x_bytes(p) + y_bytes(p) + filter_bytes(p) + 16;
	if (!odd_channels(p) && !odd_filters(p))
		return 0;
	return (odd_channels(p) ? x_bytes(p) : 0) + (odd_filters(p) ? y_bytes(p) : 0) +
	       filter_bytes(p) + 16;
}

/* How the sum of a filter's gradient over all positions is divided: into parts for `blocks` thread
 * blocks in all, each of which makes a tile of the result, if there are more than `least`
 * positions; a part has at least `each` positions. */
struct division {
	int tile_filters, tile_sum, least, blocks, each, most;
};

static double parts(const struct problem *p, const struct division *by)
{
	if (p->out <= by->least)
		return 0;
	double tiles = up(p->filters * p->groups, by->tile_filters) / by->tile_filters *
	               (up(p->sum, by->tile_sum) / by->tile_sum);
	double n = smaller(smaller(by->blocks / tiles, p->out / by->each), by->most);
	return (double)(uint64_t)n * filter_elements(p) * sizeof(float);
}

static double filter_gradient(const struct problem *p)
{
	static const struct division half = {64, 64, 8000, 80, 128, 64};
	static const struct division half_last = {64, 64, 8000, 100, 512, 128};
	static const struct division half_odd = {128, 256, 16000, 200, 1024, 64};
	static const struct division single = {128, 256, 4000, 66, 1024, 32};
	static const struct division single_one = {128, 64, 300, 100, 64, 64};
	static const struct division single_last = {128, 128, 16000, 132, 1024, 128};
	static const struct division single_last_one = {128, 128, 4000, 264, 128, 128};
	static const struct division single_odd = {128, 256, 0, 264, 64, 80};

	if (p->groups > 1)
		return 0;
	bool odd = odd_channels(p) || odd_filters(p);
	if (p->last && p->half)
		return transposed(p) + parts(p, odd ? &half_odd : &half_last);
	if (p->last)
		return parts(p, odd ? &single_odd : p->one ? &single_last_one : &single_last);
	/* One product of matrices for each image, then their sum; or one for all images if that
	 * saves much. */
	if (p->one && !p->strided) {
		double sums = p->batch * p->filters * p->channels * sizeof(float);
		double together = transposed(p);
		if (p->operations < 1e5)
			return 0;
		return sums > 7 * together || p->operations > 1e9 ? smaller(sums, together) : sums;
	}
	if (p->half)
		return p->operations < 4e6 ? 0 : transposed(p) + parts(p, &half);
	if (p->one)
		return p->operations < 1e7 || p->sum <= 124 ? 0
		                                            : transposed(p) + parts(p, &single_one);
	return p->operations < 1e8 ? 0 : transposed(p) + parts(p, &single);
}

/* The kernel writes its result in the caller's order, so that only the operands are transposed. */
static double transposed_operands(const struct problem *p)
{
	return (p->pass == CUDNN_FORWARD ? x_bytes(p) : y_bytes(p)) + filter_bytes(p) + 16;
}

static double forward_tf32(const struct problem *p)
{
	double ratio = p->filters / p->channels;
	if (p->one)
		return p->sum > 124 && (ratio >= 1 || p->out / p->batch <= 1300) ? transposed(p)
		                                                                 : 0;
	if (p->sum <= 124)
		return 0;
	if (ratio >= (p->strided ? 3 : 4) && p->channels >= 24 && p->sum <= 1600 &&
	        p->sum >= (p->strided ? 200 : 400))
		return transposed_operands(p);
	if (p->strided && p->sum <= 400)
		return p->operations > 4e7 ? transposed(p) : 0;
	if (!p->strided && p->sum <= 440)
		return p->out > 47040 ? transposed(p) : 0;
	return p->sum <= 1200 && p->operations < 6e7 ? transposed_operands(p) : transposed(p);
}

static double forward(const struct problem *p)
{
	if (p->groups > 1)
		return !p->last && !p->one && !p->strided && p->channels > 1 &&
		                       (p->half ? p->sum > 61 : p->sum <= 1500)
		               ? transposed(p)
		               : 0;
	if (p->last && p->half) {
		if (odd_channels(p))
			return p->sum <= 150 ? 0 : transposed(p);
		return p->channels > 22 ? transposed(p) : 0;
	}
	if (p->last && p->kernel >= 49)
		return transposed_operands(p);
	if (p->last)
		return p->sum > 31 ? transposed(p) : 0;
	if (p->one && !p->strided)
		return 0;
	if (p->half)
		return p->channels > 4 && p->sum > (p->one ? 16 : 124) ? transposed(p) : 0;
	return forward_tf32(p);
}

static double data_gradient_tf32(const struct problem *p)
{
	if (p->one)
		return p->operations > 7e6 && p->sum > 124 ? transposed(p) : 0;
	if (!p->strided)
		return p->operations > 2.6e8 && p->channels >= 16 ? transposed(p) : 0;
	if (p->channels < 20 || p->out <= 256)
		return 0;
	return p->operations > 2.6e8 || (p->operations > 4e7 && p->sum <= 1600) ? transposed(p) : 0;
}

static double data_gradient(const struct problem *p)
{
	if (p->groups > 1)
		return p->half && !p->last && !p->one && !p->strided && p->channels > 1 &&
		                       p->sum > 61
		               ? transposed(p)
		               : 0;
	if (p->last && !p->half && p->step > 2 && p->filters * p->kernel > 308)
		return transposed_operands(p);
	if (p->last)
		return transposed(p);
	if (p->one && !p->strided)
		return 0;
	if (p->half)
		return p->one || p->operations > 6.1e6 || (p->bfloat16 && p->filters > 10)
		               ? transposed(p)
		               : 0;
	return data_gradient_tf32(p);
}

/* Without tensor cores, kernels read the order that PyTorch has by default: of channels-last
 * tensors, copies are made. */
static double single_precision(const struct problem *p)
{
	if (!p->last || p->groups > 1 || p->pass == CUDNN_BACKWARD_FILTER ||
	        (p->pass == CUDNN_FORWARD && p->channels <= 56))
		return 0;
	return (p->in * p->channels + p->out * p->filters +
	               (p->one ? 0 : p->channels * p->kernel * p->filters)) *
	               p->element +
	       16;
}

static bool describe(const struct gm_sim_cudnn_convolution *convolution, struct problem *ret)
{
	const struct gm_sim_cudnn_tensor *x = &convolution->x, *filter = &convolution->filter;
	const struct gm_sim_cudnn_tensor *y = &convolution->y, *all[] = {x, filter, y};
	for (int i = 0; i < 3; i++) {
		if (all[i]->count < 3 || all[i]->count > CUDNN_DIMENSIONS)
			return false;
		for (int j = 0; j < all[i]->count; j++)
			if (all[i]->dimension[j] < 1)
				return false;
		if (product(all[i], 0) > 1e18) /* no memory has as many elements */
			return false;
		if (channels_last(all[i]))
			ret->last = true;
	}
	int type = x->type;
	ret->pass = convolution->pass;
	ret->half = type == HALF || type == BFLOAT16;
	ret->bfloat16 = type == BFLOAT16;
	ret->element = (double)gm_sim_cudnn_bytes(type);
	ret->align = ret->half ? 8 : 4;
	ret->channels = (double)filter->dimension[1];
	ret->groups = up((double)x->dimension[1] / ret->channels, 1);
	ret->filters = up((double)y->dimension[1] / ret->groups, 1);
	ret->kernel = product(filter, 2);
	ret->one = ret->kernel == 1;
	for (int i = 0; i < CUDNN_DIMENSIONS; i++)
		if ((double)convolution->step[i] > ret->step)
			ret->step = (double)convolution->step[i];
	ret->strided = ret->step > 1;
	ret->batch = (double)x->dimension[0];
	ret->in = ret->batch * product(x, 2);
	ret->out = (double)y->dimension[0] * product(y, 2);
	ret->sum = ret->channels * ret->kernel;
	ret->operations = ret->out * ret->filters * ret->groups * ret->sum;
	return ret->half || type == FLOAT;
}

uint64_t gm_sim_cudnn_workspace(
        const struct gm_sim_cudnn_convolution *convolution, bool tensor_cores)
{
	struct problem p = {0};
	if (!describe(convolution, &p))
		return 0;
	double bytes = !p.half && !tensor_cores        ? single_precision(&p)
	               : p.pass == CUDNN_FORWARD       ? forward(&p)
	               : p.pass == CUDNN_BACKWARD_DATA ? data_gradient(&p)
	                                               : filter_gradient(&p);
	return (uint64_t)smaller(bytes, 1e18);
}
