#include "holders/retained/answer.h"

#include <stdlib.h>

#include "holders/graph/graph.h"
#include "holders/retained/builder.h"
#include "holders/retained/nodes.h"
#include "holders/retained/variables.h"

enum { MAX_ALSO = 8 };

/* The name of a module's part includes the module, so it replaces the module in the path. */
static bool replaces(uint8_t upper, uint8_t lower)
{
	return upper == GM_PART_MODULE &&
	       (lower == GM_PART_MODULE || lower == GM_PART_PARAMETER || lower == GM_PART_BUFFER);
}

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

void gm_retained_index_variables(struct gm_retained_builder *builder)
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
	else if (variable->kind == GM_VARIABLE_CYCLES)
		node->kind = GM_RETAINED_CYCLE;
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
	gm_retained_add_blocks(builder, number);
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

void gm_retained_add_devices(struct gm_retained_builder *builder, struct gm_retained *retained)
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
