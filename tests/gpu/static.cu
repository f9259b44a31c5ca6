/* A CUDA program without PyTorch, with NVIDIA's static runtime inside; what it allocates is known. */
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void fill(float *to, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		to[i] = i;
}

int main(void)
{
	float *kept, *freed, *async;
	void *pinned, *managed;
	int bad = cudaMalloc(&kept, 7 << 20) || cudaMalloc(&freed, 3 << 20);
	fill<<<100, 256>>>(kept, 25600);
	bad = bad || cudaDeviceSynchronize() || cudaFree(freed) || cudaMallocAsync(&async, 2 << 20, 0) || cudaFreeAsync(async, 0);
	bad = bad || cudaMallocHost(&pinned, 4 << 20) || cudaMallocManaged(&managed, 5 << 20);
	printf("status %d\n", bad);
	return bad;
}
