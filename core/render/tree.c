#include "render/tree.h"

#include <inttypes.h>

#include "base/put.h"
#include "render/groups.h"
#include "render/text.h"
#include "ask/recording/driven.h"
#include "ask/recording/place.h"

/* Calls with less than this fraction of all bytes are shown as one. */
enum { PART = 200, INDENT_MAX = 48 };

static const char *kind_name(enum gm_tree_kind kind)
{
	static const char *const names[] = {
	        [GM_TREE_ROOT] = "root",
	        [GM_TREE_FRAME] = "call",
	        [GM_TREE_WORK] = "work",
	        [GM_TREE_UNKNOWN] = "unknown",
	        [GM_TREE_BEFORE] = "before_recording",
	};
	return names[kind];
}

static void put_amount(struct gm_table *table, uint64_t bytes, uint64_t blocks, uint64_t all)
{
	char size[GM_SIZE_TEXT];
	gm_table_cell(table, "%s", gm_text_size(bytes, size));
	gm_table_cell(table, "%.1f%%", all ? 100.0 * (double)bytes / (double)all : 0);
	gm_table_cell(table, "%" PRIu64, blocks);
}

static void put_node_text(struct gm_table *table, const struct gm_tree_node *node, unsigned depth)
{
	char text[600] = "";
	FILE *line = fmemopen(text, sizeof(text), "w");
	if (line) {
		if (node->kind == GM_TREE_FRAME)
			gm_put(line, "%s:%u in %s", gm_place_base_name(node->site.place.file),
			        node->site.place.line, node->site.place.function);
		else if (node->kind == GM_TREE_WORK)
			gm_put_node(&node->site, line);
		else
			fputs(node->kind == GM_TREE_BEFORE
			                ? "unknown (allocated before the recording began)"
			                : "unknown (no stack was recorded)",
			        line);
		fclose(line);
	}
	unsigned indent = 2 * depth < INDENT_MAX ? 2 * depth : INDENT_MAX;
	gm_table_cell(table, "%*s%s", (int)indent, "", text);
}

/*
 * A call that passes all its bytes to a single callee is shown without figures, and its callee is
 * not indented: the tree grows to the right only where bytes divide.
 */
static void put_children(const struct gm_tree *tree, uint32_t parent, unsigned depth, uint64_t all,
        struct gm_table *table)
{
	uint64_t bytes = 0, blocks = 0;
	size_t smaller = 0;
	for (uint32_t at = tree->nodes[parent].first; at != GM_TREE_NONE;
	        at = tree->nodes[at].next) {
		const struct gm_tree_node *node = &tree->nodes[at];
		if (node->bytes < all / PART) {
			smaller++;
			bytes += node->bytes;
			blocks += node->blocks;
			continue;
		}
		bool passes = node->first != GM_TREE_NONE &&
		              tree->nodes[node->first].blocks == node->blocks &&
		              tree->nodes[node->first].bytes == node->bytes;
		if (passes)
			for (int i = 0; i < 3; i++)
				gm_table_cell(table, "%s", "");
		else
			put_amount(table, node->bytes, node->blocks, all);
		put_node_text(table, node, depth);
		put_children(tree, at, depth + !passes, all, table);
	}
	if (!smaller)
		return;
	unsigned indent = 2 * depth < INDENT_MAX ? 2 * depth : INDENT_MAX;
	put_amount(table, bytes, blocks, all);
	gm_table_cell(table, "%*s(%zu smaller)", (int)indent, "", smaller);
}

struct gm_error *gm_render_tree(const struct gm_tree *tree, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"size", "share", "blocks", "calls, outermost first"};
	struct gm_table *table = gm_table_create(heads, "rrrl");
	put_children(tree, 0, 0, tree->nodes[0].bytes, table);
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

static json_t *json_children(const struct gm_tree *tree, uint32_t parent)
{
	json_t *all = json_array();
	for (uint32_t at = tree->nodes[parent].first; at != GM_TREE_NONE;
	        at = tree->nodes[at].next) {
		const struct gm_tree_node *node = &tree->nodes[at];
		json_t *one = json_pack("{s:s, s:I, s:I}", "kind", kind_name(node->kind), "bytes",
		        (json_int_t)node->bytes, "blocks", (json_int_t)node->blocks);
		gm_json_set_site(one, &node->site);
		json_object_set_new(one, "children", json_children(tree, at));
		json_array_append_new(all, one);
	}
	return all;
}

json_t *gm_json_tree(const struct gm_tree *tree)
{
	return json_children(tree, 0);
}
