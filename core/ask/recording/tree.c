#include "ask/recording/tree.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/operator.h"
#include "ask/recording/place.h"
#include "base/array.h"
#include "base/cleanup.h"

struct building {
	const struct gm_log *log;
	struct gm_wrapper_frames *wrapper_frames;
	GM_ARRAY(struct gm_tree_node) nodes;
};

void gm_tree_deinit(struct gm_tree *tree)
{
	free(tree->nodes);
	*tree = (struct gm_tree){0};
}

/* --- building --------------------------------------------------------------------------------- */

static bool is_same(
        const struct gm_tree_node *node, enum gm_tree_kind kind, const struct gm_shown_site *site)
{
	return node->kind == kind && node->site.place.code == site->place.code &&
	       node->site.place.line == site->place.line &&
	       strcmp(node->site.node, site->node) == 0 &&
	       strcmp(node->site.operator_name, site->operator_name) == 0;
}

/* The child of a node with these data, created if necessary; GM_TREE_NONE: out of memory. */
static uint32_t child(struct building *building, uint32_t parent, enum gm_tree_kind kind,
        const struct gm_shown_site *site)
{
	uint32_t first = building->nodes.items[parent].first;
	for (uint32_t at = first; at != GM_TREE_NONE; at = building->nodes.items[at].next)
		if (is_same(&building->nodes.items[at], kind, site))
			return at;
	const struct gm_tree_node fresh = {
	        .kind = kind, .site = *site, .first = GM_TREE_NONE, .next = first};
	if (!gm_array_push(&building->nodes, fresh))
		return GM_TREE_NONE;
	building->nodes.items[parent].first = (uint32_t)building->nodes.count - 1;
	return (uint32_t)building->nodes.count - 1;
}

/* --- which frames are shown ------------------------------------------------------------------- */

static bool is_shown(const struct gm_tree_walk *walk, const struct gm_frame_place *place)
{
	const char *package;
	size_t length;
	enum gm_code_owner owner = gm_code_owner(place->file, &package, &length);
	if (owner == GM_CODE_TORCH)
		return walk->left == walk->inner;
	return owner == GM_CODE_OWN || walk->left == walk->site ||
	       (owner == GM_CODE_PACKAGE &&
	               gm_wrapper_frames_works(walk->wrapper_frames, place->file));
}

/* PyTorch's innermost frame, if all frames below it are Python's. */
static size_t inner_torch(const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place;
	const char *package;
	size_t length;
	for (size_t i = 0; gm_place_frame(log, stack, i, &place); i++) {
		enum gm_code_owner owner = gm_code_owner(place.file, &package, &length);
		if (owner != GM_CODE_PYTHON)
			return owner == GM_CODE_TORCH ? i : SIZE_MAX;
	}
	return SIZE_MAX;
}

struct gm_tree_walk gm_tree_walk_begin(
        const struct gm_log *log, const struct gm_wrapper_frames *wrapper_frames, uint32_t stack)
{
	struct gm_tree_walk walk = {.log = log,
	        .wrapper_frames = wrapper_frames,
	        .stack = stack,
	        .site = gm_wrapper_frames_site(wrapper_frames, stack),
	        .inner = inner_torch(log, stack),
	        .forward = SIZE_MAX};
	gm_log_python_stack(log, stack, &walk.left);
	return walk;
}

bool gm_tree_walk_next(
        struct gm_tree_walk *walk, size_t *ret_index, struct gm_frame_place *ret_place)
{
	while (walk->left > 0) {
		struct gm_frame_place place = {0};
		size_t i = --walk->left;
		if (!gm_place_frame(walk->log, walk->stack, i, &place)) {
			walk->left = 0;
			break;
		}
		if (gm_frame_calls_module(place.file, place.function))
			walk->forward = gm_module_forward(walk->log, walk->stack, i);
		/* between a module's call and its own forward() are wrappers */
		bool wraps = walk->forward != SIZE_MAX && i > walk->forward && i != walk->site &&
		             i != walk->inner;
		if (wraps || !is_shown(walk, &place))
			continue;
		*ret_index = i;
		*ret_place = place;
		return true;
	}
	return false;
}

bool gm_tree_shows_work(uint32_t python_stack, unsigned flags)
{
	return !python_stack || (flags & GM_EVENT_BORROWED);
}

/* The node at which a block was allocated; GM_TREE_NONE: out of memory. */
static uint32_t place_block(struct building *building, const struct gm_event *event)
{
	size_t index;
	uint32_t at = 0;
	struct gm_shown_site frame = {0}, work = {0};
	struct gm_tree_walk walk =
	        gm_tree_walk_begin(building->log, building->wrapper_frames, event->python_stack);
	while (at != GM_TREE_NONE && gm_tree_walk_next(&walk, &index, &frame.place))
		at = child(building, at, GM_TREE_FRAME, &frame);
	if (!gm_tree_shows_work(event->python_stack, event->flags))
		return at;
	gm_node_of(building->log, event->native_stack, work.node);
	gm_operator_of(building->log, event->native_stack, work.operator_name);
	if (at != GM_TREE_NONE && (work.node[0] || work.operator_name[0]))
		at = child(building, at, GM_TREE_WORK, &work);
	else if (at == 0)
		at = child(building, at, GM_TREE_UNKNOWN, &work);
	return at;
}

/* --- sums ------------------------------------------------------------------------------------- */

struct ordered {
	uint64_t bytes;
	uint32_t node;
};

static int compare(const void *a, const void *b)
{
	const struct ordered *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->node < right->node ? -1 : left->node > right->node;
}

static bool sort_children(struct building *building, uint32_t parent)
{
	GM_ARRAY(struct ordered) order = {0};
	struct gm_tree_node *nodes = building->nodes.items;
	for (uint32_t at = nodes[parent].first; at != GM_TREE_NONE; at = nodes[at].next)
		if (!gm_array_push(&order, ((struct ordered){nodes[at].bytes, at}))) {
			gm_array_deinit(&order);
			return false;
		}
	if (order.count)
		qsort(order.items, order.count, sizeof(*order.items), compare);
	uint32_t *link = &nodes[parent].first;
	for (size_t i = 0; i < order.count; i++) {
		*link = order.items[i].node;
		link = &nodes[order.items[i].node].next;
	}
	*link = GM_TREE_NONE;
	gm_array_deinit(&order);
	return true;
}

/* A child is created after its parent: from the last node backwards, the sums of a node's children
 * are complete when the node is processed. */
static bool sum_up(struct building *building)
{
	_cleanup_free_ uint32_t *parents = calloc(building->nodes.count, sizeof(*parents));
	struct gm_tree_node *nodes = building->nodes.items;
	if (!parents)
		return false;
	for (uint32_t i = 0; i < building->nodes.count; i++)
		for (uint32_t at = nodes[i].first; at != GM_TREE_NONE; at = nodes[at].next)
			parents[at] = i;
	for (size_t i = building->nodes.count; i-- > 1;) {
		nodes[parents[i]].bytes += nodes[i].bytes;
		nodes[parents[i]].blocks += nodes[i].blocks;
	}
	for (uint32_t i = 0; i < building->nodes.count; i++)
		if (!sort_children(building, i))
			return false;
	return true;
}

static bool build(struct building *building, const struct gm_model *model, const uint32_t *blocks,
        size_t count, uint64_t unattributed)
{
	const struct gm_shown_site nothing = {0};
	const struct gm_tree_node root = {.first = GM_TREE_NONE, .next = GM_TREE_NONE};
	if (!gm_array_push(&building->nodes, root))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = gm_model_block(model, blocks[i]);
		struct gm_event event = {0};
		if (block->alloc != GM_NO_EVENT)
			gm_log_event(building->log, block->alloc, &event);
		uint32_t at = place_block(building, &event);
		if (at == GM_TREE_NONE)
			return false;
		building->nodes.items[at].bytes += block->size;
		building->nodes.items[at].blocks++;
	}
	if (unattributed) {
		uint32_t at = child(building, 0, GM_TREE_BEFORE, &nothing);
		if (at == GM_TREE_NONE)
			return false;
		building->nodes.items[at].bytes += unattributed;
	}
	return sum_up(building);
}

struct gm_error *gm_ask_tree(const struct gm_model *model, const uint32_t *blocks, size_t count,
        uint64_t unattributed, struct gm_tree *ret_tree)
{
	struct building building = {.log = gm_model_log(model)};
	gm_try(gm_wrapper_frames_create(model, &building.wrapper_frames));
	bool built = build(&building, model, blocks, count, unattributed);
	gm_wrapper_frames_destroy(building.wrapper_frames);
	if (!built) {
		gm_array_deinit(&building.nodes);
		return &gm_error_no_memory;
	}
	*ret_tree = (struct gm_tree){building.nodes.items, building.nodes.count};
	return NULL;
}
