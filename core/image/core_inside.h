/* What the files of a core's image share: core.c (what it is), core_memory.c (its bytes). Inside of
 * the image room. */
#ifndef GM_IMAGE_CORE_INSIDE_H
#define GM_IMAGE_CORE_INSIDE_H

#include <errno.h>

#include "image/core_disk.h"
#include "image/core_file.h"
#include "image/internal.h"

/* Why a read ended, where it is not EFAULT (not mapped). */
enum { NOT_SAVED = ENODATA, CUT_SHORT = EOVERFLOW };

struct core {
	struct gm_image image; /* first */
	char *path;
	struct gm_core_file file;
	struct gm_core_disk disk;
	const uint8_t *bytes; /* of the file, while they are lent */
};

static inline struct core *core_of(const struct gm_image *image)
{
	return (struct core *)image;
}

/* A file's part that is private to the process and was not written to is left out of cores: it is
 * what the file has. */
bool gm_core_is_as_on_disk(const struct gm_core_mapped *mapped);

/* As in struct gm_image_kind. */
size_t gm_core_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno);
void gm_core_read_many(struct gm_image *image, struct gm_read *reads, size_t count);
bool gm_core_touched(struct gm_image *image, uint64_t start, uint64_t end, struct gm_range *ranges,
        size_t max, size_t *ret_count);
uint64_t gm_core_next_touched(struct gm_image *image, uint64_t start, uint64_t end);
uint64_t gm_core_resident(struct gm_image *image);
bool gm_core_borrow_begin(struct gm_image *image);
bool gm_core_borrow(struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed);
void gm_core_borrow_end(struct gm_image *image);

#endif
