/*
 * cuDNN: handles, descriptors and the sizes that PyTorch asks for. Computation is left to stubs.c,
 * which counts it.
 *
 * Sizes of the caller's allocations (workspaces, reserves) are estimates of what cuDNN asks for:
 * the real figures depend on kernels chosen by measured heuristics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/cudnn.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

enum { CUDART = 13010 };

size_t gm_sim_cudnn_bytes(int type)
{
	/* cudnnDataType_t in order: float, double, half, int8, int32, int8x4, uint8, uint8x4,
	   int8x32, bfloat16, int64, boolean, fp8_e4m3, fp8_e5m2. */
	static const unsigned char bytes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8, 1, 1, 1};
	return type >= 0 && (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

static const char *status_name(int status)
{
	switch (status) {
#define ERROR(code, name) \
	case code:        \
		return name;
#include "sim/exports/errors_cudnn9.inc"
#undef ERROR
	default:
		return "CUDNN_UNKNOWN_STATUS";
	}
}

const char *cudnnGetErrorString(int status);
GM_SIM_EXPORT const char *cudnnGetErrorString(int status)
{
	return status_name(status);
}

void cudnnGetLastErrorString(char *message, size_t size);
GM_SIM_EXPORT void cudnnGetLastErrorString(char *message, size_t size)
{
	if (message && size)
		*message = 0;
}

size_t cudnnGetCudartVersion(void);
GM_SIM_EXPORT size_t cudnnGetCudartVersion(void)
{
	return CUDART;
}

CUDNN_API(cudnnCreate, struct cudnn **ret)
{
	if (!ret)
		return CUDNN_BAD_PARAM;
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return CUDNN_NOT_INITIALIZED;
	gm_sim_code_load(device, GM_SIM_CODE_DNN);
	*ret = calloc(1, sizeof(**ret));
	return *ret ? CUDNN_SUCCESS : CUDNN_NO_HOST_MEMORY;
}

CUDNN_API(cudnnDestroy, struct cudnn *handle)
{
	free(handle);
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnSetStream, struct cudnn *handle, void *stream)
{
	if (!handle)
		return CUDNN_BAD_PARAM;
	handle->stream = stream;
	gm_sim_stream_captures(stream);
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnGetStream, struct cudnn *handle, void **ret)
{
	if (!handle || !ret)
		return CUDNN_BAD_PARAM;
	*ret = handle->stream;
	return CUDNN_SUCCESS;
}

#define DESCRIPTOR(Name)                                                         \
	CUDNN_API(cudnnCreate##Name##Descriptor, struct descriptor **ret)        \
	{                                                                        \
		if (!ret)                                                        \
			return CUDNN_BAD_PARAM;                                  \
		*ret = calloc(1, sizeof(**ret));                                 \
		return *ret ? CUDNN_SUCCESS : CUDNN_NO_HOST_MEMORY;              \
	}                                                                        \
	CUDNN_API(cudnnDestroy##Name##Descriptor, struct descriptor *descriptor) \
	{                                                                        \
		free(descriptor);                                                \
		return CUDNN_SUCCESS;                                            \
	}

DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Pooling)
DESCRIPTOR(Activation)
DESCRIPTOR(Dropout)
DESCRIPTOR(SpatialTransformer)
DESCRIPTOR(CTCLoss)
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)
DESCRIPTOR(OpTensor)
DESCRIPTOR(ReduceTensor)
DESCRIPTOR(LRN)

/* Set by arguments that nothing here depends on. */
#define SET_NOTHING(name)                                            \
	CUDNN_API(name, void *descriptor)                            \
	{                                                            \
		return descriptor ? CUDNN_SUCCESS : CUDNN_BAD_PARAM; \
	}

SET_NOTHING(cudnnSetActivationDescriptor)
SET_NOTHING(cudnnSetPooling2dDescriptor)
SET_NOTHING(cudnnSetPoolingNdDescriptor)
SET_NOTHING(cudnnSetSpatialTransformerNdDescriptor)
SET_NOTHING(cudnnSetConvolutionGroupCount)
SET_NOTHING(cudnnSetCTCLossDescriptor)
SET_NOTHING(cudnnSetCTCLossDescriptorEx)

CUDNN_API(cudnnSetCTCLossDescriptor_v9, struct descriptor *descriptor, int type, int normalization,
        int gradient, int length)
{
	if (!descriptor || length < 0)
		return CUDNN_BAD_PARAM;
	descriptor->length = length;
	return CUDNN_SUCCESS;
}

#define VERSION_CHECK(name)           \
	int name(void);               \
	GM_SIM_EXPORT int name(void)  \
	{                             \
		return CUDNN_SUCCESS; \
	}

VERSION_CHECK(cudnnGraphVersionCheck)
VERSION_CHECK(cudnnOpsVersionCheck)
VERSION_CHECK(cudnnCnnVersionCheck)
VERSION_CHECK(cudnnAdvVersionCheck)

static int set(struct descriptor *descriptor, int type, int format, int count,
        const int *dimensions, const int *strides)
{
	if (!descriptor || !dimensions || count < 1 || count > CUDNN_DIMENSIONS ||
	        !gm_sim_cudnn_bytes(type))
		return CUDNN_BAD_PARAM;
	descriptor->type = type;
	descriptor->format = format;
	descriptor->count = count;
	int packed = 1;
	for (int i = count - 1; i >= 0; i--) {
		if (dimensions[i] < 1)
			return CUDNN_BAD_PARAM;
		descriptor->dimension[i] = dimensions[i];
		descriptor->stride[i] = strides ? strides[i] : packed;
		if (__builtin_mul_overflow(packed, dimensions[i], &packed))
			packed = 1; /* no size is computed from it */
	}
	/* CUDNN_TENSOR_NHWC: the channels vary fastest, but the dimensions are given as N, C, H, W
	 * all the same. */
	if (!strides && format == 1 && count > 2) {
		packed = dimensions[1];
		descriptor->stride[1] = 1;
		for (int i = count - 1; i >= 2; i--) {
			descriptor->stride[i] = packed;
			if (__builtin_mul_overflow(packed, dimensions[i], &packed))
				packed = 1;
		}
		descriptor->stride[0] = packed;
	}
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnSetTensorNdDescriptor, struct descriptor *descriptor, int type, int count,
        const int *dimensions, const int *strides)
{
	return strides ? set(descriptor, type, 0, count, dimensions, strides) : CUDNN_BAD_PARAM;
}

CUDNN_API(cudnnSetTensor4dDescriptor, struct descriptor *descriptor, int format, int type, int n,
        int c, int h, int w)
{
	return set(descriptor, type, format, 4, (const int[]){n, c, h, w}, NULL);
}

CUDNN_API(cudnnSetFilterNdDescriptor, struct descriptor *descriptor, int type, int format,
        int count, const int *dimensions)
{
	return set(descriptor, type, format, count, dimensions, NULL);
}

static int get(const struct descriptor *descriptor, int wanted, int *type, int *count,
        int *dimensions, int *strides)
{
	if (!descriptor || wanted < 0)
		return CUDNN_BAD_PARAM;
	if (type)
		*type = descriptor->type;
	if (count)
		*count = descriptor->count;
	for (int i = 0; i < wanted && i < descriptor->count; i++) {
		if (dimensions)
			dimensions[i] = descriptor->dimension[i];
		if (strides)
			strides[i] = descriptor->stride[i];
	}
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnGetTensorNdDescriptor, const struct descriptor *descriptor, int wanted, int *type,
        int *count, int *dimensions, int *strides)
{
	return get(descriptor, wanted, type, count, dimensions, strides);
}

CUDNN_API(cudnnGetFilterNdDescriptor, const struct descriptor *descriptor, int wanted, int *type,
        int *format, int *count, int *dimensions)
{
	if (descriptor && format)
		*format = descriptor->format;
	return get(descriptor, wanted, type, count, dimensions, NULL);
}

#define D const struct descriptor *

/* --- batch normalization: two sums for each channel ------------------------------------------- */

static int two_a_channel(D tensor, size_t *ret)
{
	if (!tensor || !ret)
		return CUDNN_BAD_PARAM;
	*ret = tensor->count > 1 ? (size_t)tensor->dimension[1] * 2 * sizeof(float) : 0;
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, void *handle, int mode, int ops,
        D x, D z, D y, D scale, D activation, size_t *ret)
{
	return two_a_channel(x, ret);
}

CUDNN_API(cudnnGetBatchNormalizationBackwardExWorkspaceSize, void *handle, int mode, int ops, D x,
        D y, D dy, D dz, D dx, D scale, D activation, size_t *ret)
{
	return two_a_channel(x, ret);
}

CUDNN_API(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, void *handle, int mode, int ops,
        D activation, D x, size_t *ret)
{
	if (!x || !ret)
		return CUDNN_BAD_PARAM;
	/* With an activation: one bit for each element, set if the activation passed it. */
	size_t bits = ops ? 1 : 0;
	for (int i = 0; i < x->count; i++)
		bits *= (size_t)x->dimension[i];
	*ret = (bits + 7) / 8;
	return CUDNN_SUCCESS;
}

/* --- dropout: one generator's state for each thread that the device can run ------------------- */

CUDNN_API(cudnnDropoutGetStatesSize, void *handle, size_t *ret)
{
	struct gm_sim_device *device = gm_sim_current();
	int known;
	if (!device || !ret)
		return CUDNN_BAD_PARAM;
	const struct gm_sim_profile *profile = &device->choice.profile;
	*ret = (size_t)gm_sim_profile_attribute(profile, cudaDevAttrMultiProcessorCount, &known) *
	       (size_t)gm_sim_profile_attribute(
	               profile, cudaDevAttrMaxThreadsPerMultiProcessor, &known) *
	       48; /* sizeof(curandStateXORWOW_t) */
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnDropoutGetReserveSpaceSize, D x, size_t *ret)
{
	if (!x || !ret)
		return CUDNN_BAD_PARAM;
	size_t bits = 1;
	for (int i = 0; i < x->count; i++)
		bits *= (size_t)x->dimension[i];
	*ret = (bits + 7) / 8;
	return CUDNN_SUCCESS;
}

static int set_dropout(struct descriptor *descriptor, void *states)
{
	if (!descriptor)
		return CUDNN_BAD_PARAM;
	descriptor->states = states;
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnSetDropoutDescriptor, struct descriptor *descriptor, void *handle, float dropout,
        void *states, size_t size, unsigned long long seed)
{
	/* On a GPU this launches a kernel that starts the generators. */
	GM_SIM_COUNT(gpumem_sim_account.library_not_computed, states != NULL);
	return set_dropout(descriptor, states);
}

CUDNN_API(cudnnRestoreDropoutDescriptor, struct descriptor *descriptor, void *handle, float dropout,
        void *states, size_t size, unsigned long long seed)
{
	return set_dropout(descriptor, states);
}

/* --- CTC: the alphas and betas of each time step, over the labels with blanks between them ---- */

static int ctc(D probabilities, int labels, size_t *ret)
{
	if (!probabilities || probabilities->count < 3 || !ret || labels < 0)
		return CUDNN_BAD_PARAM;
	*ret = (size_t)probabilities->dimension[0] * (size_t)probabilities->dimension[1] *
	       (2 * (size_t)labels + 1) * 2 * sizeof(float);
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnGetCTCLossWorkspaceSize, void *handle, D probabilities, D gradients,
        const int *labels, const int *label_lengths, const int *input_lengths, int algorithm_,
        D loss, size_t *ret)
{
	int longest = 0;
	for (int i = 0; probabilities && label_lengths && probabilities->count > 1 &&
	                i < probabilities->dimension[1];
	        i++)
		if (label_lengths[i] > longest)
			longest = label_lengths[i];
	return ctc(probabilities, longest, ret);
}

CUDNN_API(cudnnGetCTCLossWorkspaceSize_v8, void *handle, int algorithm_, D loss, D probabilities,
        D gradients, size_t *ret)
{
	return ctc(probabilities, loss ? loss->length : 0, ret);
}
