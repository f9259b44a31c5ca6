/*
 * The build-id of an ELF file, of which some bytes are at hand: on disk, or in the memory that it
 * was mapped to. It tells whether two copies are the same build.
 */
#ifndef GM_IMAGE_BUILD_ID_H
#define GM_IMAGE_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GM_BUILD_ID_MAX = 64, GM_BUILD_ID_TEXT = 2 * GM_BUILD_ID_MAX + 1 };

struct gm_build_id {
	size_t size; /* 0: none */
	uint8_t bytes[GM_BUILD_ID_MAX];
};

/* Bytes of the file from `offset` on; false: not all of them are there. */
typedef bool (*gm_file_bytes)(void *context, uint64_t offset, void *buffer, size_t size);

/* The build-id in a file's or a module's notes, which are `size` bytes; one of more than `most`
 * bytes is passed over. */
bool gm_build_id_in_notes(
        const uint8_t *notes, size_t size, size_t most, struct gm_build_id *ret_id);
/* False: it is not an ELF file of x86-64, it has no build-id, or that cannot be read. */
bool gm_build_id_read(gm_file_bytes bytes, void *context, struct gm_build_id *ret_id);
bool gm_build_id_equal(const struct gm_build_id *left, const struct gm_build_id *right);
/* Hexadecimal. Returns `text`. */
const char *gm_build_id_text(const struct gm_build_id *id, char text[GM_BUILD_ID_TEXT]);

#endif
