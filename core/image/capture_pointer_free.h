/*
 * Pointer-free memory (pointer_free.h) is read while the process is stopped, as all memory is, but
 * it is not copied: most of a program's memory may be tensors' numbers. Each 64 KiB gets a hash. If
 * some of it is needed later (the length of a string that fills a page), it is read from the
 * process. If its hash has changed by then, the bytes are lost, and the copy reports that. Internal
 * to the image room.
 */
#ifndef GM_IMAGE_CAPTURE_POINTER_FREE_H
#define GM_IMAGE_CAPTURE_POINTER_FREE_H

#include "image/capture_area.h"
#include "image/internal.h"
#include "image/pointer_free.h"

/* An address above which a word may be one, in this process. */
uint64_t gm_lowest_address(const struct gm_image *image);

/* While the process runs: some pages of the slice are examined. If all are pointer-free, its units
 * are likely to be. */
bool gm_copy_is_likely_pointer_free(
        struct gm_image *image, struct gm_copy_area *area, struct gm_range slice, uint64_t lowest);
/* Reads a slice from `under`, and copies what is not pointer-free to its place. False: some of it
 * could not be read. */
bool gm_copy_slice(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, struct gm_range slice, uint64_t lowest,
        uint64_t *ret_pointer_free);

/* A pointer-free unit is put in its place, if it is still what it was; one thread at a time.
 * Returns its state. */
enum gm_unit_state gm_copy_fetch(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, uint64_t address, uint64_t lowest);

#endif
