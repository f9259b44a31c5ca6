/*
 * Whose native memory is it? A word in a piece of heap says little; the class of the object that the piece is, or the
 * static variable, thread or object that leads to it, says what keeps a tensor there.
 *
 * A piece of heap is found by glibc's size words around it. Where it is an object with a vtable, its class is the
 * answer (of a std::shared_ptr's control block, what it counts). Else all memory is searched for words that point at
 * the piece, a few levels up: a std::vector's memory leads to the object that has the vector. All of it is a guess
 * from what lies in memory, and plausible at best.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/graph.h"
#include "holders/scan.h"

enum {
	LOOK_BACK = 8192, /* bytes in which a piece's start is sought */
	MAX_LEVELS = 4,
	MAX_QUERIES = 32,
	MAX_BRANCHES = 4, /* pieces that lead to one */
	MAX_FRAMES = 256,
	MAX_VECTOR = 1 << 16,
	PREVIOUS_IN_USE = 1, /* glibc, malloc/malloc.c: PREV_INUSE, IS_MMAPPED */
	IS_MAPPED = 2,
};

/* What users know by another name than its class or variable. */
static const struct {
	const char *part, *name;
} known[] = {
        {"cached_casts", "autocast's weight cache"},
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

/* The piece of heap that has the address: its first byte and how many it has. */
static bool find_piece(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	_cleanup_free_ uint64_t *words = malloc(LOOK_BACK + 8);
	if (!mapping || !words)
		return false;
	uint64_t last = address & ~UINT64_C(15), first = mapping->start + 16;
	if (last - first > LOOK_BACK - 16)
		first = last - (LOOK_BACK - 16);
	first = (first + 15) & ~UINT64_C(15);
	if (last < first || !gm_image_try_read(graph->image, first - 8, words, last - first + 8))
		return false;
	for (uint64_t start = last; start >= first; start -= 16) {
		uint64_t word = words[(start - first) / 8], size = word & ~UINT64_C(7), next;
		if (size < 32 || size % 16 != 0 || start + size - 8 <= address)
			continue;
		bool mapped = (word & IS_MAPPED) && start % 4096 == 16;
		if (!mapped && (!gm_image_try_u64(graph->image, start + size - 8, &next) ||
		                       !(next & PREVIOUS_IN_USE) || next < 32 ||
		                       next >= UINT64_C(1) << 40))
			continue;
		*ret_start = start;
		*ret_size = size - 8;
		return true;
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

/* The function in whose frame the word is: the return address next above it is that of the frame's caller. */
char *gm_owner_stack_function(struct gm_holders *graph, pid_t thread, uint64_t address)
{
	struct gm_registers registers;
	uint64_t addresses[MAX_FRAMES], word;
	struct gm_symbol symbol;
	struct gm_error *error = gm_image_registers(graph->image, thread, &registers);
	if (error) {
		gm_error_destroy(error);
		return NULL;
	}
	size_t count = gm_symbols_unwind(graph->symbols, &registers, addresses, MAX_FRAMES);
	uint64_t at = registers.value[GM_RSP] & ~UINT64_C(7);
	size_t frame = 0;
	/* return addresses lie on the stack in the order of the frames */
	for (; frame + 1 < count && at < address; at += 8) {
		if (!gm_image_try_u64(graph->image, at, &word))
			return NULL;
		if (word == addresses[frame + 1])
			frame++;
	}
	if (count == 0 || at < address)
		return NULL;
	error = gm_symbols_name(graph->symbols, &addresses[frame], 1, frame > 0, &symbol);
	if (error) {
		gm_error_destroy(error);
		return NULL;
	}
	return symbol.function ? strdup(symbol.function) : NULL;
}

/* How many tensors a piece has that holds nothing else; 0: it is no such piece. */
static size_t tensors_in(struct gm_holders *graph, uint64_t start, uint64_t size)
{
	size_t count = 0;
	for (uint64_t at = start; at < start + size && count < MAX_VECTOR; at += 8) {
		uint64_t word;
		if (!gm_image_try_u64(graph->image, at, &word))
			return 0;
		uint32_t vertex = gm_graph_find(graph, word);
		if (vertex == GM_NO_VERTEX ||
		        graph->vertices.items[vertex].kind != GM_VERTEX_TENSOR)
			return at + 16 >= start + size || word == 0 ? count : 0;
		count++;
	}
	return count;
}

struct search {
	struct gm_holders *graph;
	struct gm_map fronts; /* start of a piece -> query + 1 */
	struct gm_owner_query *queries;
	uint64_t fronts_of[MAX_QUERIES][MAX_BRANCHES]; /* 0: no more to look for */
	uint64_t next[MAX_QUERIES][MAX_BRANCHES];
	char *owners[MAX_QUERIES];
};

static bool wanted(const void *context, uint64_t value)
{
	return gm_map_find(&((const struct search *)context)->fronts, value) != NULL;
}

static void add_next(struct search *search, size_t query, uint64_t start)
{
	for (size_t i = 0; i < MAX_BRANCHES; i++) {
		if (search->next[query][i] == start)
			return;
		if (!search->next[query][i]) {
			search->next[query][i] = start;
			return;
		}
	}
}

static void sort_hit(struct search *search, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const uint64_t *slot = gm_map_find(&search->fronts, hit->value);
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	uint64_t start, size;
	if (!slot || !mapping)
		return;
	size_t query = (size_t)(*slot - 1);
	if (search->owners[query])
		return;
	/* a library's zeroed data is in a mapping without a name */
	const struct gm_module *module = gm_symbols_module_at(graph->symbols, hit->address);
	if (module) {
		search->owners[query] = gm_owner_static(graph, module, hit->address);
		return;
	}
	if (!find_piece(graph, hit->address, &start, &size) || start == hit->value)
		return;
	const struct gm_class *class = gm_graph_class_at(graph, start);
	if (class)
		search->owners[query] = class_owner(class);
	else
		add_next(search, query, start);
}

static struct gm_error *search_level(struct search *search, size_t count)
{
	struct gm_scan_range range = {UINT64_MAX, 0};
	gm_map_deinit(&search->fronts);
	memset(search->next, 0, sizeof(search->next));
	for (size_t k = 0; k < count * MAX_BRANCHES; k++) {
		size_t i = k / MAX_BRANCHES;
		uint64_t front = search->fronts_of[i][k % MAX_BRANCHES];
		if (!front || search->owners[i])
			continue;
		uint64_t *slot = gm_map_put(&search->fronts, front, NULL);
		if (!slot)
			return &gm_error_no_memory;
		*slot = i + 1;
		range.first = front < range.first ? front : range.first;
		range.last = front > range.last ? front : range.last;
	}
	if (range.first > range.last)
		return NULL;
	struct gm_scan_options options = {
	        .filter = wanted, .context = search, .ranges = {range}, .range_count = 1};
	struct gm_scan_result result;
	gm_try(gm_scan(search->graph->image, &options, &result));
	for (size_t i = 0; i < result.count; i++)
		sort_hit(search, &result.hits[i]);
	free(result.hits);
	return NULL;
}

static char *tell(struct gm_holders *graph, uint64_t word, const char *owner)
{
	uint64_t start, size;
	char *text = NULL;
	int made = -1;
	if (!find_piece(graph, word, &start, &size))
		return NULL;
	const struct gm_class *class = gm_graph_class_at(graph, start);
	size_t tensors = class ? 0 : tensors_in(graph, start, size);
	const char *of = owner ? ", held by " : "";
	if (class)
		return class_owner(class);
	if (tensors > 0)
		made = asprintf(&text, "a vector of %zu tensor%s%s%s", tensors,
		        tensors == 1 ? "" : "s", of, owner ? owner : "");
	else if (owner)
		made = asprintf(
		        &text, "native memory of %ju bytes%s%s", (uintmax_t)size, of, owner);
	return made < 0 ? NULL : text;
}

struct gm_error *gm_graph_find_owners(
        struct gm_holders *graph, struct gm_owner_query *queries, size_t count)
{
	_cleanup_free_ struct search *search = calloc(1, sizeof(*search));
	struct gm_error *error = NULL;
	if (!search)
		return &gm_error_no_memory;
	search->graph = graph;
	count = count < MAX_QUERIES ? count : MAX_QUERIES;
	for (size_t i = 0; i < count; i++) {
		uint64_t start, size;
		if (find_piece(graph, queries[i].word, &start, &size) &&
		        !gm_graph_class_at(graph, start))
			search->fronts_of[i][0] = start;
	}
	for (unsigned level = 0; level < MAX_LEVELS && !error; level++) {
		error = search_level(search, count);
		memcpy(search->fronts_of, search->next, sizeof(search->next));
	}
	for (size_t i = 0; i < count; i++) {
		if (!error)
			queries[i].text = tell(graph, queries[i].word, search->owners[i]);
		free(search->owners[i]);
	}
	gm_map_deinit(&search->fronts);
	return error;
}
