/*
 * c10/util/flat_hash_map.h (sherwood_v3_table): one piece of memory has the entries, each led by a
 * byte: how far the entry is from its place, below 0 where there is none. The last one, with 0, is
 * no entry. Entries are written when they come into use, so before that they have old words.
 */
#include "holders/unattributed/flat_table.h"

#include <string.h>

#include "torch/layout.h"
#include "torch/readers.h"

enum {
	LEAST_ENTRIES = 4, /* min_lookups */
	MOST_SLACK = 32,   /* bytes that malloc may give beyond what was asked for */
	HEAD = 32,
};

static uint64_t word_at(const unsigned char *bytes, size_t offset)
{
	uint64_t word;
	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* The number of entries, with the last, of the table whose head is at this address; 0: the head is
 * not that of the chunk's table. */
static uint64_t entries_of(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        uint64_t head, const struct gm_flat_hash_layout *layout)
{
	unsigned char bytes[HEAD];
	if (layout->lookups >= HEAD || layout->slots_minus_one > HEAD - 8 ||
	        layout->count > HEAD - 8 ||
	        !gm_image_try_read(
	                search->graph->image, head - layout->entries, bytes, sizeof(bytes)) ||
	        word_at(bytes, layout->entries) != chunk->start)
		return 0;
	uint64_t slots = word_at(bytes, layout->slots_minus_one);
	int8_t lookups = (int8_t)bytes[layout->lookups];
	if ((slots & (slots + 1)) != 0 || slots >= chunk->size || lookups < LEAST_ENTRIES - 1 ||
	        word_at(bytes, layout->count) > slots + (slots > 0))
		return 0;
	return slots + (uint64_t)lookups + 1;
}

bool gm_is_in_unused_entry(
        const struct gm_owner_search *search, const struct gm_owner_chunk *chunk, uint64_t word)
{
	const struct gm_torch_layout *torch = gm_torch_layout_of(search->graph->torch);
	for (size_t i = 0; i < chunk->holder_count; i++) {
		const struct gm_owner_holder *holder = &chunk->holders[i];
		uint64_t count = holder->kind == GM_OWNER_STACK || holder->kind == GM_OWNER_CLASS
		                         ? 0
		                         : entries_of(search, chunk, holder->address,
		                                   &torch->allocator.hash);
		if (count == 0)
			continue;
		/* a multiple of 8, which the chunk's size leaves no choice of */
		uint64_t size = chunk->size / count / 8 * 8;
		int8_t last, distance;
		if (size < 16 || chunk->size - count * size >= MOST_SLACK ||
		        !gm_image_try_read(search->graph->image, chunk->start + (count - 1) * size,
		                &last, 1) ||
		        last != 0)
			continue;
		uint64_t entry = (word - chunk->start) / size;
		return entry >= count - 1 || (gm_image_try_read(search->graph->image,
		                                      chunk->start + entry * size, &distance, 1) &&
		                                     distance < 0);
	}
	return false;
}
