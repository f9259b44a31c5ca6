/*
 * Reads the memory of a core: saved; saved, but the file ends before it (the core was truncated);
 * or mapped but not saved: then a mapped file's bytes are read from the file on disk, if that is
 * the same file (core_disk.h). The parts of the core and the reasons for failures are in core.c.
 */
#include <errno.h>
#include <string.h>

#include "image/core_inside.h"
#include "base/mapped_file.h"

/* --- reading ---------------------------------------------------------------------------------- */

/* Some bytes from `address` on, at least one; 0: *ret_errno has the reason. */
static size_t read_segment(
        struct core *core, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	const struct gm_core_segment *segment = gm_core_file_segment(&core->file, address);
	if (segment) {
		uint64_t skip = address - segment->start;
		if (size > segment->end - address)
			size = (size_t)(segment->end - address);
		if (skip < segment->present) {
			if (size > segment->present - skip)
				size = (size_t)(segment->present - skip);
			if (gm_core_file_read(&core->file, segment->offset + skip, buffer, size))
				return size;
			*ret_errno = CUT_SHORT; /* since we opened it */
			return 0;
		}
		if (skip < segment->saved) {
			*ret_errno = CUT_SHORT;
			return 0;
		}
		if (segment->zero_tail) {
			memset(buffer, 0, size);
			return size;
		}
		/* A file's bytes may have changed in memory only if it was writable, and then they
		 * were saved. */
	}
	const struct gm_core_mapped *mapped = gm_core_file_mapped(&core->file, address);
	if (!segment && !mapped) {
		*ret_errno = EFAULT;
		return 0;
	}
	size_t got = mapped ? gm_core_disk_read(&core->disk, mapped, address, buffer, size) : 0;
	if (got == 0)
		*ret_errno = NOT_SAVED;
	return got;
}

size_t gm_core_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	size_t done = 0;
	while (done < size) {
		size_t got = read_segment(core_of(image), address + done, (char *)buffer + done,
		        size - done, ret_errno);
		if (got == 0)
			break;
		done += got;
	}
	return done;
}

void gm_core_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int os_error;
		reads[i].failed = gm_core_read(image, reads[i].address, reads[i].buffer,
		                          reads[i].size, &os_error) != reads[i].size;
	}
}

bool gm_core_is_as_on_disk(const struct gm_core_mapped *mapped)
{
	return mapped && mapped->path[0] == '/' && strncmp(mapped->path, "/dev/", 5) != 0 &&
	       strncmp(mapped->path, "/memfd:", 7) != 0 && strncmp(mapped->path, "/SYSV", 5) != 0;
}

/* The segment at `address`, if according to the core the bytes after its saved ones were never
 * touched, or belong to a file. */
static const struct gm_core_segment *known_segment(const struct core *core, uint64_t address)
{
	const struct gm_core_segment *segment = gm_core_file_segment(&core->file, address);
	bool known = segment && (segment->zero_tail || gm_core_is_as_on_disk(gm_core_file_mapped(
	                                                       &core->file, segment->start)));
	return known ? segment : NULL;
}

static uint64_t saved_pages_end(const struct gm_core_segment *segment)
{
	return (segment->start + segment->saved + GM_PAGE_SIZE - 1) & ~(uint64_t)(GM_PAGE_SIZE - 1);
}

bool gm_core_touched(struct gm_image *image, uint64_t start, uint64_t end, struct gm_range *ranges,
        size_t max, size_t *ret_count)
{
	const struct gm_core_segment *segment = known_segment(core_of(image), start);
	if (!segment || end > segment->end)
		return false;
	uint64_t saved = saved_pages_end(segment);
	end = end < saved ? end : saved;
	*ret_count = start < end && max > 0;
	if (*ret_count)
		ranges[0] = (struct gm_range){start, end};
	return true;
}

uint64_t gm_core_next_touched(struct gm_image *image, uint64_t start, uint64_t end)
{
	const struct gm_core_segment *segment;
	while (start < end && (segment = known_segment(core_of(image), start)) &&
	        start >= saved_pages_end(segment))
		start = segment->end;
	return start < end ? start : end;
}

/* --- without copying -------------------------------------------------------------------------- */

bool gm_core_borrow_begin(struct gm_image *image)
{
	struct core *core = core_of(image);
	core->bytes = gm_mapped_file_open(core->file.fd, core->file.size);
	return core->bytes != NULL;
}

/* For a mapped file that the core omits, or of which it has only the first page. */
static bool borrow_from_file(struct core *core, const struct gm_core_segment *segment,
        uint64_t address, struct gm_borrowed *ret_borrowed)
{
	const struct gm_core_mapped *mapped = gm_core_file_mapped(&core->file, address);
	/* up to the next segment with other bytes; which are near is not searched for */
	uint64_t start =
	        segment ? segment->start + segment->saved : address - address % GM_PAGE_SIZE;
	uint64_t end = segment ? segment->end : start + GM_PAGE_SIZE, size;
	const uint8_t *bytes = mapped && mapped->start <= start
	                               ? gm_core_disk_borrow(&core->disk, mapped, &size)
	                               : NULL;
	if (!bytes || (mapped->start - mapped->file_offset) % 8 != 0)
		return false;
	end = end - mapped->start < size ? end : mapped->start + size;
	*ret_borrowed = (struct gm_borrowed){start, end, bytes + (start - mapped->start)};
	return address < end;
}

bool gm_core_borrow(struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed)
{
	struct core *core = core_of(image);
	const struct gm_core_segment *segment = gm_core_file_segment(&core->file, address);
	if (!segment || address - segment->start >= segment->saved)
		return !(segment && segment->zero_tail) &&
		       borrow_from_file(core, segment, address, ret_borrowed);
	if (address - segment->start >= segment->present ||
	        (segment->start - segment->offset) % 8 != 0)
		return false;
	*ret_borrowed = (struct gm_borrowed){
	        segment->start, segment->start + segment->present, core->bytes + segment->offset};
	return true;
}

void gm_core_borrow_end(struct gm_image *image)
{
	struct core *core = core_of(image);
	gm_core_disk_borrow_end(&core->disk);
	gm_mapped_file_close(core->bytes, core->file.size);
	core->bytes = NULL;
}

/* --- mappings --------------------------------------------------------------------------------- */

uint64_t gm_core_resident(struct gm_image *image)
{
	const struct gm_core_file *file = &core_of(image)->file;
	uint64_t bytes = 0;
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].flags & GM_MAPPING_WRITE)
			bytes += file->segments[i].present;
	return bytes < file->size ? bytes : file->size; /* in a damaged core, parts may overlap */
}
