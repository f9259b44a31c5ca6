/*
 * Code common to every kind of image: the list of mappings and reading through the page cache. Code
 * for live processes is in live.c.
 */
#include "image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/internal.h"
#include "image/kept.h"

struct gm_error *gm_image_init(struct gm_image *image, const struct gm_image_kind *kind, pid_t pid)
{
	image->kind = kind;
	image->pid = image->main_thread = pid;
	if (!gm_page_cache_init(&image->cache))
		return &gm_error_no_memory;
	return gm_image_refresh(image);
}

void gm_image_deinit(struct gm_image *image)
{
	gm_image_read_cache_end(image);
	gm_maps_deinit(&image->maps);
	gm_page_cache_deinit(&image->cache);
}

void gm_image_close(struct gm_image *image)
{
	if (image)
		image->kind->close(image);
}

pid_t gm_image_pid(const struct gm_image *image)
{
	return image->pid;
}

pid_t gm_image_main_thread(const struct gm_image *image)
{
	return image->main_thread;
}

struct gm_error *gm_image_file_path(const struct gm_image *image, const char *path, char **ret_path)
{
	return image->kind->file_path(image, path, ret_path);
}

struct gm_error *gm_image_set_sysroot(struct gm_image *image, const char *folder)
{
	return image->kind->set_sysroot(image, folder);
}

struct gm_error *gm_image_files(
        struct gm_image *image, struct gm_image_file **ret_files, size_t *ret_count)
{
	if (image->kind->files)
		return image->kind->files(image, ret_files, ret_count);
	*ret_files = NULL;
	*ret_count = 0;
	return NULL;
}

bool gm_image_reads_anywhere(const struct gm_image *image)
{
	return !image->kind->one_reader;
}

bool gm_image_goes_on(const struct gm_image *image)
{
	return !image->kind->files;
}

struct gm_error *gm_image_check_there(const struct gm_image *image)
{
	return image->kind->check_there ? image->kind->check_there(image) : NULL;
}

struct gm_error *gm_image_check_whole(const struct gm_image *image)
{
	return image->kind->check_whole ? image->kind->check_whole(image) : NULL;
}

struct gm_error *gm_image_refresh(struct gm_image *image)
{
	struct gm_maps maps;
	if (image->capture) /* its mappings are of the same moment as the rest */
		return NULL;
	gm_try(image->kind->refresh(image, &maps));
	gm_maps_deinit(&image->maps);
	image->maps = maps;
	gm_image_invalidate(image);
	return NULL;
}

void gm_image_invalidate(struct gm_image *image)
{
	gm_page_cache_invalidate(&image->cache);
}

const struct gm_mapping *gm_image_mappings(const struct gm_image *image, size_t *ret_count)
{
	*ret_count = image->maps.count;
	return image->maps.items;
}

const struct gm_mapping *gm_image_find_mapping(const struct gm_image *image, uint64_t address)
{
	return gm_maps_find(&image->maps, address);
}

void gm_image_read_cache_begin(struct gm_image *image)
{
	gm_image_read_cache_end(image);
	image->kept = gm_kept_create(image);
}

struct gm_kept *gm_image_read_cache(const struct gm_image *image)
{
	return image->kept;
}

void gm_image_read_cache_end(struct gm_image *image)
{
	gm_kept_destroy(image->kept);
	image->kept = NULL;
}

static bool fill_page(void *context, uint64_t page, void *buffer)
{
	struct gm_image *image = context;
	int os_error;
	return image->kind->read(image, page, buffer, GM_PAGE_SIZE, &os_error) == GM_PAGE_SIZE;
}

/* Through the cache, page by page; returns the number of bytes copied. */
static size_t read_cached(struct gm_image *image, uint64_t address, void *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		uint64_t at = address + done;
		size_t part = GM_PAGE_SIZE - (size_t)(at % GM_PAGE_SIZE);
		if (part > size - done)
			part = size - done;
		const uint8_t *kept = gm_kept_have(image->kept, at, part);
		if (kept)
			memcpy((char *)buffer + done, kept, part);
		else if (!gm_page_cache_read(
		                 &image->cache, at, (char *)buffer + done, part, fill_page, image))
			break;
		done += part;
	}
	return done;
}

/* Bytes read from `address` on; *ret_errno is set only if that is less than `size`. */
static size_t read_prefix(
        struct gm_image *image, uint64_t address, void *buffer, size_t size, int *ret_errno)
{
	if (size > UINT64_MAX - address) { /* beyond the end of the address space */
		*ret_errno = EFAULT;
		return 0;
	}
	const uint8_t *borrowed = gm_image_borrowed_bytes(image, address, size);
	if (borrowed) {
		memcpy(buffer, borrowed, size);
		return size;
	}
	size_t done = size <= GM_PAGE_SIZE ? read_cached(image, address, buffer, size) : 0;
	if (done < size)
		done += image->kind->read(
		        image, address + done, (char *)buffer + done, size - done, ret_errno);
	return done;
}

bool gm_image_try_read(struct gm_image *image, uint64_t address, void *buffer, size_t size)
{
	int os_error = 0;
	return read_prefix(image, address, buffer, size, &os_error) == size;
}

struct gm_error *gm_image_read(struct gm_image *image, uint64_t address, void *buffer, size_t size)
{
	int os_error = 0;
	size_t done = read_prefix(image, address, buffer, size, &os_error);
	if (done == size)
		return NULL;
	return image->kind->explain(image, address + done, os_error);
}

size_t gm_image_read_some(struct gm_image *image, uint64_t address, void *buffer, size_t size)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(image, address);
	if (mapping && size > mapping->end - address)
		size = (size_t)(mapping->end - address);
	int os_error = 0;
	return read_prefix(image, address, buffer, size, &os_error);
}

void gm_image_read_many(struct gm_image *image, struct gm_read *reads, size_t count)
{
	image->kind->read_many(image, reads, count);
}

struct gm_error *gm_image_read_string(
        struct gm_image *image, uint64_t address, size_t max, char **ret_string)
{
	_cleanup_free_ char *string = NULL;
	size_t length = 0, capacity = 0;
	for (;;) {
		/* Up to the page's end, so that the string's own last page is the last one that is
		 * read. */
		size_t part = GM_PAGE_SIZE - (size_t)((address + length) % GM_PAGE_SIZE);
		if (part > max - length)
			part = max - length;
		if (part == 0)
			return gm_error_create(GM_TARGET,
			        "text at 0x%jx: longer than %zu bytes: it is not text, or the "
			        "process's memory is damaged",
			        (uintmax_t)address, max);
		if (!string || length + part + 1 > capacity) {
			capacity = length + part + 1;
			char *grown = realloc(string, capacity);
			if (!grown)
				return &gm_error_no_memory;
			string = grown;
		}
		gm_try(gm_image_read(image, address + length, string + length, part));
		char *end = memchr(string + length, '\0', part);
		if (end)
			break;
		length += part;
	}
	*ret_string = gm_take(string);
	return NULL;
}

struct gm_error *gm_image_threads(struct gm_image *image, pid_t **ret_threads, size_t *ret_count)
{
	return image->kind->threads(image, ret_threads, ret_count);
}

pid_t gm_image_thread_of(struct gm_image *image, pid_t inside)
{
	return image->kind->thread_of ? image->kind->thread_of(image, inside) : inside;
}

struct gm_error *gm_image_registers(
        struct gm_image *image, pid_t thread, struct gm_registers *ret_registers)
{
	return image->kind->registers(image, thread, ret_registers);
}
