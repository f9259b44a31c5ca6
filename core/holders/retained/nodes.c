#include "holders/retained/nodes.h"

#include <stdio.h>

#include "holders/graph/dominators.h"
#include "base/strings.h"
#include "holders/holders.h"
#include "holders/retained/variables.h"

enum { MAX_NODES = 1 << 24 };

static uint32_t child_of(struct gm_retained_builder *builder, uint32_t parent, struct gm_step step)
{
	bool is_new;
	struct gm_retained_building *above = &builder->nodes.items[parent];
	if (above->depth >= GM_RETAINED_DEPTH || builder->nodes.count >= MAX_NODES)
		return parent;
	uint64_t key = ((uint64_t)parent << 38 | (uint64_t)step.part << 32 | step.name) + 1;
	uint64_t *slot = gm_map_put(&builder->children, key, &is_new);
	struct gm_retained_building made = {.parent = parent,
	        .next_sibling = above->first_child,
	        .depth = above->depth + 1,
	        .step = step};
	if (!slot || (is_new && !gm_array_push(&builder->nodes, made))) {
		builder->no_memory = true;
		return parent;
	}
	if (is_new) {
		*slot = builder->nodes.count - 1;
		builder->nodes.items[parent].first_child = (uint32_t)*slot;
	}
	return (uint32_t)*slot;
}

static uint32_t descend(
        struct gm_retained_builder *builder, struct gm_retained_place from, uint32_t vertex)
{
	struct gm_step steps[2 * GM_PATH_MAX];
	size_t count = gm_paths_grouped(builder->paths, from.vertex, vertex, steps), first = 0;
	uint32_t node = from.node;
	while (from.graph && first < count && steps[first].part != GM_PART_SAVED_GROUP &&
	        steps[first].part != GM_PART_GRAPH)
		first++;
	for (size_t i = first == count ? 0 : first; i < count; i++)
		node = child_of(builder, node, steps[i]);
	return node;
}

/* Items without a name are counted. */
static bool is_counted(struct gm_step step)
{
	return step.part == GM_PART_ITEM || step.part == GM_PART_DICT_KEY ||
	       (step.part == GM_PART_KEY && step.name == 0);
}

void gm_retained_place_vertices(struct gm_retained_builder *builder)
{
	const struct gm_sharing *sharing = builder->sharing;
	const struct gm_reach *reach = builder->reach;
	/* in the order of the dominator tree: the children of a vertex come after it */
	for (uint32_t i = 0; i < reach->reached_count; i++) {
		uint32_t v = reach->order[i];
		if (v == 0)
			continue;
		const struct gm_reach_edge *edge = &reach->edges.items[reach->tree[v]];
		bool is_item = is_counted((struct gm_step){edge->part, edge->name}) &&
		               builder->paths->of[v] != builder->paths->of[edge->from];
		builder->items[v] = is_item ? v : builder->items[edge->from];
	}
	GM_ARRAY(uint32_t) stack = {0};
	builder->no_memory |= !gm_array_push(&stack, 0);
	while (stack.count > 0 && !builder->no_memory) {
		uint32_t top = stack.items[--stack.count];
		for (uint32_t c = sharing->child_first[top]; c < sharing->child_first[top + 1];
		        c++) {
			uint32_t v = sharing->children[c];
			builder->places[v] = builder->places[top];
			uint32_t set = sharing->set_of[v];
			bool graph = set && sharing->sets.items[set].graph;
			/* parts of one graph are shown as one */
			if (set && (top == 0 || !graph ||
			                   !gm_paths_through_graph(builder->paths, 0, top))) {
				struct gm_step step = {
				        GM_PART_SHARED, sharing->sets.items[set].plain};
				uint32_t node = descend(builder, builder->places[top], top);
				if (top == 0 || !graph)
					node = child_of(builder, node, step);
				builder->places[v] = (struct gm_retained_place){node, top, graph};
			}
			builder->no_memory |= !gm_array_push(&stack, v);
		}
	}
	gm_array_deinit(&stack);
}

/* The node of a block: the end of its path. */
static uint32_t node_of_block(
        struct gm_retained_builder *builder, const struct gm_reach_block *block)
{
	if (builder->dominators[block->vertex] == GM_NO_DOMINATOR)
		return child_of(builder, 0, (struct gm_step){.part = GM_PART_UNKNOWN});
	return descend(builder, builder->places[block->vertex], block->vertex);
}

static void count_block(
        struct gm_retained_builder *builder, const struct gm_reach_block *block, uint32_t node)
{
	uint32_t item = builder->items[block->vertex];
	for (;; node = builder->nodes.items[node].parent) {
		struct gm_retained_building *at = &builder->nodes.items[node];
		at->bytes += block->bytes;
		at->blocks++;
		if (node == 0)
			break;
		if (!is_counted(at->step) || item == 0)
			continue;
		bool is_new = false;
		if (!gm_map_put(&builder->seen, (uint64_t)node << 32 | item, &is_new))
			builder->no_memory = true;
		builder->nodes.items[node].items += is_new;
		const struct gm_reach *reach = builder->reach;
		item = builder->items[reach->edges.items[reach->tree[item]].from];
	}
}

/* A block without a known holder is described by its tensors: "float32 [4198400]". */
static struct gm_step step_of_tensor(
        struct gm_retained_builder *builder, const struct gm_block_note *note)
{
	char text[GM_TENSOR_MAX_DIMENSIONS * 24 + 64];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s [", note->dtype ? note->dtype : "?");
	for (uint32_t i = 0; note->dtype && i < note->dimensions && i < GM_TENSOR_MAX_DIMENSIONS;
	        i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%jd", i ? ", " : "",
		        (intmax_t)note->shape[i]);
	snprintf(text + used, sizeof(text) - used, "]");
	return (struct gm_step){GM_PART_FIELD, gm_strings_add(&builder->reach->strings, text)};
}

void gm_retained_add_blocks(struct gm_retained_builder *builder, int device)
{
	struct gm_reach *reach = builder->reach;
	struct gm_step missing = {
	        GM_PART_VARIABLE, gm_reach_label(reach, GM_NAME_MISSING, NULL, NULL)};
	uint32_t missing_node = child_of(builder, 0, missing);
	GM_ARRAY(struct gm_block_note) notes = {0};
	GM_ARRAY(uint32_t) blocks = {0}; /* beside notes */
	for (size_t i = 0; i < reach->blocks.count && !builder->no_memory; i++) {
		const struct gm_reach_block *block = &reach->blocks.items[i];
		struct gm_block_note note = {.address = block->address, .size = block->bytes};
		if (block->device != device)
			continue;
		uint32_t node = node_of_block(builder, block);
		if (node != missing_node)
			count_block(builder, block, node);
		else if (!gm_array_push(&notes, note) || !gm_array_push(&blocks, (uint32_t)i))
			builder->no_memory = true;
	}
	if (notes.count)
		gm_holders_annotate(reach->graph, notes.items, notes.count);
	for (size_t i = 0; i < blocks.count && !builder->no_memory; i++)
		count_block(builder, &reach->blocks.items[blocks.items[i]],
		        child_of(builder, missing_node, step_of_tensor(builder, &notes.items[i])));
	gm_array_deinit(&notes);
	gm_array_deinit(&blocks);
}
