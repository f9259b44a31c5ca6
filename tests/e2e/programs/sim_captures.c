/*
 * Captures of several threads at the same time on the simulated device, and graphs that launch
 * graphs. Prints the lines that did not hold, and how many did.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "holds.h"

enum { THREADS = 4, ROUNDS = 200, NODES = 200, BYTES = 4096 };

/* cuBLAS, whose header is not needed for it. */
int cublasCreate_v2(void **handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasSscal_v2(void *handle, int n, const float *alpha, float *x, int step);

#define OK(call) HOLDS((call) == cudaSuccess)

static size_t nodes_of(cudaGraph_t graph)
{
	size_t count = 0;
	return cudaGraphGetNodes(graph, NULL, &count) == cudaSuccess ? count : (size_t)-1;
}

static _Atomic int wrong, ended;
static pthread_barrier_t together;

/* Captures its own memsets and a library's calls, and counts them. */
static void *captures(void *data)
{
	int number = *(int *)data;
	cudaStream_t stream, side;
	cudaEvent_t fork, join;
	char *memory, copy[BYTES];
	void *handle;
	float one = 1;
	int bad = cudaStreamCreate(&stream) || cudaStreamCreate(&side) ||
	          cublasCreate_v2(&handle) || cudaEventCreate(&fork) || cudaEventCreate(&join) ||
	          cudaMalloc((void **)&memory, BYTES);
	pthread_barrier_wait(&together);
	for (int round = 0; round < ROUNDS && !bad; round++) {
		cudaGraph_t graph;
		cudaGraphExec_t exec;
		size_t count = 0;
		bad |= cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
		bad |= cudaEventRecord(fork, stream) || cudaStreamWaitEvent(side, fork, 0);
		for (int i = 0; i < NODES; i++) {
			cudaStream_t at = i % 3 ? stream : side;
			bad |= cudaMemsetAsync(memory, number + 1, BYTES, at);
			bad |= cublasSetStream_v2(handle, at) ||
			       cublasSscal_v2(handle, 1, &one, (float *)memory, 1);
		}
		bad |= cudaEventRecord(join, side) || cudaStreamWaitEvent(stream, join, 0);
		bad |= cudaStreamEndCapture(stream, &graph);
		if (bad)
			break;
		count = nodes_of(graph);
		bad |= count != 2 * NODES;
		bad |= cudaMemset(memory, 0, BYTES) || cudaGraphInstantiate(&exec, graph, 0);
		bad |= cudaGraphLaunch(exec, stream) || cudaStreamSynchronize(stream);
		bad |= cudaMemcpy(copy, memory, BYTES, cudaMemcpyDeviceToHost);
		bad |= copy[0] != number + 1 || copy[BYTES - 1] != number + 1;
		bad |= cudaGraphExecDestroy(exec) || cudaGraphDestroy(graph);
	}
	wrong += bad;
	ended++;
	return NULL;
}

/* Works beside them, on a stream of its own that is never captured, also with a library. */
static void *works(void *data)
{
	cudaStream_t stream;
	void *handle;
	char *memory;
	float one = 1;
	int bad = cudaStreamCreate(&stream) || cublasCreate_v2(&handle) ||
	          cudaMalloc((void **)&memory, BYTES) || cublasSetStream_v2(handle, stream);
	pthread_barrier_wait(&together);
	while (ended < THREADS && !bad) {
		bad |= cudaMemsetAsync(memory, 9, BYTES, stream);
		bad |= cublasSscal_v2(handle, 1, &one, (float *)memory, 1);
		bad |= cudaStreamSynchronize(stream);
	}
	wrong += bad;
	return NULL;
}

/* Several streams of one capture, each with its thread. */
static cudaStream_t branch[THREADS];
static char *branch_memory;

static void *fills_branch(void *data)
{
	int number = *(int *)data, bad = 0;
	pthread_barrier_wait(&together);
	for (int i = 0; i < NODES * 400; i++)
		bad |= cudaMemsetAsync(branch_memory + number, number + 1, 1, branch[number]);
	wrong += bad;
	return NULL;
}

static void each_in_a_thread(void *(*function)(void *), int threads)
{
	static int numbers[] = {0, 1, 2, 3, 4, 5};
	pthread_t thread[THREADS + 2];
	pthread_barrier_init(&together, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, i < THREADS ? function : works, &numbers[i]);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&together);
}

static void one_capture_of_many_threads(void)
{
	cudaStream_t first;
	cudaEvent_t fork, join[THREADS];
	cudaGraph_t graph = NULL;
	OK(cudaMalloc((void **)&branch_memory, BYTES));
	OK(cudaStreamCreate(&first));
	OK(cudaEventCreate(&fork));
	OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
	OK(cudaEventRecord(fork, first));
	for (int i = 0; i < THREADS; i++) {
		OK(cudaStreamCreate(&branch[i]));
		OK(cudaEventCreate(&join[i]));
		OK(cudaStreamWaitEvent(branch[i], fork, 0));
	}
	each_in_a_thread(fills_branch, THREADS);
	for (int i = 0; i < THREADS; i++) {
		OK(cudaEventRecord(join[i], branch[i]));
		OK(cudaStreamWaitEvent(first, join[i], 0));
	}
	OK(cudaStreamEndCapture(first, &graph));
	HOLDS(nodes_of(graph) == NODES * 400 * THREADS);
	HOLDS(wrong == 0);
}

/* Each of two captures in one thread gets its own, and forbids what it forbids. */
static void two_captures(void)
{
	cudaStream_t a, b;
	cudaGraph_t graph = NULL, other = NULL;
	enum cudaStreamCaptureStatus status;
	char *memory;
	void *handle;
	float one = 1;
	OK(cudaMalloc((void **)&memory, BYTES));
	OK(cudaStreamCreate(&a));
	OK(cudaStreamCreate(&b));
	OK((cudaError_t)cublasCreate_v2(&handle));
	OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
	OK(cudaStreamBeginCapture(b, cudaStreamCaptureModeRelaxed));
	OK(cudaMemsetAsync(memory, 1, BYTES, a));
	OK((cudaError_t)cublasSetStream_v2(handle, a));
	OK((cudaError_t)cublasSscal_v2(handle, 1, &one, (float *)memory, 1));
	OK(cudaMemsetAsync(memory, 1, BYTES, b));
	OK(cudaStreamEndCapture(b, &other));
	OK(cudaStreamIsCapturing(a, &status));
	HOLDS(status == cudaStreamCaptureStatusActive);
	/* The older one forbids too, whether or not the later has ended. */
	OK((cudaError_t)cublasSscal_v2(handle, 1, &one, (float *)memory, 1));
	OK(cudaStreamEndCapture(a, &graph));
	HOLDS(nodes_of(graph) == 3 && nodes_of(other) == 1);
	OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
	OK(cudaStreamBeginCapture(b, cudaStreamCaptureModeRelaxed));
	OK(cudaMemsetAsync(memory, 1, BYTES, b));
	OK(cudaStreamEndCapture(b, &other));
	HOLDS(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
	HOLDS(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
	cudaGetLastError();
	/* A stream that is destroyed takes its capture with it. */
	OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
	OK(cudaStreamDestroy(a));
	OK(cudaDeviceSynchronize());
}

/* A graph that is launched on a capturing stream is a part of the new graph, as it was then. */
static void graph_in_graph(void)
{
	cudaStream_t stream;
	cudaGraph_t inner = NULL, outer = NULL;
	cudaGraphExec_t inner_exec, outer_exec;
	char *memory, copy[BYTES];
	OK(cudaMalloc((void **)&memory, BYTES));
	OK(cudaMemset(memory, 0, BYTES));
	OK(cudaStreamCreate(&stream));
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	OK(cudaMemsetAsync(memory, 5, BYTES / 2, stream));
	OK(cudaStreamEndCapture(stream, &inner));
	OK(cudaGraphInstantiate(&inner_exec, inner, 0));
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	OK(cudaMemsetAsync(memory, 6, BYTES, stream));
	OK(cudaGraphLaunch(inner_exec, stream));
	OK(cudaStreamEndCapture(stream, &outer));
	HOLDS(nodes_of(outer) == 2);
	OK(cudaMemcpy(copy, memory, BYTES, cudaMemcpyDeviceToHost));
	HOLDS(copy[0] == 0 && copy[BYTES - 1] == 0);
	OK(cudaGraphExecDestroy(inner_exec));
	OK(cudaGraphDestroy(inner));
	OK(cudaGraphInstantiate(&outer_exec, outer, 0));
	OK(cudaGraphDestroy(outer));
	OK(cudaGraphLaunch(outer_exec, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(copy, memory, BYTES, cudaMemcpyDeviceToHost));
	HOLDS(copy[0] == 5 && copy[BYTES - 1] == 6);
	OK(cudaGraphExecDestroy(outer_exec));
}

/* What a program's start-up code calls for a variable of the device. */
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
        size_t size, int constant, int global);

/* The driver's calls with a stream, and those with a symbol, are captured as the others are. */
static void calls_with_a_stream(void)
{
	static char symbol[64], from[64] = "symbol", to[64];
	unsigned *memory, copy[8] = {0};
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec;
	__cudaRegisterVar(NULL, symbol, symbol, "symbol", 0, sizeof(symbol), 0, 0);
	OK(cudaMalloc((void **)&memory, sizeof(copy)));
	OK(cudaMemset(memory, 0, sizeof(copy)));
	OK(cudaStreamCreate(&stream));
	CUdeviceptr at = (CUdeviceptr)memory;
	for (int pass = 0; pass < 2; pass++) {
		if (!pass)
			OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		OK((cudaError_t)cuMemsetD32Async(at, 0x01020304, 2, stream));
		OK((cudaError_t)cuMemsetD32Async(at + 8, 0x07070707, 1, stream));
		OK((cudaError_t)cuMemsetD16Async(at + 12, 0x0506, 2, stream));
		OK((cudaError_t)cuMemsetD8Async(at + 16, 9, 4, stream));
		OK((cudaError_t)cuStreamWriteValue32(stream, at + 20, 0x0a0b0c0d, 0));
		OK(cudaMemcpyToSymbolAsync(
		        symbol, from, sizeof(from), 0, cudaMemcpyHostToDevice, stream));
		OK(cudaMemcpyFromSymbolAsync(
		        to, symbol, sizeof(to), 0, cudaMemcpyDeviceToHost, stream));
		if (!pass) {
			OK(cudaStreamEndCapture(stream, &graph));
			OK(cudaMemcpy(copy, memory, sizeof(copy), cudaMemcpyDeviceToHost));
			HOLDS(!copy[0] && !copy[2] && !copy[3] && !copy[4] && !copy[5] && !*to);
			HOLDS(nodes_of(graph) == 7);
			OK(cudaGraphInstantiate(&exec, graph, 0));
			OK(cudaGraphLaunch(exec, stream));
		}
		OK(cudaMemcpy(copy, memory, sizeof(copy), cudaMemcpyDeviceToHost));
		HOLDS(copy[0] == 0x01020304 && copy[1] == copy[0] && copy[2] == 0x07070707);
		HOLDS(copy[3] == 0x05060506 && copy[4] == 0x09090909 && copy[5] == 0x0a0b0c0d);
		HOLDS(!copy[6] && !copy[7] && strcmp(to, "symbol") == 0);
		memset(to, 0, sizeof(to));
		OK(cudaMemset(memory, 0, sizeof(copy)));
	}
	HOLDS(cuMemsetD32Async(at + 2, 1, 1, stream) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(cuMemsetD16(at + 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	OK((cudaError_t)cuMemsetD32(at, 1, 1));
}

int main(int count, char **words)
{
	calls_with_a_stream();
	graph_in_graph();
	two_captures();
	one_capture_of_many_threads();
	each_in_a_thread(captures, THREADS + 2);
	HOLDS(wrong == 0);
	printf("%d hold, %d do not\n", held, failed);
	return failed != 0;
}
