/* A library that speaks to the CUDA driver itself, as one with the runtime linked in statically
 * does; and, built with -DPROGRAM, the program that uses it: with "rounds", once for each empty
 * line on its standard input. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuMemAlloc_v2(uint64_t *pointer, size_t size);
int cuMemFree_v2(uint64_t pointer);
int cuMemHostAlloc(void **pointer, size_t size, unsigned flags);
int cuMemFreeHost(void *pointer);
int cuMemAllocPitch_v2(
        uint64_t *pointer, size_t *pitch, size_t width, size_t height, unsigned element);
int cuMemAllocFromPoolAsync(uint64_t *pointer, size_t size, void *pool, void *stream);
int cuMemFreeAsync(uint64_t pointer, void *stream);
int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, uint64_t flags);
int cuMemUnmap(uint64_t pointer, size_t size);
int cuArrayCreate_v2(void **array, const void *descriptor);
int cuptiSubscribe(void **subscriber, void *callback, void *user);

void use_memory(void);

#ifndef PROGRAM
void use_memory(void)
{
	uint64_t kept, freed, pitched, pooled, refused;
	size_t pitch;
	void *pinned, *array;
	const struct {
		size_t width, height;
		uint32_t format, channels;
	} descriptor = {64, 32, 0x20 /* float */, 2};
	cuMemAlloc_v2(&kept, 7 << 20);
	cuMemAlloc_v2(&freed, 1 << 20);
	cuMemFree_v2(freed);
	cuMemAlloc_v2(&refused, (size_t)1 << 45);
	cuMemAllocPitch_v2(&pitched, &pitch, 1000, 10, 4);
	cuMemAllocFromPoolAsync(&pooled, 3 << 20, NULL, NULL);
	cuMemFreeAsync(pooled, NULL);
	cuMemHostAlloc(&pinned, 2 << 20, 0);
	cuMemMap(0x700000000000, 20 << 20, 0, 1, 0);
	cuMemUnmap(0x700000000000, 20 << 20);
	cuArrayCreate_v2(&array, &descriptor);
}
#else
int main(int argc, char **argv)
{
	void *subscriber;
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "rounds") == 0) {
		for (puts("begun"); fflush(stdout) == 0 && getchar() == '\n'; puts("done"))
			use_memory();
	} else {
		use_memory();
	}
	/* a profiler of the program's own */
	if (*what) {
		printf("subscribed %d\n", cuptiSubscribe(&subscriber, (void *)main, NULL));
		return 0;
	}
	return 0;
}
#endif
