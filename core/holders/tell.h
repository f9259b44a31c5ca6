/*
 * A chain being told. Internal to core/holders.
 *
 * It is told from the tensor outwards ("item 3 of list: global 'history' of module __main__"), while its
 * steps are kept root first in the answer. What Python keeps in several objects and a user writes as one thing (an
 * attribute in an instance's dict, a parameter of a module, a closure's variable) is one step.
 */
#ifndef GM_HOLDERS_TELL_H
#define GM_HOLDERS_TELL_H

#include "holders/text.h"

struct gm_telling {
	struct gm_holders *graph;
	const struct gm_chain *chain;
	size_t left; /* edges not told yet: chain->edges[left - 1] is next */
	char *text;
	size_t length;
	GM_ARRAY(struct gm_holder_step) steps; /* from the storage outwards */
	unsigned graph_steps;
	bool no_memory;
};

/* The edge after `back` further ones, outwards; NULL: the chain ends before. */
const struct gm_edge *gm_tell_edge_at(const struct gm_telling *telling, size_t back);
uint64_t gm_tell_address_of(const struct gm_telling *telling, uint32_t vertex);
/* Appends to the text; ": " comes between, unless it starts with a comma. */
__attribute__((format(printf, 2, 3))) void gm_tell_say(
        struct gm_telling *telling, const char *format, ...);
char *gm_tell_copy(struct gm_telling *telling, const char *text);
/* A step with a name and the Python object's or node's type; never NULL. */
struct gm_holder_step *gm_tell_step(struct gm_telling *telling, const char *kind, const char *name,
        const char *type, uint64_t address);
/* The next link, if the next edge is one between Python objects. The caller frees its name. */
bool gm_tell_link_at(struct gm_telling *telling, size_t back, struct gm_link *ret_link);
/* Is it one of that kind, and (where not NULL) of that name? */
bool gm_tell_link_is(
        struct gm_telling *telling, size_t back, enum gm_edge_kind kind, const char *name);

/* tell_attribute.c. Each tells as many edges as make one thing; false: it is not that thing. */
/*
 * Is the next edge (after `back` ones) an attribute: an inline value, a slot, or an entry of an instance's dict? Then
 * its name (the caller frees), its owner and how many edges that is.
 */
size_t gm_tell_attribute_at(
        struct gm_telling *telling, size_t back, char **ret_name, uint64_t *ret_owner);
/* "Linear", or "class Linear" where the object is a class. Caller frees; NULL: no memory. */
char *gm_tell_owner_text(struct gm_telling *telling, uint64_t object);
void gm_tell_attribute(struct gm_telling *telling, const char *name, uint64_t owner, size_t used);
bool gm_tell_module_part(struct gm_telling *telling, const char *name);
bool gm_tell_optimizer_state(struct gm_telling *telling, const char *name);

/* tell_variable.c: the variables of frames and modules. */
void gm_tell_global(struct gm_telling *telling, const struct gm_edge *edge, const char *name);
void gm_tell_frame(struct gm_telling *telling, const struct gm_edge *edge, bool through_cell);
void gm_tell_kept_local(struct gm_telling *telling, const struct gm_edge *edge, const char *name);
void gm_tell_cell(struct gm_telling *telling, const struct gm_edge *edge);

/* tell_python.c: a reference between Python objects. */
void gm_tell_python(struct gm_telling *telling, const struct gm_edge *edge);
/* tell_native.c: a reference of PyTorch's C++ objects, or a root's. */
void gm_tell_native(struct gm_telling *telling, const struct gm_edge *edge);

#endif
