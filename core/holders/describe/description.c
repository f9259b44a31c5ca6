#include "holders/describe/description.h"
#include "holders/describe/names.h"

#include <stdlib.h>
#include <string.h>

const struct gm_edge *gm_describe_edge_at(const struct gm_description *description, size_t back)
{
	if (description->left <= back)
		return NULL;
	return &description->graph->edges
	                .items[description->chain->edges[description->left - 1 - back]];
}

uint64_t gm_describe_address_of(const struct gm_description *description, uint32_t vertex)
{
	return description->graph->vertices.items[vertex].address;
}

char *gm_describe_copy(struct gm_description *description, const char *text)
{
	if (!text)
		return NULL;
	char *copied = strdup(text);
	description->no_memory |= !copied;
	return copied;
}

struct gm_holder_step *gm_describe_step(struct gm_description *description, enum gm_step_form form,
        const char *kind, const char *name, const char *type, uint64_t address)
{
	static struct gm_holder_step nowhere;
	struct gm_holder_step made = {.form = form,
	        .kind = kind,
	        .name = gm_describe_copy(description, name),
	        .type = gm_describe_copy(description, type),
	        .index = -1,
	        .address = address};
	if (gm_array_push(&description->steps, made))
		return &description->steps.items[description->steps.count - 1];
	free(made.name);
	free(made.type);
	description->no_memory = true;
	nowhere = (struct gm_holder_step){0};
	return &nowhere;
}

bool gm_describe_link_at(struct gm_description *description, size_t back, struct gm_link *ret_link)
{
	const struct gm_edge *edge = gm_describe_edge_at(description, back);
	return edge && edge->kind == GM_REF_PYTHON &&
	       gm_link_read(description->graph, edge, ret_link);
}

bool gm_describe_link_is(
        struct gm_description *description, size_t back, enum gm_edge_kind kind, const char *name)
{
	struct gm_link link;
	if (!gm_describe_link_at(description, back, &link))
		return false;
	bool is = link.kind == kind && (!name || (link.name && strcmp(link.name, name) == 0));
	free(link.name);
	return is;
}
