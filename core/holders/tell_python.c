/*
 * References between Python objects: keys, items, attributes, and fields of objects that are neither.
 */
#include <string.h>

#include "base/cleanup.h"
#include "holders/tell.h"

static void tell_key(
        struct gm_telling *telling, const struct gm_edge *edge, const struct gm_link *link)
{
	_cleanup_free_ char *name = NULL;
	uint64_t from = gm_tell_address_of(telling, edge->from), owner;
	if (telling->graph->vertices.items[edge->from].flags & GM_VERTEX_ROOT_MODULE) {
		gm_tell_global(telling, edge, link->name);
		return;
	}
	size_t used = gm_tell_attribute_at(telling, 0, &name, &owner);
	if (used) {
		gm_tell_attribute(telling, name, owner, used);
		return;
	}
	if (link->name && (gm_tell_module_part(telling, link->name) ||
	                          gm_tell_optimizer_state(telling, link->name)))
		return;
	if (gm_tell_link_is(telling, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = gm_tell_address_of(telling, gm_tell_edge_at(telling, 1)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		gm_tell_say(telling, "default of argument '%s' of %s()",
		        link->name ? link->name : "?", of ? of : "?");
		struct gm_holder_step *made =
		        gm_tell_step(telling, "argument", link->name, NULL, function);
		made->function = gm_tell_copy(telling, of);
		telling->left -= 2;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	if (link->name)
		gm_tell_say(telling, "key '%s' of %s", link->name, type);
	else
		gm_tell_say(telling, "key of %s", type);
	gm_tell_step(telling, "key", link->name, type, from);
	telling->left--;
}

static void tell_item(
        struct gm_telling *telling, const struct gm_edge *edge, const struct gm_link *link)
{
	uint64_t from = gm_tell_address_of(telling, edge->from);
	if (gm_tell_link_is(telling, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = gm_tell_address_of(telling, gm_tell_edge_at(telling, 1)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		gm_tell_say(telling, "default argument of %s()", of ? of : "?");
		struct gm_holder_step *made =
		        gm_tell_step(telling, "argument", NULL, NULL, function);
		made->function = gm_tell_copy(telling, of);
		made->index = link->index;
		telling->left -= 2;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	bool ordered = !gm_python_is_instance(telling->graph->python, from, "set") &&
	               !gm_python_is_instance(telling->graph->python, from, "frozenset");
	if (ordered && link->index >= 0)
		gm_tell_say(telling, "item %jd of %s", (intmax_t)link->index, type);
	else
		gm_tell_say(telling, "item of %s", type);
	gm_tell_step(telling, "item", NULL, type, from)->index = ordered ? link->index : -1;
	telling->left--;
}

void gm_tell_python(struct gm_telling *telling, const struct gm_edge *edge)
{
	struct gm_link link;
	uint64_t from = gm_tell_address_of(telling, edge->from);
	if (!gm_link_read(telling->graph, edge, &link)) {
		gm_tell_say(telling, "%s", gm_type_text(telling->graph, from));
		gm_tell_step(telling, "object", NULL, gm_type_text(telling->graph, from), from);
		telling->left--;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	switch (link.kind) {
	case GM_EDGE_KEY:
	case GM_EDGE_DICT_KEY:
		if (link.kind == GM_EDGE_KEY) {
			tell_key(telling, edge, &link);
		} else {
			gm_tell_say(telling, "a key itself of %s", type);
			gm_tell_step(telling, "key", NULL, type, from);
			telling->left--;
		}
		break;
	case GM_EDGE_ITEM:
		tell_item(telling, edge, &link);
		break;
	case GM_EDGE_ATTRIBUTE:
		gm_tell_attribute(telling, link.name ? link.name : "?", from, 1);
		break;
	case GM_EDGE_CELL:
		gm_tell_cell(telling, edge);
		break;
	case GM_EDGE_LOCAL:
		gm_tell_kept_local(telling, edge, link.name);
		break;
	case GM_EDGE_BOUND: {
		uint64_t function = gm_field_target(telling->graph, from, "__func__");
		_cleanup_free_ char *name =
		        gm_function_name(telling->graph, function ? function : from);
		gm_tell_say(telling, "self of bound method %s", name ? name : "?");
		gm_tell_step(telling, "attribute", "__self__", type, from)->function =
		        gm_tell_copy(telling, name);
		telling->left--;
		break;
	}
	default:
		if (link.name && strcmp(link.name, "__traceback__") == 0) {
			gm_tell_say(telling, "traceback of %s", type);
			gm_tell_step(telling, "traceback", NULL, type, from);
		} else {
			_cleanup_free_ char *owner = gm_tell_owner_text(telling, from);
			gm_tell_say(telling, "%s of %s", link.name ? link.name : "part",
			        owner ? owner : type);
			gm_tell_step(telling, "attribute", link.name, type, from);
		}
		telling->left--;
	}
	free(link.name);
}
