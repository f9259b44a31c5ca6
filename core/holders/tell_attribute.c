/*
 * Attributes, and what libraries keep as attributes of attributes and users know by one name: a module's
 * parameters, an optimizer's state.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/tell.h"

/* "Linear", or "class Linear" where the object is a class. Caller frees. */
char *gm_tell_owner_text(struct gm_telling *telling, uint64_t object)
{
	char *text;
	if (gm_python_is_instance(telling->graph->python, object, "type")) {
		_cleanup_free_ char *name = gm_function_name(telling->graph, object);
		if (asprintf(&text, "class %s", name ? name : "?") < 0)
			text = NULL;
	} else {
		text = strdup(gm_type_text(telling->graph, object));
	}
	telling->no_memory |= !text;
	return text;
}

size_t gm_tell_attribute_at(
        struct gm_telling *telling, size_t back, char **ret_name, uint64_t *ret_owner)
{
	struct gm_link link;
	const struct gm_edge *edge = gm_tell_edge_at(telling, back);
	if (!gm_tell_link_at(telling, back, &link))
		return 0;
	if (link.kind == GM_EDGE_ATTRIBUTE && link.name) {
		*ret_name = link.name;
		*ret_owner = gm_tell_address_of(telling, edge->from);
		return 1;
	}
	if (link.kind == GM_EDGE_KEY && link.name &&
	        gm_tell_link_is(telling, back + 1, GM_EDGE_OTHER, "__dict__")) {
		*ret_name = link.name;
		*ret_owner = gm_tell_address_of(telling, gm_tell_edge_at(telling, back + 1)->from);
		return 2;
	}
	free(link.name);
	return 0;
}

/* torch.nn.Module keeps its parts in three dicts (torch/nn/modules/module.py). */
bool gm_tell_module_part(struct gm_telling *telling, const char *name)
{
	static const char *const parts[][2] = {
	        {"_parameters", "parameter"}, {"_buffers", "buffer"}, {"_modules", "module"}};
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	size_t used = gm_tell_attribute_at(telling, 1, &dict, &owner);
	for (size_t i = 0; used && i < 3; i++) {
		if (strcmp(dict, parts[i][0]) != 0)
			continue;
		const char *type = gm_type_text(telling->graph, owner);
		gm_tell_say(telling, "%s '%s' of %s", parts[i][1], name, type);
		gm_tell_step(telling, "attribute", name, type, owner);
		telling->left -= 1 + used;
		return true;
	}
	return false;
}

/* Optimizer.state: a dict by parameter of dicts by name (torch/optim/optimizer.py). */
bool gm_tell_optimizer_state(struct gm_telling *telling, const char *name)
{
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	if (!gm_tell_link_is(telling, 1, GM_EDGE_KEY, NULL))
		return false;
	size_t used = gm_tell_attribute_at(telling, 2, &dict, &owner);
	if (!used || strcmp(dict, "state") != 0 ||
	        !gm_python_is_instance(telling->graph->python, owner, "Optimizer"))
		return false;
	const char *type = gm_type_text(telling->graph, owner);
	_cleanup_free_ char *parameter = gm_parameter_name(telling->graph,
	        gm_key_of_value(telling->graph,
	                gm_tell_address_of(telling, gm_tell_edge_at(telling, 1)->from),
	                gm_tell_address_of(telling, gm_tell_edge_at(telling, 1)->to)));
	gm_tell_say(telling, "optimizer state '%s' of %s%s%s%s", name, type,
	        parameter ? " for parameter '" : "", parameter ? parameter : "",
	        parameter ? "'" : "");
	gm_tell_step(telling, "optimizer_state", name, type, owner);
	telling->left -= 2 + used;
	return true;
}

void gm_tell_attribute(struct gm_telling *telling, const char *name, uint64_t owner, size_t used)
{
	_cleanup_free_ char *text = gm_tell_owner_text(telling, owner);
	gm_tell_say(telling, "attribute '%s' of %s", name, text ? text : "object");
	gm_tell_step(telling, "attribute", name, text, owner);
	telling->left -= used;
}
