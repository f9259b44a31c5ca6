#include "render/retained.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/native_owner.h"
#include "render/pause.h"
#include "render/retained_name.h"
#include "render/text.h"

enum {
	DEFAULT_DEPTH = 3,
	DEFAULT_SHARE = 200, /* nodes smaller than this fraction are shown as one */
	MOST_ROWS = 24,      /* of one group */
	MAX_INDENT = 40,
	MAX_ALSO = 2,
};

/* --- text ------------------------------------------------------------------------------------- */

struct writing {
	struct gm_table *table;
	uint32_t depth;
	uint64_t min;
};

static void put_size(struct writing *writing, uint64_t bytes, uint64_t blocks)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED], count[GM_SIZE_GROUPED];
	gm_table_cell(writing->table, "%s", gm_text_size(bytes, size));
	gm_table_cell(writing->table, "%s", gm_text_grouped(bytes, exact));
	gm_table_cell(writing->table, "%s", gm_text_grouped(blocks, count));
}

/* "; also global 'a', local 'b' of f() and 3 more", after the place. */
static char *also_text(const struct gm_retained_node *node)
{
	char *text = NULL;
	size_t size = 0, also = node->kind == GM_RETAINED_VARIABLE ? node->also_count : 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	if (node->place)
		fprintf(out, " at %s", node->place);
	for (size_t i = 0; i < also && i < MAX_ALSO; i++) {
		_cleanup_free_ char *name = gm_retained_name_text(&node->also[i]);
		fprintf(out, "%s%.150s", i ? ", " : "; also ", name ? name : "");
	}
	if (also > MAX_ALSO)
		fprintf(out, " and %zu more", also - MAX_ALSO);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static void put_node(struct writing *writing, const struct gm_retained_node *node, uint32_t level)
{
	uint32_t indent = (level - 1) * 2 < MAX_INDENT ? (level - 1) * 2 : MAX_INDENT;
	_cleanup_free_ char *name = gm_retained_node_text(node), *also = also_text(node);
	put_size(writing, node->bytes, node->blocks);
	gm_table_cell(
	        writing->table, "%*s%s%s", (int)indent, "", name ? name : "", also ? also : "");
}

static void put_rest(
        struct writing *writing, uint64_t groups, uint64_t bytes, uint64_t blocks, uint32_t level)
{
	char count[GM_SIZE_GROUPED];
	if (groups == 0)
		return;
	put_size(writing, bytes, blocks);
	gm_table_cell(writing->table, "%*s... %s smaller", (int)((level - 1) * 2), "",
	        gm_text_grouped(groups, count));
}

static void put_nodes(
        struct writing *writing, const struct gm_retained_node *nodes, size_t count, uint32_t level)
{
	uint64_t rest = 0, bytes = 0, blocks = 0;
	if (level > writing->depth)
		return;
	for (size_t i = 0; i < count; i++) {
		bool always = level == 1 && (nodes[i].kind == GM_RETAINED_UNKNOWN ||
		                                    nodes[i].kind == GM_RETAINED_GARBAGE ||
		                                    nodes[i].kind == GM_RETAINED_CYCLE);
		if (nodes[i].kind == GM_RETAINED_UNKNOWN && rest > 0) {
			put_rest(writing, rest, bytes, blocks,
			        level); /* the unknown ones come last */
			rest = bytes = blocks = 0;
		}
		if (!always && i > 0 && (nodes[i].bytes < writing->min || i - rest >= MOST_ROWS)) {
			rest++;
			bytes += nodes[i].bytes;
			blocks += nodes[i].blocks;
			continue;
		}
		put_node(writing, &nodes[i], level);
		put_nodes(writing, nodes[i].children, nodes[i].child_count, level + 1);
	}
	put_rest(writing, rest, bytes, blocks, level);
}

static bool put_device(const struct gm_retained_device *device, const struct gm_retained_view *view,
        const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"size", "bytes", "blocks", "freed if it went away"};
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED],
	        blocks[GM_SIZE_GROUPED];
	if (device->device < 0)
		snprintf(name, sizeof(name), "host tensors");
	else
		gm_text_device(1, (int16_t)device->device, name);
	gm_put(out, "%s: %s allocated (%s bytes) in %s block%s\n", name,
	        gm_text_size(device->allocated, size), gm_text_grouped(device->allocated, exact),
	        gm_text_grouped(device->allocated_blocks, blocks),
	        gm_text_s(device->allocated_blocks));
	struct writing writing = {gm_table_create(heads, "rrrl"),
	        view->depth ? view->depth : (uint32_t)DEFAULT_DEPTH,
	        view->has_min ? view->min : device->allocated / DEFAULT_SHARE};
	put_nodes(&writing, device->nodes, device->node_count, 1);
	if (!gm_table_finish(writing.table, style, out))
		return false;
	if (device->pending_blocks)
		gm_put(out, "in addition, %s in %s block%s was released and waits for a stream\n",
		        gm_text_size(device->pending, size),
		        gm_text_grouped(device->pending_blocks, blocks),
		        gm_text_s(device->pending_blocks));
	return true;
}

struct gm_error *gm_render_retained_text(const struct gm_retained_answer *answer,
        const struct gm_retained_view *view, const struct gm_style *style, FILE *out)
{
	const struct gm_retained *retained = &answer->retained;
	for (size_t i = 0; i < retained->device_count; i++) {
		const struct gm_retained_device *device = &retained->devices[i];
		if (!put_device(device, view, style, out))
			return &gm_error_no_memory;
		if (answer->allocator_bytes[i] && answer->allocator_bytes[i] != device->allocated)
			gm_put(out,
			        "the allocator itself counts %" PRIu64
			        " bytes: the process ran while it was read\n",
			        answer->allocator_bytes[i]);
	}
	if (retained->device_count == 0)
		fputs("no blocks are allocated\n", out);
	else
		gm_put(out, "all references found for %" PRIu64 " of %" PRIu64 " storage%s\n",
		        retained->storages_complete, retained->storages,
		        gm_text_s(retained->storages));
	gm_put_pause(&answer->pause, out);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static const char *kind_name(enum gm_retained_kind kind)
{
	static const char *const names[] = {
	        "variable", "part", "shared", "garbage", "cycle", "library", "unknown"};
	return names[kind];
}

static json_t *nodes_json(const struct gm_retained_node *nodes, size_t count,
        const struct gm_retained_view *view, uint32_t level, enum gm_retained_kind only, bool not );

static json_t *texts_json(const struct gm_retained_name *names, size_t count)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(all, gm_json_take(gm_retained_name_text(&names[i])));
	return all;
}

static json_t *names_json(const struct gm_retained_name *names, size_t count)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++) {
		const struct gm_retained_name *name = &names[i];
		json_t *one = json_pack("{s:s}", "form", gm_retained_form_name(name->form));
		if (name->name)
			json_object_set_new(one, "name", gm_json_string(name->name));
		if (name->native) {
			json_object_set_new(
			        one, "name", gm_json_take(gm_native_owner_text(name->native)));
			json_object_set_new(one, "native", gm_native_owner_json(name->native));
		}
		if (name->of)
			json_object_set_new(one, "of", gm_json_string(name->of));
		if (name->count)
			json_object_set_new(one, "count", json_integer(name->count));
		if (name->member_count)
			json_object_set_new(
			        one, "members", names_json(name->members, name->member_count));
		if (name->graph_count)
			json_object_set_new(
			        one, "graphs", names_json(name->graphs, name->graph_count));
		if (name->more)
			json_object_set_new(one, "more", json_true());
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *node_json(
        const struct gm_retained_node *node, const struct gm_retained_view *view, uint32_t level)
{
	json_t *made = json_pack("{s:o, s:s, s:I, s:I}", "text",
	        gm_json_take(gm_retained_node_text(node)), "kind", kind_name(node->kind), "bytes",
	        (json_int_t)node->bytes, "blocks", (json_int_t)node->blocks);
	if (node->root)
		json_object_set_new(
		        made, "variable", gm_json_take(gm_retained_name_text(&node->names[0])));
	if (node->place)
		json_object_set_new(made, "at", gm_json_string(node->place));
	if (node->kind == GM_RETAINED_SHARED) {
		const struct gm_retained_name *name = &node->names[0];
		json_object_set_new(made, "by", texts_json(name->members, name->member_count));
		if (name->graph_count)
			json_object_set_new(
			        made, "graphs", texts_json(name->graphs, name->graph_count));
	} else if (node->also_count) {
		json_object_set_new(made, "also", texts_json(node->also, node->also_count));
	}
	json_object_set_new(made, "name", names_json(node->names, node->name_count));
	json_object_set_new(made, "children",
	        nodes_json(node->children, node->child_count, view, level + 1, 0, true));
	return made;
}

/* Those of one kind, or (`not`) all others; kind 0 is for variables, which are never children. */
static json_t *nodes_json(const struct gm_retained_node *nodes, size_t count,
        const struct gm_retained_view *view, uint32_t level, enum gm_retained_kind only, bool not )
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++) {
		bool is = nodes[i].kind == only && only != GM_RETAINED_VARIABLE;
		if (is == not || (view->depth && level > view->depth) ||
		        (view->has_min && level > 1 && nodes[i].bytes < view->min))
			continue;
		json_array_append_new(all, node_json(&nodes[i], view, level));
	}
	return all;
}

static json_t *roots_json(
        const struct gm_retained_device *device, const struct gm_retained_view *view)
{
	json_t *all = json_array();
	for (size_t i = 0; i < device->node_count; i++)
		if (device->nodes[i].kind != GM_RETAINED_SHARED &&
		        device->nodes[i].kind != GM_RETAINED_UNKNOWN)
			json_array_append_new(all, node_json(&device->nodes[i], view, 1));
	return all;
}

static json_t *device_json(
        const struct gm_retained_answer *answer, size_t number, const struct gm_retained_view *view)
{
	const struct gm_retained_device *device = &answer->retained.devices[number];
	return json_pack("{s:i, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:o, s:I}", "device",
	        device->device, "allocated", (json_int_t)device->allocated, "allocated_blocks",
	        (json_int_t)device->allocated_blocks, "allocator",
	        (json_int_t)answer->allocator_bytes[number], "roots", roots_json(device, view),
	        "shared", (json_int_t)device->shared, "shared_groups",
	        nodes_json(device->nodes, device->node_count, view, 1, GM_RETAINED_SHARED, false),
	        "unknown", (json_int_t)device->unknown, "unknown_groups",
	        nodes_json(device->nodes, device->node_count, view, 1, GM_RETAINED_UNKNOWN, false),
	        "pending", (json_int_t)device->pending);
}

struct gm_error *gm_render_retained_json(
        const struct gm_retained_answer *answer, const struct gm_retained_view *view, FILE *out)
{
	const struct gm_retained *retained = &answer->retained;
	json_t *root = retained->device_count
	                       ? device_json(answer, 0, view)
	                       : json_pack("{s:i, s:i, s:[], s:i, s:[], s:i, s:[], s:i}", "device",
	                                 0, "allocated", 0, "roots", "shared", 0, "shared_groups",
	                                 "unknown", 0, "unknown_groups", "pending", 0);
	json_t *others = json_array();
	for (size_t i = 1; i < retained->device_count; i++)
		json_array_append_new(others, device_json(answer, i, view));
	if (!root)
		return &gm_error_no_memory;
	json_object_set_new(root, "format", json_string(GM_RETAINED_FORMAT));
	json_object_set_new(root, "other_devices", others);
	json_object_set_new(root, "storages", json_integer((json_int_t)retained->storages));
	json_object_set_new(
	        root, "storages_complete", json_integer((json_int_t)retained->storages_complete));
	json_object_set_new(
	        root, "complete", json_boolean(retained->storages == retained->storages_complete));
	json_object_set_new(root, "pause", gm_json_pause(&answer->pause));
	json_object_set_new(root, "scan",
	        json_pack("{s:I, s:f, s:f, s:f, s:I, s:I}", "bytes",
	                (json_int_t)answer->cost.bytes_scanned, "seconds",
	                answer->cost.scan_seconds, "python_seconds", answer->cost.python_seconds,
	                "retained_seconds", retained->seconds, "vertices",
	                (json_int_t)retained->vertices, "references",
	                (json_int_t)retained->references));
	return gm_json_write(root, true, out);
}
