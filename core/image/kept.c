#include "image/kept.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "image/internal.h"

/*
 * An eighth of what was touched, and a little: a Python heap is mostly less. The rest of what a question may take,
 * a quarter (and 64 MB), is for what it makes of it.
 */
enum { SHARE = 8, AT_LEAST = 24 << 20, STRIPES = 32 };

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
	if (image->kind->one_reader || bytes == 0)
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
	for (kept->capacity = 64; kept->capacity < kept->most * 2;)
		kept->capacity *= 2;
	kept->chunks = calloc(kept->capacity, sizeof(*kept->chunks));
	void *memory = mmap(NULL, kept->most * GM_KEPT_CHUNK, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!kept->chunks || memory == MAP_FAILED) {
		if (memory != MAP_FAILED)
			munmap(memory, kept->most * GM_KEPT_CHUNK);
		free(kept->chunks);
		free(kept);
		free(locks);
		return NULL;
	}
	/* as much time would go into the faults of small pages as into reading what goes there */
	(void)madvise(memory, kept->most * GM_KEPT_CHUNK, MADV_HUGEPAGE);
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
	free(kept->chunks);
	free(locks);
	free(kept);
}

/* Reads what was touched of [start, end), which is of one mapping and one chunk; whole pages of it. */
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
			if (reads[i].failed) /* one of its pages cannot be read: which? */
				kept->image->kind->read_many(kept->image, &one, 1);
			*(one.failed ? &chunk->unread : &chunk->there) |= UINT64_C(1)
			                                                  << (first + page);
		}
	}
}

static void read_chunk(
        struct gm_kept *kept, struct gm_kept_chunk *chunk, uint8_t *bytes, uint64_t start)
{
	const struct gm_maps *maps = &kept->image->maps;
	size_t low = 0, high = maps->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (maps->items[middle].end <= start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < maps->count && maps->items[low].start < start + GM_KEPT_CHUNK; low++) {
		const struct gm_mapping *mapping = &maps->items[low];
		if (gm_mapping_is_memory(mapping))
			read_part(kept, chunk, bytes,
			        mapping->start > start ? mapping->start : start,
			        mapping->end < start + GM_KEPT_CHUNK ? mapping->end
			                                             : start + GM_KEPT_CHUNK);
	}
}

/* A place in memory for a chunk, or NULL. */
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
	if (atomic_load(&kept->used) >= kept->most)
		return false;
	const struct gm_mapping *mapping = gm_maps_find(&kept->image->maps, address);
	if (!mapping || !gm_mapping_is_memory(mapping))
		return false;
	pthread_mutex_t *stripe = &locks->stripes[key % STRIPES];
	pthread_mutex_lock(stripe);
	bool there = gm_kept_chunk(kept, address) != NULL;
	uint8_t *place = there ? NULL : take_place(kept);
	if (place) {
		struct gm_kept_chunk made = {.bytes = place};
		read_chunk(kept, &made, place, (key - 1) << GM_KEPT_SHIFT);
		publish(kept, &made, key);
		there = true;
	}
	pthread_mutex_unlock(stripe);
	return there;
}
