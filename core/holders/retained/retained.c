#include "holders/retained/retained.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "holders/graph/dominators.h"
#include "holders/retained/builder.h"
#include "holders/describe/names.h"
#include "holders/graph/strings.h"
#include "holders/holders.h"
#include "holders/retained/paths.h"
#include "holders/retained/reach.h"
#include "holders/retained/unfound.h"
#include "holders/retained/variables.h"

enum { MAX_NODES = 1 << 24, MAX_ALSO = 8 };

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

/* Items that have no name are counted. */
static bool is_counted(struct gm_step step)
{
	return step.part == GM_PART_ITEM || (step.part == GM_PART_KEY && step.name == 0);
}

static void place_vertices(struct gm_retained_builder *builder)
{
	const struct gm_sharing *sharing = builder->sharing;
	const struct gm_reach *reach = builder->reach;
	/* in the order of the dominators' tree: the children of a vertex stand behind it */
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
			/* parts of one graph are one thing */
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

/* The node of a block: the end of the way to it. */
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

/* What nothing was found to hold is told by its tensors: "float32 [4198400]". */
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

static void add_blocks(struct gm_retained_builder *builder, int device)
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

/* A module's part has the module in its own name: it takes the module's place. */
static bool replaces(uint8_t upper, uint8_t lower)
{
	return upper == GM_PART_MODULE &&
	       (lower == GM_PART_MODULE || lower == GM_PART_PARAMETER || lower == GM_PART_BUFFER);
}

/* --- the answer's tree ------------------------------------------------------------------------ */

static void node_deinit(struct gm_retained_node *node)
{
	for (size_t i = 0; i < node->child_count; i++)
		node_deinit(&node->children[i]);
	gm_retained_names_free(node->names, node->name_count);
	gm_retained_names_free(node->also, node->also_count);
	free(node->children);
	free(node->place);
}

static int by_bytes(const void *a, const void *b)
{
	const struct gm_retained_node *left = a, *right = b;
	bool left_unknown = left->kind == GM_RETAINED_UNKNOWN;
	bool right_unknown = right->kind == GM_RETAINED_UNKNOWN;
	if (left_unknown != right_unknown)
		return left_unknown ? 1 : -1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return gm_retained_names_compare(
	        left->names, left->name_count, right->names, right->name_count, true);
}

static void add_name(struct gm_retained_builder *builder, struct gm_retained_node *node,
        struct gm_retained_name name)
{
	struct gm_retained_name *grown =
	        realloc(node->names, (node->name_count + 1) * sizeof(*grown));
	if (!grown) {
		gm_retained_name_deinit(&name);
		builder->no_memory = true;
		return;
	}
	node->names = grown;
	node->names[node->name_count++] = name;
}

static void index_variables(struct gm_retained_builder *builder)
{
	const struct gm_reach *reach = builder->reach;
	for (size_t i = 0; i < reach->variables.count; i++) {
		uint32_t path = builder->paths->of[reach->variables.items[i].vertex];
		bool is_new = false;
		uint64_t *slot = gm_map_put(
		        &builder->variables, builder->paths->paths.items[path].step.name, &is_new);
		if (slot && is_new)
			*slot = i + 1;
	}
}

static void add_variable(struct gm_retained_builder *builder,
        const struct gm_retained_building *from, struct gm_retained_node *node)
{
	struct gm_reach *reach = builder->reach;
	node->kind = GM_RETAINED_VARIABLE;
	node->root = true;
	const uint64_t *number = gm_map_find(&builder->variables, from->step.name);
	if (!number)
		return;
	const struct gm_variable *variable = &reach->variables.items[*number - 1];
	if (variable->kind == GM_VARIABLE_GARBAGE)
		node->kind = GM_RETAINED_GARBAGE;
	else if (variable->kind == GM_VARIABLE_MISSING)
		node->kind = GM_RETAINED_UNKNOWN;
	else if (variable->kind == GM_VARIABLE_NATIVE)
		node->kind = GM_RETAINED_LIBRARY;
	else
		node->place = gm_reach_name_place(reach, &reach->names.items[variable->first_name]);
	uint32_t more = variable->name_count > 1 ? variable->name_count - 1 : 0;
	if (more > MAX_ALSO)
		more = MAX_ALSO;
	node->also = calloc((size_t)more + 1, sizeof(*node->also));
	builder->no_memory |= !node->also;
	for (uint32_t n = 1; n <= more && !builder->no_memory; n++) {
		uint32_t label =
		        gm_reach_name_label(reach, &reach->names.items[variable->first_name + n]);
		if (label && gm_reach_label_name(reach, label, &node->also[node->also_count]))
			node->also_count++;
		else
			builder->no_memory = true;
	}
}

static uint32_t only_child(const struct gm_retained_builder *builder, uint32_t number)
{
	const struct gm_retained_building *node = &builder->nodes.items[number];
	if (node->first_child == 0)
		return 0;
	uint32_t found = 0;
	for (uint32_t c = node->first_child; c; c = builder->nodes.items[c].next_sibling) {
		if (builder->nodes.items[c].blocks == 0)
			continue;
		if (found)
			return 0;
		found = c;
	}
	return found && builder->nodes.items[found].blocks == node->blocks ? found : 0;
}

static void build_node(
        struct gm_retained_builder *builder, uint32_t number, struct gm_retained_node *ret_node);

static void add_children(
        struct gm_retained_builder *builder, uint32_t number, struct gm_retained_node *node)
{
	uint64_t bytes = node->bytes, blocks = node->blocks;
	size_t count = 0;
	for (uint32_t c = builder->nodes.items[number].first_child; c;
	        c = builder->nodes.items[c].next_sibling)
		count += builder->nodes.items[c].blocks > 0;
	if (count == 0)
		return;
	node->children = calloc(count + 1, sizeof(*node->children));
	if (!node->children) {
		builder->no_memory = true;
		return;
	}
	for (uint32_t c = builder->nodes.items[number].first_child; c;
	        c = builder->nodes.items[c].next_sibling) {
		if (builder->nodes.items[c].blocks == 0)
			continue;
		build_node(builder, c, &node->children[node->child_count++]);
		bytes -= builder->nodes.items[c].bytes;
		blocks -= builder->nodes.items[c].blocks;
	}
	if (blocks == 0)
		return;
	struct gm_retained_node own = {.kind = GM_RETAINED_PART, .bytes = bytes, .blocks = blocks};
	add_name(builder, &own, (struct gm_retained_name){.form = GM_NAME_ITSELF});
	node->children[node->child_count++] = own;
}

/* Depth is bounded by GM_RETAINED_DEPTH. */
static void build_node(
        struct gm_retained_builder *builder, uint32_t number, struct gm_retained_node *ret_node)
{
	const struct gm_retained_building *node = &builder->nodes.items[number];
	struct gm_retained_node made = {
	        .kind = GM_RETAINED_PART, .bytes = node->bytes, .blocks = node->blocks};
	add_name(builder, &made, gm_retained_node_name(builder, number));
	if (node->step.part == GM_PART_VARIABLE && node->parent == 0)
		add_variable(builder, node, &made);
	else if (node->step.part == GM_PART_SHARED)
		made.kind = GM_RETAINED_SHARED;
	else if (node->step.part == GM_PART_UNKNOWN)
		made.kind = GM_RETAINED_UNKNOWN;
	uint32_t child = only_child(builder, number);
	uint8_t upper = node->step.part;
	while (child && upper != GM_PART_SHARED &&
	        builder->nodes.items[child].step.part != GM_PART_SHARED) {
		uint8_t lower = builder->nodes.items[child].step.part;
		if (replaces(upper, lower) && made.name_count)
			gm_retained_name_deinit(&made.names[--made.name_count]);
		add_name(builder, &made, gm_retained_node_name(builder, child));
		number = child;
		upper = lower;
		child = only_child(builder, number);
	}
	if (upper == GM_PART_SHARED && child &&
	        builder->nodes.items[child].step.part == GM_PART_VARIABLE)
		number = child; /* it is one of the sharers, which the text names */
	add_children(builder, number, &made);
	if (made.child_count)
		qsort(made.children, made.child_count, sizeof(*made.children), by_bytes);
	*ret_node = made;
}

static void add_device(
        struct gm_retained_builder *builder, int number, struct gm_retained_device *ret_device)
{
	const struct gm_reach *reach = builder->reach;
	struct gm_retained_device device = {.device = number};
	for (size_t i = 0; i < builder->nodes.count; i++) {
		struct gm_retained_building *node = &builder->nodes.items[i];
		node->bytes = node->blocks = node->items = 0;
	}
	gm_map_deinit(&builder->seen); /* an item may have blocks on several devices */
	add_blocks(builder, number);
	for (size_t i = 0; i < reach->graph->block_count && number >= 0; i++) {
		const struct gm_block_record *block = &reach->graph->blocks[i];
		if (block->device == number && !block->allocated && block->event_count > 0) {
			device.pending += block->size;
			device.pending_blocks++;
		}
	}
	struct gm_retained_node root = {0};
	device.allocated = builder->nodes.items[0].bytes;
	device.allocated_blocks = builder->nodes.items[0].blocks;
	size_t count = 0;
	for (uint32_t c = builder->nodes.items[0].first_child; c;
	        c = builder->nodes.items[c].next_sibling)
		count += builder->nodes.items[c].blocks > 0;
	root.children = calloc(count + 1, sizeof(*root.children));
	builder->no_memory |= !root.children;
	for (uint32_t c = builder->nodes.items[0].first_child; c && root.children;
	        c = builder->nodes.items[c].next_sibling) {
		if (builder->nodes.items[c].blocks == 0)
			continue;
		struct gm_retained_node *made = &root.children[root.child_count++];
		build_node(builder, c, made);
		if (made->kind == GM_RETAINED_SHARED)
			device.shared += made->bytes;
		else if (made->kind == GM_RETAINED_UNKNOWN)
			device.unknown += made->bytes;
	}
	if (root.child_count)
		qsort(root.children, root.child_count, sizeof(*root.children), by_bytes);
	device.nodes = root.children;
	device.node_count = root.child_count;
	*ret_device = device;
}

static void add_devices(struct gm_retained_builder *builder, struct gm_retained *retained)
{
	const struct gm_reach *reach = builder->reach;
	GM_ARRAY(struct gm_retained_device) devices = {0};
	bool seen[1 + INT8_MAX + 1] = {0}; /* by device + 1 */
	for (size_t i = 0; i < reach->blocks.count; i++)
		seen[reach->blocks.items[i].device + 1] = true;
	for (int number = -1; number <= INT8_MAX && !builder->no_memory; number++) {
		if (!seen[number + 1])
			continue;
		if (gm_array_reserve(&devices, 1))
			add_device(builder, number, &devices.items[devices.count++]);
		else
			builder->no_memory = true;
	}
	retained->devices = devices.items;
	retained->device_count = devices.count;
}

static struct gm_error *build(struct gm_retained_builder *builder, struct gm_retained *retained)
{
	struct gm_retained_building root = {0};
	builder->places = calloc((size_t)builder->reach->count + 1, sizeof(*builder->places));
	builder->items = calloc((size_t)builder->reach->count + 1, sizeof(*builder->items));
	if (!builder->places || !builder->items || !gm_array_push(&builder->nodes, root))
		return &gm_error_no_memory;
	place_vertices(builder);
	index_variables(builder);
	if (!builder->no_memory)
		add_devices(builder, retained);
	return builder->no_memory ? &gm_error_no_memory : NULL;
}

/* ---------------------------------------------------------------------------------------------------
 */

static bool find_dominators(const struct gm_reach *reach, uint32_t *ret_dominators)
{
	_cleanup_free_ uint32_t *targets = malloc((reach->edges.count + 1) * sizeof(*targets));
	if (!targets)
		return false;
	for (size_t i = 0; i < reach->edges.count; i++)
		targets[i] = reach->edges.items[i].to;
	return gm_dominators(reach->count, reach->first, targets, 0, ret_dominators);
}

static struct gm_error *ask(struct gm_reach *reach, struct gm_retained *retained)
{
	_cleanup_free_ uint32_t *dominators =
	        malloc(((size_t)reach->count + 1) * sizeof(*dominators));
	struct gm_paths paths = {0};
	struct gm_sharing sharing = {0};
	struct gm_error *error = &gm_error_no_memory;
	struct gm_retained_builder builder = {
	        .reach = reach, .paths = &paths, .sharing = &sharing, .dominators = dominators};
	if (dominators && find_dominators(reach, dominators) && gm_paths_init(&paths, reach) &&
	        gm_sharing_init(&sharing, &paths, reach, dominators))
		error = build(&builder, retained);
	free(builder.places);
	free(builder.items);
	gm_array_deinit(&builder.nodes);
	gm_map_deinit(&builder.children);
	gm_map_deinit(&builder.seen);
	gm_map_deinit(&builder.variables);
	gm_sharing_deinit(&sharing);
	gm_paths_deinit(&paths);
	return error;
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct gm_error *gm_holders_retained(
        struct gm_holders *holders, bool host, struct gm_retained *ret_retained)
{
	struct gm_reach *reach;
	struct gm_reach_options options = {.host = host};
	double start = seconds();
	gm_try(gm_reach_create_promoted(holders, &options, &reach));
	struct gm_retained retained = {.storages = reach->storages,
	        .storages_complete = reach->storages_complete,
	        .vertices = reach->count,
	        .references = reach->edges.count};
	struct gm_error *error = ask(reach, &retained);
	gm_reach_destroy(reach);
	retained.seconds = seconds() - start;
	if (error)
		gm_retained_deinit(&retained);
	else
		*ret_retained = retained;
	return error;
}

void gm_retained_deinit(struct gm_retained *retained)
{
	for (size_t i = 0; i < retained->device_count; i++) {
		for (size_t j = 0; j < retained->devices[i].node_count; j++)
			node_deinit(&retained->devices[i].nodes[j]);
		free(retained->devices[i].nodes);
	}
	free(retained->devices);
	*retained = (struct gm_retained){0};
}
