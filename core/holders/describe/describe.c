#include "holders/describe/describe.h"

#include <string.h>

#include "holders/unattributed/stray.h"

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

/* One step is a word of a C object whose layout is not known. */
static bool is_guessed(const struct gm_holders *graph, const struct gm_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++) {
		const struct gm_edge *edge = &graph->edges.items[chain->edges[i]];
		if (gm_edge_is_guess(graph, edge))
			return true;
	}
	return false;
}

/* What a word of native memory is known to be. */
static void describe_stray(struct gm_description *description, const struct gm_stray *stray)
{
	struct gm_holder_step *made = gm_describe_step(
	        description, GM_STEP_NATIVE, stray->kind, NULL, NULL, stray->address);
	made->of = gm_describe_copy(description, stray->text);
}

static void turn_around(struct gm_holder *holder)
{
	for (size_t i = 0; i < holder->step_count / 2; i++) {
		struct gm_holder_step swapped = holder->steps[i];
		holder->steps[i] = holder->steps[holder->step_count - 1 - i];
		holder->steps[holder->step_count - 1 - i] = swapped;
	}
}

bool gm_graph_describe(struct gm_holders *graph, const struct gm_chain *chain, uint32_t storage,
        const struct gm_stray *stray, struct gm_holder *ret_holder)
{
	struct gm_description description = {.graph = graph, .chain = chain, .left = chain->count};
	if (storage != GM_NO_VERTEX)
		gm_describe_step(&description, GM_STEP_PLAIN, "storage", NULL, NULL,
		        graph->vertices.items[storage].address);
	while (description.left > 0 && !description.no_memory) {
		const struct gm_edge *edge = gm_describe_edge_at(&description, 0);
		if (edge->kind == GM_REF_PYTHON)
			gm_describe_python(&description, edge);
		else
			gm_describe_native(&description, edge);
	}
	if (stray)
		describe_stray(&description, stray);
	struct gm_holder holder = {.steps = description.steps.items,
	        .step_count = description.steps.count,
	        .end = stray || chain->rooted ? GM_CHAIN_ROOTED
	               : chain->garbage       ? GM_CHAIN_GARBAGE
	                                      : GM_CHAIN_UNKNOWN,
	        .class = stray                      ? stray->class
	                 : is_guessed(graph, chain) ? GM_PLAUSIBLE
	                                            : GM_PROVEN,
	        .rooted = !stray && chain->rooted};
	if (description.no_memory) {
		gm_holder_deinit(&holder);
		return false;
	}
	turn_around(&holder);
	*ret_holder = holder;
	return true;
}

const struct gm_holder_step *gm_holder_first(const struct gm_holder *holder)
{
	for (size_t i = holder->step_count; i-- > 0;)
		if (gm_step_speaks(&holder->steps[i]))
			return &holder->steps[i];
	return NULL;
}

void gm_holder_deinit(struct gm_holder *holder)
{
	for (size_t i = 0; i < holder->step_count; i++) {
		free(holder->steps[i].name);
		free(holder->steps[i].function);
		free(holder->steps[i].file);
		free(holder->steps[i].type);
		free(holder->steps[i].of);
		free(holder->steps[i].slot);
	}
	free(holder->steps);
	*holder = (struct gm_holder){0};
}
