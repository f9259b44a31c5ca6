/*
 * Attributes, and things that libraries store in nested attributes but users know by one name: a
 * module's parameters, an optimizer's state.
 */
#include "holders/describe/describe_attribute.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/describe/description.h"
#include "holders/describe/names.h"
#include "holders/describe/parameters.h"

/* "Linear", or "class Linear" if the object is a class. Caller frees. */
char *gm_describe_owner_text(struct gm_description *description, uint64_t object)
{
	char *text;
	if (gm_python_is_instance(description->graph->python, object, "type")) {
		_cleanup_free_ char *name = gm_function_name(description->graph, object);
		if (asprintf(&text, "class %s", name ? name : "?") < 0)
			text = NULL;
	} else {
		text = strdup(gm_type_text(description->graph, object));
	}
	description->no_memory |= !text;
	return text;
}

size_t gm_describe_attribute_at(
        struct gm_description *description, size_t back, char **ret_name, uint64_t *ret_owner)
{
	struct gm_link link;
	const struct gm_edge *edge = gm_describe_edge_at(description, back);
	if (!gm_describe_link_at(description, back, &link))
		return 0;
	if (link.kind == GM_EDGE_ATTRIBUTE && link.name) {
		*ret_name = link.name;
		*ret_owner = gm_describe_address_of(description, edge->from);
		return 1;
	}
	if (link.kind == GM_EDGE_KEY && link.name &&
	        gm_describe_link_is(description, back + 1, GM_EDGE_OTHER, "__dict__")) {
		*ret_name = link.name;
		*ret_owner = gm_describe_address_of(
		        description, gm_describe_edge_at(description, back + 1)->from);
		return 2;
	}
	free(link.name);
	return 0;
}

/* torch.nn.Module stores its parameters, buffers and submodules in three dicts
 * (torch/nn/modules/module.py). */
bool gm_describe_module_part(struct gm_description *description, const char *name)
{
	static const struct {
		const char *dict;
		enum gm_step_form form;
	} parts[] = {{"_parameters", GM_STEP_PARAMETER}, {"_buffers", GM_STEP_BUFFER},
	        {"_modules", GM_STEP_CHILD}};
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	size_t used = gm_describe_attribute_at(description, 1, &dict, &owner);
	for (size_t i = 0; used && i < 3; i++) {
		if (strcmp(dict, parts[i].dict) != 0)
			continue;
		const char *type = gm_type_text(description->graph, owner);
		gm_describe_step(description, parts[i].form, "attribute", name, type, owner);
		description->left -= 1 + used;
		return true;
	}
	return false;
}

/* Optimizer.state: a dict by parameter of dicts by name (torch/optim/optimizer.py). */
bool gm_describe_optimizer_state(struct gm_description *description, const char *name)
{
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	if (!gm_describe_link_is(description, 1, GM_EDGE_KEY, NULL))
		return false;
	size_t used = gm_describe_attribute_at(description, 2, &dict, &owner);
	if (!used || strcmp(dict, "state") != 0 ||
	        !gm_python_is_instance(description->graph->python, owner, "Optimizer"))
		return false;
	const char *type = gm_type_text(description->graph, owner);
	_cleanup_free_ char *parameter = gm_parameter_name(description->graph,
	        gm_key_of_value(description->graph,
	                gm_describe_address_of(
	                        description, gm_describe_edge_at(description, 1)->from),
	                gm_describe_address_of(
	                        description, gm_describe_edge_at(description, 1)->to)));
	gm_describe_step(description, GM_STEP_OPTIMIZER_STATE, "optimizer_state", name, type, owner)
	        ->of = gm_describe_copy(description, parameter);
	description->left -= 2 + used;
	return true;
}

void gm_describe_attribute(
        struct gm_description *description, const char *name, uint64_t owner, size_t used)
{
	_cleanup_free_ char *text = gm_describe_owner_text(description, owner);
	gm_describe_step(description, GM_STEP_ATTRIBUTE, "attribute", name, text, owner);
	description->left -= used;
}
