/*
 * Finds the owner of native memory. That a word is in some heap chunk says little. The class of the
 * object in the chunk, or the static variable, frame or object that leads to it, shows what holds a
 * tensor there.
 *
 * A heap chunk is found by glibc's size words around it. If it is an object with a vtable, its
 * class is the name (for a std::shared_ptr's control block, the class of the counted object). All
 * memory is searched for words that point at the chunk, a few levels up: the memory of a
 * std::vector leads to the object that contains the vector, and that leads to the static variable,
 * or to the Python object whose C++ part it is. Whether the word counts as a reference is decided
 * in promote.c.
 */
#include "holders/unattributed/owners.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/unattributed/owner_search.h"
#include "holders/heap/scan.h"
#include "holders/heap/stacks.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/heap/unused.h"
#include "holders/native/host_data.h"
#include "holders/native/object.h"
#include "holders/unattributed/owner_parts.h"
#include "holders/unattributed/owner_ways.h"

enum {
	FEW_LEVELS = 5, /* each level is a search of all memory: further ones only for what is still
	                   unknown */
	MAX_CHUNKS = 8192,
	MAX_PYTHON = 1024, /* bytes of a Python object that may contain the word */
};

static bool wanted(const void *context, uint64_t value)
{
	const struct gm_owner_search *search = context;
	const uint64_t *found = gm_map_find(&search->by_start, value);
	return found && *found - 1 >= search->first && *found - 1 < search->last;
}

/* The number of the chunk that begins at `start`. A new chunk is searched for in the next level. */
static uint32_t add_chunk(struct gm_owner_search *search, uint64_t start, uint64_t size)
{
	uint64_t *there = gm_map_find(&search->by_start, start);
	if (there)
		return (uint32_t)(*there - 1);
	if (search->chunks.count >= MAX_CHUNKS)
		return UINT32_MAX;
	struct gm_owner_chunk chunk = {
	        start, size, gm_graph_class_at(search->graph, start), 0, {{0}}, NULL};
	uint64_t *slot = gm_map_put(&search->by_start, start, NULL);
	if (!slot || !gm_array_push(&search->chunks, chunk))
		return UINT32_MAX;
	*slot = search->chunks.count;
	/* an object created by std::make_shared follows its control block, and is known by its own
	 * address */
	if (chunk.class && chunk.class->kind == GM_CLASS_SHARED &&
	        (slot = gm_map_put(&search->by_start, start + 16, NULL)))
		*slot = search->chunks.count;
	return (uint32_t)(search->chunks.count - 1);
}

static void add_holder(struct gm_owner_search *search, size_t number, struct gm_owner_holder holder)
{
	struct gm_owner_chunk *chunk = &search->chunks.items[number];
	for (size_t i = 0; i < chunk->holder_count; i++) {
		const struct gm_owner_holder *other = &chunk->holders[i];
		if (other->kind == holder.kind && other->number == holder.number &&
		        other->address == holder.address)
			return;
	}
	if (chunk->holder_count < GM_OWNER_MAX_BRANCHES)
		chunk->holders[chunk->holder_count++] = holder;
}

uint32_t gm_graph_python_around(struct gm_holders *graph, uint64_t address, bool *ret_native)
{
	*ret_native = false;
	for (uint64_t at = address; graph->python && at + MAX_PYTHON > address; at -= 8) {
		size_t own;
		uint32_t vertex = gm_graph_find(graph, at);
		if (vertex == GM_NO_VERTEX ||
		        graph->vertices.items[vertex].kind != GM_VERTEX_PYTHON)
			continue;
		struct gm_pool_block block; /* memory that a conservative reference leads to may
		                               have been freed */
		if (address - at >= gm_python_size(graph->python, at, &own) ||
		        (gm_pool_block(graph, at, &block) && block.is_free))
			return GM_NO_VERTEX;
		*ret_native = own != 0 && address - at >= own;
		return vertex;
	}
	return GM_NO_VERTEX;
}

/* The vertex that a heap chunk is, or that follows its control block in the chunk. */
static uint32_t vertex_of(struct gm_holders *graph, uint64_t start)
{
	uint32_t vertex = gm_graph_find(graph, start);
	if (vertex == GM_NO_VERTEX)
		vertex = gm_graph_find(graph, start + 16);
	return vertex != GM_NO_VERTEX && graph->vertices.items[vertex].kind <= GM_VERTEX_PYTHON
	               ? vertex
	               : (uint32_t)GM_NO_VERTEX;
}

/* Functions that run at exit are part of a module's state up to 3.9, and of the interpreter's from
 * then on. Both get the same description. */
static bool is_atexit(struct gm_holders *graph, uint32_t vertex)
{
	enum {
		NAME = 48
	}; /* PyModuleObject.md_name, behind md_state and md_weaklist (3.9: Objects/moduleobject.c)
	    */
	uint64_t object = graph->vertices.items[vertex].address, name;
	_cleanup_free_ char *text = NULL;
	return gm_python_is_instance(graph->python, object, "module") &&
	       gm_image_try_u64(graph->image, object + NAME, &name) &&
	       gm_python_str(graph->python, name, sizeof("atexit"), &text) &&
	       strcmp(text, "atexit") == 0;
}

/* The owner of a word, as far as the word's own place shows it: an owner, or a heap chunk
 * (GM_OWNER_NONE). */
static bool place_word(struct gm_owner_search *search, uint64_t address,
        struct gm_owner_holder *ret, struct gm_native_owner **ret_stack)
{
	struct gm_holders *graph = search->graph;
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	uint64_t start, size;
	*ret_stack = NULL;
	*ret = (struct gm_owner_holder){.address = address};
	if (!mapping || gm_is_unused(graph, address))
		return false;
	/* zero-initialized data is in a mapping without a name */
	if (gm_symbols_module_at(graph->symbols, address)) {
		ret->kind = GM_OWNER_STATIC;
		return gm_owner_static_place(graph, address, &ret->number);
	}
	if (gm_is_stack(graph, search->stacks, mapping, address)) {
		enum gm_stack_part part =
		        gm_stacks_part(graph, search->stacks, mapping, address, ret_stack);
		ret->kind = GM_OWNER_STACK;
		return part == GM_STACK_FRAME || part == GM_STACK_DATA;
	}
	bool native;
	uint32_t vertex = gm_graph_python_around(graph, address, &native);
	if (vertex != GM_NO_VERTEX && !native)
		return false; /* its references are known; the rest of it is data */
	if (vertex != GM_NO_VERTEX && is_atexit(graph, vertex)) {
		ret->kind = GM_OWNER_STATIC;
		ret->number = GM_OWNER_INTERPRETER;
		return true;
	}
	if (vertex == GM_NO_VERTEX && !gm_heap_chunk(graph, address, &start, &size))
		return false;
	if (vertex == GM_NO_VERTEX && graph->python &&
	        gm_python_is_interpreter(graph->python, start, size)) {
		ret->kind = GM_OWNER_STATIC;
		ret->number = GM_OWNER_INTERPRETER;
		return true;
	}
	if (vertex == GM_NO_VERTEX)
		vertex = vertex_of(graph, start);
	if (vertex != GM_NO_VERTEX) {
		ret->kind = GM_OWNER_VERTEX;
		ret->number = vertex;
		return true;
	}
	ret->number = add_chunk(search, start, size);
	return ret->number != UINT32_MAX;
}

/* The object that a std::shared_ptr's control block counts is owned by pairs of words: the object's
 * address, then the block's (libstdc++ bits/shared_ptr_base.h). One of the two alone is a plain
 * pointer, which owns nothing, or a stale word. */
static bool owns_nothing(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        const struct gm_hit *hit)
{
	struct gm_image *image = search->graph->image;
	uint64_t other;
	if (!chunk->class || chunk->class->kind != GM_CLASS_SHARED)
		return false;
	if (hit->value != chunk->start)
		return gm_image_try_u64(image, hit->address + 8, &other) && other != chunk->start;
	if (!gm_image_try_u64(image, hit->address - 8, &other))
		return true;
	/* std::make_shared: the object, or a part of it, is in the same chunk */
	if (strstr(chunk->class->linkage_name, "_Sp_counted_ptr_inplace"))
		return other - chunk->start >= chunk->size;
	return other == 0;
}

static void sort_hit(struct gm_owner_search *search, const struct gm_hit *hit)
{
	const uint64_t *slot = gm_map_find(&search->by_start, hit->value);
	struct gm_owner_holder holder;
	_cleanup_owner_ struct gm_native_owner *stack = NULL;
	if (!slot || search->chunks.items[*slot - 1].holder_count >= GM_OWNER_MAX_BRANCHES ||
	        owns_nothing(search, &search->chunks.items[*slot - 1], hit))
		return;
	size_t number = (size_t)(*slot - 1);
	bool placed = place_word(search, hit->address, &holder, &stack);
	struct gm_owner_chunk *chunk = &search->chunks.items[number];
	if (placed && holder.kind == GM_OWNER_STACK) {
		/* many words of stacks may point at it; one is enough */
		placed = !chunk->stack;
		if (placed) {
			chunk->stack = stack;
			stack = NULL;
		}
	}
	if (placed && (holder.kind != GM_OWNER_NONE || holder.number != number))
		add_holder(search, number, holder);
}

/* The words that point at the chunks of this level. */
static struct gm_error *search_level(struct gm_owner_search *search)
{
	struct gm_scan_range range = {UINT64_MAX, 0};
	for (size_t i = search->first; i < search->last; i++) {
		uint64_t start = search->chunks.items[i].start;
		range.first = start < range.first ? start : range.first;
		range.last = start + 16 > range.last ? start + 16 : range.last;
	}
	struct gm_scan_options options = {
	        .filter = wanted, .context = search, .ranges = {range}, .range_count = 1};
	struct gm_scan_result result;
	_cleanup_free_ struct gm_range *numbers =
	        gm_graph_host_data(search->graph, &options.left_out_count);
	if (!numbers)
		return &gm_error_no_memory;
	options.left_out = numbers;
	gm_try(gm_scan(search->graph->image, &options, &result));
	for (size_t i = 0; i < result.count; i++)
		sort_hit(search, &result.hits[i]);
	free(result.hits);
	return NULL;
}

/* Is there a chunk that no known variable or object leads to? */
static bool is_unknown(const struct gm_owner_search *search, const uint32_t *numbers,
        const struct gm_owner_query *queries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct gm_owner_way way = {.rank = UINT32_MAX};
		if (numbers[i] == UINT32_MAX)
			continue;
		gm_owner_find_way(search, numbers[i], queries[i].word, &way);
		if (way.rank >= GM_OWNER_IS_CLASS)
			return true;
	}
	return false;
}

static struct gm_error *find_owners(struct gm_holders *graph, struct gm_stacks *stacks,
        struct gm_owner_query *queries, size_t count)
{
	struct gm_owner_search search = {.graph = graph, .stacks = stacks};
	struct gm_error *error = NULL;
	_cleanup_free_ uint32_t *numbers = malloc((count + 1) * sizeof(*numbers));
	if (!numbers)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		struct gm_owner_holder holder;
		_cleanup_owner_ struct gm_native_owner *stack = NULL;
		numbers[i] = UINT32_MAX;
		if (!place_word(&search, queries[i].word, &holder, &stack))
			continue;
		if (holder.kind == GM_OWNER_NONE) {
			numbers[i] = holder.number;
		} else if (holder.kind == GM_OWNER_VERTEX) {
			queries[i].kind = holder.kind;
			queries[i].vertex = holder.number;
		} else if (holder.kind == GM_OWNER_STATIC) {
			queries[i].kind = holder.kind;
			queries[i].address = holder.address;
			queries[i].native = gm_owner_static(graph,
			        gm_symbols_module_at(graph->symbols, holder.address),
			        holder.address, &queries[i].sense);
		}
	}
	for (unsigned level = 0; level < GM_OWNER_MAX_LEVELS && !error; level++) {
		search.first = search.last;
		search.last = search.chunks.count;
		if (search.first == search.last ||
		        (level >= GM_OWNER_FEW_LEVELS &&
		                (count > GM_OWNER_MANY ||
		                        !is_unknown(&search, numbers, queries, count))))
			break;
		error = search_level(&search);
	}
	for (size_t i = 0; i < count && !error; i++)
		if (numbers[i] != UINT32_MAX)
			gm_owner_take_parts(&search, &queries[i], numbers[i]);
	for (size_t i = 0; i < search.chunks.count; i++)
		gm_native_owner_release(search.chunks.items[i].stack);
	gm_array_deinit(&search.chunks);
	gm_map_deinit(&search.by_start);
	return error;
}

/* Is it static data of the simulated device's library? */
static bool is_simulators(const struct gm_holders *graph, const struct gm_owner_query *asked)
{
	const struct gm_module *module =
	        asked->kind == GM_OWNER_STATIC
	                ? gm_symbols_module_at(graph->symbols, asked->address)
	                : NULL;
	return module && strstr(module->name, "libgpumem-sim");
}

struct gm_error *gm_unattributed_name_owners(struct gm_holders *graph, struct gm_stacks *stacks,
        struct gm_unattributed_list *unattributed_list)
{
	size_t total = unattributed_list->items.count, count = 0, kept = 0;
	_cleanup_free_ struct gm_owner_query *queries = calloc(total + 1, sizeof(*queries));
	if (!queries)
		return &gm_error_no_memory;
	for (size_t i = 0; i < total; i++) {
		const struct gm_unattributed *unattributed = &unattributed_list->items.items[i];
		if (unattributed->in_heap)
			queries[count++] = (struct gm_owner_query){.word = unattributed->address};
	}
	if (count == 0)
		return NULL;
	gm_try(find_owners(graph, stacks, queries, count));
	for (size_t i = 0, query = 0; i < total; i++) {
		struct gm_unattributed *unattributed = &unattributed_list->items.items[i];
		const struct gm_owner_query *asked =
		        query < count && queries[query].word == unattributed->address
		                ? &queries[query++]
		                : NULL;
		/* the simulated device has its memory as a driver would, invisible to the program
		 * */
		if (asked && (asked->dead || is_simulators(graph, asked))) {
			unattributed_list->stale++;
			gm_native_owner_release(asked->native);
			gm_native_owner_release(unattributed->native);
			continue;
		}
		/* a DataPtr is more informative than memory without a known owner */
		bool better =
		        asked && asked->native &&
		        (asked->kind != GM_OWNER_NONE || unattributed->sense == GM_WORD_UNKNOWN);
		if (asked && !better)
			gm_native_owner_release(asked->native);
		if (better) {
			gm_native_owner_release(unattributed->native);
			unattributed->native = asked->native;
			unattributed->sense = asked->sense;
		}
		if (asked) {
			unattributed->owner = asked->kind;
			unattributed->owner_vertex = asked->vertex;
			unattributed->owner_address = asked->address;
		}
		unattributed_list->items.items[kept++] = *unattributed;
	}
	unattributed_list->items.count = kept;
	return NULL;
}
