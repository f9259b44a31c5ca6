/*
 * The contents of a core that gpumem writes: which parts of the memory, in which order. Internal to
 * the image room.
 *
 * Left out are: memory of devices (the driver's and the simulated device's), what the program
 * itself asked to leave out (MADV_DONTDUMP), what cannot be read (PROT_NONE), pages that were never
 * touched, and pages that are as they are in a file on disk. Of each mapped file the first page
 * is kept: it has the ELF header and the build-id, by which readers recognise the file.
 */
#ifndef GM_IMAGE_CORE_PLAN_H
#define GM_IMAGE_CORE_PLAN_H

#include "base/array.h"
#include "image/image.h"

enum gm_part_kind {
	GM_PART_NONE,    /* nothing of it is saved */
	GM_PART_TOUCHED, /* pages that were touched; the others are holes of the file, which read as
	                    zero */
	GM_PART_ALL,     /* every page of the saved bytes */
};

/* One PT_LOAD. */
struct gm_core_part {
	uint64_t start, end;
	uint64_t saved; /* bytes from `start` on that have their place in the file */
	uint32_t flags; /* enum gm_mapping_flags */
	enum gm_part_kind kind;
	bool zero_tail; /* what is behind the saved bytes was never touched: it reads as zero */
};

struct gm_core_plan {
	GM_ARRAY(struct gm_core_part) parts; /* by address */
	int pagemap;    /* /proc/PID/pagemap, or -1: every page counts as touched */
	uint64_t bytes; /* of memory to be read: the size, holes left out */
	/* what is left out, in bytes of address space */
	uint64_t device, untouched, files;
};

struct gm_error *gm_core_plan_init(struct gm_image *image, struct gm_core_plan *ret_plan);
void gm_core_plan_deinit(struct gm_core_plan *plan);

enum gm_page_state {
	GM_PAGE_TOUCHED = 1, /* it has memory, or is in swap */
	GM_PAGE_OF_FILE = 2, /* and that memory is the file's own, or shared memory */
};
enum { GM_PAGES_AT_ONCE = 4096 };
/* States of up to GM_PAGES_AT_ONCE pages from `start` on. */
void gm_core_plan_pages(
        const struct gm_core_plan *plan, uint64_t start, size_t count, uint8_t *ret_states);

#endif
