/*
 * A CUDA program without PyTorch, and without CUDA's headers: what each call takes is known, so the
 * recording can be held against it. With "wait" it prints "begun", waits for a byte on its standard
 * input first, and for a second one at its end.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime_calls.h"

#define CHECK(call)                                     \
	do {                                            \
		int result = (call);                    \
		if (result) {                           \
			printf(#call ": %d\n", result); \
			return 1;                       \
		}                                       \
	} while (0)

__attribute__((noinline)) static void *take(size_t size)
{
	void *pointer = NULL;
	cudaMalloc(&pointer, size);
	return pointer;
}

int main(int argc, char **argv)
{
	int waits = argc > 1 && strcmp(argv[1], "wait") == 0;
	void *weights, *managed, *pitched, *async, *pinned, *other, *gone;
	size_t pitch;
	if (waits) {
		puts("begun");
		fflush(stdout);
		getchar();
	}
	weights = take(3 << 20);
	gone = take(1 << 20);
	CHECK(cudaMallocManaged(&managed, 5 << 20, 1));
	CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 100));
	CHECK(cudaMallocAsync(&async, 2 << 20, NULL));
	CHECK(cudaMallocHost(&pinned, 4 << 20));
	CHECK(cudaHostAlloc(&other, 1 << 20, 0));
	CHECK(cudaFree(gone));
	CHECK(cudaFreeAsync(async, NULL));
	CHECK(cudaFreeHost(other));
	printf("device %zu pinned %d\n", (3 << 20) + (5 << 20) + pitch * 100, 4 << 20);
	fflush(stdout);
	if (waits)
		getchar();
	return !(weights && managed && pitched && pinned);
}
