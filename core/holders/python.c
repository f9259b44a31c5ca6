/*
 * Python's side of the graph: every object that the collector tracks, what each refers to, the frames of all
 * threads and the modules. Strings, numbers and code objects hold no tensors and are left out; so is an
 * object's reference to its class.
 */
#include "holders/graph.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"

enum {
	MAX_FRAMES = 1 << 16, /* of all threads */
	MAX_THREADS = 4096,
	FRAMES_AT_ONCE = 4096,
};

static bool add_tracked(void *context, uint64_t object)
{
	gm_graph_add(context, object, GM_VERTEX_PYTHON, 0);
	return true;
}

struct filter;

struct referring {
	struct gm_holders *graph;
	uint32_t from;
	const struct filter *filter;
};

/*
 * A bit for each object of the graph, by a hash of its address: most references are to strings, numbers and
 * code, which are in no graph, and one bit that is in the processor's cache says so where the table of
 * addresses would be a miss each.
 */
enum { FILTER_BITS = 23 };
struct filter {
	uint64_t words[1 << (FILTER_BITS - 6)];
};

/* Objects of one neighbourhood share a cache line of bits. */
static uint64_t filter_bit(uint64_t address)
{
	uint64_t line = (address >> 13) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER_BITS + 9);
	return line << 9 | (address >> 4 & 511);
}

static struct filter *filter_create(struct gm_holders *graph)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	if (!filter)
		return NULL;
	for (size_t i = 0; i < graph->vertices.count; i++) {
		uint64_t bit = filter_bit(graph->vertices.items[i].address);
		filter->words[bit / 64] |= UINT64_C(1) << bit % 64;
	}
	return filter;
}

static bool filter_passes(const struct filter *filter, uint64_t address)
{
	uint64_t bit = filter_bit(address);
	return filter->words[bit / 64] >> bit % 64 & 1;
}

static bool add_reference(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct referring *referring = context;
	if (kind == GM_EDGE_TYPE || !filter_passes(referring->filter, target))
		return true;
	uint32_t to = gm_graph_find(referring->graph, target);
	uint32_t extra = (uint32_t)kind;
	if (kind == GM_EDGE_OTHER && name && strcmp(name, "__dict__") == 0)
		extra |= GM_LINK_IS_DICT;
	if (to != GM_NO_VERTEX)
		gm_graph_refer(referring->graph, referring->from, to, GM_REF_PYTHON, extra, 0);
	return !referring->graph->no_memory;
}

static void add_objects_references(struct gm_holders *graph)
{
	/* frames and modules come after: the count is that of the Python objects and native vertices */
	size_t count = graph->vertices.count;
	_cleanup_free_ struct filter *filter = filter_create(graph);
	graph->no_memory |= !filter;
	for (size_t i = 0; i < count && !graph->no_memory; i++) {
		if (graph->vertices.items[i].kind != GM_VERTEX_PYTHON)
			continue;
		struct referring referring = {graph, (uint32_t)i, filter};
		gm_python_references(
		        graph->python, graph->vertices.items[i].address, add_reference, &referring);
		graph->cost.python_objects++;
	}
}

/* A field of a frame or a thread that is no local: its name is kept, as it cannot be asked for again. */
static bool add_named_reference(struct referring *referring, uint64_t target, const char *name)
{
	struct gm_holders *graph = referring->graph;
	uint32_t to = gm_graph_find(graph, target);
	if (to == GM_NO_VERTEX)
		return true;
	char *copy = strdup(name ? name : "thread state");
	if (!copy || !gm_array_push(&graph->thread_names, copy)) {
		free(copy);
		graph->no_memory = true;
		return false;
	}
	gm_graph_refer(graph, referring->from, to, GM_REF_THREAD,
	        (uint32_t)(graph->thread_names.count - 1), 0);
	return true;
}

static bool add_thread_reference(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	return add_named_reference(context, target, name);
}

static bool add_frame_reference(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct referring *referring = context;
	struct gm_holders *graph = referring->graph;
	if (kind != GM_EDGE_LOCAL)
		return add_named_reference(referring, target, name);
	gm_graph_refer(graph, referring->from, gm_graph_find(graph, target), GM_REF_LOCAL,
	        (uint32_t)index, 0);
	return !graph->no_memory;
}

static void add_frame(struct gm_holders *graph, const struct gm_python_frame *frame, pid_t thread)
{
	struct gm_frame_root root = {*frame, thread};
	if (graph->frames.count >= MAX_FRAMES)
		return;
	uint32_t number =
	        gm_graph_add(graph, frame->address, GM_VERTEX_FRAME, (uint32_t)graph->frames.count);
	if (number == GM_NO_VERTEX || graph->vertices.items[number].kind != GM_VERTEX_FRAME)
		return;
	if (!gm_array_push(&graph->frames, root)) {
		graph->no_memory = true;
		return;
	}
	struct referring referring = {graph, number, NULL};
	gm_python_frame_references(graph->python, frame, add_frame_reference, &referring);
}

static struct gm_error *add_frames(struct gm_holders *graph)
{
	_cleanup_free_ struct gm_python_thread *threads = calloc(MAX_THREADS, sizeof(*threads));
	_cleanup_free_ struct gm_python_frame *frames = calloc(FRAMES_AT_ONCE, sizeof(*frames));
	if (!threads || !frames)
		return &gm_error_no_memory;
	size_t thread_count;
	gm_try(gm_python_threads(graph->python, threads, MAX_THREADS, &thread_count));
	for (size_t i = 0; i < thread_count; i++) {
		size_t count = gm_python_stack(
		        graph->python, threads[i].native_id, frames, FRAMES_AT_ONCE);
		for (size_t j = 0; j < count; j++)
			add_frame(graph, &frames[j], threads[i].native_id);
	}
	return NULL;
}

static bool add_module(void *context, const char *name, uint64_t module, uint64_t dict)
{
	struct gm_holders *graph = context;
	uint32_t number = gm_graph_add(graph, dict, GM_VERTEX_PYTHON, 0);
	if (number == GM_NO_VERTEX || graph->vertices.items[number].kind != GM_VERTEX_PYTHON ||
	        (graph->vertices.items[number].flags & GM_VERTEX_ROOT_MODULE))
		return !graph->no_memory;
	struct gm_module_root root = {strdup(name), dict};
	if (!root.name || !gm_array_push(&graph->modules, root)) {
		free(root.name);
		graph->no_memory = true;
		return false;
	}
	graph->vertices.items[number].detail = (uint32_t)(graph->modules.count - 1);
	graph->vertices.items[number].flags |= GM_VERTEX_ROOT_MODULE;
	return true;
}

struct gm_error *gm_graph_add_python(struct gm_holders *graph)
{
	struct timespec start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	size_t count;
	gm_try(gm_python_tracked(graph->python, add_tracked, graph, &count));
	gm_try(gm_python_modules(graph->python, add_module, graph));
	add_objects_references(graph);
	gm_try(add_frames(graph));
	/* no object is at address 8 */
	struct referring threads = {graph, gm_graph_add(graph, 8, GM_VERTEX_THREAD, 0), NULL};
	gm_python_thread_references(graph->python, add_thread_reference, &threads);
	clock_gettime(CLOCK_MONOTONIC, &end);
	graph->cost.python_seconds =
	        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
	return graph->no_memory ? &gm_error_no_memory : NULL;
}
