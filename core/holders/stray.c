/*
 * Words that no typed field explains.
 *
 * Where an object's reference count is higher than the references that were found, something else holds it: C++
 * code on a stack, a container of a library, a static variable. All writable memory is searched for words that
 * hold the object's address. Such a word proves nothing (it may be dead: a stack is full of old values), so the
 * best it gets is plausible; where a thread's stack pointer is known, words below it are stale.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/graph.h"
#include "holders/scan.h"

enum {
	MAX_STRAYS = 256,
	FRAME_BYTES = 4096,    /* a Python frame with its operands; few are bigger */
	GUARD_BYTES = 1 << 20, /* the largest guard below a thread's stack */
	RED_ZONE = 128,        /* below the stack pointer, still alive (System V ABI, 3.2.2) */
};

struct search {
	struct gm_holders *graph;
	struct gm_map targets; /* address -> vertex + 1 */
	uint64_t block, block_size;
	struct gm_strays *strays;
	struct gm_map block_words; /* words of the allocator's own that point into blocks */
	GM_ARRAY(struct gm_scan_range) live_stacks; /* [stack pointer, stack's end) */
	GM_ARRAY(pid_t) live_threads;
	bool no_memory;
};

static bool wanted(const void *context, uint64_t value)
{
	const struct search *search = context;
	return gm_map_find(&search->targets, value) ||
	       (search->block && value - search->block < search->block_size);
}

static const struct gm_mapping *mapping_before(
        struct gm_holders *graph, const struct gm_mapping *mapping)
{
	size_t count;
	const struct gm_mapping *all = gm_image_mappings(graph->image, &count);
	return mapping > all && mapping < all + count ? mapping - 1 : NULL;
}

/* The main stack by name; glibc puts an unreadable guard below each thread's (nptl/allocatestack.c). */
static bool is_stack(struct gm_holders *graph, const struct gm_mapping *mapping)
{
	if (strncmp(mapping->path, "[stack", 6) == 0)
		return true;
	const struct gm_mapping *guard = mapping_before(graph, mapping);
	return mapping->path[0] == 0 && guard && guard->end == mapping->start &&
	       guard->path[0] == 0 && !(guard->flags & (GM_MAPPING_READ | GM_MAPPING_WRITE)) &&
	       guard->end - guard->start <= GUARD_BYTES;
}

/* Where threads are stopped under us, their stack pointers tell what of a stack is alive. */
static void find_live_stacks(struct search *search)
{
	pid_t *threads;
	size_t count;
	struct gm_error *error = gm_image_threads(search->graph->image, &threads, &count);
	if (error) {
		gm_error_destroy(error);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct gm_registers registers;
		error = gm_image_registers(search->graph->image, threads[i], &registers);
		if (error) {
			gm_error_destroy(error);
			break;
		}
		uint64_t pointer = registers.value[GM_RSP];
		const struct gm_mapping *mapping =
		        gm_image_find_mapping(search->graph->image, pointer);
		struct gm_scan_range live = {pointer - RED_ZONE, mapping ? mapping->end : pointer};
		if (!gm_array_push(&search->live_stacks, live) ||
		        !gm_array_push(&search->live_threads, threads[i]))
			search->no_memory = true;
	}
	free(threads);
}

__attribute__((format(printf, 6, 7))) static void add(struct search *search, uint32_t vertex,
        uint64_t address, enum gm_reference_class class, const char *kind, const char *format, ...)
{
	struct gm_stray stray = {vertex, address, class, kind, NULL};
	if (class == GM_STALE) {
		search->strays->stale++;
		return;
	}
	if (search->strays->items.count >= MAX_STRAYS)
		return;
	va_list args;
	va_start(args, format);
	int made = vasprintf(&stray.text, format, args);
	va_end(args);
	if (made < 0) {
		search->no_memory = true;
		return;
	}
	/* many words of one stack are one holder */
	for (size_t i = 0; i < search->strays->items.count; i++) {
		const struct gm_stray *other = &search->strays->items.items[i];
		if (other->vertex == vertex && strcmp(other->text, stray.text) == 0) {
			free(stray.text);
			return;
		}
	}
	if (!gm_array_push(&search->strays->items, stray)) {
		free(stray.text);
		search->no_memory = true;
	}
}

static void add_stack(struct search *search, uint32_t vertex, uint64_t address)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(search->graph->image, address);
	for (size_t i = 0; i < search->live_stacks.count; i++) {
		struct gm_scan_range live = search->live_stacks.items[i];
		if (live.first < mapping->start || live.first >= mapping->end)
			continue;
		int thread = (int)search->live_threads.items[i];
		_cleanup_free_ char *function =
		        address >= live.first
		                ? gm_owner_stack_function(search->graph, thread, address)
		                : NULL;
		add(search, vertex, address, address >= live.first ? GM_PLAUSIBLE : GM_STALE,
		        "native_stack", "the native stack of thread %d%s%s", thread,
		        function ? ", in " : "", function ? function : "");
		return;
	}
	add(search, vertex, address, GM_PLAUSIBLE, "native_stack", "a native stack%s",
	        mapping->path[0] ? " (the main thread's)" : "");
}

/* The Python frame whose memory has the address, if any. */
static const struct gm_frame_root *frame_at(struct gm_holders *graph, uint64_t address)
{
	const struct gm_frame_root *best = NULL;
	for (size_t i = 0; i < graph->frames.count; i++) {
		const struct gm_frame_root *root = &graph->frames.items[i];
		if (root->frame.address <= address &&
		        (!best || root->frame.address > best->frame.address))
			best = root;
	}
	return best && address - best->frame.address < FRAME_BYTES ? best : NULL;
}

/* Words of a frame that are not its locals: operands of the expression under way, or old ones. */
static void add_frame_word(
        struct search *search, uint32_t vertex, uint64_t address, const struct gm_frame_root *root)
{
	struct gm_holders *graph = search->graph;
	uint64_t object = graph->vertices.items[vertex].address;
	for (uint32_t slot = 0; slot < root->frame.code->local_count; slot++)
		if (gm_python_local(graph->python, &root->frame, slot) == object)
			return; /* a local, found as such */
	const struct gm_code *code = root->frame.code;
	const char *slash = code->file ? strrchr(code->file, '/') : NULL;
	add(search, vertex, address, GM_PLAUSIBLE, "argument", "an operand of %s() at %s:%u",
	        code->name,
	        slash        ? slash + 1
	        : code->file ? code->file
	                     : "?",
	        root->frame.line);
}

static void add_heap(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	uint64_t words[3];
	struct gm_holders *graph = search->graph;
	/* a node's or a control block's own pointers to itself hold nothing */
	if (gm_image_try_read(graph->image, hit->address - sizeof(words), words, sizeof(words))) {
		for (size_t i = 0; i < 3; i++) {
			const struct gm_class *class =
			        gm_classes_at(gm_torch_classes(graph->torch), words[i]);
			if (class && class->kind == GM_CLASS_SHARED)
				return;
		}
	}
	add(search, vertex, hit->address, GM_PLAUSIBLE, "native_heap", "native memory at 0x%jx",
	        (uintmax_t)hit->address);
}

/* Whose the native memory is, where that can be told. */
static struct gm_error *name_owners(struct search *search)
{
	enum { MAX_NAMED = 32 };
	struct gm_owner_query queries[MAX_NAMED];
	size_t places[MAX_NAMED], count = 0;
	for (size_t i = 0; i < search->strays->items.count && count < MAX_NAMED; i++) {
		const struct gm_stray *stray = &search->strays->items.items[i];
		if (strncmp(stray->text, "native memory at", 16) != 0)
			continue;
		queries[count] = (struct gm_owner_query){.word = stray->address};
		places[count++] = i;
	}
	if (count == 0)
		return NULL;
	gm_try(gm_graph_find_owners(search->graph, queries, count));
	for (size_t i = 0; i < count; i++) {
		if (!queries[i].text)
			continue;
		free(search->strays->items.items[places[i]].text);
		search->strays->items.items[places[i]].text = queries[i].text;
	}
	return NULL;
}

/* Numbers and strings refer to nothing: what looks like one there was freed. */
static bool has_no_fields(const char *type)
{
	static const char *const names[] = {"int", "float", "bool", "str", "bytes", "complex"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(type, names[i]) == 0)
			return true;
	return false;
}

/* A Python object that the collector does not track (numpy.ndarray) and that has the word in its first
 * fields. Python's other objects were visited: what they refer to is in the graph. */
static void add_untracked(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const char *name;
	for (uint64_t start = hit->address - 16; start >= hit->address - 64; start -= 8) {
		if (gm_graph_find(graph, start) != GM_NO_VERTEX)
			return;
		if (!gm_python_type_name(graph->python, start, &name) || has_no_fields(name))
			continue;
		add(search, vertex, hit->address, GM_PLAUSIBLE, "object",
		        "a field of a %s object at 0x%jx", name, (uintmax_t)start);
		return;
	}
}

/* A c10::DataPtr that is in no storage: pointer, context, deleter. */
static bool is_data_pointer(struct gm_holders *graph, uint64_t address)
{
	uint64_t words[3];
	if (!gm_image_try_read(graph->image, address, words, sizeof(words)))
		return false;
	const struct gm_mapping *code = gm_image_find_mapping(graph->image, words[2]);
	return words[0] == words[1] && code && (code->flags & GM_MAPPING_EXEC);
}

static void add_block_word(struct search *search, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	uint64_t before = 0, next = 0;
	(void)gm_image_try_u64(graph->image, hit->address - 8, &before);
	(void)gm_image_try_u64(graph->image, hit->address + 8, &next);
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	if (!mapping || is_stack(graph, mapping) ||
	        gm_map_find(&search->block_words, hit->address) ||
	        gm_map_find(&search->block_words, next + 1))
		return; /* the allocator's records, and its table from address to record */
	if (is_data_pointer(graph, hit->address))
		add(search, GM_NO_VERTEX, hit->address, GM_PLAUSIBLE, "native_heap",
		        "a c10::DataPtr at 0x%jx that is in no tensor: a library's workspace",
		        (uintmax_t)hit->address);
	else if (before != hit->value) /* a DataPtr's context is its second word */
		add(search, GM_NO_VERTEX, hit->address, GM_PLAUSIBLE, "native_heap",
		        "native memory at 0x%jx", (uintmax_t)hit->address);
}

/* Fields that know an object without owning it. */
static bool is_weak_field(struct gm_holders *graph, const struct gm_hit *hit, uint32_t vertex)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	const uint16_t offsets[] = {layout->tensor.python, layout->storage.python,
	        layout->node.python, layout->node.self};
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		uint32_t owner = gm_graph_find(graph, hit->address - offsets[i]);
		if (owner != GM_NO_VERTEX && graph->vertices.items[owner].kind <= GM_VERTEX_NODE)
			return true;
	}
	return false;
}

static void add_static(
        struct search *search, uint32_t vertex, uint64_t address, const struct gm_module *module)
{
	_cleanup_free_ char *owner = gm_owner_static(search->graph, module, address);
	if (owner)
		add(search, vertex, address, GM_PLAUSIBLE, "native_heap", "%s", owner);
	else
		search->no_memory = true;
}

static void sort_hit(struct search *search, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const uint64_t *target = gm_map_find(&search->targets, hit->value);
	if (!target) {
		add_block_word(search, hit);
		return;
	}
	uint32_t vertex = (uint32_t)(*target - 1);
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	if (!mapping || gm_map_find(&graph->typed_words, hit->address) ||
	        is_weak_field(graph, hit, vertex))
		return;
	const struct gm_frame_root *frame = frame_at(graph, hit->address);
	/* a library's zeroed data is in a mapping without a name */
	const struct gm_module *module = gm_symbols_module_at(graph->symbols, hit->address);
	bool python = graph->vertices.items[vertex].kind == GM_VERTEX_PYTHON;
	if (frame && python)
		add_frame_word(search, vertex, hit->address, frame);
	else if (is_stack(graph, mapping))
		add_stack(search, vertex, hit->address);
	else if (module)
		add_static(search, vertex, hit->address, module);
	else if (python)
		add_untracked(search, vertex, hit);
	else
		add_heap(search, vertex, hit);
}

static bool note_block_words(struct search *search)
{
	struct gm_holders *graph = search->graph;
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	for (size_t i = 0; i < graph->block_count; i++) {
		uint64_t record = graph->blocks[i].record;
		if (!gm_map_put(&search->block_words, record + layout->block.address, NULL) ||
		        !gm_map_put(&search->block_words, record + 1, NULL))
			return false;
	}
	return true;
}

static struct gm_error *search_all(struct search *search, const uint32_t *targets, size_t count)
{
	struct gm_scan_options options = {.filter = wanted, .context = search};
	if (count > 0) {
		struct gm_scan_range range = {UINT64_MAX, 0};
		for (size_t i = 0; i < count; i++) {
			uint64_t address = search->graph->vertices.items[targets[i]].address;
			uint64_t *slot = gm_map_put(&search->targets, address, NULL);
			if (!slot)
				return &gm_error_no_memory;
			*slot = (uint64_t)targets[i] + 1;
			range.first = address < range.first ? address : range.first;
			range.last = address > range.last ? address : range.last;
		}
		options.ranges[options.range_count++] = range;
	}
	if (search->block) {
		options.ranges[options.range_count++] = (struct gm_scan_range){
		        search->block, search->block + search->block_size - 1};
		if (!note_block_words(search))
			return &gm_error_no_memory;
	}
	struct gm_scan_result result;
	gm_try(gm_scan(search->graph->image, &options, &result));
	find_live_stacks(search);
	for (size_t i = 0; i < result.count; i++)
		sort_hit(search, &result.hits[i]);
	free(result.hits);
	return search->no_memory ? &gm_error_no_memory : name_owners(search);
}

struct gm_error *gm_graph_find_strays(struct gm_holders *graph, const uint32_t *targets,
        size_t target_count, uint64_t block, uint64_t block_size, struct gm_strays *ret_strays)
{
	struct gm_strays strays = {0};
	struct search search = {
	        .graph = graph, .block = block, .block_size = block_size, .strays = &strays};
	struct gm_error *error = search_all(&search, targets, target_count);
	gm_map_deinit(&search.targets);
	gm_map_deinit(&search.block_words);
	gm_array_deinit(&search.live_stacks);
	gm_array_deinit(&search.live_threads);
	if (error)
		gm_strays_deinit(&strays);
	else
		*ret_strays = strays;
	return error;
}

void gm_strays_deinit(struct gm_strays *strays)
{
	for (size_t i = 0; i < strays->items.count; i++)
		free(strays->items.items[i].text);
	gm_array_deinit(&strays->items);
}
