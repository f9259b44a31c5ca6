/*
 * References between Python objects: keys, items, attributes, and other fields.
 */
#include "holders/describe/describe_python.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/describe/description.h"
#include "holders/describe/describe_attribute.h"
#include "holders/describe/describe_variable.h"
#include "holders/describe/names.h"

static void describe_key(
        struct gm_description *description, const struct gm_edge *edge, const struct gm_link *link)
{
	_cleanup_free_ char *name = NULL;
	uint64_t from = gm_describe_address_of(description, edge->from), owner;
	if (description->graph->vertices.items[edge->from].flags & GM_VERTEX_ROOT_MODULE) {
		gm_describe_global(description, edge, link->name);
		return;
	}
	size_t used = gm_describe_attribute_at(description, 0, &name, &owner);
	if (used) {
		gm_describe_attribute(description, name, owner, used);
		return;
	}
	if (link->name && (gm_describe_module_part(description, link->name) ||
	                          gm_describe_optimizer_state(description, link->name)))
		return;
	if (gm_describe_link_is(description, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = gm_describe_address_of(
		        description, gm_describe_edge_at(description, 1)->from);
		_cleanup_free_ char *of = gm_function_name(description->graph, function);
		struct gm_holder_step *made = gm_describe_step(description, GM_STEP_KEYWORD_DEFAULT,
		        "argument", link->name, NULL, function);
		made->function = gm_describe_copy(description, of);
		description->left -= 2;
		return;
	}
	const char *type = gm_type_text(description->graph, from);
	gm_describe_step(description, GM_STEP_KEY, "key", link->name, type, from);
	description->left--;
}

static void describe_item(
        struct gm_description *description, const struct gm_edge *edge, const struct gm_link *link)
{
	uint64_t from = gm_describe_address_of(description, edge->from);
	if (gm_describe_link_is(description, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = gm_describe_address_of(
		        description, gm_describe_edge_at(description, 1)->from);
		_cleanup_free_ char *of = gm_function_name(description->graph, function);
		struct gm_holder_step *made = gm_describe_step(
		        description, GM_STEP_DEFAULT, "argument", NULL, NULL, function);
		made->function = gm_describe_copy(description, of);
		made->index = link->index;
		description->left -= 2;
		return;
	}
	const char *type = gm_type_text(description->graph, from);
	bool ordered = !gm_python_is_instance(description->graph->python, from, "set") &&
	               !gm_python_is_instance(description->graph->python, from, "frozenset");
	gm_describe_step(description, GM_STEP_ITEM, "item", NULL, type, from)->index =
	        ordered ? link->index : -1;
	description->left--;
}

void gm_describe_python(struct gm_description *description, const struct gm_edge *edge)
{
	struct gm_link link;
	uint64_t from = gm_describe_address_of(description, edge->from);
	if (!gm_link_read(description->graph, edge, &link)) {
		gm_describe_step(description, GM_STEP_OBJECT, "object", NULL,
		        gm_type_text(description->graph, from), from);
		description->left--;
		return;
	}
	const char *type = gm_type_text(description->graph, from);
	switch (link.kind) {
	case GM_EDGE_KEY:
	case GM_EDGE_DICT_KEY:
		if (link.kind == GM_EDGE_KEY) {
			describe_key(description, edge, &link);
		} else {
			gm_describe_step(description, GM_STEP_KEY_ITSELF, "key", NULL, type, from);
			description->left--;
		}
		break;
	case GM_EDGE_ITEM:
		describe_item(description, edge, &link);
		break;
	case GM_EDGE_ATTRIBUTE:
		gm_describe_attribute(description, link.name ? link.name : "?", from, 1);
		break;
	case GM_EDGE_CELL:
		gm_describe_cell(description, edge);
		break;
	case GM_EDGE_LOCAL:
		gm_describe_kept_local(description, edge, link.name);
		break;
	case GM_EDGE_BOUND: {
		uint64_t function = gm_field_target(description->graph, from, "__func__");
		_cleanup_free_ char *name =
		        gm_function_name(description->graph, function ? function : from);
		gm_describe_step(
		        description, GM_STEP_BOUND_SELF, "attribute", "__self__", type, from)
		        ->function = gm_describe_copy(description, name);
		description->left--;
		break;
	}
	default:
		if (link.name && strcmp(link.name, "__traceback__") == 0)
			gm_describe_step(
			        description, GM_STEP_TRACEBACK, "traceback", NULL, type, from);
		else
			gm_describe_step(
			        description, GM_STEP_FIELD, "attribute", link.name, type, from)
			        ->of = gm_describe_owner_text(description, from);
		description->left--;
	}
	free(link.name);
}
