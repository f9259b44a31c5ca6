/*
 * Which of a program's memory there is to read, and bytes of it that can be used where they lie.
 * The readers above include image.h.
 */
#ifndef GM_IMAGE_MEMORY_H
#define GM_IMAGE_MEMORY_H

#include "image/mapping.h"
#include "image/types.h"

struct gm_image;

/*
 * What was touched of [start, end), whole pages of one mapping, at most GM_TOUCHED_MOST of them:
 * ranges by address, at most `max` (the rest is left out). Where the image cannot tell, all of it.
 * What was never touched reads as zero.
 */
enum { GM_TOUCHED_MOST = 1 << 20 };
size_t gm_image_touched(struct gm_image *image, uint64_t start, uint64_t end,
        struct gm_range *ret_ranges, size_t max);

/*
 * The first page of [start, end), whole pages of one mapping, that was touched: `end` if none was,
 * `start` if the image cannot tell. By it a walk through memory leaves out address space that was
 * reserved and never used.
 */
uint64_t gm_image_next_touched(struct gm_image *image, uint64_t start, uint64_t end);

/* About how much of what a program can write to there is to read; 0: not known. */
uint64_t gm_image_resident(struct gm_image *image);

/*
 * Between these a core, which is a file, is also mapped: its bytes can be used where they lie,
 * without a system call and a copy. They may be nested. Other images have nothing to lend.
 */
void gm_image_borrow_begin(struct gm_image *image);
void gm_image_borrow_end(struct gm_image *image);
/* Those around an address. False: they are to be read. */
bool gm_image_borrow(struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed);
/* `size` bytes at an address, or NULL. */
const uint8_t *gm_image_borrowed_bytes(struct gm_image *image, uint64_t address, size_t size);

#endif
