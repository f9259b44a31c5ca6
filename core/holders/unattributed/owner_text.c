/*
 * What is said of a word of native memory: the piece that it is in, the classes of the pieces that
 * lead there, and whose they are. "item 0 of a vector of 2 tensors, held by a c10d::Reducer".
 */
#include "holders/unattributed/owner_text.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/unattributed/owner_search.h"
#include "holders/describe/names.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/buckets.h"
#include "holders/unattributed/owner_ways.h"
#include "torch/members.h"
#include "torch/names.h"

enum { MAX_VECTOR = 1 << 16 };

/* What users know by another name than its class or variable. */
static const struct {
	const char *part, *name;
} known[] = {
        {"cuda_ipc_global_entities", "memory that was sent to other processes (CUDA IPC)"},
        {"_PyRuntime", "the Python interpreter's own data"},
        {"c10d::Reducer", "DDP's gradient buckets (c10d::Reducer)"},
        {"c10::ivalue::Object", "a TorchScript object (c10::ivalue::Object)"},
};

static const char *known_name(const char *text)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(text, known[i].part))
			return known[i].name;
	return NULL;
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

static char *class_owner(const struct gm_class *class)
{
	_cleanup_free_ char *name = class->kind == GM_CLASS_SHARED
	                                    ? counted_class(gm_class_name(class))
	                                    : strdup(gm_class_name(class));
	char *text;
	if (!name)
		return NULL;
	if (known_name(name))
		return strdup(known_name(name));
	return asprintf(&text, "%s %s", strchr("aeiou", name[0]) ? "an" : "a", name) < 0 ? NULL
	                                                                                 : text;
}

char *gm_owner_static(struct gm_holders *graph, const struct gm_module *module, uint64_t address,
        enum gm_word_evidence *ret_sense)
{
	struct gm_symbol symbol = {0};
	enum gm_word_evidence none;
	char *text;
	if (!ret_sense)
		ret_sense = &none;
	/* what has a name of its own is a large structure, and which of its fields it is was not
	 * read */
	*ret_sense = GM_WORD_NAMED;
	if (!module) /* is_atexit() in owners.c */
		return strdup(known_name("_PyRuntime"));
	const char *library = module->name;
	struct gm_error *error =
	        gm_symbols_name_functions(graph->symbols, &address, 1, false, &symbol);
	if (error)
		gm_error_destroy(error);
	if (!error && symbol.function && known_name(symbol.function))
		return strdup(known_name(symbol.function));
	*ret_sense = GM_WORD_READ;
	if (error || !symbol.function)
		return asprintf(&text, "static data of %s", library) < 0 ? NULL : text;
	return asprintf(&text, "static '%s' of %s", symbol.function, library) < 0 ? NULL : text;
}

bool gm_owner_is_free_list(struct gm_holders *graph, uint64_t address)
{
	struct gm_symbol symbol = {0};
	struct gm_error *error =
	        gm_symbols_name_functions(graph->symbols, &address, 1, false, &symbol);
	if (error)
		gm_error_destroy(error);
	return !error && symbol.function && strstr(symbol.function, "free_list");
}

/* Are all words from `first` to `last` tensors? An empty at::Tensor is one too. */
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

/* Three words where a piece is pointed at: a std::vector that has it? Its begin and end. */
static bool vector_of(const struct gm_owner_search *search, const struct gm_owner_piece *piece,
        uint64_t word, uint64_t ret_bounds[3])
{
	return gm_image_try_read(search->graph->image, word, ret_bounds, 24) &&
	       ret_bounds[0] == piece->start && gm_is_vector(search->graph, ret_bounds, 8);
}

/* "item 3 of a vector of 4 tensors", "a c10::ivalue::Future", "native memory of 64 bytes". */
static char *piece_text(const struct gm_owner_search *search, const struct gm_owner_piece *piece,
        uint64_t word, const uint64_t *bounds, enum gm_word_evidence *ret_sense)
{
	char *text;
	int made;
	*ret_sense = GM_WORD_NAMED;
	if (piece->class)
		return class_owner(piece->class);
	size_t items = bounds ? (size_t)((bounds[1] - bounds[0]) / 8) : 0;
	bool tensors = bounds && are_tensors(search->graph, bounds[0], bounds[1]);
	*ret_sense = tensors ? GM_WORD_READ : GM_WORD_UNKNOWN;
	if (tensors)
		made = asprintf(&text, "item %ju of a vector of %zu tensor%s",
		        (uintmax_t)((word - piece->start) / 8), items, items == 1 ? "" : "s");
	else
		made = asprintf(&text, "native memory of %ju bytes", (uintmax_t)piece->size);
	return made < 0 ? NULL : text;
}

static void append(char **text, char *more)
{
	char *joined = NULL;
	if (*text && more && asprintf(&joined, "%s, held by %s", *text, more) < 0)
		joined = NULL;
	if (*text && more) {
		free(*text);
		*text = joined;
	}
	free(more);
}

/* Is the owner DDP's Reducer, and the way leads through one of its buckets? See buckets.c. */
static char *bucket_text(
        const struct gm_owner_search *search, const struct gm_owner_way *way, uint64_t word)
{
	struct gm_holders *graph = search->graph;
	const struct gm_vertex *owner = &graph->vertices.items[way->owner.number];
	if (owner->kind != GM_VERTEX_PYTHON ||
	        strcmp(gm_type_text(graph, owner->address), "Reducer") != 0)
		return NULL;
	/* the last piece is the Reducer itself, or pybind11's list of what a Python object holds,
	 * which leads to it; then comes the vector of buckets */
	char *text = NULL;
	for (size_t at = way->count - 1; at > 0 && at + 2 >= way->count && !text; at--)
		text = gm_bucket_text(graph, search->pieces.items[way->pieces[at]].start,
		        search->pieces.items[way->pieces[at - 1]].start,
		        at > 1 ? way->words[at - 2] : word,
		        at == 2 ? (word - search->pieces.items[way->pieces[0]].start) / 8
		                : UINT64_MAX);
	return text;
}

/* An attribute of a TorchScript module: c10::ivalue::Object::slots_, a std::vector of IValues.
 * NULL: it is none. */
static char *slot_text(
        const struct gm_owner_search *search, const struct gm_owner_way *way, uint64_t word)
{
	char *text;
	const struct gm_owner_piece *slots = &search->pieces.items[way->pieces[0]];
	const struct gm_class *class = search->pieces.items[way->pieces[1]].class;
	if (!class || strcmp(class->linkage_name, GM_TORCH_SCRIPT_OBJECT_CLASS) != 0 ||
	        asprintf(&text, "slot %ju of a TorchScript object",
	                (uintmax_t)((word - slots->start) / GM_TORCH_IVALUE_BYTES)) < 0)
		return NULL;
	return text;
}

/* What a collective works on, kept until it was waited for: c10d::TensorShelf has a vector
 * (from 2.8 on, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp), in 2.15
 * c10d::nccl2::WorkNCCL::InputTensorShelf. Of which call it is, nothing says. NULL: it is none. */
static char *shelf_text(const struct gm_owner_search *search, const struct gm_owner_way *way)
{
	char *text;
	const struct gm_class *class = search->pieces.items[way->pieces[1]].class;
	if (!class || !strstr(class->linkage_name, GM_TORCH_SHELF_CLASS))
		return NULL;
	_cleanup_free_ char *name = counted_class(gm_class_name(class));
	return !name || asprintf(&text, "tensors of a collective (%s)", name) < 0 ? NULL : text;
}

void gm_owner_format(
        const struct gm_owner_search *search, struct gm_owner_query *query, uint32_t number)
{
	struct gm_owner_way best = {.rank = UINT32_MAX};
	const struct gm_owner_piece *piece = &search->pieces.items[number];
	uint64_t bounds[3];
	gm_owner_find_way(search, number, query->word, &best);
	bool owned = best.rank != UINT32_MAX;
	bool vector = owned && best.owner.kind != GM_OWNER_CLASS
	                      ? vector_of(search, piece, best.words[0], bounds)
	                      : owned && best.count > 1 &&
	                                vector_of(search, piece, best.words[0], bounds);
	query->dead = vector && query->word >= bounds[1];
	query->text = NULL;
	if (best.owner.kind == GM_OWNER_VERTEX && owned)
		query->text = bucket_text(search, &best, query->word);
	query->sense = GM_WORD_READ;
	if (query->text)
		best.count = 1;
	else
		query->text = piece_text(
		        search, piece, query->word, vector ? bounds : NULL, &query->sense);
	query->kind = owned ? best.owner.kind : GM_OWNER_NONE;
	query->vertex = best.owner.number;
	query->address = best.owner.address;
	size_t next = 1;
	if (owned && best.count > 1) {
		char *whole = slot_text(search, &best, query->word);
		if (!whole)
			whole = shelf_text(search, &best);
		if (whole) {
			free(query->text);
			query->text = whole;
			query->sense = GM_WORD_READ;
			next = 2;
		}
	}
	/* of the pieces on the way, those whose class says something */
	for (size_t i = next; owned && i < best.count; i++)
		if (search->pieces.items[best.pieces[i]].class)
			append(&query->text,
			        class_owner(search->pieces.items[best.pieces[i]].class));
	if (query->kind == GM_OWNER_STATIC)
		append(&query->text,
		        gm_owner_static(search->graph,
		                gm_symbols_module_at(search->graph->symbols, query->address),
		                query->address, NULL));
	else if (query->kind == GM_OWNER_STACK)
		append(&query->text,
		        search->pieces.items[best.pieces[best.count - 1]].stack
		                ? strdup(search->pieces.items[best.pieces[best.count - 1]].stack)
		                : NULL);
}
