#include "holders/retained/retained.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "holders/graph/dominators.h"
#include "holders/retained/sharing.h"
#include "holders/describe/names.h"
#include "holders/graph/strings.h"
#include "holders/holders.h"
#include "holders/retained/paths.h"
#include "holders/retained/reach.h"
#include "holders/retained/unfound.h"
#include "holders/retained/variables.h"

enum {
	MAX_DEPTH = 192, /* of the answer's tree */
	MAX_NODES = 1 << 24,
	MAX_ALSO = 8,
};

/* A node of the tree under construction; children are a list. Node 0 is the root. */
struct node {
	uint32_t parent, first_child, next_sibling;
	uint32_t depth;
	struct gm_step step;
	uint32_t variable; /* number of the variable + 1; 0: none */
	uint32_t items;    /* of a container */
	uint64_t bytes, blocks;
};

/* Where the ways of what a vertex dominates go on: below `node`, told from `vertex` on. */
struct place {
	uint32_t node, vertex;
	bool graph; /* the way there leads through a graph of autograd: what saved it tells more */
};

struct telling {
	struct gm_reach *reach;
	const struct gm_paths *paths;
	const struct gm_sharing *sharing;
	const uint32_t *dominators;
	struct place *places; /* by vertex */
	uint32_t *
	        items; /* by vertex: the item of a container that the nearest way leads through; 0: none */
	GM_ARRAY(struct node) nodes;
	struct gm_map children;  /* (node, step) -> node */
	struct gm_map seen;      /* (node, item) */
	struct gm_map variables; /* a variable's text -> its number + 1: the first of that text */
	bool no_memory;
};

static uint32_t child_of(struct telling *telling, uint32_t parent, struct gm_step step)
{
	bool is_new;
	struct node *above = &telling->nodes.items[parent];
	if (above->depth >= MAX_DEPTH || telling->nodes.count >= MAX_NODES)
		return parent;
	uint64_t key = ((uint64_t)parent << 38 | (uint64_t)step.part << 32 | step.name) + 1;
	uint64_t *slot = gm_map_put(&telling->children, key, &is_new);
	struct node made = {.parent = parent,
	        .next_sibling = above->first_child,
	        .depth = above->depth + 1,
	        .step = step};
	if (!slot || (is_new && !gm_array_push(&telling->nodes, made))) {
		telling->no_memory = true;
		return parent;
	}
	if (is_new) {
		*slot = telling->nodes.count - 1;
		telling->nodes.items[parent].first_child = (uint32_t)*slot;
	}
	return (uint32_t)*slot;
}

static uint32_t descend(struct telling *telling, struct place from, uint32_t vertex)
{
	struct gm_step steps[2 * GM_PATH_MAX];
	size_t count = gm_paths_grouped(telling->paths, from.vertex, vertex, steps), first = 0;
	uint32_t node = from.node;
	while (from.graph && first < count && steps[first].part != GM_PART_SAVED_GROUP &&
	        steps[first].part != GM_PART_GRAPH)
		first++;
	for (size_t i = first == count ? 0 : first; i < count; i++)
		node = child_of(telling, node, steps[i]);
	return node;
}

/* Items that have no name are counted. */
static bool is_counted(struct gm_step step)
{
	return step.part == GM_PART_ITEM || (step.part == GM_PART_KEY && step.name == 0);
}

static void place_vertices(struct telling *telling)
{
	const struct gm_sharing *sharing = telling->sharing;
	const struct gm_reach *reach = telling->reach;
	/* in the order of the dominators' tree: the children of a vertex stand behind it */
	for (uint32_t i = 0; i < reach->reached_count; i++) {
		uint32_t v = reach->order[i];
		if (v == 0)
			continue;
		const struct gm_reach_edge *edge = &reach->edges.items[reach->tree[v]];
		bool is_item = is_counted((struct gm_step){edge->part, edge->name}) &&
		               telling->paths->of[v] != telling->paths->of[edge->from];
		telling->items[v] = is_item ? v : telling->items[edge->from];
	}
	GM_ARRAY(uint32_t) stack = {0};
	telling->no_memory |= !gm_array_push(&stack, 0);
	while (stack.count > 0 && !telling->no_memory) {
		uint32_t top = stack.items[--stack.count];
		for (uint32_t c = sharing->child_first[top]; c < sharing->child_first[top + 1];
		        c++) {
			uint32_t v = sharing->children[c];
			telling->places[v] = telling->places[top];
			uint32_t set = sharing->set_of[v];
			bool graph = set && sharing->sets.items[set].graph;
			/* parts of one graph are one thing */
			if (set && (top == 0 || !graph ||
			                   !gm_paths_through_graph(telling->paths, 0, top))) {
				struct gm_step step = {
				        GM_PART_SHARED, sharing->sets.items[set].plain};
				uint32_t node = descend(telling, telling->places[top], top);
				if (top == 0 || !graph)
					node = child_of(telling, node, step);
				telling->places[v] = (struct place){node, top, graph};
			}
			telling->no_memory |= !gm_array_push(&stack, v);
		}
	}
	gm_array_deinit(&stack);
}

/* The node of a block: the end of the way to it. */
static uint32_t node_of_block(struct telling *telling, const struct gm_reach_block *block)
{
	if (telling->dominators[block->vertex] == GM_NO_DOMINATOR)
		return child_of(telling, 0, (struct gm_step){.part = GM_PART_UNKNOWN});
	return descend(telling, telling->places[block->vertex], block->vertex);
}

static void count_block(struct telling *telling, const struct gm_reach_block *block, uint32_t node)
{
	uint32_t item = telling->items[block->vertex];
	for (;; node = telling->nodes.items[node].parent) {
		struct node *at = &telling->nodes.items[node];
		at->bytes += block->bytes;
		at->blocks++;
		if (node == 0)
			break;
		if (!is_counted(at->step) || item == 0)
			continue;
		bool is_new = false;
		if (!gm_map_put(&telling->seen, (uint64_t)node << 32 | item, &is_new))
			telling->no_memory = true;
		telling->nodes.items[node].items += is_new;
		const struct gm_reach *reach = telling->reach;
		item = telling->items[reach->edges.items[reach->tree[item]].from];
	}
}

/* What nothing was found to hold is told by its tensors: "float32 [4198400]". */
static struct gm_step step_of_tensor(struct telling *telling, const struct gm_block_note *note)
{
	char text[GM_TENSOR_MAX_DIMENSIONS * 24 + 64];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s [", note->dtype ? note->dtype : "?");
	for (uint32_t i = 0; note->dtype && i < note->dimensions && i < GM_TENSOR_MAX_DIMENSIONS;
	        i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%jd", i ? ", " : "",
		        (intmax_t)note->shape[i]);
	snprintf(text + used, sizeof(text) - used, "]");
	return (struct gm_step){GM_PART_FIELD, gm_strings_add(&telling->reach->strings, text)};
}

static void add_blocks(struct telling *telling, int device)
{
	struct gm_reach *reach = telling->reach;
	struct gm_step missing = {
	        GM_PART_VARIABLE, gm_strings_add(&reach->strings, GM_MISSING_TEXT)};
	uint32_t missing_node = child_of(telling, 0, missing);
	GM_ARRAY(struct gm_block_note) notes = {0};
	GM_ARRAY(uint32_t) blocks = {0}; /* beside notes */
	for (size_t i = 0; i < reach->blocks.count && !telling->no_memory; i++) {
		const struct gm_reach_block *block = &reach->blocks.items[i];
		struct gm_block_note note = {.address = block->address, .size = block->bytes};
		if (block->device != device)
			continue;
		uint32_t node = node_of_block(telling, block);
		if (node != missing_node)
			count_block(telling, block, node);
		else if (!gm_array_push(&notes, note) || !gm_array_push(&blocks, (uint32_t)i))
			telling->no_memory = true;
	}
	if (notes.count)
		gm_holders_annotate(reach->graph, notes.items, notes.count);
	for (size_t i = 0; i < blocks.count && !telling->no_memory; i++)
		count_block(telling, &reach->blocks.items[blocks.items[i]],
		        child_of(telling, missing_node, step_of_tensor(telling, &notes.items[i])));
	gm_array_deinit(&notes);
	gm_array_deinit(&blocks);
}

/* --- texts ----------------------------------------------------------------------------------------- */

/* "layers.3.mlp": a module's child with those above it. */
static char *module_text(struct telling *telling, uint32_t number)
{
	const char *names[MAX_DEPTH];
	size_t count = 0, length = 1;
	for (uint32_t at = number; at != 0 && count < MAX_DEPTH;
	        at = telling->nodes.items[at].parent) {
		const struct gm_step *step = &telling->nodes.items[at].step;
		if (step->part != GM_PART_MODULE && step->part != GM_PART_PARAMETER &&
		        step->part != GM_PART_BUFFER)
			break;
		names[count++] = gm_strings_at(&telling->reach->strings, step->name);
		length += strlen(names[count - 1]) + 1;
	}
	char *text = malloc(length), *at = text;
	if (!text)
		return NULL;
	*at = 0;
	while (count-- > 0)
		at += sprintf(at, "%s%s", names[count], count ? "." : "");
	return text;
}

static char *element_text(struct telling *telling, struct gm_step step, uint32_t items)
{
	char *text = NULL;
	const char *name = gm_strings_at(&telling->reach->strings,
	        step.part == GM_PART_SHARED || step.part == GM_PART_STATE ? 0 : step.name);
	int made = 0;
	switch (step.part) {
	case GM_PART_ITEM:
		made = items > 1 ? asprintf(&text, "%u items", items) : asprintf(&text, "1 item");
		break;
	case GM_PART_KEY:
		made = step.name   ? asprintf(&text, "['%s']", name)
		       : items > 1 ? asprintf(&text, "%u values", items)
		                   : asprintf(&text, "1 value");
		break;
	case GM_PART_ATTRIBUTE:
		made = asprintf(&text, ".%s", name);
		break;
	case GM_PART_STATE:
		made = asprintf(&text, "by parameter");
		break;
	case GM_PART_GRAD:
	case GM_PART_GRADS:
		made = asprintf(&text, ".grad");
		break;
	case GM_PART_PARAMETERS:
		made = asprintf(&text, "parameters");
		break;
	case GM_PART_BUFFERS:
		made = asprintf(&text, "buffers");
		break;
	case GM_PART_GRAPH:
		made = asprintf(&text, "leaves of the autograd graph");
		break;
	case GM_PART_SAVED_GROUP:
		made = asprintf(&text, "saved for backward");
		break;
	case GM_PART_HOOK:
		made = asprintf(&text, "hooks");
		break;
	case GM_PART_VIEW:
		made = asprintf(&text, "base of views");
		break;
	case GM_PART_UNKNOWN:
		made = asprintf(&text, "blocks of no tensor");
		break;
	default:
		made = asprintf(&text, "%s", step.name ? name : "?");
	}
	return made < 0 ? NULL : text;
}

static char *join(char *first, const char *between, char *second)
{
	char *joined = NULL;
	if (first && second && asprintf(&joined, "%s%s%s", first, between, second) < 0)
		joined = NULL;
	free(first);
	free(second);
	return joined;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sharers' texts in the order of the alphabet, what is no variable last. NULL: no memory. */
static char **sharers_text(struct telling *telling, uint32_t set)
{
	const struct gm_sharing *sharing = telling->sharing;
	uint32_t count = sharing->sets.items[set].count, named = 0, others = 0;
	char *last[2];
	char **texts = calloc((size_t)count + 1, sizeof(*texts));
	for (uint32_t i = 0; i < count && texts; i++) {
		uint32_t member = sharing->members.items[sharing->sets.items[set].first + i];
		char *text = element_text(telling, gm_sharing_member(sharing, set, i), 0);
		bool other = member == sharing->running || member == sharing->missing;
		telling->no_memory |= !text;
		if (other && others < 2)
			last[others++] = text;
		else
			texts[named++] = text;
	}
	telling->no_memory |= !texts;
	if (named && !telling->no_memory)
		qsort(texts, named, sizeof(*texts), by_text);
	for (uint32_t i = 0; i < others; i++)
		texts[named + i] = last[i];
	return texts;
}

static char *shared_text(struct telling *telling, uint32_t set)
{
	const struct gm_sharers *sharers = &telling->sharing->sets.items[set];
	char **texts = sharers_text(telling, set);
	char *text = strdup(sharers->count > 1 ? "shared by " : "held by ");
	for (uint32_t i = 0; i < sharers->count && texts; i++) {
		const char *between = i == 0                                      ? ""
		                      : i + 1 == sharers->count && !sharers->more ? " and "
		                                                                  : ", ";
		text = join(text, between, texts[i]);
	}
	free(texts);
	return sharers->more ? join(text, "", strdup(" and others")) : text;
}

static char *node_text(struct telling *telling, uint32_t number)
{
	const struct node *node = &telling->nodes.items[number];
	switch (node->step.part) {
	case GM_PART_MODULE:
	case GM_PART_PARAMETER:
	case GM_PART_BUFFER:
		return module_text(telling, number);
	case GM_PART_SHARED:
		return shared_text(telling, node->step.name);
	default:
		return element_text(telling, node->step, node->items);
	}
}

/* What stands between the texts of a node and of its only child, which are told as one; NULL: the child's alone. */
static const char *between(uint8_t upper, uint8_t lower)
{
	bool module =
	        lower == GM_PART_MODULE || lower == GM_PART_PARAMETER || lower == GM_PART_BUFFER;
	if (module && (upper == GM_PART_MODULE))
		return NULL;
	if (lower == GM_PART_ATTRIBUTE || lower == GM_PART_KEY || lower == GM_PART_GRAD ||
	        lower == GM_PART_GRADS)
		return upper == GM_PART_VARIABLE ? " " : "";
	return ": ";
}

/* --- the answer's tree ------------------------------------------------------------------------------- */

static void node_deinit(struct gm_retained_node *node)
{
	for (size_t i = 0; i < node->child_count; i++)
		node_deinit(&node->children[i]);
	for (size_t i = 0; i < node->also_count; i++)
		free(node->also[i]);
	free(node->children);
	free(node->also);
	free(node->place);
	free(node->variable);
	free(node->text);
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
	return left->text && right->text ? strverscmp(left->text, right->text) : 0;
}

static void add_also(struct telling *telling, struct gm_retained_node *node, char *text)
{
	char **grown = realloc(node->also, (node->also_count + 1) * sizeof(*grown));
	if (grown)
		node->also = grown;
	if (!grown || !text) {
		free(text);
		telling->no_memory = true;
		return;
	}
	node->also[node->also_count++] = text;
}

static void index_variables(struct telling *telling)
{
	const struct gm_reach *reach = telling->reach;
	for (size_t i = 0; i < reach->variables.count; i++) {
		uint32_t path = telling->paths->of[reach->variables.items[i].vertex];
		bool is_new = false;
		uint64_t *slot = gm_map_put(
		        &telling->variables, telling->paths->paths.items[path].step.name, &is_new);
		if (slot && is_new)
			*slot = i + 1;
	}
}

static void tell_variable(
        struct telling *telling, const struct node *from, struct gm_retained_node *node)
{
	const struct gm_reach *reach = telling->reach;
	node->kind = GM_RETAINED_VARIABLE;
	node->variable = node->text ? strdup(node->text) : NULL;
	telling->no_memory |= !node->variable;
	const uint64_t *number = gm_map_find(&telling->variables, from->step.name);
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
	for (uint32_t n = 1; n < variable->name_count && n <= MAX_ALSO; n++)
		add_also(telling, node,
		        gm_reach_name_text(reach, &reach->names.items[variable->first_name + n]));
}

static void tell_sharers(
        struct telling *telling, const struct node *from, struct gm_retained_node *node)
{
	const struct gm_sharers *sharers = &telling->sharing->sets.items[from->step.name];
	node->kind = GM_RETAINED_SHARED;
	node->also = sharers_text(telling, from->step.name);
	node->also_count = node->also ? sharers->count : 0;
}

static uint32_t only_child(const struct telling *telling, uint32_t number)
{
	const struct node *node = &telling->nodes.items[number];
	if (node->first_child == 0)
		return 0;
	uint32_t found = 0;
	for (uint32_t c = node->first_child; c; c = telling->nodes.items[c].next_sibling) {
		if (telling->nodes.items[c].blocks == 0)
			continue;
		if (found)
			return 0;
		found = c;
	}
	return found && telling->nodes.items[found].blocks == node->blocks ? found : 0;
}

static void tell_node(struct telling *telling, uint32_t number, struct gm_retained_node *ret_node);

static void tell_children(struct telling *telling, uint32_t number, struct gm_retained_node *node)
{
	uint64_t bytes = node->bytes, blocks = node->blocks;
	size_t count = 0;
	for (uint32_t c = telling->nodes.items[number].first_child; c;
	        c = telling->nodes.items[c].next_sibling)
		count += telling->nodes.items[c].blocks > 0;
	if (count == 0)
		return;
	node->children = calloc(count + 1, sizeof(*node->children));
	if (!node->children) {
		telling->no_memory = true;
		return;
	}
	for (uint32_t c = telling->nodes.items[number].first_child; c;
	        c = telling->nodes.items[c].next_sibling) {
		if (telling->nodes.items[c].blocks == 0)
			continue;
		tell_node(telling, c, &node->children[node->child_count++]);
		bytes -= telling->nodes.items[c].bytes;
		blocks -= telling->nodes.items[c].blocks;
	}
	if (blocks == 0)
		return;
	struct gm_retained_node own = {.kind = GM_RETAINED_PART,
	        .text = strdup("itself"),
	        .bytes = bytes,
	        .blocks = blocks};
	telling->no_memory |= !own.text;
	node->children[node->child_count++] = own;
}

/* Depth is bounded by MAX_DEPTH. */
static void tell_node(struct telling *telling, uint32_t number, struct gm_retained_node *ret_node)
{
	const struct node *node = &telling->nodes.items[number];
	struct gm_retained_node made = {.kind = GM_RETAINED_PART,
	        .text = node_text(telling, number),
	        .bytes = node->bytes,
	        .blocks = node->blocks};
	if (node->step.part == GM_PART_VARIABLE && node->parent == 0)
		tell_variable(telling, node, &made);
	else if (node->step.part == GM_PART_SHARED)
		tell_sharers(telling, node, &made);
	else if (node->step.part == GM_PART_UNKNOWN)
		made.kind = GM_RETAINED_UNKNOWN;
	uint32_t child = only_child(telling, number);
	uint8_t upper = node->step.part;
	while (child && upper != GM_PART_SHARED &&
	        telling->nodes.items[child].step.part != GM_PART_SHARED) {
		uint8_t lower = telling->nodes.items[child].step.part;
		const char *middle = between(upper, lower);
		char *text = node_text(telling, child);
		if (!middle) {
			/* the child's text has its parent's in front: what stands before that stays */
			_cleanup_free_ char *last =
			        node_text(telling, telling->nodes.items[child].parent);
			size_t whole = made.text ? strlen(made.text) : 0,
			       tail = last ? strlen(last) : 0;
			if (whole >= tail && made.text)
				made.text[whole - tail] = 0;
			middle = "";
		}
		made.text = join(made.text, middle, text);
		number = child;
		upper = lower;
		child = only_child(telling, number);
	}
	if (upper == GM_PART_SHARED && child &&
	        telling->nodes.items[child].step.part == GM_PART_VARIABLE)
		number = child; /* it is one of the sharers, which the text names */
	tell_children(telling, number, &made);
	if (made.child_count)
		qsort(made.children, made.child_count, sizeof(*made.children), by_bytes);
	telling->no_memory |= !made.text;
	*ret_node = made;
}

static void tell_device(struct telling *telling, int number, struct gm_retained_device *ret_device)
{
	const struct gm_reach *reach = telling->reach;
	struct gm_retained_device device = {.device = number};
	for (size_t i = 0; i < telling->nodes.count; i++) {
		struct node *node = &telling->nodes.items[i];
		node->bytes = node->blocks = node->items = 0;
	}
	gm_map_deinit(&telling->seen); /* an item may have blocks on several devices */
	add_blocks(telling, number);
	for (size_t i = 0; i < reach->graph->block_count && number >= 0; i++) {
		const struct gm_block_record *block = &reach->graph->blocks[i];
		if (block->device == number && !block->allocated && block->event_count > 0) {
			device.pending += block->size;
			device.pending_blocks++;
		}
	}
	struct gm_retained_node root = {0};
	device.allocated = telling->nodes.items[0].bytes;
	device.allocated_blocks = telling->nodes.items[0].blocks;
	size_t count = 0;
	for (uint32_t c = telling->nodes.items[0].first_child; c;
	        c = telling->nodes.items[c].next_sibling)
		count += telling->nodes.items[c].blocks > 0;
	root.children = calloc(count + 1, sizeof(*root.children));
	telling->no_memory |= !root.children;
	for (uint32_t c = telling->nodes.items[0].first_child; c && root.children;
	        c = telling->nodes.items[c].next_sibling) {
		if (telling->nodes.items[c].blocks == 0)
			continue;
		struct gm_retained_node *made = &root.children[root.child_count++];
		tell_node(telling, c, made);
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

static void tell_devices(struct telling *telling, struct gm_retained *retained)
{
	const struct gm_reach *reach = telling->reach;
	GM_ARRAY(struct gm_retained_device) devices = {0};
	bool seen[1 + INT8_MAX + 1] = {0}; /* by device + 1 */
	for (size_t i = 0; i < reach->blocks.count; i++)
		seen[reach->blocks.items[i].device + 1] = true;
	for (int number = -1; number <= INT8_MAX && !telling->no_memory; number++) {
		if (!seen[number + 1])
			continue;
		if (gm_array_reserve(&devices, 1))
			tell_device(telling, number, &devices.items[devices.count++]);
		else
			telling->no_memory = true;
	}
	retained->devices = devices.items;
	retained->device_count = devices.count;
}

static struct gm_error *tell(struct telling *telling, struct gm_retained *retained)
{
	struct node root = {0};
	telling->places = calloc((size_t)telling->reach->count + 1, sizeof(*telling->places));
	telling->items = calloc((size_t)telling->reach->count + 1, sizeof(*telling->items));
	if (!telling->places || !telling->items || !gm_array_push(&telling->nodes, root))
		return &gm_error_no_memory;
	place_vertices(telling);
	index_variables(telling);
	if (!telling->no_memory)
		tell_devices(telling, retained);
	return telling->no_memory ? &gm_error_no_memory : NULL;
}

/* --------------------------------------------------------------------------------------------------- */

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
	struct telling telling = {
	        .reach = reach, .paths = &paths, .sharing = &sharing, .dominators = dominators};
	if (dominators && find_dominators(reach, dominators) && gm_paths_init(&paths, reach) &&
	        gm_sharing_init(&sharing, &paths, reach, dominators))
		error = tell(&telling, retained);
	free(telling.places);
	free(telling.items);
	gm_array_deinit(&telling.nodes);
	gm_map_deinit(&telling.children);
	gm_map_deinit(&telling.seen);
	gm_map_deinit(&telling.variables);
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
	gm_try(gm_reach_create_settled(holders, &options, &reach));
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
