/* What takes and returns memory in CUDA's runtime, for programs without CUDA's headers. */
#ifndef RUNTIME_CALLS_H
#define RUNTIME_CALLS_H

#include <stddef.h>

int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);
int cudaMallocAsync(void **pointer, size_t size, void *stream);
int cudaFreeAsync(void *pointer, void *stream);
int cudaMallocManaged(void **pointer, size_t size, unsigned flags);
int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
int cudaMallocHost(void **pointer, size_t size);
int cudaHostAlloc(void **pointer, size_t size, unsigned flags);
int cudaFreeHost(void *pointer);

#endif
