#include "image/kept.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/huge_pages.h"
#include "base/search.h"
#include "image/internal.h"
#include "image/memory.h"

/*
 * An eighth of the touched memory, and a little: usually more than a Python heap. A question may
 * use a quarter (and 64 MB), and the rest is for its own data.
 */
enum { SHARE = 8, AT_LEAST = 40 << 20, STRIPES = 32 };
#define MOST_BYTES (UINT64_C(1) << 46) /* no process has more */

struct locks {
	pthread_mutex_t table;
	pthread_mutex_t stripes[STRIPES]; /* by chunk: one thread reads it */
};

static uint64_t mapped_bytes(struct gm_image *image)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < image->maps.count; i++) {
		const struct gm_mapping *mapping = &image->maps.items[i];
		if (gm_mapping_is_memory(mapping))
			bytes += mapping->end - mapping->start;
	}
	return bytes;
}

struct gm_kept *gm_kept_create(struct gm_image *image)
{
	uint64_t bytes = image->kind->resident ? image->kind->resident(image) : mapped_bytes(image);
	if (image->kind->one_reader || bytes == 0 || bytes > MOST_BYTES)
		return NULL;
	struct gm_kept *kept = calloc(1, sizeof(*kept));
	struct locks *locks = malloc(sizeof(*locks));
	if (!kept || !locks) {
		free(kept);
		free(locks);
		return NULL;
	}
	kept->image = image;
	kept->most = (size_t)(bytes / SHARE + AT_LEAST) / GM_KEPT_CHUNK;
	if (kept->most > bytes / GM_KEPT_CHUNK + image->maps.count)
		kept->most = (size_t)(bytes / GM_KEPT_CHUNK) + image->maps.count;
	gm_image_borrow_begin(image);
	kept->views = image->borrowable;
	size_t chunks =
	        kept->most + (kept->views ? bytes / GM_KEPT_CHUNK + 2 * image->maps.count : 0);
	for (kept->capacity = 64; kept->capacity < chunks * 2;)
		kept->capacity *= 2;
	kept->chunks = calloc(kept->capacity, sizeof(*kept->chunks));
	void *memory = mmap(NULL, kept->most * GM_KEPT_CHUNK, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!kept->chunks || memory == MAP_FAILED) {
		if (memory != MAP_FAILED)
			munmap(memory, kept->most * GM_KEPT_CHUNK);
		gm_image_borrow_end(image);
		free(kept->chunks);
		free(kept);
		free(locks);
		return NULL;
	}
	/* with small pages, page faults would take as much time as reading */
	gm_huge_pages_advise(memory, kept->most * GM_KEPT_CHUNK);
	kept->memory = memory;
	kept->locks = locks;
	pthread_mutex_init(&locks->table, NULL);
	for (size_t i = 0; i < STRIPES; i++)
		pthread_mutex_init(&locks->stripes[i], NULL);
	return kept;
}

void gm_kept_destroy(struct gm_kept *kept)
{
	if (!kept)
		return;
	struct locks *locks = kept->locks;
	pthread_mutex_destroy(&locks->table);
	for (size_t i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&locks->stripes[i]);
	munmap(kept->memory, kept->most * GM_KEPT_CHUNK);
	gm_image_borrow_end(kept->image);
	free(kept->chunks);
	free(locks);
	free(kept);
}

/* Reads the touched pages of [start, end), which is within one mapping and one chunk. */
static void read_part(struct gm_kept *kept, struct gm_kept_chunk *chunk, uint8_t *bytes,
        uint64_t start, uint64_t end)
{
	struct gm_range ranges[GM_KEPT_PAGES];
	struct gm_read reads[GM_KEPT_PAGES];
	start = (start + GM_KEPT_PAGE - 1) & ~(uint64_t)(GM_KEPT_PAGE - 1);
	end &= ~(uint64_t)(GM_KEPT_PAGE - 1);
	if (start >= end)
		return;
	size_t count = gm_image_touched(kept->image, start, end, ranges, GM_KEPT_PAGES);
	for (size_t i = 0; i < count; i++)
		reads[i] = (struct gm_read){.address = ranges[i].start,
		        .buffer = bytes + ranges[i].start % GM_KEPT_CHUNK,
		        .size = (size_t)(ranges[i].end - ranges[i].start)};
	kept->image->kind->read_many(kept->image, reads, count);
	for (size_t i = 0; i < count; i++) {
		size_t first = reads[i].address % GM_KEPT_CHUNK / GM_KEPT_PAGE;
		for (size_t page = 0; page < reads[i].size / GM_KEPT_PAGE; page++) {
			struct gm_read one = {.address = reads[i].address + page * GM_KEPT_PAGE,
			        .buffer = (char *)reads[i].buffer + page * GM_KEPT_PAGE,
			        .size = GM_KEPT_PAGE};
			if (reads[i].failed) /* one of its pages cannot be read: find it */
				kept->image->kind->read_many(kept->image, &one, 1);
			*(one.failed ? &chunk->unread : &chunk->there) |= UINT64_C(1)
			                                                  << (first + page);
		}
	}
}

/* The first mapping that ends after `start`. */
static size_t first_mapping(const struct gm_maps *maps, uint64_t start)
{
	return gm_partition_point(maps->count, middle, maps->items[middle].end <= start);
}

static void read_chunk(
        struct gm_kept *kept, struct gm_kept_chunk *chunk, uint8_t *bytes, uint64_t start)
{
	const struct gm_maps *maps = &kept->image->maps;
	for (size_t i = first_mapping(maps, start);
	        i < maps->count && maps->items[i].start < start + GM_KEPT_CHUNK; i++) {
		const struct gm_mapping *mapping = &maps->items[i];
		if (gm_mapping_is_memory(mapping))
			read_part(kept, chunk, bytes,
			        mapping->start > start ? mapping->start : start,
			        mapping->end < start + GM_KEPT_CHUNK ? mapping->end
			                                             : start + GM_KEPT_CHUNK);
	}
	chunk->bytes = bytes;
}

/* The whole chunk is in one mapping, and can be used without a copy. */
static bool view_chunk(struct gm_kept *kept, struct gm_kept_chunk *chunk, uint64_t start)
{
	const struct gm_maps *maps = &kept->image->maps;
	size_t i = first_mapping(maps, start);
	if (!kept->views || i == maps->count || maps->items[i].start > start ||
	        maps->items[i].end < start + GM_KEPT_CHUNK)
		return false;
	chunk->bytes = gm_image_borrowed_bytes(kept->image, start, GM_KEPT_CHUNK);
	chunk->there = chunk->bytes ? UINT64_MAX : 0;
	return chunk->bytes != NULL;
}

/* Memory for a chunk, or NULL. */
static uint8_t *take_place(struct gm_kept *kept)
{
	if (atomic_load(&kept->used) >= kept->most)
		return NULL;
	size_t number = atomic_fetch_add(&kept->used, 1);
	return number < kept->most ? kept->memory + number * GM_KEPT_CHUNK : NULL;
}

static void publish(struct gm_kept *kept, const struct gm_kept_chunk *made, uint64_t key)
{
	struct locks *locks = kept->locks;
	pthread_mutex_lock(&locks->table);
	if ((kept->count + 1) * 2 > kept->capacity) { /* only in a damaged core */
		pthread_mutex_unlock(&locks->table);
		return;
	}
	kept->count++;
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (kept->capacity - 1);
	while (atomic_load_explicit(&kept->chunks[i].key, memory_order_relaxed) != 0)
		i = (i + 1) & (kept->capacity - 1);
	kept->chunks[i].bytes = made->bytes;
	kept->chunks[i].there = made->there;
	kept->chunks[i].unread = made->unread;
	atomic_store_explicit(&kept->chunks[i].key, key, memory_order_release);
	pthread_mutex_unlock(&locks->table);
}

bool gm_kept_fill(struct gm_kept *kept, uint64_t address)
{
	struct locks *locks = kept->locks;
	uint64_t key = (address >> GM_KEPT_SHIFT) + 1;
	const struct gm_mapping *mapping = kept->views || atomic_load(&kept->used) < kept->most
	                                           ? gm_maps_find(&kept->image->maps, address)
	                                           : NULL;
	if (!mapping || !gm_mapping_is_memory(mapping))
		return false;
	pthread_mutex_t *stripe = &locks->stripes[key % STRIPES];
	pthread_mutex_lock(stripe);
	bool there = gm_kept_chunk(kept, address) != NULL;
	struct gm_kept_chunk made = {0};
	uint64_t start = (key - 1) << GM_KEPT_SHIFT;
	uint8_t *place;
	if (!there && view_chunk(kept, &made, start)) {
		there = true;
		publish(kept, &made, key);
	} else if (!there && (place = take_place(kept)) != NULL) {
		there = true;
		read_chunk(kept, &made, place, start);
		publish(kept, &made, key);
	}
	pthread_mutex_unlock(stripe);
	return there;
}
