#include "holders/heap/thread_record.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum {
	STEP = 64,                 /* struct pthread is aligned to this (glibc, nptl/descr.h) */
	RECORD_BYTES = 4096,       /* at least sizeof(struct pthread), */
	MOST_ABOVE = 8192,         /* and what is between its address and the stack's end */
	BYTES_AT_ONCE = 64 << 10,  /* of a stack that is searched, */
	SEARCHED_BYTES = 64 << 20, /* and of it altogether */
	PAGE = 4096,
	LEAST_ADDRESS = 64 << 10, /* the kernel maps nothing below (vm.mmap_min_addr) */
};

/* struct pthread has its own address twice (sysdeps/x86_64/nptl/tls.h: tcbhead_t.tcb, .self). */
static bool is_record(const uint64_t words[3], uint64_t address)
{
	return words[0] == address && words[2] == address;
}

/*
 * The consecutive members stackblock, stackblock_size and guardsize are recognized by the values
 * that they must have: glibc puts the record at the end of the memory that it describes
 * (nptl/allocatestack.c), whether it mapped that memory itself or pthread_attr_setstack() named it.
 * Such memory may begin anywhere.
 */
static bool read_record(struct gm_image *image, uint64_t record, struct gm_stack_range *ret)
{
	uint64_t words[RECORD_BYTES / 8];
	size_t count = gm_image_read_some(image, record, words, sizeof(words)) / 8;
	if (count < 3 || !is_record(words, record))
		return false;
	for (size_t i = 3; i + 2 < count; i++) {
		uint64_t block = words[i], size = words[i + 1], guard = words[i + 2];
		if (block < LEAST_ADDRESS || block >= record || guard % PAGE != 0 ||
		        size <= record - block || size - (record - block) > MOST_ABOVE ||
		        guard >= record - block)
			continue;
		*ret = (struct gm_stack_range){
		        .start = block + guard, .end = block + size, .record = record};
		return true;
	}
	return false;
}

static bool search(
        struct gm_image *image, uint64_t pointer, uint64_t last, struct gm_stack_range *ret)
{
	_cleanup_free_ uint64_t *words = malloc(BYTES_AT_ONCE);
	uint64_t at = pointer & ~(uint64_t)(STEP - 1);
	if (last - pointer > SEARCHED_BYTES)
		last = pointer + SEARCHED_BYTES;
	while (words && at < last) {
		size_t size = last - at < BYTES_AT_ONCE ? (size_t)(last - at) : BYTES_AT_ONCE;
		size_t got = gm_image_read_some(image, at, words, size);
		for (size_t i = 0; (i + 3) * 8 <= got; i += STEP / 8)
			if (is_record(&words[i], at + i * 8) &&
			        read_record(image, at + i * 8, ret) && ret->start <= pointer)
				return true;
		if (got < size)
			return false;
		at += size;
	}
	return false;
}

bool gm_thread_record_find(struct gm_image *image, const struct gm_registers *registers,
        uint64_t last, struct gm_stack_range *ret)
{
	if (registers->thread_pointer)
		return read_record(image, registers->thread_pointer, ret);
	return search(image, registers->value[GM_RSP], last, ret);
}
