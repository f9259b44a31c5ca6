/*
 * Python's part of the graph: every object that the collector tracks with its references, the
 * frames of all threads, and the modules. Strings, numbers and code objects refer to no tensors and
 * are left out, and so is each object's reference to its class.
 */
#include "holders/graph/python.h"

#include "holders/graph/graph.h"
#include "holders/native/lenders.h"
#include "holders/native/native.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/huge_pages.h"
#include "base/sort.h"
#include "base/team.h"
#include "cpython/sweep/walk.h"

enum {
	MAX_FRAMES = 1 << 16, /* of all threads */
	MAX_OBJECTS = 1 << 25,
};

/* native.c reads the references of tensors and storages */
static const char *const ours[] = {"torch._C.TensorBase", "torch._C.StorageBase", NULL};

static bool add_tracked(void *context, uint64_t object)
{
	struct gm_holders *graph = context;
	bool added = graph->objects.count < MAX_OBJECTS &&
	             gm_address_set_add(&graph->objects, object, NULL);
	graph->no_memory |= !added;
	return added;
}

struct gm_error *gm_graph_find_objects(struct gm_holders *graph)
{
	size_t count;
	gm_try(gm_python_tracked(graph->python, add_tracked, graph, &count));
	return NULL;
}

enum { VERTICES_AT_ONCE = 4096 };

static void make_vertices(void *context, size_t number)
{
	struct gm_holders *graph = context;
	uint64_t addresses[VERTICES_AT_ONCE];
	size_t first = number * VERTICES_AT_ONCE, count = graph->objects.count - first;
	if (count > VERTICES_AT_ONCE)
		count = VERTICES_AT_ONCE;
	gm_address_set_list(&graph->objects, first, count, addresses);
	for (size_t i = 0; i < count; i++)
		graph->vertices.items[first + i] =
		        (struct gm_vertex){.address = addresses[i], .kind = GM_VERTEX_PYTHON};
}

/* Capacity for vertices. Much of it is touched at once, and with small pages half the time would be
 * page faults. */
static bool reserve_vertices(struct gm_holders *graph, size_t count)
{
	enum { HUGE = 2 << 20 };
	size_t bytes = (count * sizeof(*graph->vertices.items) + HUGE - 1) & ~(size_t)(HUGE - 1);
	void *memory = bytes > HUGE ? aligned_alloc(HUGE, bytes) : NULL;
	if (!memory)
		return gm_array_reserve(&graph->vertices, count);
	gm_huge_pages_advise(memory, bytes);
	graph->vertices.items = memory;
	graph->vertices.capacity = bytes / sizeof(*graph->vertices.items);
	return true;
}

struct gm_error *gm_graph_add_objects(struct gm_holders *graph)
{
	size_t count = graph->objects.count;
	/* objects that the collector does not track follow: usually a tenth more */
	if (graph->no_memory || (!graph->sweep && !gm_address_set_number(&graph->objects)) ||
	        !reserve_vertices(graph, count + count / 8 + 1024))
		return &gm_error_no_memory;
	gm_team_run((count + VERTICES_AT_ONCE - 1) / VERTICES_AT_ONCE, make_vertices, graph);
	graph->vertices.count = count;
	graph->cost.python_objects = count;
	return NULL;
}

struct referring {
	struct gm_holders *graph;
	uint32_t from;
};

/* --- references of objects -------------------------------------------------------------------- */

/* An object that the collector does not track becomes a vertex when something refers to it, and its
 * references are read in the next round: numpy arrays, dicts and tuples of such objects, the links
 * of a functools.lru_cache. */
static void add_walked(struct gm_holders *graph, const struct gm_walk_result *result)
{
	for (size_t b = 0; b < result->count && !graph->no_memory; b++) {
		struct gm_walk_batch *batch = &result->batches[b];
		gm_graph_take(graph, batch->references, batch->reference_count);
		batch->references = NULL;
		for (size_t i = 0; i < batch->outside_count && !graph->no_memory; i++) {
			const struct gm_walk_outside *outside = &batch->outside[i];
			uint32_t to = gm_graph_add(graph, outside->to, GM_VERTEX_PYTHON, 0);
			if (to != GM_NO_VERTEX &&
			        graph->vertices.items[to].kind == GM_VERTEX_PYTHON)
				gm_graph_refer(
				        graph, outside->from, to, GM_REF_PYTHON, outside->extra, 0);
		}
		free(batch->outside);
		batch->outside = NULL;
	}
}

static struct gm_error *walk(struct gm_holders *graph, struct gm_walk_options *options)
{
	struct gm_walk_result result;
	options->read_by_caller = ours;
	if (graph->sweep)
		gm_try(gm_sweep_untracked(graph->sweep, options->addresses, options->numbers,
		        options->count, &result));
	else
		gm_try(gm_python_walk(graph->python, options, &result));
	add_walked(graph, &result);
	gm_walk_result_deinit(&result);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}

struct untracked {
	uint64_t address;
	uint32_t number;
};

/* Objects whose own memory is examined once all C++ objects are known. For most of them the sweep
 * has already shown that it is not necessary. */
static void note_special(struct gm_holders *graph, const struct untracked *found, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct gm_graph_object object = {found[i].address, found[i].number};
		if (!graph->sweep || !gm_sweep_is_plain(graph->sweep, object.address))
			graph->no_memory |= !gm_array_push(&graph->untracked, object);
	}
}

/* Reads the references of the untracked Python vertices from `first` on. */
static struct gm_error *walk_untracked(struct gm_holders *graph, size_t first)
{
	size_t most = graph->vertices.count - first, count = 0;
	_cleanup_free_ struct untracked *found = malloc((most + 1) * sizeof(*found));
	_cleanup_free_ struct untracked *scratch = malloc((most + 1) * sizeof(*scratch));
	_cleanup_free_ uint64_t *addresses = malloc((most + 1) * sizeof(*addresses));
	_cleanup_free_ uint32_t *numbers = malloc((most + 1) * sizeof(*numbers));
	if (!found || !scratch || !addresses || !numbers)
		return &gm_error_no_memory;
	for (size_t i = first; i < graph->vertices.count; i++)
		if (graph->vertices.items[i].kind == GM_VERTEX_PYTHON)
			found[count++] =
			        (struct untracked){graph->vertices.items[i].address, (uint32_t)i};
	if (count == 0)
		return NULL;
	gm_sort_by_address(found, scratch, count, sizeof(*found));
	for (size_t i = 0; i < count; i++) {
		addresses[i] = found[i].address;
		numbers[i] = found[i].number;
	}
	graph->cost.python_objects += count;
	note_special(graph, found, count);
	struct gm_walk_options options = {.objects = &graph->objects,
	        .addresses = addresses,
	        .numbers = numbers,
	        .count = count};
	return walk(graph, &options);
}

/* Then the references of the vertices that were added, and so on. */
static struct gm_error *add_untracked(struct gm_holders *graph, size_t next)
{
	/* this ends: each object becomes a vertex once, and the number of vertices has a bound */
	while (next < graph->vertices.count) {
		size_t first = next;
		next = graph->vertices.count;
		gm_try(walk_untracked(graph, first));
	}
	return graph->no_memory ? &gm_error_no_memory : NULL;
}

/* A field of a frame or thread that is not a local variable. Its name is stored, because it cannot
 * be looked up later. */
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

/* The objects of a frame or thread become vertices: the collector may not track them (numpy arrays;
 * the dict of a thread, where asyncio keeps the running loop). */
static bool add_frame_object(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct gm_holders *graph = context;
	if (target && !(target & 7) && gm_graph_find(graph, target) == GM_NO_VERTEX &&
	        !gm_python_is_atom(graph->python, target))
		gm_graph_add(graph, target, GM_VERTEX_PYTHON, 0);
	return !graph->no_memory;
}

static bool add_frame(
        void *context, const struct gm_python_thread *thread, const struct gm_python_frame *frame)
{
	struct gm_holders *graph = context;
	struct gm_frame_root root = {*frame, thread->native_id};
	if (graph->frames.count >= MAX_FRAMES)
		return false;
	uint32_t number =
	        gm_graph_add(graph, frame->address, GM_VERTEX_FRAME, (uint32_t)graph->frames.count);
	if (number != GM_NO_VERTEX && graph->vertices.items[number].kind == GM_VERTEX_FRAME)
		graph->no_memory |= !gm_array_push(&graph->frames, root);
	return !graph->no_memory;
}

/* This is done before the references of objects are read: up to 3.10 a frame is an object, and a
 * traceback of a frame that still runs must refer to the running frame's vertex and not create
 * another one. */
static struct gm_error *add_frames(struct gm_holders *graph)
{
	gm_try(gm_python_each_frame(graph->python, add_frame, graph));
	for (size_t i = 0; i < graph->frames.count && !graph->no_memory; i++)
		gm_python_frame_references(
		        graph->python, &graph->frames.items[i].frame, add_frame_object, graph);
	gm_python_thread_references(graph->python, add_frame_object, graph);
	return NULL;
}

static void add_frames_references(struct gm_holders *graph)
{
	for (size_t i = 0; i < graph->frames.count && !graph->no_memory; i++) {
		const struct gm_python_frame *frame = &graph->frames.items[i].frame;
		struct referring referring = {graph, gm_graph_find(graph, frame->address)};
		gm_python_frame_references(graph->python, frame, add_frame_reference, &referring);
	}
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

/* Modules and frames become vertices before the references of objects are read. */
static struct gm_error *add_named(struct gm_holders *graph)
{
	gm_try(gm_python_modules(graph->python, add_module, graph));
	return add_frames(graph);
}

/* --- from one read of memory ------------------------------------------------------------------ */

struct sweeping {
	struct gm_holders *graph;
	struct gm_error *error;
	bool whole; /* the objects are in the graph already, with their references */
};

static bool sweep_first(
        void *context, const struct gm_mapping *mapping, uint64_t start, uint64_t end)
{
	struct sweeping *sweeping = context;
	return gm_sweep_wants(sweeping->graph->sweep, mapping, start, end);
}

static void sweep_chunks(void *context, unsigned thread, const struct gm_kept_chunk *chunks,
        size_t count, bool in_rest)
{
	struct sweeping *sweeping = context;
	if (in_rest)
		gm_sweep_check(sweeping->graph->sweep, chunks, count);
	else
		gm_sweep_chunks(sweeping->graph->sweep, thread, chunks, count);
}

static void sweep_end(void *context, unsigned thread)
{
	struct sweeping *sweeping = context;
	gm_sweep_rest(sweeping->graph->sweep, thread);
}

static struct gm_error *add_swept(struct gm_holders *graph)
{
	struct gm_walk_result result;
	if (!gm_address_set_number(&graph->objects))
		return &gm_error_no_memory;
	gm_try(gm_sweep_references(graph->sweep, &graph->objects, &result));
	struct gm_error *error = gm_graph_add_objects(graph);
	if (!error)
		error = add_named(graph);
	if (!error) {
		add_walked(graph, &result);
		error = add_untracked(graph, graph->objects.count);
	}
	graph->swept = graph->vertices.count;
	gm_walk_result_deinit(&result);
	return error;
}

/* Runs while other threads look for C++ objects in the rest of memory. */
static void sweep_between(void *context)
{
	struct sweeping *sweeping = context;
	struct gm_holders *graph = sweeping->graph;
	double start = gm_seconds();
	if (!gm_sweep_objects(graph->sweep, &graph->objects) || graph->objects.count > MAX_OBJECTS)
		return;
	sweeping->error = add_swept(graph);
	sweeping->whole = !sweeping->error;
	graph->cost.python_seconds += gm_seconds() - start;
}

/* Classes are examined once, and nothing else reads them meanwhile. */
static void sweep_found(void *context, const struct gm_hit *hits, size_t count)
{
	struct sweeping *sweeping = context;
	gm_graph_meet_classes(sweeping->graph, hits, count);
}

struct gm_error *gm_graph_sweep(struct gm_holders *graph, struct gm_scan_result *ret_hits)
{
	struct sweeping sweeping = {.graph = graph};
	graph->sweep = gm_sweep_create(graph->python, ours, gm_graph_special_types);
	if (!graph->sweep)
		return &gm_error_no_memory;
	struct gm_scan_visitor visitor = {
	        sweep_first, sweep_chunks, sweep_end, sweep_between, sweep_found, &sweeping};
	struct gm_error *error = gm_graph_scan(graph, &visitor, ret_hits);
	if (!error && sweeping.error)
		free(ret_hits->hits);
	if (error)
		gm_error_destroy(sweeping.error);
	else
		error = sweeping.error;
	if (error || !sweeping.whole || gm_sweep_missed(graph->sweep))
		gm_sweep_destroy(gm_take(graph->sweep));
	return error;
}

static struct gm_error *add_objects_references(struct gm_holders *graph)
{
	struct gm_walk_options all = {.objects = &graph->objects};
	gm_try(add_named(graph));
	gm_try(walk(graph, &all));
	return add_untracked(graph, graph->objects.count);
}

struct gm_error *gm_graph_add_python(struct gm_holders *graph)
{
	double start = gm_seconds();
	if (graph->sweep) /* references from C++ are known only now, such as those of an array that
	                     shares its memory */
		gm_try(add_untracked(graph, graph->swept));
	else
		gm_try(add_objects_references(graph));
	gm_graph_refer_untracked(graph);
	add_frames_references(graph);
	/* no object is at address 8 */
	struct referring threads = {graph, gm_graph_add(graph, 8, GM_VERTEX_THREAD, 0)};
	gm_python_thread_references(graph->python, add_thread_reference, &threads);
	graph->cost.python_seconds += gm_seconds() - start;
	return graph->no_memory ? &gm_error_no_memory : NULL;
}
