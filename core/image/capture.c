/*
 * A capture replaces the kind of an image (internal.h), keeps the previous one, and passes on to it
 * what it has no copy of. Each mapping has an area of our own address space of the same size, with
 * its touched pages at the same offsets. These areas are created before the process is stopped
 * (struct gm_capture_buffer), if its mappings are still the same then.
 */
#include "image/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "base/team.h"
#include "image/capture_pointer_free.h"
#include "image/capture_buffer.h"
#include "image/internal.h"

enum { PAGE = GM_PAGE_SIZE, PAGES_PER_WORD = GM_COPY_PAGES_PER_WORD };

struct captured {
	struct gm_copy_area area; /* `touched`: the pages that were copied */
	/* Private and without a file: untouched pages are zero. Otherwise they are read from the
	 * process. */
	bool zero_rest;
	atomic_bool failed; /* part of it could not be read: all of it is read from the process */
};

struct captured_thread {
	pid_t id;
	bool known; /* whether its registers are available */
	struct gm_registers registers;
};

struct gm_capture {
	const struct gm_image_kind *under;
	struct captured *items; /* by address */
	size_t count;
	struct captured_thread *threads;
	size_t thread_count;
	uint64_t bytes, lowest; /* an address is at least as high */
	atomic_uint_fast64_t pointer_free;
	pthread_mutex_t fetching;
	atomic_bool lost;
};

/* --- the captured ranges ---------------------------------------------------------------------- */

static struct captured *find(const struct gm_capture *capture, uint64_t address)
{
	size_t at = gm_partition_point(
	        capture->count, middle, capture->items[middle].area.end <= address);
	if (at == capture->count || capture->items[at].area.start > address)
		return NULL;
	struct captured *found = &capture->items[at];
	return atomic_load_explicit(&found->failed, memory_order_relaxed) ? NULL : found;
}

static bool is_there(const struct captured *captured, uint64_t page)
{
	return captured->area.touched[page / PAGES_PER_WORD] >> page % PAGES_PER_WORD & 1;
}

/* How many bytes from `address` on are of the same kind: copied (*ret_there) or not, at most
 * `size`. */
static size_t alike(const struct captured *captured, uint64_t address, size_t size, bool *ret_there)
{
	uint64_t page = (address - captured->area.start) / PAGE;
	size_t left = (size_t)(captured->area.end - address);
	size = size < left ? size : left;
	*ret_there = captured->zero_rest || is_there(captured, page);
	if (captured->zero_rest)
		return size;
	size_t bytes = PAGE - (size_t)(address % PAGE);
	while (bytes < size && is_there(captured, ++page) == *ret_there)
		bytes += PAGE;
	return bytes < size ? bytes : size;
}

/* How many bytes from `address` on are in the copy, at most `size`; 0: they are lost. */
static size_t get_ready(
        struct gm_image *image, struct captured *captured, uint64_t address, size_t size)
{
	struct gm_capture *capture = image->capture;
	uint64_t start = address, end = address + size;
	if (!captured->area.units)
		return size;
	while (address < end) {
		enum gm_unit_state state = gm_copy_unit_state(&captured->area, address);
		if (state == GM_UNIT_POINTER_FREE) {
			pthread_mutex_lock(&capture->fetching);
			state = gm_copy_fetch(
			        image, capture->under, &captured->area, address, capture->lowest);
			pthread_mutex_unlock(&capture->fetching);
		}
		if (state == GM_UNIT_LOST) {
			atomic_store(&capture->lost, true);
			break;
		}
		address = (address | (GM_COPY_UNIT - 1)) + 1;
	}
	return (size_t)((address < end ? address : end) - start);
}

/* --- the kind --------------------------------------------------------------------------------- */

static size_t captured_read(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	const struct gm_capture *capture = image->capture;
	size_t done = 0;
	while (done < size) {
		uint64_t at = address + done;
		struct captured *captured = find(capture, at);
		bool there = false;
		size_t slice = size - done;
		if (captured)
			slice = alike(captured, at, slice, &there);
		else if (slice > PAGE - at % PAGE)
			slice = (size_t)(PAGE - at % PAGE);
		if (there) {
			slice = get_ready(image, captured, at, slice);
			if (slice == 0) {
				*ret_errno = EFAULT;
				break;
			}
			memcpy((char *)buffer + done,
			        captured->area.bytes + (at - captured->area.start), slice);
			done += slice;
			continue;
		}
		size_t got =
		        capture->under->read(image, at, (char *)buffer + done, slice, ret_errno);
		done += got;
		if (got < slice)
			break;
	}
	return done;
}

static void captured_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int os_error;
		reads[i].failed = captured_read(image, reads[i].address, reads[i].buffer,
		                          reads[i].size, &os_error) != reads[i].size;
	}
}

static struct gm_error *captured_explain(struct gm_image *image, uint64_t address, int os_error)
{
	return image->capture->under->explain(image, address, os_error);
}

static struct gm_error *captured_check_there(const struct gm_image *image)
{
	return NULL;
}

static struct gm_error *captured_threads(
        struct gm_image *image, pid_t **ret_threads, size_t *ret_count)
{
	const struct gm_capture *capture = image->capture;
	pid_t *threads = calloc(capture->thread_count + 1, sizeof(*threads));
	if (!threads)
		return &gm_error_no_memory;
	for (size_t i = 0; i < capture->thread_count; i++)
		threads[i] = capture->threads[i].id;
	*ret_threads = threads;
	*ret_count = capture->thread_count;
	return NULL;
}

static pid_t captured_thread_of(struct gm_image *image, pid_t inside)
{
	const struct gm_image_kind *under = image->capture->under;
	return under->thread_of ? under->thread_of(image, inside) : inside;
}

static struct gm_error *captured_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers)
{
	const struct gm_capture *capture = image->capture;
	for (size_t i = 0; i < capture->thread_count; i++) {
		if (capture->threads[i].id != thread || !capture->threads[i].known)
			continue;
		*ret_registers = capture->threads[i].registers;
		return NULL;
	}
	return gm_error_create(GM_TARGET,
	        "registers of thread %d: they could not be read while the process was stopped",
	        thread);
}

static struct gm_error *captured_file_path(
        const struct gm_image *image, const char *path, char **ret_path)
{
	return image->capture->under->file_path(image, path, ret_path);
}

static struct gm_error *captured_set_sysroot(struct gm_image *image, const char *sysroot)
{
	return image->capture->under->set_sysroot(image, sysroot);
}

static void captured_close(struct gm_image *image)
{
	gm_image_capture_end(image);
	image->kind->close(image);
}

static bool captured_touched(struct gm_image *image, uint64_t start, uint64_t end,
        struct gm_range *ranges, size_t max, size_t *ret_count)
{
	const struct gm_capture *capture = image->capture;
	const struct captured *captured = find(capture, start);
	if (!captured || end > captured->area.end)
		return capture->under->touched &&
		       capture->under->touched(image, start, end, ranges, max, ret_count);
	size_t count = 0;
	for (uint64_t at = start; at < end; at += PAGE)
		if (is_there(captured, (at - captured->area.start) / PAGE) &&
		        !gm_copy_is_pointer_free(&captured->area, at))
			gm_ranges_add_page(ranges, &count, max, at);
	*ret_count = count;
	return true;
}

static uint64_t captured_next_touched(struct gm_image *image, uint64_t start, uint64_t end)
{
	const struct captured *captured = find(image->capture, start);
	if (!captured || end > captured->area.end) {
		const struct gm_image_kind *under = image->capture->under;
		return under->next_touched ? under->next_touched(image, start, end) : start;
	}
	const uint64_t *touched = captured->area.touched;
	uint64_t page = (start - captured->area.start) / PAGE;
	uint64_t last = (end - captured->area.start) / PAGE;
	while (page < last && !is_there(captured, page)) {
		page++;
		while (page % PAGES_PER_WORD == 0 && page < last &&
		        touched[page / PAGES_PER_WORD] == 0)
			page += PAGES_PER_WORD;
	}
	return page < last ? captured->area.start + page * PAGE : end;
}

static uint64_t captured_resident(struct gm_image *image)
{
	return image->capture->bytes;
}

static bool captured_borrow_begin(struct gm_image *image)
{
	return true;
}

enum { GROUP = 256 << 10 }; /* as far as one is borrowed, if part of it is pointer-free */

static bool captured_borrow(
        struct gm_image *image, uint64_t address, struct gm_borrowed *ret_borrowed)
{
	struct captured *captured = find(image->capture, address);
	if (!captured)
		return false;
	uint64_t start = captured->area.start, end = captured->area.end;
	if (captured->area.units) {
		uint64_t group = address & ~(uint64_t)(GROUP - 1);
		start = group > start ? group : start;
		end = end - group > GROUP ? group + GROUP : end;
		for (uint64_t at = start; at < end; at = (at | (GM_COPY_UNIT - 1)) + 1)
			if (gm_copy_is_pointer_free(&captured->area, at))
				return false;
	}
	if (!captured->zero_rest) {
		uint64_t page = (address - captured->area.start) / PAGE,
		         word = page / PAGES_PER_WORD;
		if (!is_there(captured, page))
			return false;
		/* the pages of one word of the bitmap, or only this page */
		bool whole = captured->area.touched[word] == UINT64_MAX;
		uint64_t first =
		        captured->area.start + (whole ? word * PAGES_PER_WORD : page) * PAGE;
		uint64_t behind = first + (whole ? PAGES_PER_WORD : 1) * PAGE;
		start = first > start ? first : start;
		end = behind < end ? behind : end;
	}
	*ret_borrowed = (struct gm_borrowed){
	        start, end, captured->area.bytes + (start - captured->area.start)};
	return true;
}

static void captured_borrow_end(struct gm_image *image)
{
}

static const struct gm_image_kind captured_kind = {
        .read = captured_read,
        .read_many = captured_read_many,
        .touched = captured_touched,
        .next_touched = captured_next_touched,
        .resident = captured_resident,
        .explain = captured_explain,
        .check_there = captured_check_there,
        .threads = captured_threads,
        .thread_of = captured_thread_of,
        .registers = captured_registers,
        .file_path = captured_file_path,
        .set_sysroot = captured_set_sysroot,
        .close = captured_close,
        .borrow_begin = captured_borrow_begin,
        .borrow = captured_borrow,
        .borrow_end = captured_borrow_end,
};

/* --- the copy --------------------------------------------------------------------------------- */

struct slice {
	struct captured *captured;
	uint64_t start, end;
};

struct copying {
	struct gm_image *image;
	struct gm_capture *capture;
	struct gm_capture_buffer *buffer; /* may be NULL */
	GM_ARRAY(struct slice) slices;
	uint64_t most; /* bytes */
};

static bool is_of_no_file(const struct gm_mapping *mapping)
{
	return !(mapping->flags & GM_MAPPING_SHARED) && mapping->path[0] != '/';
}

struct adding {
	struct copying *copying;
	struct captured *captured;
};

static bool add_slice(void *context, struct gm_range range)
{
	const struct adding *adding = context;
	struct gm_copy_area *area = &adding->captured->area;
	uint64_t end = (range.end - area->start) / PAGE;
	for (uint64_t page = (range.start - area->start) / PAGE; page < end; page++)
		area->touched[page / PAGES_PER_WORD] |= UINT64_C(1) << page % PAGES_PER_WORD;
	struct slice slice = {adding->captured, range.start, range.end};
	return gm_array_push(&adding->copying->slices, slice);
}

/* The place of the mapping's copy, and the ranges to copy. */
static bool add_mapping(struct copying *copying, const struct gm_mapping *mapping)
{
	struct gm_capture *capture = copying->capture;
	struct adding adding = {copying, &capture->items[capture->count]};
	struct gm_copy_area area;
	if (!gm_capture_buffer_take(copying->buffer, mapping, &area) &&
	        !gm_copy_area_init(&area, mapping))
		return false;
	*adding.captured = (struct captured){.area = area, .zero_rest = is_of_no_file(mapping)};
	capture->count++;
	return gm_copy_area_each_slice(
	        copying->image, &area, &capture->bytes, copying->most, add_slice, &adding);
}

static void copy_slice(void *context, size_t number)
{
	struct copying *copying = context;
	struct gm_capture *capture = copying->capture;
	struct slice slice = copying->slices.items[number];
	uint64_t pointer_free;
	if (!gm_copy_slice(copying->image, capture->under, &slice.captured->area,
	            (struct gm_range){slice.start, slice.end}, capture->lowest, &pointer_free))
		atomic_store(&slice.captured->failed, true);
	atomic_fetch_add(&capture->pointer_free, pointer_free);
}

static bool copy_threads(struct copying *copying)
{
	struct gm_capture *capture = copying->capture;
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	_cleanup_error_ struct gm_error *error = gm_image_threads(copying->image, &threads, &count);
	if (error)
		return false;
	capture->threads = calloc(count + 1, sizeof(*capture->threads));
	if (!capture->threads)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct captured_thread *thread = &capture->threads[capture->thread_count++];
		_cleanup_error_ struct gm_error *unread =
		        gm_image_registers(copying->image, threads[i], &thread->registers);
		thread->id = threads[i];
		thread->known = !unread;
	}
	return true;
}

static bool copy(struct copying *copying)
{
	struct gm_image *image = copying->image;
	copying->capture->items = calloc(image->maps.count + 1, sizeof(*copying->capture->items));
	if (!copying->capture->items || !copy_threads(copying))
		return false;
	for (size_t i = 0; i < image->maps.count; i++) {
		const struct gm_mapping *mapping = &image->maps.items[i];
		if (gm_mapping_is_memory(mapping) && !add_mapping(copying, mapping))
			return false;
	}
	gm_team_run(copying->slices.count, copy_slice, copying);
	return true;
}

static void destroy_item(void *context, size_t number)
{
	struct gm_capture *capture = context;
	gm_copy_area_deinit(&capture->items[number].area);
}

static void destroy(struct gm_capture *capture)
{
	gm_team_run(capture->count, destroy_item, capture); /* the kernel frees a gigabyte */
	pthread_mutex_destroy(&capture->fetching);
	free(capture->items);
	free(capture->threads);
	free(capture);
}

bool gm_image_capture(struct gm_image *image, struct gm_capture_buffer *buffer, uint64_t *ret_bytes)
{
	if (!gm_capture_is_possible(image))
		return false;
	struct gm_capture *capture = calloc(1, sizeof(*capture));
	if (!capture)
		return false;
	capture->under = image->kind;
	capture->lowest = gm_lowest_address(image);
	pthread_mutex_init(&capture->fetching, NULL);
	/* with a buffer, most of the memory has been allocated already */
	struct copying copying = {.image = image,
	        .capture = capture,
	        .buffer = buffer,
	        .most = gm_capture_most(buffer)};
	bool done = gm_image_resident(image) <= copying.most && copy(&copying);
	gm_array_deinit(&copying.slices);
	if (!done) {
		destroy(capture);
		return false;
	}
	image->capture = capture;
	image->kind = &captured_kind;
	*ret_bytes = capture->bytes;
	return true;
}

bool gm_image_capture_lost(const struct gm_image *image)
{
	return image && image->capture && atomic_load(&image->capture->lost);
}

uint64_t gm_image_pointer_free(const struct gm_image *image)
{
	return image->capture ? atomic_load(&image->capture->pointer_free) : 0;
}

void gm_image_capture_end(struct gm_image *image)
{
	if (!image || !image->capture)
		return;
	gm_image_read_cache_end(image);
	image->kind = image->capture->under;
	destroy(image->capture);
	image->capture = NULL;
	gm_image_invalidate(image);
}
