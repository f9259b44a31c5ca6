#include "cpython/sweep/pools.h"

#include <string.h>

/*
 * Objects/obmalloc.c: struct pool_header: ref.count, freeblock, nextpool, prevpool, arenaindex,
 * szidx, nextoffset, maxnextoffset; the same from 3.9 to 3.13. Free blocks form a list; blocks from
 * nextoffset on have never been allocated.
 */
enum {
	HEAD = GM_POOL_FIRST,
	FREE_BLOCK = 8,
	SIZE_INDEX = 36,
	NEXT_OFFSET = 40,
	LAST_OFFSET = 44,
	SIZES = 32,
	BLOCKS_MOST = (16 << 10) / 16,
	BEFORE = 16, /* 3.11+: for an object with a managed dict, two words before its links */
};

struct pool {
	const uint8_t *bytes;
	uint64_t address;
	size_t size;       /* of the pool */
	size_t block;      /* of a block */
	size_t handed_out; /* blocks that were ever allocated */
	bool free_known; /* `free` is computed when first needed: many pools have no such objects */
	uint64_t free[BLOCKS_MOST / 64];
};

static uint32_t u32_at(const uint8_t *bytes, size_t offset)
{
	uint32_t value;
	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

/* `there`: how many of its bytes exist. */
static bool pool_init(
        struct pool *pool, const uint8_t *bytes, uint64_t address, size_t size, size_t there)
{
	uint32_t used = u32_at(bytes, 0), index = u32_at(bytes, SIZE_INDEX);
	uint32_t next = u32_at(bytes, NEXT_OFFSET);
	size_t block = ((size_t)index + 1) * 16;
	if (index >= SIZES || u32_at(bytes, LAST_OFFSET) != size - block || next < HEAD ||
	        next > size || (next - HEAD) % block != 0 || used == 0 ||
	        used > (next - HEAD) / block)
		return false;
	pool->bytes = bytes;
	pool->address = address;
	pool->size = size;
	pool->block = block;
	pool->handed_out = (next < there ? next - HEAD : there - HEAD) / block;
	pool->free_known = false;
	return true;
}

static void find_free(struct pool *pool)
{
	uint64_t next;
	size_t left = (pool->size - HEAD) / pool->block;
	memset(pool->free, 0, sizeof(pool->free));
	pool->free_known = true;
	memcpy(&next, pool->bytes + FREE_BLOCK, sizeof(next));
	for (; next && left > 0; left--) {
		uint64_t offset = next - pool->address;
		size_t number = (size_t)(offset - HEAD) / pool->block;
		if (offset < HEAD || offset >= pool->size || number >= pool->handed_out ||
		        (offset - HEAD) % pool->block != 0)
			return;
		pool->free[number / 64] |= UINT64_C(1) << number % 64;
		memcpy(&next, pool->bytes + offset, sizeof(next));
	}
}

static bool is_free(struct pool *pool, size_t number)
{
	if (!pool->free_known)
		find_free(pool);
	return pool->free[number / 64] >> number % 64 & 1;
}

/* The addresses where a program's memory may be. */
static bool may_be_address(uint64_t word)
{
	return word >= 0x10000 && word >> 47 == 0;
}

/*
 * Plausible links, a count, a type. Memory that is not an object usually fails at the first or the
 * third word: an untracked object begins with its count, and an array of pointers has one in the
 * count's place.
 */
static bool looks_tracked(const struct gm_python_layout *l, const uint8_t *links)
{
	uint64_t next = gm_u64_at(links, l->gc_head_next) & ~UINT64_C(3);
	uint64_t count = gm_refcount_in(l, gm_u64_at(links, l->gc_head_size + l->object_refcount));
	uint64_t type = gm_u64_at(links, l->gc_head_size + l->object_type);
	return may_be_address(next) && !(next & 7) && count != 0 && count <= UINT32_MAX &&
	       may_be_address(type) && !(type & 7) &&
	       may_be_address(gm_u64_at(links, l->gc_head_previous) & ~UINT64_C(7));
}

bool gm_py_is_tracked(struct gm_walker *walker, const uint8_t *links)
{
	const struct gm_python_layout *l = &walker->python->layout;
	if (!looks_tracked(l, links))
		return false;
	const struct gm_walk_type *known =
	        gm_walk_type_at(walker, gm_u64_at(links, l->gc_head_size + l->object_type));
	return known && known->type->flags & GM_TYPE_FLAG_HAVE_GC;
}

/* The type of a possible object with a count; NULL: it is not an object. */
static const struct gm_walk_type *type_of(struct gm_walker *walker, const uint8_t *object)
{
	const struct gm_python_layout *l = &walker->python->layout;
	uint64_t count = gm_refcount_in(l, gm_u64_at(object, l->object_refcount));
	uint64_t type = gm_u64_at(object, l->object_type);
	return count != 0 && count <= UINT32_MAX && may_be_address(type) && !(type & 7)
	               ? gm_walk_type_at(walker, type)
	               : NULL;
}

/* 3.14: 16 bits of overflow above the count, then 16 of flags (Include/object.h); that overflow is
 * rare. */
static bool has_flags(uint64_t word)
{
	return (word >> 32 & 0xffff) == 0 && word >> 48 < 16 && (uint32_t)word != 0;
}

enum { LINKS = GM_POOL_HEAD - 16 };

/*
 * The offset in the block at which an untracked object begins; 0: none. It begins with its count;
 * or with the collector's links, of which the first is 0 then; or two words come before these.
 */
static size_t untracked_at(
        struct gm_walker *walker, const uint8_t *block, size_t size, bool *ret_special)
{
	const struct gm_python_layout *l = &walker->python->layout;
	const struct gm_walk_type *known = NULL;
	uint64_t word = gm_u64_at(block, 0);
	size_t at = 0;
	if (word != 0 && (word <= UINT32_MAX || (l->refcount_size == 4 && has_flags(word)))) {
		known = type_of(walker, block);
		if (known && known->type->flags & GM_TYPE_FLAG_HAVE_GC)
			known = NULL;
	} else if (word == 0 && l->gc_head_next == 0) {
		at = LINKS;
		known = type_of(walker, block + at);
		if (known && !(known->type->flags & GM_TYPE_FLAG_HAVE_GC))
			known = NULL;
	}
	if (!known && size >= GM_POOL_HEAD + BEFORE && gm_u64_at(block, BEFORE) == 0) {
		at = BEFORE + LINKS;
		known = type_of(walker, block + at);
		if (known && !(known->type->flags & GM_TYPE_FLAG_MANAGED_DICT))
			known = NULL;
	}
	if (!known || known->type->atom)
		return SIZE_MAX;
	*ret_special = known->special;
	return at;
}

/* The object in a block; false: there is none with a count. */
static bool block_object(struct gm_walker *walker, const uint8_t *block, size_t size,
        uint64_t address, struct gm_pool_object *ret)
{
	const struct gm_python_layout *l = &walker->python->layout;
	size_t at = 0;
	bool tracked = gm_py_is_tracked(walker, block);
	if (!tracked && size >= GM_POOL_HEAD + BEFORE && gm_py_is_tracked(walker, block + BEFORE)) {
		tracked = true;
		at = BEFORE;
	}
	ret->special = false;
	ret->next = 0;
	if (tracked) {
		ret->next = (gm_u64_at(block + at, l->gc_head_next) & ~UINT64_C(3)) + LINKS;
		at += LINKS;
	} else {
		at = untracked_at(walker, block, size, &ret->special);
	}
	ret->object = address + at;
	return at != SIZE_MAX;
}

static size_t pool_objects(
        struct gm_walker *walker, struct pool *pool, struct gm_pool_object *ret_objects)
{
	size_t found = 0;
	for (size_t i = 0; i < pool->handed_out; i++) {
		size_t at = HEAD + i * pool->block;
		if (block_object(walker, pool->bytes + at, pool->block, pool->address + at,
		            &ret_objects[found]) &&
		        !is_free(pool, i))
			found++;
	}
	return found;
}

size_t gm_py_pool_objects(struct gm_walker *walker, const struct gm_kept_chunk *chunk,
        struct gm_pool_object *ret_objects, struct gm_pool_place *ret_pools, size_t *ret_pool_count)
{
	const size_t size = (size_t)gm_python_pool_size(walker->python);
	const unsigned pages = (unsigned)(size / GM_KEPT_PAGE);
	uint64_t start = (gm_kept_key(chunk) - 1) << GM_KEPT_SHIFT;
	size_t found = 0, pools = 0;
	struct pool pool;
	*ret_pool_count = 0;
	if (walker->python->layout.gc_head_size != LINKS)
		return 0;
	for (unsigned first = 0; first < GM_KEPT_PAGES; first += pages) {
		unsigned there = 0;
		while (there < pages && chunk->there >> (first + there) & 1)
			there++;
		size_t at = (size_t)first * GM_KEPT_PAGE;
		if (there == 0 || !pool_init(&pool, chunk->bytes + at, start + at, size,
		                          (size_t)there * GM_KEPT_PAGE))
			continue;
		if (pool.block >= GM_POOL_HEAD)
			found += pool_objects(walker, &pool, ret_objects + found);
		if (there == pages)
			ret_pools[pools++] =
			        (struct gm_pool_place){start + at, (uint32_t)pool.block};
	}
	*ret_pool_count = pools;
	return found;
}

bool gm_py_has_pool(const struct gm_python *python, const struct gm_kept_chunk *chunk)
{
	const size_t size = (size_t)gm_python_pool_size(python);
	struct pool pool;
	for (size_t at = 0; at < GM_KEPT_CHUNK; at += size)
		if (chunk->there >> at / GM_KEPT_PAGE & 1 &&
		        pool_init(&pool, chunk->bytes + at, at, size, GM_KEPT_PAGE) &&
		        pool.block >= GM_POOL_HEAD)
			return true;
	return false;
}

enum { REGULAR = 64, NEAR_ENDS = 4, PLACES = REGULAR + 2 * NEAR_ENDS };

/* Everywhere in the range, and near its ends, where less than an arena of it may exist. */
static uint64_t place(uint64_t start, uint64_t end, uint64_t size, uint64_t number)
{
	if (number < REGULAR)
		return start + (end - start) / REGULAR * number;
	uint64_t away = size << (number - REGULAR) / 2;
	return number & 1 ? end - away : start + away;
}

/* At some of so many places in the range. */
static bool has_pools(struct gm_python *python, uint64_t start, uint64_t end)
{
	const uint64_t size = gm_python_pool_size(python);
	uint8_t heads[PLACES][HEAD];
	struct gm_read reads[PLACES];
	size_t count = 0;
	for (uint64_t i = 0; i < PLACES; i++) {
		uint64_t at = (place(start, end, size, i) + size - 1) & ~(size - 1);
		struct gm_range range;
		if (at < start || at + GM_KEPT_PAGE > end ||
		        gm_image_touched(python->image, at, at + GM_KEPT_PAGE, &range, 1) != 1)
			continue;
		reads[count] = (struct gm_read){
		        .address = at, .buffer = heads[count], .size = sizeof(heads[count])};
		count++;
	}
	gm_image_read_many(python->image, reads, count);
	for (size_t i = 0; i < count; i++) {
		struct pool pool;
		if (!reads[i].failed && pool_init(&pool, heads[i], reads[i].address, size, HEAD))
			return true;
	}
	return false;
}

/* Arenas are mappings without a file (Objects/obmalloc.c, _PyObject_ArenaMmap()), and the kernel
 * merges adjacent ones, and other mappings with them, such as a tensor's gigabytes. An arena is 256
 * KiB, 1 MiB from 3.10 on: a mapping
 * of less than 16 MiB is always examined. */
bool gm_py_may_have_pools(
        struct gm_python *python, const struct gm_mapping *mapping, uint64_t start, uint64_t end)
{
	enum { SMALL = 16 << 20 };
	if (mapping->path[0] && strncmp(mapping->path, "[anon", 5) != 0)
		return false;
	return mapping->end - mapping->start < SMALL || has_pools(python, start, end);
}
