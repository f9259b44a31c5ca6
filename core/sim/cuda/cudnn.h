/*
 * What the files that answer for cuDNN share: cudnn.c (handles, descriptors, sizes),
 * cudnn_convolution.c (workspaces), cudnn_convolution_old.c, cudnn_rnn.c and cudnn_graph.c (the
 * backend API).
 *
 * Not from NVIDIA's headers, which a build need not have: the functions have kept their arguments
 * since cuDNN 8, and all handles and descriptors are opaque to the caller. Enumerators are
 * cuDNN 9.19's (cudnn_graph_v9.h, cudnn_adv_v9.h).
 */
#ifndef GM_SIM_CUDA_CUDNN_H
#define GM_SIM_CUDA_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CUDNN_SUCCESS = 0,
	CUDNN_NOT_INITIALIZED = 1001,
	CUDNN_BAD_PARAM = 2000,
	CUDNN_NOT_SUPPORTED = 3000,
	CUDNN_NO_HOST_MEMORY = 4003,
	CUDNN_DIMENSIONS = 8, /* CUDNN_DIM_MAX */
};

/* cudnnHandle_t */
struct cudnn {
	void *stream;
};

/*
 * Every descriptor of the older API. Only what sizes are computed from is kept; the largest kind,
 * an RNN's, decides the size of all.
 */
struct descriptor {
	int type, format;
	int count;
	int dimension[CUDNN_DIMENSIONS];
	int stride[CUDNN_DIMENSIONS];
	int mode, bias, directions, input, hidden, projection, layers;
	int length, batch; /* of RNN data */
	void *states;
};

/* Bytes of one element of a cudnnDataType_t; 0 where there is no such type. */
size_t gm_sim_cudnn_bytes(int type);

struct gm_sim_cudnn_tensor {
	int type;
	int count;
	int64_t dimension[CUDNN_DIMENSIONS], stride[CUDNN_DIMENSIONS];
};

/* `step` is what cuDNN calls a filter's stride; `stride` is that of a tensor in memory. */
enum gm_sim_cudnn_pass { CUDNN_FORWARD, CUDNN_BACKWARD_DATA, CUDNN_BACKWARD_FILTER };
struct gm_sim_cudnn_convolution {
	enum gm_sim_cudnn_pass pass;
	struct gm_sim_cudnn_tensor x, filter, y;
	int64_t step[CUDNN_DIMENSIONS];
};

/* An estimate of the bytes that cuDNN asks for (cudnn_convolution.c). In single precision, tensor
 * cores mean TF32. */
uint64_t gm_sim_cudnn_workspace(
        const struct gm_sim_cudnn_convolution *convolution, bool tensor_cores);

#define CUDNN_API(name, ...)   \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

#endif
