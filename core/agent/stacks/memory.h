/* The memory of stacks/, and reading that of the program. */
#ifndef GM_AGENT_STACKS_MEMORY_H
#define GM_AGENT_STACKS_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room of zeros, mapped but touched only as it is used. NULL: none. */
void *gm_stacks_map(size_t size);
void gm_stacks_unmap(void *memory, size_t size);
/* The same memory, zeros again. */
void gm_stacks_clear(void *memory, size_t size);

/* Memory that is given out once and never taken back. */
struct gm_arena {
	char *bytes;
	_Atomic size_t used;
	size_t size;
};
void *gm_arena_take(struct gm_arena *arena, size_t size); /* 8 byte aligned zeros; NULL: full */

enum { GM_PAGE = 4096 };

/*
 * Whether the page of an address is mapped: a tenth of the price of having the kernel copy from it.
 * For what nobody but this thread releases, as another could between the question and the
 * reading.
 */
bool gm_can_read(uint64_t address);

/*
 * Copies `size` bytes, through the kernel, so that an address that is not mapped is an answer and
 * no fault. For what is read a first time, before its layout is trusted.
 */
bool gm_read_checked(uint64_t address, void *ret_bytes, size_t size);

/* What reads the program's memory and stacks wherever they say, also between its variables:
 * AddressSanitizer looks for that. */
#if defined(__SANITIZE_ADDRESS__)
#define GM_READS_ANYWHERE static __attribute__((no_sanitize_address, noinline, unused))
#else
#define GM_READS_ANYWHERE static inline
#endif

GM_READS_ANYWHERE uint64_t gm_load(uint64_t address)
{
	return *(const volatile uint64_t *)address;
}

GM_READS_ANYWHERE uint32_t gm_load32(uint64_t address)
{
	return *(const volatile uint32_t *)address;
}

#endif
