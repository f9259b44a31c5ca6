/*
 * Variables of running frames, of retained frames, of modules, and of closures.
 */
#include "holders/describe/describe_variable.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/describe/description.h"
#include "holders/describe/names.h"

/* The frame in which a module's own code runs (the main script, or a module that is being
 * imported); NULL if there is none. */
static const struct gm_python_frame *module_frame(struct gm_holders *graph, uint64_t dict)
{
	for (size_t i = 0; i < graph->frames.count; i++) {
		const struct gm_python_frame *frame = &graph->frames.items[i].frame;
		if (strcmp(frame->code->name, "<module>") == 0 &&
		        gm_python_frame_globals(graph->python, frame) == dict)
			return frame;
	}
	return NULL;
}

void gm_describe_global(
        struct gm_description *description, const struct gm_edge *edge, const char *name)
{
	const struct gm_vertex *from = &description->graph->vertices.items[edge->from];
	const char *module = description->graph->modules.items[from->detail].name;
	const struct gm_python_frame *frame = module_frame(description->graph, from->address);
	const char *file = frame ? frame->code->file : NULL;
	struct gm_holder_step *made =
	        gm_describe_step(description, GM_STEP_GLOBAL, "global", name, NULL, from->address);
	made->function = gm_describe_copy(description, module);
	if (file) {
		made->file = gm_describe_copy(description, file);
		made->line = frame->line;
	}
	description->left--;
}

void gm_describe_frame(
        struct gm_description *description, const struct gm_edge *edge, bool through_cell)
{
	const struct gm_vertex *from = &description->graph->vertices.items[edge->from];
	const struct gm_python_frame *frame = &description->graph->frames.items[from->detail].frame;
	const struct gm_code *code = frame->code;
	bool named = edge->extra < code->local_count;
	const char *name = named ? code->local_names[edge->extra] : NULL;
	bool closure = named && (code->local_kinds[edge->extra] & 0x80) && through_cell;
	const char *file = code->file ? code->file : "?";
	enum gm_step_form form = !named    ? GM_STEP_OPERAND
	                         : closure ? GM_STEP_CLOSURE_LOCAL
	                                   : GM_STEP_LOCAL;
	struct gm_holder_step *made = gm_describe_step(description, form,
	        !named    ? "argument"
	        : closure ? "closure"
	                  : "local",
	        name, NULL, from->address);
	made->function = gm_describe_copy(description, code->name);
	made->file = gm_describe_copy(description, file);
	made->line = frame->line;
}

/* A frame that does not run any more, retained by a traceback or a generator. */
void gm_describe_kept_local(
        struct gm_description *description, const struct gm_edge *edge, const char *name)
{
	uint64_t from = gm_describe_address_of(description, edge->from);
	_cleanup_free_ char *function = gm_function_name(description->graph, from);
	_cleanup_free_ char *file = gm_function_file(description->graph, from);
	const char *type = gm_type_text(description->graph, from);
	bool frame = strcmp(type, "frame") == 0;
	const char *kind = frame                       ? "traceback"
	                   : strstr(type, "coroutine") ? "coroutine"
	                                               : "generator";
	struct gm_holder_step *made = gm_describe_step(description,
	        frame ? GM_STEP_FRAME_LOCAL : GM_STEP_GENERATOR_LOCAL, kind, name, type, from);
	made->function = gm_describe_copy(description, function);
	made->file = gm_describe_copy(description, file);
	description->left--;
	/* frame <- traceback <- later tracebacks: shown as one step */
	if (!frame || !gm_describe_link_is(description, 0, GM_EDGE_OTHER, "tb_frame"))
		return;
	description->left--;
	while (gm_describe_link_is(description, 0, GM_EDGE_OTHER, "tb_next"))
		description->left--;
}

void gm_describe_cell(struct gm_description *description, const struct gm_edge *edge)
{
	const struct gm_edge *outer = gm_describe_edge_at(description, 1);
	if (outer && outer->kind == GM_REF_LOCAL) {
		gm_describe_frame(description, outer, true);
		description->left -= 2;
		return;
	}
	struct gm_link link;
	if (gm_describe_link_is(description, 2, GM_EDGE_CLOSURE, NULL) &&
	        gm_describe_link_at(description, 1, &link)) {
		uint64_t function = gm_describe_address_of(
		        description, gm_describe_edge_at(description, 2)->from);
		_cleanup_free_ char *of = gm_function_name(description->graph, function);
		_cleanup_free_ char *name =
		        gm_closure_name(description->graph, function, link.index);
		free(link.name);
		struct gm_holder_step *made = gm_describe_step(
		        description, GM_STEP_CLOSURE, "closure", name, NULL, function);
		made->function = gm_describe_copy(description, of);
		description->left -= 3;
		return;
	}
	if (outer && gm_describe_link_at(description, 1, &link)) {
		_cleanup_free_ char *name = link.name;
		if (link.kind == GM_EDGE_LOCAL) {
			description->left--;
			gm_describe_kept_local(description, outer, name);
			return;
		}
	}
	gm_describe_step(description, GM_STEP_CELL, "cell", NULL, "cell",
	        gm_describe_address_of(description, edge->from));
	description->left--;
}
