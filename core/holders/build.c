#include "holders/build.h"

#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "holders/graph/graph.h"
#include "holders/heap/malloc.h"
#include "holders/graph/freeze.h"
#include "holders/graph/python.h"
#include "holders/holders.h"
#include "holders/native/native.h"

struct finding_objects {
	struct gm_holders *graph;
	struct gm_error *error;
};

static void *find_objects(void *context)
{
	struct finding_objects *finding = context;
	finding->error = gm_graph_find_objects(finding->graph);
	return NULL;
}

/* Two independent tasks read much memory: the scan for C++ objects, and the walk of Python's
 * collector lists, which one thread must do alone. */
static struct gm_error *read_in_parallel(struct gm_holders *graph, struct gm_scan_result *ret_hits)
{
	struct finding_objects finding = {graph, NULL};
	pthread_t thread;
	bool parallel = graph->python && gm_image_reads_anywhere(graph->image) &&
	                gm_thread_create(&thread, find_objects, &finding) == 0;
	struct gm_error *error = gm_graph_scan(graph, NULL, ret_hits);
	if (parallel)
		pthread_join(thread, NULL);
	else if (graph->python)
		find_objects(&finding);
	if (error)
		gm_error_destroy(finding.error);
	else if (finding.error)
		free(ret_hits->hits);
	return error ? error : finding.error;
}

/* Everything that build() creates. */
static void forget(struct gm_holders *graph)
{
	for (size_t i = 0; i < graph->modules.count; i++)
		free(graph->modules.items[i].name);
	for (size_t i = 0; i < graph->thread_names.count; i++)
		free(graph->thread_names.items[i]);
	for (size_t i = 0; i < graph->natives.count; i++)
		gm_native_owner_release(graph->natives.items[i].owner);
	gm_array_deinit(&graph->natives);
	gm_map_deinit(&graph->classes_done);
	gm_malloc_destroy(gm_take(graph->malloc));
	gm_array_deinit(&graph->vertices);
	gm_sweep_destroy(gm_take(graph->sweep));
	gm_array_deinit(&graph->untracked);
	gm_address_set_deinit(&graph->objects);
	gm_map_deinit(&graph->by_address);
	gm_graph_deinit_edges(graph);
	gm_map_deinit(&graph->typed_words);
	gm_map_deinit(&graph->accounted);
	gm_array_deinit(&graph->storages);
	gm_array_deinit(&graph->tensors);
	gm_array_deinit(&graph->nodes);
	gm_array_deinit(&graph->frames);
	gm_array_deinit(&graph->modules);
	gm_array_deinit(&graph->thread_names);
}

static void start_again(struct gm_holders *graph)
{
	forget(graph);
	graph->run_edges = 0;
	graph->frozen = false;
}

/* Reads memory once where that is possible, and otherwise in separate scans. */
static struct gm_error *read_all(
        struct gm_holders *graph, bool swept, struct gm_scan_result *ret_hits)
{
	if (graph->python)
		gm_try(gm_python_note_running(graph->python));
	if (!swept || !graph->python || !gm_image_reads_anywhere(graph->image)) {
		gm_image_read_cache_begin(graph->image);
		return read_in_parallel(graph, ret_hits);
	}
	gm_try(gm_graph_sweep(graph, ret_hits));
	if (graph->sweep)
		return NULL;
	start_again(graph);
	gm_image_read_cache_begin(graph->image);
	struct gm_error *error = gm_graph_find_objects(graph);
	if (error)
		free(ret_hits->hits);
	return error;
}

static struct gm_error *find_references(struct gm_holders *graph, const struct gm_scan_result *hits)
{
	if (!graph->sweep)
		gm_try(gm_graph_add_objects(graph));
	gm_try(gm_graph_add_native(graph, hits));
	if (graph->python)
		gm_try(gm_graph_add_python(graph));
	gm_sweep_destroy(gm_take(graph->sweep));
	return NULL;
}

/* A running process may change the collector's lists while they are read. In that case they are
 * read once more. */
static struct gm_error *read_whole(struct gm_holders *graph, struct gm_scan_result *ret_hits)
{
	enum { TRIES = 4 };
	for (unsigned i = 1;; i++) {
		struct gm_error *error = read_all(graph, i == 1, ret_hits);
		if (!error || error->status != GM_CORRUPT || i == TRIES ||
		        gm_image_pid(graph->image) == 0)
			return error;
		gm_error_destroy(error);
		gm_image_invalidate(graph->image);
		start_again(graph);
	}
}

static struct gm_error *build_borrowed(struct gm_holders *graph)
{
	struct gm_scan_result hits;
	struct gm_error *error = read_whole(graph, &hits);
	if (!error) {
		error = find_references(graph, &hits);
		free(hits.hits);
	}
	gm_image_read_cache_end(graph->image);
	gm_try(error);
	if (!gm_graph_freeze(graph))
		return &gm_error_no_memory;
	graph->cost.storages = graph->storages.count;
	graph->cost.tensors = graph->tensors.count;
	graph->cost.nodes = graph->nodes.count;
	return NULL;
}

static struct gm_error *build(struct gm_holders *graph)
{
	gm_image_borrow_begin(graph->image);
	struct gm_error *error = build_borrowed(graph);
	gm_image_borrow_end(graph->image);
	return error;
}

static struct gm_error *create(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, struct gm_torch *torch, bool whole,
        struct gm_holders **ret_holders)
{
	struct gm_holders *graph = calloc(1, sizeof(*graph));
	if (!graph)
		return &gm_error_no_memory;
	graph->image = image;
	graph->symbols = symbols;
	graph->python = python;
	graph->torch = torch;
	graph->keep_all = whole;
	struct gm_error *error = build(graph);
	if (error)
		gm_holders_destroy(graph);
	else
		*ret_holders = graph;
	return error;
}

struct gm_error *gm_holders_create(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, struct gm_torch *torch, struct gm_holders **ret_holders)
{
	return create(image, symbols, python, torch, false, ret_holders);
}

struct gm_error *gm_holders_create_whole(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, struct gm_torch *torch, struct gm_holders **ret_holders)
{
	return create(image, symbols, python, torch, true, ret_holders);
}

struct gm_error *gm_graph_keep_all(struct gm_holders *graph)
{
	start_again(graph);
	graph->keep_all = true;
	return build(graph);
}

void gm_holders_destroy(struct gm_holders *graph)
{
	if (!graph)
		return;
	forget(graph);
	free(graph->blocks);
	free(graph);
}

void gm_holders_cost(const struct gm_holders *graph, struct gm_holders_cost *ret_cost)
{
	*ret_cost = graph->cost;
}
