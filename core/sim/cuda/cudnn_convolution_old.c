/* cuDNN's older functions for convolutions, one for each pass; the graph API is in cudnn_graph.c.
 */
#include "sim/cuda/cudnn.h"
#include "sim/cuda/sim.h"

#define D const struct descriptor *

/* cudnnMathType_t: CUDNN_FMA_MATH allows no tensor cores in single precision. */
enum { FMA_MATH = 3 };

CUDNN_API(cudnnSetConvolutionNdDescriptor, struct descriptor *convolution, int count,
        const int *padding, const int *steps, const int *dilation, int mode, int type)
{
	if (!convolution || count < 1 || count > CUDNN_DIMENSIONS || !steps)
		return CUDNN_BAD_PARAM;
	convolution->count = count;
	for (int i = 0; i < count; i++)
		convolution->stride[i] = steps[i];
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnSetConvolution2dDescriptor, struct descriptor *convolution, int pad_h, int pad_w,
        int step_h, int step_w, int dilation_h, int dilation_w, int mode, int type)
{
	if (!convolution)
		return CUDNN_BAD_PARAM;
	convolution->count = 2;
	convolution->stride[0] = step_h;
	convolution->stride[1] = step_w;
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnSetConvolutionMathType, struct descriptor *convolution, int math)
{
	if (!convolution)
		return CUDNN_BAD_PARAM;
	convolution->mode = math;
	return CUDNN_SUCCESS;
}

static struct gm_sim_cudnn_tensor tensor(D from)
{
	struct gm_sim_cudnn_tensor tensor = {.type = from->type, .count = from->count};
	for (int i = 0; i < from->count; i++) {
		tensor.dimension[i] = from->dimension[i];
		tensor.stride[i] = from->stride[i];
	}
	return tensor;
}

static uint64_t workspace(enum gm_sim_cudnn_pass pass, D x, D filter, D y, D how)
{
	if (!x || !filter || !y || !how)
		return 0;
	struct gm_sim_cudnn_convolution convolution = {
	        .pass = pass, .x = tensor(x), .filter = tensor(filter), .y = tensor(y)};
	for (int i = 0; i < how->count; i++)
		convolution.step[i] = how->stride[i];
	return gm_sim_cudnn_workspace(&convolution, how->mode != FMA_MATH);
}

/* cudnnConvolution…AlgoPerf_t, the same for the three passes. */
struct performance {
	int algorithm, status;
	float time;
	size_t memory;
	int determinism, math, reserved[3];
};

/* Algorithm 1 is the usual one for each pass: implicit GEMM with precomputed indices, or that of
 * its gradients. */
static int algorithm(int wanted, int *ret_count, struct performance *results, uint64_t memory)
{
	if (wanted < 1 || !ret_count || !results)
		return CUDNN_BAD_PARAM;
	*results = (struct performance){
	        .algorithm = 1, .time = 1.0f, .memory = memory, .determinism = 1, .math = 1};
	*ret_count = 1;
	return CUDNN_SUCCESS;
}

#define CONVOLUTION(Pass, pass, a, b, c, d, x, filter, y)                                        \
	CUDNN_API(cudnnGetConvolution##Pass##Algorithm_v7, void *handle, a, b, c, d, int wanted, \
	        int *count, struct performance *results)                                         \
	{                                                                                        \
		return algorithm(                                                                \
		        wanted, count, results, workspace(pass, x, filter, y, convolution));     \
	}                                                                                        \
	CUDNN_API(cudnnGetConvolution##Pass##WorkspaceSize, void *handle, a, b, c, d, int which, \
	        size_t *ret)                                                                     \
	{                                                                                        \
		if (!ret)                                                                        \
			return CUDNN_BAD_PARAM;                                                  \
		*ret = workspace(pass, x, filter, y, convolution);                               \
		return CUDNN_SUCCESS;                                                            \
	}

CONVOLUTION(Forward, CUDNN_FORWARD, D x, D w, D convolution, D y, x, w, y)
CONVOLUTION(BackwardData, CUDNN_BACKWARD_DATA, D w, D dy, D convolution, D dx, dx, w, dy)
CONVOLUTION(BackwardFilter, CUDNN_BACKWARD_FILTER, D x, D dy, D convolution, D dw, x, dw, dy)

CUDNN_API(cudnnFindConvolutionForwardAlgorithmEx, void *handle, D x, const void *xp, D w,
        const void *wp, D convolution, D y, void *yp, int wanted, int *count,
        struct performance *results, void *space, size_t size)
{
	return algorithm(wanted, count, results, workspace(CUDNN_FORWARD, x, w, y, convolution));
}

CUDNN_API(cudnnFindConvolutionBackwardDataAlgorithmEx, void *handle, D w, const void *wp, D dy,
        const void *dyp, D convolution, D dx, void *dxp, int wanted, int *count,
        struct performance *results, void *space, size_t size)
{
	return algorithm(
	        wanted, count, results, workspace(CUDNN_BACKWARD_DATA, dx, w, dy, convolution));
}

CUDNN_API(cudnnFindConvolutionBackwardFilterAlgorithmEx, void *handle, D x, const void *xp, D dy,
        const void *dyp, D convolution, D dw, void *dwp, int wanted, int *count,
        struct performance *results, void *space, size_t size)
{
	return algorithm(
	        wanted, count, results, workspace(CUDNN_BACKWARD_FILTER, x, dw, dy, convolution));
}
