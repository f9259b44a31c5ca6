#include "holders/describe/names.h"

#include <string.h>

#include "base/cleanup.h"

enum { MAX_NAME = 200 };

/* --- from an edge to the name of the reference ------------------------------------------------ */

struct link_search {
	uint64_t target;
	unsigned skip; /* parallel references before the wanted one */
	bool found, no_memory;
	struct gm_link link;
};

static bool match_link(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct link_search *search = context;
	if (target != search->target || kind == GM_EDGE_TYPE)
		return true;
	if (search->skip > 0) {
		search->skip--;
		return true;
	}
	search->found = true;
	search->link = (struct gm_link){kind, name ? strdup(name) : NULL, index};
	return false;
}

bool gm_link_read(struct gm_holders *graph, const struct gm_edge *edge, struct gm_link *ret_link)
{
	const struct gm_vertex *to = &graph->vertices.items[edge->to];
	struct link_search search = {.target = to->address};
	/* edges between the same two objects are in the order in which the visitor reported them */
	for (uint32_t i = to->first; i < to->first + to->count; i++) {
		const struct gm_edge *other = &graph->edges.items[i];
		if (other == edge)
			break;
		if (other->from == edge->from && other->kind == edge->kind)
			search.skip++;
	}
	gm_python_references(
	        graph->python, graph->vertices.items[edge->from].address, match_link, &search);
	if (search.found)
		*ret_link = search.link;
	return search.found;
}

/* --- named fields ----------------------------------------------------------------------------- */

struct field_search {
	const char *field;
	uint64_t target;
};

static bool match_field(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct field_search *search = context;
	if (kind == GM_EDGE_LOCAL || !name || strcmp(name, search->field) != 0)
		return true;
	search->target = target;
	return false;
}

uint64_t gm_field_target(struct gm_holders *graph, uint64_t object, const char *field)
{
	struct field_search search = {field, 0};
	gm_python_references(graph->python, object, match_field, &search);
	return search.target;
}

static char *field_text(struct gm_holders *graph, uint64_t object, const char *const *fields)
{
	char *text;
	for (; *fields; fields++) {
		uint64_t target = gm_field_target(graph, object, *fields);
		if (target && gm_python_str(graph->python, target, MAX_NAME, &text))
			return text;
	}
	return NULL;
}

/* The code object of a function, generator or frame object, or the object itself. */
static uint64_t code_of(struct gm_holders *graph, uint64_t object)
{
	static const char *const fields[] = {"__code__", "gi_code", "f_code"};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t code = gm_field_target(graph, object, fields[i]);
		if (code)
			return code;
	}
	return object;
}

/* The last part of a qualified name: "inner" of "outer.<locals>.inner". */
static const char *last_part(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot ? dot + 1 : name;
}

/* PyCFunctionObject.m_ml, PyMethodDef.ml_name (3.9 to 3.13: Include/cpython/methodobject.h,
 * Include/methodobject.h). */
static char *builtin_name(struct gm_holders *graph, uint64_t object)
{
	enum { METHOD = 16 };
	uint64_t method, name;
	char text[MAX_NAME];
	if (!gm_python_is_instance(graph->python, object, "builtin_function_or_method") ||
	        !gm_image_try_u64(graph->image, object + METHOD, &method) ||
	        !gm_image_try_u64(graph->image, method, &name))
		return NULL;
	size_t got = gm_image_read_some(graph->image, name, text, sizeof(text));
	return got > 0 && memchr(text, 0, got) ? strdup(text) : NULL;
}

/* functools.wraps copies another function's name, so such a function is called by the name of its
 * code. */
char *gm_function_name(struct gm_holders *graph, uint64_t object)
{
	static const char *const own[] = {
	        "__qualname__", "__name__", "co_qualname", "co_name", NULL};
	static const char *const codes[] = {"co_qualname", "co_name", NULL};
	char *name = field_text(graph, object, own);
	if (!name)
		name = builtin_name(graph, object);
	uint64_t code = name ? gm_field_target(graph, object, "__code__") : code_of(graph, object);
	if (name && !code)
		return name;
	char *coded = field_text(graph, code, codes);
	if (!name || !coded)
		return name ? name : coded;
	bool renamed = strcmp(last_part(name), last_part(coded)) != 0;
	free(renamed ? name : coded);
	return renamed ? coded : name;
}

char *gm_function_file(struct gm_holders *graph, uint64_t object)
{
	static const char *const fields[] = {"co_filename", NULL};
	char *file;
	uint64_t code = code_of(graph, object);
	uint64_t target = gm_field_target(graph, code, fields[0]);
	return target && gm_python_str(graph->python, target, 4096, &file) ? file : NULL;
}

/* --- free variables --------------------------------------------------------------------------- */

enum {
	KIND_FREE = 0x80,
	BYTES_DATA = 32 /* PyBytesObject.ob_sval, Include/cpython/bytesobject.h */
};

struct free_search {
	struct gm_holders *graph;
	uint64_t kinds; /* a bytes object; 0: all names are free variables */
	int64_t wanted;
	char *name;
};

static bool match_free(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct free_search *search = context;
	uint8_t flags = KIND_FREE;
	if (kind != GM_EDGE_ITEM || index < 0 ||
	        (search->kinds && !gm_image_try_read(search->graph->image,
	                                  search->kinds + BYTES_DATA + (uint64_t)index, &flags, 1)))
		return true;
	if (!(flags & KIND_FREE) || search->wanted-- > 0)
		return true;
	if (!gm_python_str(search->graph->python, target, MAX_NAME, &search->name))
		search->name = NULL;
	return false;
}

char *gm_closure_name(struct gm_holders *graph, uint64_t function, int64_t index)
{
	uint64_t code = gm_field_target(graph, function, "__code__");
	if (!code)
		return NULL;
	struct free_search search = {.graph = graph, .wanted = index};
	/* 3.11 and later: all locals with their kinds; before: a separate tuple */
	uint64_t names = gm_field_target(graph, code, "co_localsplusnames");
	if (names)
		search.kinds = gm_field_target(graph, code, "co_localspluskinds");
	else
		names = gm_field_target(graph, code, "co_freevars");
	if (!names || (!search.kinds && gm_field_target(graph, code, "co_localsplusnames")))
		return NULL;
	gm_python_references(graph->python, names, match_free, &search);
	return search.name;
}

const char *gm_type_text(struct gm_holders *graph, uint64_t object)
{
	const char *name;
	return gm_python_type_name(graph->python, object, &name) ? name : "object";
}

const char *gm_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}
