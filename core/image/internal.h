/*
 * Inside of the image room: what image.c (reading, cache, mappings), memory.c and the kinds of
 * image after them (live.c) share. Nothing outside core/image includes this.
 */
#ifndef GM_IMAGE_INTERNAL_H
#define GM_IMAGE_INTERNAL_H

#include <sys/types.h>

#include "base/error.h"
#include "image/maps.h"
#include "image/page_cache.h"
#include "image/types.h"

struct gm_image;

/*
 * What a kind of image does. `read` reads as many bytes as it can from `address` on and returns
 * their number; where that is less than `size`, *ret_errno says why (EFAULT: the address, ESRCH:
 * the process ended, EPERM: refused). `explain` turns a failed read at `address` into an error for
 * the user. Every member may be called by several threads at once, except refresh and close.
 */
struct gm_image_kind {
	size_t (*read)(struct gm_image *image, uint64_t address, void *buffer, size_t size,
	        int *ret_errno);
	void (*read_many)(struct gm_image *image, struct gm_read *reads, size_t count);
	struct gm_error *(*explain)(struct gm_image *image, uint64_t address, int os_error);
	struct gm_error *(*refresh)(struct gm_image *image, struct gm_maps *ret_maps);
	struct gm_error *(*check_whole)(const struct gm_image *image); /* NULL: always whole */
	struct gm_error *(*threads)(struct gm_image *image, pid_t **ret_threads, size_t *ret_count);
	pid_t (*thread_of)(struct gm_image *image, pid_t inside); /* NULL: numbered alike */
	struct gm_error *(*registers)(
	        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers);
	struct gm_error *(*file_path)(
	        const struct gm_image *image, const char *path, char **ret_path);
	struct gm_error *(*check_there)(const struct gm_image *image); /* NULL: it cannot go */
	/* NULL: none can be missing */
	struct gm_error *(*files)(
	        struct gm_image *image, struct gm_image_file **ret_files, size_t *ret_count);
	struct gm_error *(*set_sysroot)(struct gm_image *image, const char *sysroot);
	void (*close)(struct gm_image *image);
	/* As gm_image_touched(); false: it cannot tell. NULL: never can. */
	bool (*touched)(struct gm_image *image, uint64_t start, uint64_t end,
	        struct gm_range *ranges, size_t max, size_t *ret_count);
	/* As gm_image_next_touched(); NULL: it cannot tell. */
	uint64_t (*next_touched)(struct gm_image *image, uint64_t start, uint64_t end);
	/* How much of the program's memory there is to read; NULL: all that is mapped. */
	uint64_t (*resident)(struct gm_image *image);
	/* Between begin and end: as gm_image_borrow(). `begin` says whether there is something to
	 * borrow this time. NULL, all three: there never is. */
	bool (*borrow_begin)(struct gm_image *image);
	bool (*borrow)(struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed);
	void (*borrow_end)(struct gm_image *image);
	bool one_reader; /* it wants to be read by the thread that opened it */
};

/* The head of every kind of image; a kind's own struct begins with it. */
struct gm_image {
	const struct gm_image_kind *kind;
	pid_t pid; /* 0: no process */
	pid_t main_thread;
	struct gm_maps maps;
	struct gm_page_cache cache;
	struct gm_kept *kept;       /* NULL: nothing is kept */
	struct gm_capture *capture; /* NULL: nothing is captured (capture.h) */
	unsigned borrowing;         /* how often it was begun and not ended */
	bool borrowable;
};

/* Puts a range behind the others, in one with the last where it is next to it; beyond `max` ranges
 * it is left out. */
static inline void gm_ranges_add(
        struct gm_range *ranges, size_t *count, size_t max, struct gm_range range)
{
	if (*count > 0 && ranges[*count - 1].end == range.start)
		ranges[*count - 1].end = range.end;
	else if (*count < max)
		ranges[(*count)++] = range;
}

static inline void gm_ranges_add_page(
        struct gm_range *ranges, size_t *count, size_t max, uint64_t page)
{
	gm_ranges_add(ranges, count, max, (struct gm_range){page, page + GM_PAGE_SIZE});
}

/* Fills in the common part and reads the mappings; on an error the kind's close has not been
 * called. */
struct gm_error *gm_image_init(struct gm_image *image, const struct gm_image_kind *kind, pid_t pid);
void gm_image_deinit(struct gm_image *image);

#endif
