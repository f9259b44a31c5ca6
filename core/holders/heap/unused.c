/*
 * Memory in which a word is never a reference: freed memory; the rest of a std::string's buffer
 * after its text; the rest of a chunk after the Python object for which it was allocated. All of
 * these contain stale data.
 */
#include "holders/heap/unused.h"

#include <string.h>

#include "holders/graph/graph.h"
#include "holders/heap/heap.h"

/* libstdc++ bits/basic_string.h: _M_p, _M_string_length, _M_local_buf of 16 bytes, which contains
 * short text. */
static bool is_short_text(struct gm_holders *graph, uint64_t address)
{
	enum { POINTER = 16, LENGTH = 8, LOCAL = 16 };
	uint64_t words[2];
	for (size_t i = 0; i < LOCAL / 8; i++) {
		uint64_t buffer = address - 8 * i;
		if (gm_image_try_read(graph->image, buffer - POINTER, words, sizeof(words)) &&
		        words[0] == buffer && words[(POINTER - LENGTH) / 8] < LOCAL)
			return true;
	}
	return false;
}

/* A chunk begins with the object, or with the two words of the collector
 * (Include/internal/pycore_gc.h, PyGC_Head) and up to two more (3.11 and 3.12: the dict and values
 * of an instance). */
static bool is_behind_object(struct gm_holders *graph, uint64_t address)
{
	enum { BEFORE = 32 };
	uint64_t start, size;
	if (!graph->python || !gm_heap_chunk(graph, address, &start, &size))
		return false;
	for (uint64_t object = start; object <= start + BEFORE && object <= address; object += 8) {
		uint32_t vertex = gm_graph_find(graph, object);
		if (vertex == GM_NO_VERTEX ||
		        graph->vertices.items[vertex].kind != GM_VERTEX_PYTHON)
			continue;
		size_t own = gm_python_size(graph->python, object, NULL);
		return own > 0 && address - object >= own &&
		       !gm_python_has_items(graph->python, object);
	}
	return false;
}

bool gm_is_unused(struct gm_holders *graph, uint64_t address)
{
	return gm_heap_is_free(graph, address) || is_short_text(graph, address) ||
	       is_behind_object(graph, address);
}

/* Is this a class of ctypes: does its own class come from _ctypes (Modules/_ctypes/_ctypes.c)? */
static bool is_ctypes_class(struct gm_holders *graph, uint64_t type)
{
	static const char *const names[] = {"PyCSimpleType", "PyCPointerType", "PyCArrayType",
	        "PyCStructType", "UnionType", "PyCFuncPtrType"};
	const char *name;
	if (!gm_python_type_name(graph->python, type, &name))
		return false;
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(dot ? dot + 1 : name, names[i]) == 0)
			return true;
	return false;
}

bool gm_is_in_ctypes_object(struct gm_holders *graph, uint64_t address)
{
	enum { BEFORE = 32, TYPE = 8 }; /* as in is_behind_object() */
	uint64_t start, size, type;
	if (!graph->python || !gm_heap_chunk(graph, address, &start, &size))
		return false;
	for (uint64_t object = start; object <= start + BEFORE && object < address; object += 8)
		if (gm_image_try_u64(graph->image, object + TYPE, &type) &&
		        is_ctypes_class(graph, type))
			return true;
	return false;
}
