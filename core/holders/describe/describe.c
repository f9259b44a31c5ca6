#include "holders/describe/describe.h"

#include <stdlib.h>

#include "holders/unattributed/unattributed.h"
#include "holders/describe/describe_native.h"
#include "holders/describe/describe_python.h"
#include "holders/describe/description.h"
#include "holders/graph/counts.h"
#include "holders/holders.h"

/* A step that is a word of a C object of unknown layout. */
static bool is_guessed(const struct gm_holders *graph, const struct gm_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++) {
		const struct gm_edge *edge = &graph->edges.items[chain->edges[i]];
		if (gm_edge_is_guess(graph, edge))
			return true;
	}
	return false;
}

/* A step that is a word of native memory, with what is known about that word. */
static void describe_unattributed(
        struct gm_description *description, const struct gm_unattributed *unattributed)
{
	struct gm_holder_step *made = gm_describe_step(
	        description, GM_STEP_NATIVE, unattributed->kind, NULL, NULL, unattributed->address);
	made->native = gm_native_owner_share(unattributed->native);
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
        const struct gm_unattributed *unattributed, struct gm_holder *ret_holder)
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
	if (unattributed)
		describe_unattributed(&description, unattributed);
	struct gm_holder holder = {.steps = description.steps.items,
	        .step_count = description.steps.count,
	        .end = unattributed || chain->rooted ? GM_CHAIN_ROOTED
	               : chain->stays                ? GM_CHAIN_CYCLE
	               : chain->garbage              ? GM_CHAIN_GARBAGE
	                                             : GM_CHAIN_UNKNOWN,
	        .class = unattributed               ? unattributed->class
	                 : is_guessed(graph, chain) ? GM_PLAUSIBLE
	                                            : GM_PROVEN,
	        .rooted = !unattributed && chain->rooted};
	if (description.no_memory) {
		gm_holder_deinit(&holder);
		return false;
	}
	turn_around(&holder);
	*ret_holder = holder;
	return true;
}
