#include "image/memory.h"

#include "image/internal.h"

size_t gm_image_touched(struct gm_image *image, uint64_t start, uint64_t end,
        struct gm_range *ret_ranges, size_t max)
{
	size_t count;
	if (image->kind->touched &&
	        image->kind->touched(image, start, end, ret_ranges, max, &count))
		return count;
	ret_ranges[0] = (struct gm_range){start, end};
	return 1;
}

uint64_t gm_image_next_touched(struct gm_image *image, uint64_t start, uint64_t end)
{
	return image->kind->next_touched ? image->kind->next_touched(image, start, end) : start;
}

uint64_t gm_image_resident(struct gm_image *image)
{
	return image->kind->resident ? image->kind->resident(image) : 0;
}

void gm_image_borrow_begin(struct gm_image *image)
{
	if (image->borrowing++ == 0)
		image->borrowable = image->kind->borrow_begin && image->kind->borrow_begin(image);
}

void gm_image_borrow_end(struct gm_image *image)
{
	if (--image->borrowing > 0 || !image->borrowable)
		return;
	image->borrowable = false;
	image->kind->borrow_end(image);
}

bool gm_image_borrow(struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed)
{
	return image->borrowable && image->kind->borrow(image, address, ret_borrowed);
}

const uint8_t *gm_image_borrowed_bytes(struct gm_image *image, uint64_t address, size_t size)
{
	struct gm_borrowed borrowed;
	return gm_image_borrow(image, address, &borrowed) && size <= borrowed.end - address
	               ? borrowed.bytes + (address - borrowed.start)
	               : NULL;
}
