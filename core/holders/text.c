/*
 * A chain in words. It is told from the tensor outwards ("item 3 of list: global 'history' of module
 * __main__"), while its steps are kept root first. What Python keeps in several objects and a user writes as one
 * thing (an attribute in an instance's dict, a parameter of a module, a closure's variable) is one step.
 */
#include "holders/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { MAX_GRAPH_STEPS = 16 }; /* nodes of the autograd graph that a path lists */

struct telling {
	struct gm_holders *graph;
	const struct gm_chain *chain;
	size_t left; /* edges not told yet: chain->edges[left - 1] is next */
	char *text;
	size_t length;
	GM_ARRAY(struct gm_holder_step) steps; /* from the storage outwards */
	unsigned graph_steps;
	bool no_memory;
};

static const struct gm_edge *edge_at(const struct telling *telling, size_t back)
{
	if (telling->left <= back)
		return NULL;
	return &telling->graph->edges.items[telling->chain->edges[telling->left - 1 - back]];
}

static uint64_t address_of(const struct telling *telling, uint32_t vertex)
{
	return telling->graph->vertices.items[vertex].address;
}

/* Appends to the text; ": " comes between, unless it starts with a comma. */
__attribute__((format(printf, 2, 3))) static void say(
        struct telling *telling, const char *format, ...)
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

static char *copy(struct telling *telling, const char *text)
{
	if (!text)
		return NULL;
	char *copied = strdup(text);
	telling->no_memory |= !copied;
	return copied;
}

/* A step with a name and the Python object's or node's type. */
static struct gm_holder_step *step(struct telling *telling, const char *kind, const char *name,
        const char *type, uint64_t address)
{
	static struct gm_holder_step nowhere;
	struct gm_holder_step made = {.kind = kind,
	        .name = copy(telling, name),
	        .type = copy(telling, type),
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

/* The next link, if the next edge is one between Python objects. The caller frees its name. */
static bool link_at(struct telling *telling, size_t back, struct gm_link *ret_link)
{
	const struct gm_edge *edge = edge_at(telling, back);
	return edge && edge->kind == GM_REF_PYTHON && gm_link_read(telling->graph, edge, ret_link);
}

static bool link_is(struct telling *telling, size_t back, enum gm_edge_kind kind, const char *name)
{
	struct gm_link link;
	if (!link_at(telling, back, &link))
		return false;
	bool is = link.kind == kind && (!name || (link.name && strcmp(link.name, name) == 0));
	free(link.name);
	return is;
}

/* "Linear", or "class Linear" where the object is a class. Caller frees. */
static char *owner_text(struct telling *telling, uint64_t object)
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

/*
 * Is the next edge (after `back` ones) an attribute: an inline value, a slot, or an entry of an instance's dict? Then
 * its name, its owner and how many edges that is.
 */
static size_t attribute_at(
        struct telling *telling, size_t back, char **ret_name, uint64_t *ret_owner)
{
	struct gm_link link;
	const struct gm_edge *edge = edge_at(telling, back);
	if (!link_at(telling, back, &link))
		return 0;
	if (link.kind == GM_EDGE_ATTRIBUTE && link.name) {
		*ret_name = link.name;
		*ret_owner = address_of(telling, edge->from);
		return 1;
	}
	if (link.kind == GM_EDGE_KEY && link.name &&
	        link_is(telling, back + 1, GM_EDGE_OTHER, "__dict__")) {
		*ret_name = link.name;
		*ret_owner = address_of(telling, edge_at(telling, back + 1)->from);
		return 2;
	}
	free(link.name);
	return 0;
}

/* torch.nn.Module keeps its parts in three dicts (torch/nn/modules/module.py). */
static bool tell_module_part(struct telling *telling, const char *name)
{
	static const char *const parts[][2] = {
	        {"_parameters", "parameter"}, {"_buffers", "buffer"}, {"_modules", "module"}};
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	size_t used = attribute_at(telling, 1, &dict, &owner);
	for (size_t i = 0; used && i < 3; i++) {
		if (strcmp(dict, parts[i][0]) != 0)
			continue;
		const char *type = gm_type_text(telling->graph, owner);
		say(telling, "%s '%s' of %s", parts[i][1], name, type);
		step(telling, "attribute", name, type, owner);
		telling->left -= 1 + used;
		return true;
	}
	return false;
}

/* Optimizer.state: a dict by parameter of dicts by name (torch/optim/optimizer.py). */
static bool tell_optimizer_state(struct telling *telling, const char *name)
{
	_cleanup_free_ char *dict = NULL;
	uint64_t owner;
	if (!link_is(telling, 1, GM_EDGE_KEY, NULL))
		return false;
	size_t used = attribute_at(telling, 2, &dict, &owner);
	if (!used || strcmp(dict, "state") != 0 ||
	        !gm_python_is_instance(telling->graph->python, owner, "Optimizer"))
		return false;
	const char *type = gm_type_text(telling->graph, owner);
	say(telling, "optimizer state '%s' of %s", name, type);
	step(telling, "optimizer_state", name, type, owner);
	telling->left -= 2 + used;
	return true;
}

static void tell_attribute(struct telling *telling, const char *name, uint64_t owner, size_t used)
{
	_cleanup_free_ char *text = owner_text(telling, owner);
	say(telling, "attribute '%s' of %s", name, text ? text : "object");
	step(telling, "attribute", name, text, owner);
	telling->left -= used;
}

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

static void tell_global(struct telling *telling, const struct gm_edge *edge, const char *name)
{
	const struct gm_vertex *from = &telling->graph->vertices.items[edge->from];
	const char *module = telling->graph->modules.items[from->detail].name;
	const struct gm_python_frame *frame = module_frame(telling->graph, from->address);
	const char *file = frame ? frame->code->file : NULL;
	if (file)
		say(telling, "global '%s' of module %s at %s:%u", name ? name : "?", module,
		        gm_base_name(file), frame->line);
	else
		say(telling, "global '%s' of module %s", name ? name : "?", module);
	struct gm_holder_step *made = step(telling, "global", name, NULL, from->address);
	made->function = copy(telling, module);
	if (file) {
		made->file = copy(telling, file);
		made->line = frame->line;
	}
	telling->left--;
}

static void tell_key(
        struct telling *telling, const struct gm_edge *edge, const struct gm_link *link)
{
	_cleanup_free_ char *name = NULL;
	uint64_t from = address_of(telling, edge->from), owner;
	if (telling->graph->vertices.items[edge->from].flags & GM_VERTEX_ROOT_MODULE) {
		tell_global(telling, edge, link->name);
		return;
	}
	size_t used = attribute_at(telling, 0, &name, &owner);
	if (used) {
		tell_attribute(telling, name, owner, used);
		return;
	}
	if (link->name && (tell_module_part(telling, link->name) ||
	                          tell_optimizer_state(telling, link->name)))
		return;
	if (link_is(telling, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = address_of(telling, edge_at(telling, 1)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		say(telling, "default of argument '%s' of %s()", link->name ? link->name : "?",
		        of ? of : "?");
		struct gm_holder_step *made = step(telling, "argument", link->name, NULL, function);
		made->function = copy(telling, of);
		telling->left -= 2;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	if (link->name)
		say(telling, "key '%s' of %s", link->name, type);
	else
		say(telling, "key of %s", type);
	step(telling, "key", link->name, type, from);
	telling->left--;
}

static void tell_item(
        struct telling *telling, const struct gm_edge *edge, const struct gm_link *link)
{
	uint64_t from = address_of(telling, edge->from);
	if (link_is(telling, 1, GM_EDGE_DEFAULT, NULL)) {
		uint64_t function = address_of(telling, edge_at(telling, 1)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		say(telling, "default argument of %s()", of ? of : "?");
		struct gm_holder_step *made = step(telling, "argument", NULL, NULL, function);
		made->function = copy(telling, of);
		made->index = link->index;
		telling->left -= 2;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	bool ordered = !gm_python_is_instance(telling->graph->python, from, "set") &&
	               !gm_python_is_instance(telling->graph->python, from, "frozenset");
	if (ordered && link->index >= 0)
		say(telling, "item %jd of %s", (intmax_t)link->index, type);
	else
		say(telling, "item of %s", type);
	step(telling, "item", NULL, type, from)->index = ordered ? link->index : -1;
	telling->left--;
}

static void tell_frame(struct telling *telling, const struct gm_edge *edge, bool through_cell)
{
	const struct gm_vertex *from = &telling->graph->vertices.items[edge->from];
	const struct gm_python_frame *frame = &telling->graph->frames.items[from->detail].frame;
	const struct gm_code *code = frame->code;
	bool named = edge->extra < code->local_count;
	const char *name = named ? code->local_names[edge->extra] : NULL;
	bool closure = named && (code->local_kinds[edge->extra] & 0x80) && through_cell;
	const char *file = code->file ? code->file : "?";
	if (named)
		say(telling, "%s '%s' of %s() at %s:%u", closure ? "closure variable" : "local",
		        name, code->name, gm_base_name(file), frame->line);
	else
		say(telling, "an operand of %s() at %s:%u", code->name, gm_base_name(file),
		        frame->line);
	struct gm_holder_step *made = step(telling,
	        !named    ? "argument"
	        : closure ? "closure"
	                  : "local",
	        name, NULL, from->address);
	made->function = copy(telling, code->name);
	made->file = copy(telling, file);
	made->line = frame->line;
}

/* A frame that runs no more: kept by a traceback, or a generator's. */
static void tell_kept_local(struct telling *telling, const struct gm_edge *edge, const char *name)
{
	uint64_t from = address_of(telling, edge->from);
	_cleanup_free_ char *function = gm_function_name(telling->graph, from);
	_cleanup_free_ char *file = gm_function_file(telling->graph, from);
	const char *type = gm_type_text(telling->graph, from);
	bool frame = strcmp(type, "frame") == 0;
	const char *kind = frame                       ? "traceback"
	                   : strstr(type, "coroutine") ? "coroutine"
	                                               : "generator";
	if (name)
		say(telling, "local '%s' of %s%s%s()", name, frame ? "" : type, frame ? "" : " ",
		        function ? function : "?");
	else
		say(telling, "an operand of %s%s%s()", frame ? "" : type, frame ? "" : " ",
		        function ? function : "?");
	struct gm_holder_step *made = step(telling, kind, name, type, from);
	made->function = copy(telling, function);
	made->file = copy(telling, file);
	telling->left--;
	/* frame <- traceback <- later tracebacks: one thing */
	if (!frame || !link_is(telling, 0, GM_EDGE_OTHER, "tb_frame"))
		return;
	telling->left--;
	while (link_is(telling, 0, GM_EDGE_OTHER, "tb_next"))
		telling->left--;
}

static void tell_cell(struct telling *telling, const struct gm_edge *edge)
{
	const struct gm_edge *outer = edge_at(telling, 1);
	if (outer && outer->kind == GM_REF_LOCAL) {
		tell_frame(telling, outer, true);
		telling->left -= 2;
		return;
	}
	struct gm_link link;
	if (link_is(telling, 2, GM_EDGE_CLOSURE, NULL) && link_at(telling, 1, &link)) {
		uint64_t function = address_of(telling, edge_at(telling, 2)->from);
		_cleanup_free_ char *of = gm_function_name(telling->graph, function);
		_cleanup_free_ char *name = gm_closure_name(telling->graph, function, link.index);
		free(link.name);
		say(telling, "closure variable '%s' of %s()", name ? name : "?", of ? of : "?");
		struct gm_holder_step *made = step(telling, "closure", name, NULL, function);
		made->function = copy(telling, of);
		telling->left -= 3;
		return;
	}
	if (link_at(telling, 1, &link) && link.kind == GM_EDGE_LOCAL) {
		telling->left--;
		tell_kept_local(telling, outer, link.name);
		free(link.name);
		return;
	}
	say(telling, "a cell");
	step(telling, "cell", NULL, "cell", address_of(telling, edge->from));
	telling->left--;
}

static void tell_python(struct telling *telling, const struct gm_edge *edge)
{
	struct gm_link link;
	uint64_t from = address_of(telling, edge->from);
	if (!gm_link_read(telling->graph, edge, &link)) {
		say(telling, "%s", gm_type_text(telling->graph, from));
		step(telling, "object", NULL, gm_type_text(telling->graph, from), from);
		telling->left--;
		return;
	}
	const char *type = gm_type_text(telling->graph, from);
	switch (link.kind) {
	case GM_EDGE_KEY:
	case GM_EDGE_DICT_KEY:
		if (link.kind == GM_EDGE_KEY) {
			tell_key(telling, edge, &link);
		} else {
			say(telling, "a key itself of %s", type);
			step(telling, "key", NULL, type, from);
			telling->left--;
		}
		break;
	case GM_EDGE_ITEM:
		tell_item(telling, edge, &link);
		break;
	case GM_EDGE_ATTRIBUTE:
		tell_attribute(telling, link.name ? link.name : "?", from, 1);
		break;
	case GM_EDGE_CELL:
		tell_cell(telling, edge);
		break;
	case GM_EDGE_LOCAL:
		tell_kept_local(telling, edge, link.name);
		break;
	case GM_EDGE_BOUND: {
		uint64_t function = gm_field_target(telling->graph, from, "__func__");
		_cleanup_free_ char *name =
		        function ? gm_function_name(telling->graph, function) : NULL;
		say(telling, "self of bound method %s", name ? name : "?");
		step(telling, "attribute", "__self__", type, from)->function = copy(telling, name);
		telling->left--;
		break;
	}
	default:
		if (link.name && strcmp(link.name, "__traceback__") == 0) {
			say(telling, "traceback of %s", type);
			step(telling, "traceback", NULL, type, from);
		} else {
			say(telling, "%s of %s", link.name ? link.name : "part", type);
			step(telling, "attribute", link.name, type, from);
		}
		telling->left--;
	}
	free(link.name);
}

static void tell_graph_node(struct telling *telling, uint32_t node, const char *kind)
{
	const char *name;
	if (telling->graph_steps++ >= MAX_GRAPH_STEPS)
		return;
	if (!gm_torch_node_name(telling->graph->torch, address_of(telling, node), &name))
		name = NULL;
	step(telling, kind, name, name, address_of(telling, node));
}

static const char *node_name(struct telling *telling, uint32_t node)
{
	const char *name;
	uint64_t address = address_of(telling, node);
	if (telling->graph->vertices.items[node].kind == GM_VERTEX_PYTHON)
		return gm_type_text(telling->graph, address);
	return gm_torch_node_name(telling->graph->torch, address, &name) ? name : "a node";
}

/* "Parameter", "Tensor": as its Python object is called. */
static const char *tensor_text(struct telling *telling, uint32_t number)
{
	const struct gm_vertex *vertex = &telling->graph->vertices.items[number];
	uint64_t python = vertex->kind == GM_VERTEX_TENSOR
	                          ? telling->graph->tensors.items[vertex->detail].python
	                          : 0;
	return python && telling->graph->python ? gm_type_text(telling->graph, python) : "tensor";
}

static void tell_native(struct telling *telling, const struct gm_edge *edge)
{
	uint64_t from = address_of(telling, edge->from);
	telling->left--;
	switch ((enum gm_reference)edge->kind) {
	case GM_REF_STORAGE:
		step(telling, "tensor", NULL, NULL, from);
		break;
	case GM_REF_GRAD:
		say(telling, ".grad of a %s", tensor_text(telling, edge->from));
		step(telling, "grad", NULL, NULL, from);
		break;
	case GM_REF_VIEW_BASE:
		say(telling, "base of a view");
		step(telling, "view_base", NULL, NULL, from);
		break;
	case GM_REF_SAVED:
	case GM_REF_CONTEXT_SAVED:
		say(telling, "saved by %s", node_name(telling, edge->from));
		if (edge->kind == GM_REF_SAVED) {
			tell_graph_node(telling, edge->from, "saved_tensor");
		} else {
			const char *type = gm_type_text(telling->graph, from);
			step(telling, "saved_tensor", type, type, from);
		}
		break;
	case GM_REF_ACCUMULATE:
		say(telling, "leaf of the autograd graph");
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_CONTEXT:
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_NEXT:
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_GRAD_FN:
		say(telling, ", in the graph of");
		step(telling, "tensor", NULL, NULL, from);
		break;
	case GM_REF_NODE_OBJECT:
		say(telling, ", in the graph of");
		step(telling, "object", NULL, gm_type_text(telling->graph, from), from);
		break;
	case GM_REF_HOOK:
		say(telling, "hook of %s",
		        telling->graph->vertices.items[edge->from].kind == GM_VERTEX_NODE
		                ? node_name(telling, edge->from)
		                : "a tensor");
		step(telling, "hook", NULL, NULL, from);
		break;
	case GM_REF_LOCAL:
		tell_frame(telling, edge, false);
		break;
	case GM_REF_THREAD: {
		const struct gm_vertex *root = &telling->graph->vertices.items[edge->from];
		const char *name = telling->graph->thread_names.items[edge->extra];
		if (root->kind == GM_VERTEX_FRAME) {
			const struct gm_python_frame *frame =
			        &telling->graph->frames.items[root->detail].frame;
			say(telling, "%s of %s()", name, frame->code->name);
			step(telling, "thread", name, NULL, from)->function =
			        copy(telling, frame->code->name);
		} else {
			say(telling, "%s", name);
			step(telling, "thread", name, NULL, 0);
		}
		break;
	}
	case GM_REF_WRAPPER:
	case GM_REF_WRAPPED:
	case GM_REF_PYTHON:
		break;
	}
}

/* "in the graph of: " with nothing behind it, "saved by X: , in ...": the separators are mended here. */
static void mend(char *text)
{
	char *found;
	while ((found = strstr(text, "in the graph of, in the graph of")))
		memmove(found, found + strlen("in the graph of, "),
		        strlen(found + strlen("in the graph of, ")) + 1);
}

bool gm_graph_describe(struct gm_holders *graph, const struct gm_chain *chain, uint32_t storage,
        const struct gm_stray *stray, struct gm_holder *ret_holder)
{
	struct telling telling = {.graph = graph, .chain = chain, .left = chain->count};
	if (storage != GM_NO_VERTEX)
		step(&telling, "storage", NULL, NULL, graph->vertices.items[storage].address);
	while (telling.left > 0 && !telling.no_memory) {
		const struct gm_edge *edge = edge_at(&telling, 0);
		if (edge->kind == GM_REF_PYTHON)
			tell_python(&telling, edge);
		else
			tell_native(&telling, edge);
	}
	if (stray) {
		say(&telling, "%s", stray->text);
		step(&telling, stray->kind, NULL, NULL, stray->address);
	} else if (!chain->rooted) {
		say(&telling, "%s",
		        chain->garbage ? "a cycle of garbage: nothing else holds it, gc.collect() "
		                         "would free it"
		                       : "nothing found refers to that");
	}
	if (telling.text)
		mend(telling.text);
	struct gm_holder holder = {.text = telling.text,
	        .steps = telling.steps.items,
	        .step_count = telling.steps.count,
	        .class = stray ? stray->class : GM_PROVEN,
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
