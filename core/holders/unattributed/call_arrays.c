/*
 * The arguments of a running call with keywords.
 *
 * When a function is called with a dict of keywords, as in `module(**keys)` and for every
 * torch.nn.Module that is called with a keyword, CPython copies the arguments into a new array and
 * owns each of them until the call returns: _PyStack_UnpackDict(), Objects/call.c (3.9 to 3.15).
 * The array is a block of CPython's own allocator: one word that the callee may use, then the
 * positional arguments and the values of the keywords. A pointer on the native stack leads to it,
 * to the first argument after the free word. No other array of references begins this way.
 */
#include "holders/unattributed/call_arrays.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/stacks.h"
#include "holders/unattributed/unattributed.h"
#include "holders/heap/heap.h"

enum {
	LIVE_BYTES = 8 << 20, /* most words of one stack that are examined */
	MOST_WORDS = 64,      /* larger blocks come from malloc: Objects/obmalloc.c */
};

/* Words in the used part of all native stacks that may be pointers. */
static bool read_live(
        struct gm_holders *graph, const struct gm_stacks *stacks, struct gm_map *ret_words)
{
	for (size_t i = 0; i < stacks->items.count; i++) {
		const struct gm_stack *stack = &stacks->items.items[i];
		uint64_t start = (stack->pointer + 7) & ~UINT64_C(7);
		size_t size = stack->outermost > start ? (size_t)(stack->outermost - start) : 0;
		size = size < LIVE_BYTES ? size & ~(size_t)7 : LIVE_BYTES;
		_cleanup_free_ uint64_t *words = malloc(size + 8);
		if (!words)
			return false;
		size = gm_image_read_some(graph->image, start, words, size);
		for (size_t k = 0; k < size / 8; k++)
			if (words[k] >= 0x10000 && !(words[k] & 7) && !(words[k] >> 47) &&
			        !gm_map_put(ret_words, words[k], NULL))
				return false;
	}
	return true;
}

static bool is_object(struct gm_holders *graph, uint64_t address)
{
	const char *name;
	return address >= 0x10000 && !(address & 7) && !(address >> 47) &&
	       gm_python_type_name(graph->python, address, &name);
}

bool gm_is_call_argument(
        struct gm_holders *graph, struct gm_stacks *stacks, struct gm_map *live, uint64_t address)
{
	struct gm_pool_block block;
	uint64_t words[MOST_WORDS];
	if (!gm_pool_block(graph, address, &block) || address <= block.start ||
	        block.size > sizeof(words))
		return false;
	if (!live->count) {
		gm_stacks_read(graph, stacks);
		if (!read_live(graph, stacks, live))
			return false;
	}
	if (!gm_map_find(live, block.start + 8) ||
	        !gm_image_try_read(graph->image, block.start, words, block.size))
		return false;
	/* for an object that the collector does not track, this is its class */
	if (gm_python_is_instance(graph->python, words[1], "type") && is_object(graph, block.start))
		return false;
	/* block sizes are multiples of 16: the last word may not be part of the array */
	size_t number = (address - block.start) / 8, count = block.size / 8;
	for (size_t i = 1; i < count; i++)
		if (!is_object(graph, words[i]) && (i < count - 1 || i == number))
			return false;
	return true;
}
