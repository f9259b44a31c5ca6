/* Adds to many blocks what their tensors are. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "holders/graph/graph.h"
#include "holders/holders.h"

static int by_data(const void *a, const void *b)
{
	const struct gm_storage *left = a, *right = b;
	if (left->data != right->data)
		return left->data < right->data ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static uint64_t elements_of(const int64_t *shape, uint32_t dimensions)
{
	uint64_t elements = 1;
	for (uint32_t i = 0; i < dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		elements *= (uint64_t)shape[i];
	return elements;
}

/* Of several tensors in a block the largest tells its shape; of those that are equally large the
 * one with the most dimensions, since a flat one is a view of it or was made from it. The order in
 * which they are found does not matter. */
static bool tells_more(const struct gm_tensor *tensor, const struct gm_block_note *note)
{
	uint64_t elements = elements_of(tensor->shape, tensor->dimensions);
	uint64_t largest = elements_of(note->shape, note->dimensions);
	if (elements != largest)
		return elements > largest;
	if (tensor->dimensions != note->dimensions)
		return tensor->dimensions > note->dimensions;
	return memcmp(tensor->shape, note->shape, sizeof(note->shape)) > 0;
}

static void annotate_tensor(
        struct gm_holders *graph, const struct gm_tensor *tensor, struct gm_block_note *note)
{
	const struct gm_vertex *vertex =
	        &graph->vertices.items[gm_graph_find(graph, tensor->address)];
	note->tensors++;
	note->requires_grad |= tensor->requires_grad;
	note->has_grad_fn |= tensor->grad_fn != 0;
	for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++)
		note->gradient |= graph->edges.items[e].kind == GM_REF_GRAD;
	if (graph->python && tensor->python &&
	        gm_python_is_instance(graph->python, tensor->python, "Parameter"))
		note->parameter = true;
	if (note->dtype && !tells_more(tensor, note))
		return;
	note->dtype = tensor->dtype;
	note->dimensions = tensor->dimensions;
	memcpy(note->shape, tensor->shape, sizeof(note->shape));
}

void gm_holders_annotate(struct gm_holders *graph, struct gm_block_note *notes, size_t count)
{
	_cleanup_free_ struct gm_storage *sorted =
	        malloc((graph->storages.count + 1) * sizeof(*sorted));
	for (size_t i = 0; i < count; i++)
		notes[i] =
		        (struct gm_block_note){.address = notes[i].address, .size = notes[i].size};
	if (!sorted || graph->storages.count == 0)
		return;
	memcpy(sorted, graph->storages.items, graph->storages.count * sizeof(*sorted));
	qsort(sorted, graph->storages.count, sizeof(*sorted), by_data);
	for (size_t i = 0; i < count; i++) {
		size_t low = gm_partition_point(
		        graph->storages.count, middle, sorted[middle].data < notes[i].address);
		for (; low < graph->storages.count &&
		        sorted[low].data - notes[i].address < notes[i].size;
		        low++) {
			const struct gm_vertex *storage =
			        &graph->vertices.items[gm_graph_find(graph, sorted[low].address)];
			notes[i].known = true;
			for (uint32_t e = storage->first; e < storage->first + storage->count;
			        e++) {
				const struct gm_edge *edge = &graph->edges.items[e];
				if (edge->kind == GM_REF_STORAGE)
					annotate_tensor(graph,
					        &graph->tensors.items
					                 [graph->vertices.items[edge->from].detail],
					        &notes[i]);
			}
		}
	}
}
