/* A library with the CUDA runtime linked in statically, none of whose functions it exports; and,
 * built with -DPROGRAM, the program that uses it. */
#include <stddef.h>
#include <stdio.h>

int use_memory(void);

#ifndef PROGRAM
int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);

int use_memory(void)
{
	void *kept, *freed;
	return cudaMalloc(&kept, 7 << 20) || cudaMalloc(&freed, 3 << 20) || cudaFree(freed);
}
#else
int main(void)
{
	return use_memory();
}
#endif
