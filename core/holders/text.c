#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "holders/stray.h"
#include "holders/tell.h"

const struct gm_edge *gm_tell_edge_at(const struct gm_telling *telling, size_t back)
{
	if (telling->left <= back)
		return NULL;
	return &telling->graph->edges.items[telling->chain->edges[telling->left - 1 - back]];
}

uint64_t gm_tell_address_of(const struct gm_telling *telling, uint32_t vertex)
{
	return telling->graph->vertices.items[vertex].address;
}

void gm_tell_say(struct gm_telling *telling, const char *format, ...)
{
	char *piece, *joined;
	va_list args;
	va_start(args, format);
	int made = vasprintf(&piece, format, args);
	va_end(args);
	if (made < 0) {
		telling->no_memory = true;
		return;
	}
	const char *between = telling->length == 0 || piece[0] == ',' ? "" : ": ";
	int length =
	        asprintf(&joined, "%s%s%s", telling->text ? telling->text : "", between, piece);
	free(piece);
	if (length < 0) {
		telling->no_memory = true;
		return;
	}
	free(telling->text);
	telling->text = joined;
	telling->length = (size_t)length;
}

char *gm_tell_copy(struct gm_telling *telling, const char *text)
{
	if (!text)
		return NULL;
	char *copied = strdup(text);
	telling->no_memory |= !copied;
	return copied;
}

struct gm_holder_step *gm_tell_step(struct gm_telling *telling, const char *kind, const char *name,
        const char *type, uint64_t address)
{
	static struct gm_holder_step nowhere;
	struct gm_holder_step made = {.kind = kind,
	        .name = gm_tell_copy(telling, name),
	        .type = gm_tell_copy(telling, type),
	        .index = -1,
	        .address = address};
	if (gm_array_push(&telling->steps, made))
		return &telling->steps.items[telling->steps.count - 1];
	free(made.name);
	free(made.type);
	telling->no_memory = true;
	nowhere = (struct gm_holder_step){0};
	return &nowhere;
}

bool gm_tell_link_at(struct gm_telling *telling, size_t back, struct gm_link *ret_link)
{
	const struct gm_edge *edge = gm_tell_edge_at(telling, back);
	return edge && edge->kind == GM_REF_PYTHON && gm_link_read(telling->graph, edge, ret_link);
}

bool gm_tell_link_is(
        struct gm_telling *telling, size_t back, enum gm_edge_kind kind, const char *name)
{
	struct gm_link link;
	if (!gm_tell_link_at(telling, back, &link))
		return false;
	bool is = link.kind == kind && (!name || (link.name && strcmp(link.name, name) == 0));
	free(link.name);
	return is;
}

/* "in the graph of: " with nothing behind it, "saved by X: , in ...": the separators are mended here. */
static void mend(char *text)
{
	char *found;
	while ((found = strstr(text, "in the graph of, in the graph of")))
		memmove(found, found + strlen("in the graph of, "),
		        strlen(found + strlen("in the graph of, ")) + 1);
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

bool gm_graph_describe(struct gm_holders *graph, const struct gm_chain *chain, uint32_t storage,
        const struct gm_stray *stray, struct gm_holder *ret_holder)
{
	struct gm_telling telling = {.graph = graph, .chain = chain, .left = chain->count};
	if (storage != GM_NO_VERTEX)
		gm_tell_step(
		        &telling, "storage", NULL, NULL, graph->vertices.items[storage].address);
	while (telling.left > 0 && !telling.no_memory) {
		const struct gm_edge *edge = gm_tell_edge_at(&telling, 0);
		if (edge->kind == GM_REF_PYTHON)
			gm_tell_python(&telling, edge);
		else
			gm_tell_native(&telling, edge);
	}
	if (stray) {
		gm_tell_say(&telling, "%s", stray->text);
		gm_tell_step(&telling, stray->kind, NULL, NULL, stray->address);
	} else if (!chain->rooted) {
		gm_tell_say(&telling, "%s",
		        chain->garbage ? "a cycle of garbage: nothing else holds it, gc.collect() "
		                         "would free it"
		                       : "nothing found refers to that");
	}
	if (telling.text)
		mend(telling.text);
	struct gm_holder holder = {.text = telling.text,
	        .steps = telling.steps.items,
	        .step_count = telling.steps.count,
	        .class = stray                      ? stray->class
	                 : is_guessed(graph, chain) ? GM_PLAUSIBLE
	                                            : GM_PROVEN,
	        .rooted = !stray && chain->rooted};
	if (telling.no_memory || !holder.text) {
		gm_holder_deinit(&holder);
		return false;
	}
	for (size_t i = 0; i < holder.step_count / 2; i++) {
		struct gm_holder_step swapped = holder.steps[i];
		holder.steps[i] = holder.steps[holder.step_count - 1 - i];
		holder.steps[holder.step_count - 1 - i] = swapped;
	}
	*ret_holder = holder;
	return true;
}

void gm_holder_deinit(struct gm_holder *holder)
{
	for (size_t i = 0; i < holder->step_count; i++) {
		free(holder->steps[i].name);
		free(holder->steps[i].function);
		free(holder->steps[i].file);
		free(holder->steps[i].type);
	}
	free(holder->steps);
	free(holder->text);
	*holder = (struct gm_holder){0};
}
