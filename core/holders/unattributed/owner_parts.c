/*
 * What is known of a word of native memory, part by part: the chunk that contains it, the classes
 * of the chunks that lead to it, and their owner. "item 0 of a vector of 2 tensors, held by a
 * c10d::Reducer".
 */
#include "holders/unattributed/owner_parts.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/unattributed/owner_search.h"
#include "holders/describe/names.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/buckets.h"
#include "holders/unattributed/flat_table.h"
#include "holders/unattributed/owner_ways.h"
#include "torch/members.h"
#include "torch/names.h"

enum { MAX_VECTOR = 1 << 16 };

/* Holders that users know by another name than their class or variable. False: this is not one of
 * them. */
static bool known_form(const char *text, enum gm_native_form *ret_form)
{
	static const struct {
		const char *part;
		enum gm_native_form form;
	} known[] = {
	        {"cuda_ipc_global_entities", GM_NATIVE_SENT},
	        {"_PyRuntime", GM_NATIVE_INTERPRETER},
	        {"c10d::Reducer", GM_NATIVE_REDUCER},
	        {"c10::ivalue::Object", GM_NATIVE_SCRIPT_OBJECT},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(text, known[i].part)) {
			*ret_form = known[i].form;
			return true;
		}
	return false;
}

/* "c10d::Reducer" of "std::_Sp_counted_ptr<c10d::Reducer*, (__gnu_cxx::_Lock_policy)2>". Caller
 * frees. */
static char *counted_class(const char *name)
{
	const char *first = strchr(name, '<');
	if (!first)
		return strdup(name);
	unsigned depth = 0;
	const char *end = ++first;
	for (; *end && (depth > 0 || (*end != ',' && *end != '>')); end++)
		depth += (unsigned)(*end == '<' || *end == '(') -
		         (unsigned)(*end == '>' || *end == ')');
	while (end > first && end[-1] == '*')
		end--;
	return strndup(first, (size_t)(end - first));
}

/* Adds a part; the first one creates the owner. Without memory, the owner is NULL from then on. */
static void add_part(struct gm_native_owner **owner, struct gm_native_part part)
{
	if (!*owner) {
		*owner = gm_native_owner_create(part);
	} else if (!gm_native_owner_add(*owner, part)) {
		gm_native_owner_release(*owner);
		*owner = NULL;
	}
}

static void add_class(struct gm_native_owner **owner, const struct gm_class *class)
{
	const char *name = gm_class_name(class);
	_cleanup_free_ char *counted = class->kind == GM_CLASS_SHARED ? counted_class(name) : NULL;
	struct gm_native_part part = {.form = GM_NATIVE_CLASS, .name = counted ? counted : name};
	if (known_form(part.name, &part.form))
		part.name = NULL;
	add_part(owner, part);
}

/* A vector, map, pointer or optional: the beginning of its name tells what a word in it is. */
static bool is_within(const struct gm_symbol *symbol)
{
	enum { CONTAINER = 64 }; /* bytes: std::unordered_map has 56 */
	return symbol && symbol->function && symbol->offset >= CONTAINER;
}

/* The part for static data. Its name is the symbol's, which lives as long as the symbols do. */
static struct gm_native_part static_part(struct gm_holders *graph, const struct gm_module *module,
        uint64_t address, enum gm_word_evidence *ret_sense)
{
	struct gm_symbol symbol = {0};
	/* a variable with a name of its own is a large structure, and its fields are not known */
	*ret_sense = GM_WORD_NAMED;
	if (!module) /* is_atexit() in owners.c */
		return (struct gm_native_part){.form = GM_NATIVE_INTERPRETER};
	_cleanup_error_ struct gm_error *error =
	        gm_symbols_name_functions(graph->symbols, &address, 1, false, &symbol);
	struct gm_native_part part = {.form = GM_NATIVE_STATIC,
	        .name = error ? NULL : symbol.function,
	        .of = module->name};
	if (part.name && known_form(part.name, &part.form))
		part.name = part.of = NULL;
	else
		*ret_sense = is_within(error ? NULL : &symbol) ? GM_WORD_UNKNOWN : GM_WORD_READ;
	return part;
}

struct gm_native_owner *gm_owner_static(struct gm_holders *graph, const struct gm_module *module,
        uint64_t address, enum gm_word_evidence *ret_sense)
{
	enum gm_word_evidence none;
	return gm_native_owner_create(
	        static_part(graph, module, address, ret_sense ? ret_sense : &none));
}

/* "torch::autograd::THPVariable_add(_object*, _object*, _object*)::parser": each of PyTorch's
 * bindings has a torch::PythonArgParser, which has no tensors. Its parameters have members that are
 * not set (torch/csrc/utils/python_arg_parser.h: FunctionParameter), so stale words of their memory
 * remain. */
static bool is_argument_parser(const char *function)
{
	static const char ending[] = "_object*)::parser";
	size_t length = strlen(function);
	return length >= strlen(ending) && strcmp(function + length - strlen(ending), ending) == 0;
}

bool gm_owner_static_place(struct gm_holders *graph, uint64_t address, uint32_t *ret_place)
{
	struct gm_symbol symbol = {0};
	_cleanup_error_ struct gm_error *error =
	        gm_symbols_name_functions(graph->symbols, &address, 1, false, &symbol);
	*ret_place = is_within(error ? NULL : &symbol) ? GM_OWNER_WITHIN : 0;
	return error || !symbol.function ||
	       (!strstr(symbol.function, "free_list") && !is_argument_parser(symbol.function));
}

/* Are all words from `first` to `last` tensors? An undefined at::Tensor counts too. */
static bool are_tensors(struct gm_holders *graph, uint64_t first, uint64_t last)
{
	if (last <= first || last - first > MAX_VECTOR * 8)
		return false;
	for (uint64_t at = first; at < last; at += 8) {
		uint64_t word;
		if (!gm_image_try_u64(graph->image, at, &word))
			return false;
		uint32_t vertex = gm_graph_find(graph, word);
		if (vertex == GM_NO_VERTEX ? !gm_torch_is_undefined(graph->torch, word)
		                           : graph->vertices.items[vertex].kind != GM_VERTEX_TENSOR)
			return false;
	}
	return true;
}

/* Do three words that point at a chunk form the std::vector that owns it? Returns its begin and
 * end. */
static bool vector_of(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        uint64_t word, uint64_t ret_bounds[3])
{
	return gm_image_try_read(search->graph->image, word, ret_bounds, 24) &&
	       ret_bounds[0] == chunk->start && gm_is_vector(search->graph, ret_bounds, 8);
}

/* The part for the word's own chunk: an item of a vector of tensors, an object of a class, or a
 * number of bytes. */
static void add_own_part(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        uint64_t word, const uint64_t *bounds, struct gm_owner_query *query)
{
	struct gm_native_part part = {.form = GM_NATIVE_HEAP, .number = chunk->size};
	query->sense = GM_WORD_NAMED;
	if (chunk->class) {
		add_class(&query->native, chunk->class);
		return;
	}
	bool tensors = bounds && are_tensors(search->graph, bounds[0], bounds[1]);
	query->sense = tensors ? GM_WORD_READ : GM_WORD_UNKNOWN;
	if (tensors)
		part = (struct gm_native_part){.form = GM_NATIVE_ITEM,
		        .index = (int64_t)((word - chunk->start) / 8),
		        .number = (bounds[1] - bounds[0]) / 8};
	add_part(&query->native, part);
}

/* Is the owner DDP's Reducer, and does the path go through one of its buckets? See buckets.c. */
static bool is_bucket(const struct gm_owner_search *search, const struct gm_owner_way *way,
        uint64_t word, struct gm_native_part *ret_part)
{
	struct gm_holders *graph = search->graph;
	const struct gm_vertex *owner = &graph->vertices.items[way->owner.number];
	if (owner->kind != GM_VERTEX_PYTHON ||
	        strcmp(gm_type_text(graph, owner->address), "Reducer") != 0)
		return false;
	/* the last chunk is the Reducer itself, or pybind11's list of the values of a Python
	 * object, which leads to it; before it comes the vector of buckets */
	for (size_t at = way->count - 1; at > 0 && at + 2 >= way->count; at--)
		if (gm_bucket_part(graph, search->chunks.items[way->chunks[at]].start,
		            search->chunks.items[way->chunks[at - 1]].start,
		            at > 1 ? way->words[at - 2] : word,
		            at == 2 ? (word - search->chunks.items[way->chunks[0]].start) / 8
		                    : UINT64_MAX,
		            ret_part))
			return true;
	return false;
}

/* An attribute of a TorchScript module: c10::ivalue::Object::slots_, a std::vector of IValues. */
static bool is_slot(const struct gm_owner_search *search, const struct gm_owner_way *way,
        uint64_t word, struct gm_native_part *ret_part)
{
	const struct gm_owner_chunk *slots = &search->chunks.items[way->chunks[0]];
	const struct gm_class *class = search->chunks.items[way->chunks[1]].class;
	if (!class || strcmp(class->linkage_name, GM_TORCH_SCRIPT_OBJECT_CLASS) != 0)
		return false;
	*ret_part = (struct gm_native_part){.form = GM_NATIVE_SLOT,
	        .index = (int64_t)((word - slots->start) / GM_TORCH_IVALUE_BYTES)};
	return true;
}

/* The tensors of a collective, held until somebody waits for it: c10d::TensorShelf has a vector
 * (from 2.8 on, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp), in 2.15
 * c10d::nccl2::WorkNCCL::InputTensorShelf. The call itself is not known. NULL if this is not one;
 * the caller frees the name of its class. */
static char *shelf_class(const struct gm_owner_search *search, const struct gm_owner_way *way)
{
	const struct gm_class *class = search->chunks.items[way->chunks[1]].class;
	if (!class || !strstr(class->linkage_name, GM_TORCH_SHELF_CLASS))
		return NULL;
	return counted_class(gm_class_name(class));
}

/* What atexit.register() was given: the function, its tuple of arguments, and its dict of keyword
 * arguments or NULL (Modules/atexitmodule.c of 3.9 to 3.13, atexit_callback and
 * atexit_py_callback). */
static bool is_exit_call(
        const struct gm_owner_search *search, const struct gm_owner_chunk *chunk, uint64_t word)
{
	const struct gm_holders *graph = search->graph;
	uint64_t words[3];
	const char *type;
	return graph->python && word - chunk->start < sizeof(words) &&
	       gm_image_try_read(graph->image, chunk->start, words, sizeof(words)) &&
	       gm_python_type_name(graph->python, words[0], &type) &&
	       gm_python_is_instance(graph->python, words[1], "tuple") &&
	       (!words[2] || gm_python_is_instance(graph->python, words[2], "dict"));
}

/* The first part of an owner: the word's own chunk, or that chunk together with the next. Returns
 * how many chunks of the path this covers. */
static size_t add_first_part(const struct gm_owner_search *search, const struct gm_owner_way *way,
        const struct gm_owner_chunk *chunk, const uint64_t *bounds, struct gm_owner_query *query)
{
	struct gm_native_part part;
	bool owned = way->rank != UINT32_MAX;
	query->sense = GM_WORD_READ;
	if (owned && way->owner.kind == GM_OWNER_VERTEX &&
	        is_bucket(search, way, query->word, &part)) {
		add_part(&query->native, part);
		return way->count;
	}
	if (owned && way->count > 1) {
		_cleanup_free_ char *shelf = NULL;
		if (is_slot(search, way, query->word, &part)) {
			add_part(&query->native, part);
			return 2;
		}
		shelf = shelf_class(search, way);
		if (shelf) {
			add_part(&query->native,
			        (struct gm_native_part){.form = GM_NATIVE_SHELF, .name = shelf});
			return 2;
		}
	}
	add_own_part(search, chunk, query->word, bounds, query);
	return 1;
}

void gm_owner_take_parts(
        const struct gm_owner_search *search, struct gm_owner_query *query, uint32_t number)
{
	struct gm_owner_way best = {.rank = UINT32_MAX};
	const struct gm_owner_chunk *chunk = &search->chunks.items[number];
	uint64_t bounds[3];
	gm_owner_find_way(search, number, query->word, &best);
	bool owned = best.rank != UINT32_MAX;
	bool vector = owned && best.owner.kind != GM_OWNER_CLASS
	                      ? vector_of(search, chunk, best.words[0], bounds)
	                      : owned && best.count > 1 &&
	                                vector_of(search, chunk, best.words[0], bounds);
	query->dead = (vector && query->word >= bounds[1]) ||
	              gm_is_in_unused_entry(search, chunk, query->word);
	query->native = NULL;
	size_t next = add_first_part(search, &best, chunk, vector ? bounds : NULL, query);
	query->kind = owned ? best.owner.kind : GM_OWNER_NONE;
	query->vertex = best.owner.number;
	query->address = best.owner.address;
	/* of the chunks on the path, those whose class is informative */
	for (size_t i = next; owned && query->native && i < best.count; i++)
		if (search->chunks.items[best.chunks[i]].class)
			add_class(&query->native, search->chunks.items[best.chunks[i]].class);
	if (!query->native)
		return;
	const struct gm_native_owner *stack =
	        owned ? search->chunks.items[best.chunks[best.count - 1]].stack : NULL;
	enum gm_word_evidence of_static;
	if (query->kind == GM_OWNER_STATIC) {
		struct gm_native_part part = static_part(search->graph,
		        gm_symbols_module_at(search->graph->symbols, query->address),
		        query->address, &of_static);
		add_part(&query->native, part);
		if (of_static == GM_WORD_UNKNOWN)
			query->sense = of_static;
		else if (part.form == GM_NATIVE_INTERPRETER &&
		         is_exit_call(search, chunk, query->word))
			query->sense = GM_WORD_READ;
	} else if (query->kind == GM_OWNER_STACK && stack)
		add_part(&query->native, stack->parts[0]);
}
