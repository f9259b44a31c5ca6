/*
 * Whose native memory is it? A word in a piece of heap says little; the class of the object that the piece is, or the
 * static variable, the frame or the object that leads to it, says what keeps a tensor there.
 *
 * A piece of heap is found by glibc's size words around it. Where it is an object with a vtable, its class is told
 * (of a std::shared_ptr's control block, what it counts). All memory is searched for words that point at the piece, a few
 * levels up: a std::vector's memory leads to the object that has the vector, that to the static variable or to the Python
 * object whose C++ part it is. It does not say whether the word counts: see settle.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/graph.h"
#include "holders/scan.h"
#include "holders/stacks.h"
#include "holders/text.h"

enum {
	LOOK_BACK = 8192, /* bytes in which a piece's start is sought, at a time */
	MAX_LOOK_BACK = 1 << 20,
	MAX_LEVELS = 5,
	MAX_PIECES = 1024,
	MAX_BRANCHES = 32, /* words that lead to one piece */
	MAX_PYTHON = 1024, /* bytes of a Python object that may have the word */
	MAX_VECTOR = 1 << 16,
	MAX_CHECKED = 8,     /* pieces behind one */
	PREVIOUS_IN_USE = 1, /* glibc, malloc/malloc.c: PREV_INUSE, IS_MMAPPED */
	IS_MAPPED = 2,
};

/* What users know by another name than its class or variable. */
static const struct {
	const char *part, *name;
} known[] = {
        {"cuda_ipc_global_entities", "what was sent to other processes (CUDA IPC)"},
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

/* Does a piece of heap begin here? A few size words in a row that fit each other are no accident; a piece that is mapped by
 * itself begins a page and has nothing before it (glibc, malloc/malloc.c). */
static bool is_piece(
        struct gm_holders *graph, const struct gm_mapping *mapping, uint64_t start, uint64_t word)
{
	uint64_t size = word & ~UINT64_C(7), before;
	if (size > mapping->end - start + 16)
		return false;
	if (word & IS_MAPPED)
		return start % 4096 == 16 && size % 4096 == 0 &&
		       gm_image_try_u64(graph->image, start - 16, &before) && before == 0;
	for (unsigned i = 0; i < MAX_CHECKED; i++) {
		uint64_t next = 0;
		start += word & ~UINT64_C(7);
		/* the last one of an arena has none behind it */
		if (start - 16 == mapping->end)
			return i > 0;
		if (!gm_image_try_u64(graph->image, start - 8, &next) ||
		        (i == 0 && !(next & PREVIOUS_IN_USE)) || (next & ~UINT64_C(7)) < 32 ||
		        (next & (8 | IS_MAPPED)) || next >= UINT64_C(1) << 40)
			return false;
		word = next;
	}
	return true;
}

/* The piece of heap in use that has the address: its first byte and how many it has. */
static bool find_piece(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	struct gm_pool_block block;
	if (!mapping)
		return false;
	if (mapping->path[0] == 0 && gm_pool_block(graph, address, &block)) {
		*ret_start = block.start;
		*ret_size = block.size;
		return !block.is_free;
	}
	_cleanup_free_ uint64_t *words = malloc(LOOK_BACK + 8);
	if (!words)
		return false;
	uint64_t last = address & ~UINT64_C(15),
	         lowest = (mapping->start + 16 + 15) & ~UINT64_C(15);
	for (uint64_t far = 0; far < MAX_LOOK_BACK && last >= lowest && last - lowest >= far;
	        far += LOOK_BACK) {
		uint64_t high = last - far;
		uint64_t low = high - lowest < LOOK_BACK - 16 ? lowest : high - (LOOK_BACK - 16);
		if (!gm_image_try_read(graph->image, low - 8, words, high - low + 8))
			return false;
		for (uint64_t start = high; start >= low; start -= 16) {
			uint64_t word = words[(start - low) / 8], size = word & ~UINT64_C(7);
			if (size < 32 || size % 16 != 0 || start + size - 8 <= address ||
			        !is_piece(graph, mapping, start, word))
				continue;
			*ret_start = start;
			*ret_size = size - 8;
			return true;
		}
	}
	return false;
}

/* "c10d::Reducer" of "std::_Sp_counted_ptr<c10d::Reducer*, (__gnu_cxx::_Lock_policy)2>". Caller frees. */
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

char *gm_owner_static(struct gm_holders *graph, const struct gm_module *module, uint64_t address)
{
	struct gm_symbol symbol = {0};
	char *text;
	const char *library = module->name;
	struct gm_error *error = gm_symbols_name(graph->symbols, &address, 1, false, &symbol);
	if (error)
		gm_error_destroy(error);
	if (error || !symbol.function)
		return asprintf(&text, "static data of %s", library) < 0 ? NULL : text;
	if (known_name(symbol.function))
		return strdup(known_name(symbol.function));
	return asprintf(&text, "static '%s' of %s", symbol.function, library) < 0 ? NULL : text;
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

/* A piece of heap on the way from a word to its owner, and what refers to it. */
struct holder {
	enum gm_owner_kind kind; /* GM_OWNER_NONE: another piece */
	uint32_t number;         /* of a piece, or of a vertex */
	uint64_t address;        /* of the word */
};

struct piece {
	uint64_t start, size;
	const struct gm_class *class;
	size_t holder_count;
	struct holder holders[MAX_BRANCHES];
	char *stack; /* what the stack is, of the last GM_OWNER_STACK */
};

struct search {
	struct gm_holders *graph;
	struct gm_stacks *stacks;
	GM_ARRAY(struct piece) pieces;
	struct gm_map by_start; /* -> index + 1 */
	size_t first, last;     /* the pieces of this level */
};

static bool wanted(const void *context, uint64_t value)
{
	const struct search *search = context;
	const uint64_t *found = gm_map_find(&search->by_start, value);
	return found && *found - 1 >= search->first && *found - 1 < search->last;
}

/* The number of the piece that begins at `start`; it is looked for in the next level, if it is new. */
static uint32_t add_piece(struct search *search, uint64_t start, uint64_t size)
{
	uint64_t *there = gm_map_find(&search->by_start, start);
	if (there)
		return (uint32_t)(*there - 1);
	if (search->pieces.count >= MAX_PIECES)
		return UINT32_MAX;
	struct piece piece = {start, size, gm_graph_class_at(search->graph, start), 0, {{0}}, NULL};
	uint64_t *slot = gm_map_put(&search->by_start, start, NULL);
	if (!slot || !gm_array_push(&search->pieces, piece))
		return UINT32_MAX;
	*slot = search->pieces.count;
	/* what std::make_shared makes lies behind its control block, and is known by its own address */
	if (piece.class && piece.class->kind == GM_CLASS_SHARED &&
	        (slot = gm_map_put(&search->by_start, start + 16, NULL)))
		*slot = search->pieces.count;
	return (uint32_t)(search->pieces.count - 1);
}

static void add_holder(struct search *search, size_t number, struct holder holder)
{
	struct piece *piece = &search->pieces.items[number];
	for (size_t i = 0; i < piece->holder_count; i++) {
		const struct holder *other = &piece->holders[i];
		if (other->kind == holder.kind && other->number == holder.number &&
		        other->address == holder.address)
			return;
	}
	if (piece->holder_count < MAX_BRANCHES)
		piece->holders[piece->holder_count++] = holder;
}

uint32_t gm_graph_python_around(struct gm_holders *graph, uint64_t address, bool *ret_native)
{
	*ret_native = false;
	for (uint64_t at = address; graph->python && at + MAX_PYTHON > address; at -= 8) {
		size_t own;
		uint32_t vertex = gm_graph_find(graph, at);
		if (vertex == GM_NO_VERTEX ||
		        graph->vertices.items[vertex].kind != GM_VERTEX_PYTHON)
			continue;
		struct gm_pool_block block; /* what a guess led to may have been freed */
		if (address - at >= gm_python_size(graph->python, at, &own) ||
		        (gm_pool_block(graph, at, &block) && block.is_free))
			return GM_NO_VERTEX;
		*ret_native = own != 0 && address - at >= own;
		return vertex;
	}
	return GM_NO_VERTEX;
}

/* The object of the graph that a piece of heap is, or that lies behind its control block. */
static uint32_t vertex_of(struct gm_holders *graph, uint64_t start)
{
	uint32_t vertex = gm_graph_find(graph, start);
	if (vertex == GM_NO_VERTEX)
		vertex = gm_graph_find(graph, start + 16);
	return vertex != GM_NO_VERTEX && graph->vertices.items[vertex].kind <= GM_VERTEX_PYTHON
	               ? vertex
	               : (uint32_t)GM_NO_VERTEX;
}

/* Whose memory a word is in, as far as the word itself tells: an owner, or a piece of heap (GM_OWNER_NONE). */
static bool place_word(
        struct search *search, uint64_t address, struct holder *ret, char **ret_stack)
{
	struct gm_holders *graph = search->graph;
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	uint64_t start, size;
	*ret_stack = NULL;
	*ret = (struct holder){.address = address};
	if (!mapping)
		return false;
	if (gm_symbols_module_at(
	            graph->symbols, address)) { /* zeroed data is in a mapping without a name */
		ret->kind = GM_OWNER_STATIC;
		return true;
	}
	if (gm_is_stack(graph, mapping)) {
		enum gm_stack_part part =
		        gm_stacks_part(graph, search->stacks, mapping, address, ret_stack);
		ret->kind = GM_OWNER_STACK;
		return part == GM_STACK_FRAME || part == GM_STACK_DATA;
	}
	bool native;
	uint32_t vertex = gm_graph_python_around(graph, address, &native);
	if (vertex != GM_NO_VERTEX && !native)
		return false; /* what it refers to there is known; the rest is data */
	if (vertex == GM_NO_VERTEX && !find_piece(graph, address, &start, &size))
		return false;
	if (vertex == GM_NO_VERTEX)
		vertex = vertex_of(graph, start);
	if (vertex != GM_NO_VERTEX) {
		ret->kind = GM_OWNER_VERTEX;
		ret->number = vertex;
		return true;
	}
	ret->number = add_piece(search, start, size);
	return ret->number != UINT32_MAX;
}

static void sort_hit(struct search *search, const struct gm_hit *hit)
{
	const uint64_t *slot = gm_map_find(&search->by_start, hit->value);
	struct holder holder;
	char *stack = NULL;
	if (!slot || search->pieces.items[*slot - 1].holder_count >= MAX_BRANCHES)
		return;
	size_t number = (size_t)(*slot - 1);
	bool placed = place_word(search, hit->address, &holder, &stack);
	struct piece *piece = &search->pieces.items[number];
	if (placed && holder.kind == GM_OWNER_STACK) {
		/* many words of stacks may point at it; one is enough */
		placed = !piece->stack;
		if (placed) {
			piece->stack = stack;
			stack = NULL;
		}
	}
	if (placed && (holder.kind != GM_OWNER_NONE || holder.number != number))
		add_holder(search, number, holder);
	free(stack);
}

/* What points at the pieces of this level. */
static struct gm_error *search_level(struct search *search)
{
	struct gm_scan_range range = {UINT64_MAX, 0};
	for (size_t i = search->first; i < search->last; i++) {
		uint64_t start = search->pieces.items[i].start;
		range.first = start < range.first ? start : range.first;
		range.last = start + 16 > range.last ? start + 16 : range.last;
	}
	struct gm_scan_options options = {
	        .filter = wanted, .context = search, .ranges = {range}, .range_count = 1};
	struct gm_scan_result result;
	gm_try(gm_scan(search->graph->image, &options, &result));
	for (size_t i = 0; i < result.count; i++)
		sort_hit(search, &result.hits[i]);
	free(result.hits);
	return NULL;
}

/* --- telling ---------------------------------------------------------------------------------------- */

/* The best way from a piece to an owner: the fewest pieces to a vertex or a static; else a class; else a stack. */
struct way {
	struct holder owner;
	uint32_t pieces[MAX_LEVELS + 1]; /* from the word's outwards */
	uint64_t words[MAX_LEVELS + 1];  /* in the next one, or the owner, that point at it */
	size_t count;
	unsigned rank;
};

/* Of several Python objects that lead to it these tell most: DDP's Reducer, which its Logger knows too; a module of TorchScript,
 * which lists of its parameters know. */
static bool is_known_object(struct gm_holders *graph, const struct holder *holder)
{
	if (holder->kind != GM_OWNER_VERTEX)
		return false;
	const struct gm_vertex *vertex = &graph->vertices.items[holder->number];
	const char *type =
	        vertex->kind == GM_VERTEX_PYTHON ? gm_type_text(graph, vertex->address) : "";
	return strcmp(type, "Reducer") == 0 || strcmp(type, "ScriptModule") == 0;
}

/* What was found to refer to that vertex is not what its count says, as where it was freed: rather another one, even if it is
 * farther. */
static unsigned is_unreferred(struct gm_holders *graph, const struct holder *holder)
{
	uint64_t refcount;
	return holder->kind == GM_OWNER_VERTEX &&
	                       (graph->vertices.items[holder->number].count == 0 ||
	                               (gm_graph_refcount(graph, holder->number, &refcount) &&
	                                       refcount !=
	                                               graph->vertices.items[holder->number].count))
	               ? 20
	               : 0;
}

static void find_way(const struct search *search, struct way *way, struct way *best)
{
	static const unsigned ranks[] = {[GM_OWNER_VERTEX] = 0,
	        [GM_OWNER_STATIC] = 0,
	        [GM_OWNER_CLASS] = 40,
	        [GM_OWNER_STACK] = 80};
	uint32_t number = way->pieces[way->count - 1];
	const struct piece *piece = &search->pieces.items[number];
	unsigned length = 2 * (unsigned)way->count;
	if (piece->class && ranks[GM_OWNER_CLASS] + length < best->rank) {
		*best = *way;
		best->owner = (struct holder){GM_OWNER_CLASS, number, piece->start};
		best->rank = ranks[GM_OWNER_CLASS] + length;
	}
	for (size_t i = 0; i < piece->holder_count; i++) {
		const struct holder *holder = &piece->holders[i];
		way->words[way->count - 1] = holder->address;
		if (holder->kind != GM_OWNER_NONE) {
			unsigned rank = ranks[holder->kind] + length +
			                !is_known_object(search->graph, holder) +
			                is_unreferred(search->graph, holder);
			if (rank >= best->rank)
				continue;
			*best = *way;
			best->owner = *holder;
			best->rank = rank;
			continue;
		}
		bool seen = way->count > MAX_LEVELS;
		for (size_t k = 0; k < way->count && !seen; k++)
			seen = way->pieces[k] == holder->number;
		if (seen)
			continue;
		way->pieces[way->count++] = holder->number;
		find_way(search, way, best);
		way->count--;
	}
}

/* Three words where a piece is pointed at: a std::vector that has it? Its begin and end. */
static bool vector_of(const struct search *search, const struct piece *piece, uint64_t word,
        uint64_t ret_bounds[3])
{
	return gm_image_try_read(search->graph->image, word, ret_bounds, 24) &&
	       ret_bounds[0] == piece->start && gm_is_vector(search->graph, ret_bounds, 8);
}

/* "item 3 of a vector of 4 tensors", "a c10::ivalue::Future", "native memory of 64 bytes". */
static char *piece_text(const struct search *search, const struct piece *piece, uint64_t word,
        const uint64_t *bounds)
{
	char *text;
	int made;
	if (piece->class)
		return class_owner(piece->class);
	size_t items = bounds ? (size_t)((bounds[1] - bounds[0]) / 8) : 0;
	if (bounds && are_tensors(search->graph, bounds[0], bounds[1]))
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
static char *bucket_text(const struct search *search, const struct way *way, uint64_t word)
{
	struct gm_holders *graph = search->graph;
	const struct gm_vertex *owner = &graph->vertices.items[way->owner.number];
	if (owner->kind != GM_VERTEX_PYTHON ||
	        strcmp(gm_type_text(graph, owner->address), "Reducer") != 0)
		return NULL;
	/* the last piece is the Reducer itself, or pybind11's list of what a Python object holds, which leads to it; then
	 * comes the vector of buckets */
	char *text = NULL;
	for (size_t at = way->count - 1; at > 0 && at + 2 >= way->count && !text; at--)
		text = gm_bucket_text(graph, search->pieces.items[way->pieces[at]].start,
		        search->pieces.items[way->pieces[at - 1]].start,
		        at > 1 ? way->words[at - 2] : word,
		        at == 2 ? (word - search->pieces.items[way->pieces[0]].start) / 8
		                : UINT64_MAX);
	return text;
}

/* An attribute of a TorchScript module: c10::ivalue::Object::slots_, a std::vector of IValues of two words (2.4 to 2.11:
 * aten/src/ATen/core/ivalue.h). NULL: it is none. */
static char *slot_text(const struct search *search, const struct way *way, uint64_t word)
{
	char *text;
	const struct piece *slots = &search->pieces.items[way->pieces[0]];
	const struct gm_class *class = search->pieces.items[way->pieces[1]].class;
	if (!class || strcmp(class->linkage_name, "N3c106ivalue6ObjectE") != 0 ||
	        asprintf(&text, "slot %ju of a TorchScript object",
	                (uintmax_t)((word - slots->start) / 16)) < 0)
		return NULL;
	return text;
}

static void tell_query(const struct search *search, struct gm_owner_query *query, uint32_t number)
{
	struct way way = {.pieces = {number}, .count = 1}, best = {.rank = UINT32_MAX};
	const struct piece *piece = &search->pieces.items[number];
	uint64_t bounds[3];
	find_way(search, &way, &best);
	bool owned = best.rank != UINT32_MAX;
	bool vector = owned && best.owner.kind != GM_OWNER_CLASS
	                      ? vector_of(search, piece, best.words[0], bounds)
	                      : owned && best.count > 1 &&
	                                vector_of(search, piece, best.words[0], bounds);
	query->dead = vector && query->word >= bounds[1];
	query->text = NULL;
	if (best.owner.kind == GM_OWNER_VERTEX && owned)
		query->text = bucket_text(search, &best, query->word);
	if (query->text)
		best.count = 1;
	else
		query->text = piece_text(search, piece, query->word, vector ? bounds : NULL);
	query->kind = owned ? best.owner.kind : GM_OWNER_NONE;
	query->vertex = best.owner.number;
	query->address = best.owner.address;
	size_t next = 1;
	if (owned && best.count > 1) {
		char *slot = slot_text(search, &best, query->word);
		if (slot) {
			free(query->text);
			query->text = slot;
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
		                query->address));
	else if (query->kind == GM_OWNER_STACK)
		append(&query->text,
		        search->pieces.items[best.pieces[best.count - 1]].stack
		                ? strdup(search->pieces.items[best.pieces[best.count - 1]].stack)
		                : NULL);
}

struct gm_error *gm_graph_find_owners(struct gm_holders *graph, struct gm_stacks *stacks,
        struct gm_owner_query *queries, size_t count)
{
	struct search search = {.graph = graph, .stacks = stacks};
	struct gm_error *error = NULL;
	_cleanup_free_ uint32_t *numbers = malloc((count + 1) * sizeof(*numbers));
	if (!numbers)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		struct holder holder;
		char *stack;
		numbers[i] = UINT32_MAX;
		if (!place_word(&search, queries[i].word, &holder, &stack))
			continue;
		free(stack);
		if (holder.kind == GM_OWNER_NONE) {
			numbers[i] = holder.number;
		} else if (holder.kind == GM_OWNER_VERTEX) {
			queries[i].kind = holder.kind;
			queries[i].vertex = holder.number;
		}
	}
	for (unsigned level = 0; level < MAX_LEVELS && !error; level++) {
		search.first = search.last;
		search.last = search.pieces.count;
		if (search.first == search.last)
			break;
		error = search_level(&search);
	}
	for (size_t i = 0; i < count && !error; i++)
		if (numbers[i] != UINT32_MAX)
			tell_query(&search, &queries[i], numbers[i]);
	for (size_t i = 0; i < search.pieces.count; i++)
		free(search.pieces.items[i].stack);
	gm_array_deinit(&search.pieces);
	gm_map_deinit(&search.by_start);
	return error;
}
