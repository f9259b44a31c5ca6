/* Reports blocks as PyTorch's allocator does, with words on its stack that point to memory which is
 * there at first, and then is not: unmapped, closed to reading, or behind the end of a file that
 * was cut (`gone` 0 to 2). Says "right". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 16, WORDS = 64, ROUNDS = 40 };

/* c10::reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device) */
typedef void report(void *, int64_t, size_t, size_t, unsigned short);
report _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;

static __attribute__((noinline)) void *allocate(uint64_t number, char *page)
{
	void *volatile words[WORDS];
	for (int i = 0; i < WORDS; i++)
		words[i] = page + i * 8;
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
	        (void *)(UINT64_C(0x7000000000) + number * 4096), 4096, number * 4096,
	        number * 4096, 1);
	return words[number % WORDS];
}

static void take_away(char *memory, int file, int gone)
{
	if (gone == 0 && munmap(memory, SIZE) != 0)
		abort();
	if (gone == 1 && mprotect(memory, SIZE, PROT_NONE) != 0)
		abort();
	if (gone == 2 && ftruncate(file, 0) != 0)
		abort();
}

int main(int argc, char **argv)
{
	for (uint64_t round = 0; round < ROUNDS; round++) {
		int gone = atoi(argv[1]), file = memfd_create("some-file", 0);
		if (file < 0 || ftruncate(file, SIZE) != 0)
			return 1;
		char *memory =
		        gone == 2 ? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
		                  : mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(memory, 1, SIZE);
		if (allocate(2 * round, memory) == NULL)
			return 1;
		take_away(memory, file, gone);
		if (allocate(2 * round + 1, memory) == NULL)
			return 1;
		close(file);
	}
	puts("right");
	return 0;
}
