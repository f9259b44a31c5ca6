/*
 * Variables: of frames that run, of frames that are kept, of modules, and of closures.
 */
#include <string.h>

#include "base/cleanup.h"
#include "holders/tell.h"

/* The frame in which a module's own code runs (the main script, a module that is being imported); NULL: none. */
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

void gm_tell_global(struct gm_telling *telling, const struct gm_edge *edge, const char *name)
{
	const struct gm_vertex *from = &telling->graph->vertices.items[edge->from];
	const char *module = telling->graph->modules.items[from->detail].name;
	const struct gm_python_frame *frame = module_frame(telling->graph, from->address);
	const char *file = frame ? frame->code->file : NULL;
	if (file && strcmp(module, "__main__") == 0)
		gm_tell_say(telling, "global '%s' of module __main__ (%s)", name ? name : "?",
		        gm_base_name(file));
	else
		gm_tell_say(telling, "global '%s' of module %s", name ? name : "?", module);
	struct gm_holder_step *made = gm_tell_step(telling, "global", name, NULL, from->address);
	made->function = gm_tell_copy(telling, module);
	if (file) {
		made->file = gm_tell_copy(telling, file);
		made->line = frame->line;
	}
	telling->left--;
}

void gm_tell_frame(struct gm_telling *telling, const struct gm_edge *edge, bool through_cell)
{
	const struct gm_vertex *from = &telling->graph->vertices.items[edge->from];
	const struct gm_python_frame *frame = &telling->graph->frames.items[from->detail].frame;
	const struct gm_code *code = frame->code;
	bool named = edge->extra < code->local_count;
	const char *name = named ? code->local_names[edge->extra] : NULL;
	bool closure = named && (code->local_kinds[edge->extra] & 0x80) && through_cell;
	const char *file = code->file ? code->file : "?";
	if (named)
		gm_tell_say(telling, "%s '%s' of %s() at %s:%u",
		        closure ? "closure variable" : "local", name, code->name,
		        gm_base_name(file), frame->line);
	else
		gm_tell_say(telling, "an operand of %s() at %s:%u", code->name, gm_base_name(file),
		        frame->line);
	struct gm_holder_step *made = gm_tell_step(telling,
	        !named    ? "argument"
	        : closure ? "closure"
	                  : "local",
	        name, NULL, from->address);
	made->function = gm_tell_copy(telling, code->name);
	made->file = gm_tell_copy(telling, file);
	made->line = frame->line;
}

/* A frame that runs no more: kept by a traceback, or a generator's. */
void gm_tell_kept_local(struct gm_telling *telling, const struct gm_edge *edge, const char *name)
{
	uint64_t from = gm_tell_address_of(telling, edge->from);
	_cleanup_free_ char *function = gm_function_name(telling->graph, from);
	_cleanup_free_ char *file = gm_function_file(telling->graph, from);
	const char *type = gm_type_text(telling->graph, from);
	bool frame = strcmp(type, "frame") == 0;
	const char *kind = frame                       ? "traceback"
	                   : strstr(type, "coroutine") ? "coroutine"
	                                               : "generator";
	if (name)
		gm_tell_say(telling, "local '%s' of %s%s%s()", name, frame ? "" : type,
		        frame ? "" : " ", function ? function : "?");
	else
		gm_tell_say(telling, "an operand of %s%s%s()", frame ? "" : type, frame ? "" : " ",
		        function ? function : "?");
	struct gm_holder_step *made = gm_tell_step(telling, kind, name, type, from);
	made->function = gm_tell_copy(telling, function);
	made->file = gm_tell_copy(telling, file);
	telling->left--;
	/* frame <- traceback <- later tracebacks: one thing */
	if (!frame || !gm_tell_link_is(telling, 0, GM_EDGE_OTHER, "tb_frame"))
		return;
	telling->left--;
	while (gm_tell_link_is(telling, 0, GM_EDGE_OTHER, "tb_next"))
		telling->left--;
}

void gm_tell_cell(struct gm_telling *telling, const struct gm_edge *edge)
{
	const struct gm_edge *outer = gm_tell_edge_at(telling, 1);
	if (outer && outer->kind == GM_REF_LOCAL) {
		gm_tell_frame(telling, outer, true);
		telling->left -= 2;
		return;
	}
	struct gm_link link;
	if (gm_tell_link_is(telling, 2, GM_EDGE_CLOSURE, NULL) &&
	        gm_tell_link_at(telling, 1, &link)) {
		uint64_t function = gm_tell_address_of(telling, gm_tell_edge_at(telling, 2)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		_cleanup_free_ char *name = gm_closure_name(telling->graph, function, link.index);
		free(link.name);
		gm_tell_say(
		        telling, "closure variable '%s' of %s()", name ? name : "?", of ? of : "?");
		struct gm_holder_step *made =
		        gm_tell_step(telling, "closure", name, NULL, function);
		made->function = gm_tell_copy(telling, of);
		telling->left -= 3;
		return;
	}
	if (outer && gm_tell_link_at(telling, 1, &link) && link.kind == GM_EDGE_LOCAL) {
		telling->left--;
		gm_tell_kept_local(telling, outer, link.name);
		free(link.name);
		return;
	}
	gm_tell_say(telling, "a cell");
	gm_tell_step(telling, "cell", NULL, "cell", gm_tell_address_of(telling, edge->from));
	telling->left--;
}
