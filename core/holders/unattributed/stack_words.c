#include "holders/unattributed/stack_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/heap/stacks.h"
#include "holders/graph/counts.h"
#include "holders/graph/freeze.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "image/stop.h"

enum {
	MAX_THREADS = 4096,
	MAX_STACK_BYTES = 64 << 20,
	BYTES_AT_ONCE = 64 << 10,
	RED_ZONE = 128, /* below the stack pointer, but still in use (System V ABI, 3.2.2) */
};

/* Words of one thread that point to a target. */
struct seen {
	uint64_t word; /* the address of the first one */
	pid_t thread;
	uint32_t target; /* index in targets */
	uint32_t words;
};

struct looking {
	struct gm_holders *graph;
	struct gm_map wanted; /* address -> index in targets, plus 1 */
	struct gm_map tried;  /* words of this thread's stack that were examined as arrays */
	GM_ARRAY(struct seen) seen;
	size_t first; /* of the current thread, in `seen` */
	bool no_memory;
};

static void see(struct looking *looking, pid_t thread, uint64_t word, uint64_t value)
{
	const uint64_t *found = gm_map_find(&looking->wanted, value);
	if (!found)
		return;
	for (size_t i = looking->first; i < looking->seen.count; i++)
		if (looking->seen.items[i].target == *found - 1) {
			looking->seen.items[i].words++;
			return;
		}
	struct seen seen = {word, thread, (uint32_t)(*found - 1), 1};
	looking->no_memory |= !gm_array_push(&looking->seen, seen);
}

static bool is_object(struct gm_holders *graph, uint64_t start)
{
	enum { COLLECTOR_HEAD = 16 };
	return gm_graph_find(graph, start) != GM_NO_VERTEX ||
	       gm_graph_find(graph, start + COLLECTOR_HEAD) != GM_NO_VERTEX;
}

/* A call with many arguments, or with keywords, has them in an array of CPython's allocator, with a
 * counted reference for each (_PyStack_UnpackDict() in Objects/call.c). The stack has the address
 * of the array, or of its second word. */
static void look_at_array(struct looking *looking, pid_t thread, uint64_t address)
{
	enum { MOST = 512, SECOND = 8 };
	uint64_t words[MOST / 8];
	struct gm_pool_block block;
	bool is_new = false;
	if (address % sizeof(uint64_t) || !gm_image_find_mapping(looking->graph->image, address))
		return;
	looking->no_memory |= !gm_map_put(&looking->tried, address & ~(uint64_t)SECOND, &is_new);
	if (!is_new || !gm_pool_block(looking->graph, address, &block) || block.is_free ||
	        address - block.start > SECOND || block.size > MOST ||
	        is_object(looking->graph, block.start) ||
	        !gm_image_try_read(looking->graph->image, block.start, words, block.size))
		return;
	for (size_t i = 0; i < block.size / sizeof(*words); i++)
		see(looking, thread, block.start + i * sizeof(*words), words[i]);
}

static void look_through(struct looking *looking, pid_t thread, uint64_t start, uint64_t end)
{
	_cleanup_free_ uint64_t *words = malloc(BYTES_AT_ONCE);
	looking->no_memory |= !words;
	for (uint64_t at = start; words && at < end;) {
		size_t size = end - at < BYTES_AT_ONCE ? (size_t)(end - at) : BYTES_AT_ONCE;
		if (!gm_image_try_read(looking->graph->image, at, words, size))
			return;
		for (size_t i = 0; i < size / sizeof(*words); i++) {
			see(looking, thread, at + i * sizeof(*words), words[i]);
			look_at_array(looking, thread, words[i]);
		}
		at += size;
	}
}

/* False: its registers could not be read. */
static bool look_at_thread(struct looking *looking, pid_t thread)
{
	struct gm_registers registers;
	_cleanup_error_ struct gm_error *error =
	        gm_image_registers(looking->graph->image, thread, &registers);
	if (error)
		return false;
	uint64_t pointer = registers.value[GM_RSP];
	looking->first = looking->seen.count;
	for (size_t i = 0; i < GM_REGISTER_COUNT; i++)
		see(looking, thread, pointer, registers.value[i]);
	struct gm_stack_range used, left;
	if (!gm_stack_range_find(looking->graph, &registers, &used, &left) ||
	        used.end - pointer > MAX_STACK_BYTES)
		return true;
	uint64_t start = pointer - RED_ZONE > used.start ? pointer - RED_ZONE : used.start;
	look_through(looking, thread, start & ~(uint64_t)7, used.end);
	return true;
}

static bool look_at_threads(struct looking *looking)
{
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	_cleanup_error_ struct gm_error *error =
	        gm_image_threads(looking->graph->image, &threads, &count);
	for (size_t i = 0; !error && i < count && i < MAX_THREADS; i++)
		if (!look_at_thread(looking, threads[i]) && i == 0)
			return false;
	return true;
}

/* Registers of a process that is not stopped are not available. */
static void look(struct looking *looking)
{
	struct gm_stop stop;
	if (look_at_threads(looking) || gm_image_pid(looking->graph->image) <= 0)
		return;
	_cleanup_error_ struct gm_error *error = gm_stop_begin(looking->graph->image, &stop);
	if (error)
		return;
	look_at_threads(looking);
	gm_stop_end(&stop);
}

uint64_t gm_graph_accounted(const struct gm_holders *graph, uint32_t number)
{
	const uint64_t *found =
	        gm_map_find(&graph->accounted, graph->vertices.items[number].address);
	return found ? *found : 0;
}

static void refer(struct looking *looking, uint32_t target, size_t index)
{
	struct gm_holders *graph = looking->graph;
	for (size_t i = 0; i < looking->seen.count; i++) {
		const struct seen *seen = &looking->seen.items[i];
		if (seen->target != index)
			continue;
		_cleanup_owner_ struct gm_native_owner *owner =
		        gm_native_owner_create((struct gm_native_part){
		                .form = GM_NATIVE_STACK, .number = (uint64_t)seen->thread});
		/* one root for each thread: no object is at such a low address */
		gm_graph_refer_native(graph, GM_NO_VERTEX, (uint64_t)seen->thread << 4 | 9, target,
		        seen->word, "native_stack", owner, true);
	}
}

size_t gm_graph_refer_stacks(struct gm_holders *graph, const uint32_t *targets, size_t count)
{
	struct looking looking = {.graph = graph};
	_cleanup_free_ uint64_t *missing = calloc(count + 1, sizeof(*missing));
	_cleanup_free_ uint64_t *words = calloc(count + 1, sizeof(*words));
	size_t promoted = 0;
	looking.no_memory = !missing || !words;
	for (size_t i = 0; i < count && !looking.no_memory; i++) {
		const struct gm_vertex *vertex = &graph->vertices.items[targets[i]];
		uint64_t refcount, found = vertex->count + gm_graph_accounted(graph, targets[i]);
		if (!gm_graph_refcount(graph, targets[i], &refcount) || refcount <= found)
			continue;
		missing[i] = refcount - found;
		uint64_t *slot = gm_map_put(&looking.wanted, vertex->address, NULL);
		looking.no_memory |= !slot;
		if (slot)
			*slot = i + 1;
	}
	if (!looking.no_memory && looking.wanted.count > 0)
		look(&looking);
	for (size_t i = 0; i < looking.seen.count; i++)
		words[looking.seen.items[i].target] += looking.seen.items[i].words;
	for (size_t i = 0; i < count && !looking.no_memory; i++) {
		if (missing[i] == 0 || words[i] < missing[i])
			continue;
		size_t before = graph->edges.count;
		uint64_t *slot = gm_map_put(
		        &graph->accounted, graph->vertices.items[targets[i]].address, NULL);
		looking.no_memory |= !slot;
		refer(&looking, targets[i], i);
		/* each added reference counts separately */
		uint64_t added = graph->edges.count - before;
		if (slot && missing[i] > added)
			*slot += missing[i] - added;
		promoted++;
	}
	gm_map_deinit(&looking.wanted);
	gm_map_deinit(&looking.tried);
	gm_array_deinit(&looking.seen);
	graph->no_memory |= looking.no_memory;
	if (promoted && !graph->no_memory && !gm_graph_freeze(graph))
		graph->no_memory = true;
	return graph->no_memory ? 0 : promoted;
}
