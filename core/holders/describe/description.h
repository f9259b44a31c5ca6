/*
 * A chain being described: its edges become steps, of which core/render makes sentences. Internal
 * to core/holders.
 *
 * It is read from the tensor outwards ("item 3 of list: global 'history' of module __main__"),
 * while its steps are kept root first in the answer. What Python keeps in several objects and a
 * user writes as one thing (an attribute in an instance's dict, a parameter of a module, a
 * closure's variable) is one step.
 */
#ifndef GM_HOLDERS_DESCRIPTION_H
#define GM_HOLDERS_DESCRIPTION_H

#include "holders/describe/names.h"

struct gm_description {
	struct gm_holders *graph;
	const struct gm_chain *chain;
	size_t left; /* edges not described yet: chain->edges[left - 1] is next */
	GM_ARRAY(struct gm_holder_step) steps; /* from the storage outwards */
	unsigned graph_steps;
	bool no_memory;
};

/* The edge after `back` further ones, outwards; NULL: the chain ends before. */
const struct gm_edge *gm_describe_edge_at(const struct gm_description *description, size_t back);
uint64_t gm_describe_address_of(const struct gm_description *description, uint32_t vertex);
char *gm_describe_copy(struct gm_description *description, const char *text);
/* Adds a step; `kind` as in the JSON, name and type are copied. Never NULL. */
struct gm_holder_step *gm_describe_step(struct gm_description *description, enum gm_step_form form,
        const char *kind, const char *name, const char *type, uint64_t address);
/* The next link, if the next edge is one between Python objects. The caller frees its name. */
bool gm_describe_link_at(struct gm_description *description, size_t back, struct gm_link *ret_link);
/* Is it one of that kind, and (where not NULL) of that name? */
bool gm_describe_link_is(
        struct gm_description *description, size_t back, enum gm_edge_kind kind, const char *name);

#endif
