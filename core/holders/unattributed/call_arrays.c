/*
 * The arguments of a call with keywords that is in progress.
 *
 * Where a function is called with a dict of keywords, as `module(**keys)` and every torch.nn.Module
 * called with a keyword is, CPython copies the arguments into an array of its own and owns each of
 * them until the call returns: _PyStack_UnpackDict(), Objects/call.c (3.9 to 3.15). It is a block
 * of CPython's own allocator: one word that is free for the callee, then the positional arguments
 * and the keywords' values. What leads to it is the native stack, by a pointer to the first
 * argument, behind the free word: no other array of references begins so.
 */
#include "holders/unattributed/call_arrays.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/stacks.h"
#include "holders/unattributed/unattributed.h"
#include "holders/heap/heap.h"

enum {
	LIVE_BYTES = 8 << 20, /* of one stack, looked through */
	MOST_WORDS = 64,      /* longer blocks are malloc's: Objects/obmalloc.c */
};

/* Words of all live native stacks that may be pointers. */
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
	/* an object that the collector does not track has its class there */
	if (gm_python_is_instance(graph->python, words[1], "type") && is_object(graph, block.start))
		return false;
	/* blocks are of whole 16 bytes: the last word may be none of it */
	size_t number = (address - block.start) / 8, count = block.size / 8;
	for (size_t i = 1; i < count; i++)
		if (!is_object(graph, words[i]) && (i < count - 1 || i == number))
			return false;
	return true;
}
