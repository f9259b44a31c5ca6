/*
 * What an image is asked with, and what it answers: registers, reads, borrowed bytes, files. The
 * functions are in image.h and memory.h.
 */
#ifndef GM_IMAGE_TYPES_H
#define GM_IMAGE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"

/* x86-64 general registers in the order of DWARF's register numbers 0..16 (16: return address,
 * rip). */
enum { GM_REGISTER_COUNT = 17 };
/* clang-format off */
enum gm_register {
	GM_RAX = 0, GM_RDX, GM_RCX, GM_RBX, GM_RSI, GM_RDI, GM_RBP, GM_RSP,
	GM_R8, GM_R9, GM_R10, GM_R11, GM_R12, GM_R13, GM_R14, GM_R15, GM_RIP,
};
/* clang-format on */
struct gm_registers {
	uint64_t value[GM_REGISTER_COUNT];
	uint64_t thread_pointer; /* fs_base: where glibc has its struct pthread; 0: not known */
};

/* One of many ranges read at once. `failed` is false where all `size` bytes were read. */
struct gm_read {
	uint64_t address;
	void *buffer;
	size_t size;
	bool failed; /* out */
};

/* Bytes that are lent, of the addresses from `start` up to `end`; valid until
 * gm_image_borrow_end(). */
struct gm_borrowed {
	uint64_t start, end;
	const uint8_t *bytes; /* as many bytes away from a multiple of 8 as `start` is */
};

enum gm_file_state {
	GM_FILE_SAME,
	GM_FILE_MISSING,   /* there is no such file on our disk */
	GM_FILE_DIFFERENT, /* there is one, but of another build */
	GM_FILE_UNKNOWN,   /* there is one, and nothing in the core tells whether it is the same */
};

/* A library that the target had mapped. */
struct gm_image_file {
	const char *path; /* as the target had it */
	enum gm_file_state state;
	const char *found; /* where it is on our disk, NULL: nowhere */
};

#endif
