/*
 * Words that no typed field accounts for.
 *
 * If an object's reference count is higher than the references that were found, it has other
 * holders: C++ code on a stack, a library's container, a static variable. All writable memory is
 * searched for words with the object's address. Such a word proves nothing, because it may be stale
 * (a stack is full of old values), so it is at most plausible. If a thread's stack pointer is
 * known, words below it are stale.
 */
#include "holders/unattributed/find_unattributed.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"
#include "holders/heap/heap.h"
#include "holders/heap/scan.h"
#include "holders/heap/stacks.h"
#include "holders/heap/unused.h"
#include "holders/native/host_data.h"
#include "holders/native/native.h"
#include "holders/native/weak.h"
#include "holders/unattributed/call_arrays.h"
#include "holders/unattributed/owner_parts.h"
#include "holders/unattributed/owners.h"
#include "torch/statics.h"

enum {
	MAX_UNATTRIBUTED = 256, /* and some more for each object that is searched for */
	UNATTRIBUTED_EACH = 4,
	FRAME_BYTES = 4096, /* a Python frame with its operands; few are larger */
};

struct search {
	struct gm_holders *graph;
	struct gm_map targets; /* address -> vertex + 1 */
	uint64_t block, block_size;
	struct gm_unattributed_list *unattributed_list;
	size_t most;        /* of these */
	struct gm_map said; /* hash of an unattributed reference and its description -> number of
	                       that reference, plus 1 */
	struct gm_map block_words; /* words of the allocator's own that point into blocks */
	struct gm_stacks stacks;
	struct gm_map live; /* words of the native stacks */
	bool no_memory;
};

static bool wanted(const void *context, uint64_t value)
{
	const struct search *search = context;
	return gm_map_find(&search->targets, value) ||
	       (search->block && value - search->block < search->block_size);
}

/* An owner of NULL: no memory. */
static void add(struct search *search, uint32_t vertex, uint64_t address,
        enum gm_reference_class class, const char *kind, struct gm_native_owner *owner)
{
	struct gm_unattributed unattributed = {.vertex = vertex,
	        .address = address,
	        .class = class,
	        .kind = kind,
	        .native = owner,
	        .sense = GM_WORD_NAMED,
	        .words = 1};
	if (search->unattributed_list->items.count >= search->most)
		return;
	if (!owner) {
		search->no_memory = true;
		return;
	}
	/* many words of one stack count as one holder */
	uint64_t *slot = gm_map_put(&search->said,
	        gm_hash_bytes(&vertex, sizeof(vertex), gm_native_owner_hash(owner)) | 1, NULL);
	struct gm_unattributed *other =
	        slot && *slot ? &search->unattributed_list->items.items[*slot - 1] : NULL;
	if (other && other->vertex == vertex &&
	        gm_native_owner_compare(other->native, owner) == 0) {
		other->words++;
		return;
	}
	if (slot)
		*slot = search->unattributed_list->items.count + 1;
	if (gm_array_push(&search->unattributed_list->items, unattributed))
		gm_native_owner_share(owner);
	else
		search->no_memory = true;
}

/* The same for an owner with one part. */
static void add_part(struct search *search, uint32_t vertex, uint64_t address, const char *kind,
        struct gm_native_part part)
{
	_cleanup_owner_ struct gm_native_owner *owner = gm_native_owner_create(part);
	add(search, vertex, address, GM_PLAUSIBLE, kind, owner);
}

/* Finishes the unattributed reference that was added last. References with the same description
 * become one. */
static struct gm_unattributed *added(struct search *search, uint64_t address)
{
	size_t count = search->unattributed_list->items.count;
	struct gm_unattributed *last =
	        count ? &search->unattributed_list->items.items[count - 1] : NULL;
	return last && last->address == address ? last : NULL;
}

static void note_owner(struct search *search, enum gm_owner_kind kind, uint64_t address)
{
	struct gm_unattributed *last = added(search, address);
	if (last && last->owner == GM_OWNER_NONE) {
		last->owner = kind;
		last->owner_address = address;
	}
}

/* The owner will be looked up later; `sense` is what is known of the word already. */
static void note_heap(struct search *search, uint64_t address, enum gm_word_evidence sense)
{
	struct gm_unattributed *last = added(search, address);
	if (last) {
		last->in_heap = true;
		last->sense = sense;
	}
}

static void add_native(struct search *search, uint32_t vertex, uint64_t address)
{
	add_part(search, vertex, address, "native_heap",
	        (struct gm_native_part){.form = GM_NATIVE_HEAP_AT, .number = address});
	note_heap(search, address, GM_WORD_UNKNOWN);
}

static void add_stack(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	_cleanup_owner_ struct gm_native_owner *owner = NULL;
	uint64_t now;
	enum gm_stack_part part =
	        gm_stacks_part(graph, &search->stacks, mapping, hit->address, &owner);
	/* a stack keeps changing until the thread is stopped */
	if (part == GM_STACK_CONTROL || !gm_image_try_u64(graph->image, hit->address, &now) ||
	        now != hit->value)
		return;
	if (part == GM_STACK_DEAD) {
		search->unattributed_list->stale++;
		return;
	}
	add(search, vertex, hit->address, GM_PLAUSIBLE, "native_stack", owner);
	if (part == GM_STACK_FRAME || part == GM_STACK_DATA)
		note_owner(search, GM_OWNER_STACK, hit->address);
}

/* The Python frame whose memory contains the address, if any. */
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

/* Words of a frame that are not its locals: operands of the current expression, or stale words. */
static void add_frame_word(
        struct search *search, uint32_t vertex, uint64_t address, const struct gm_frame_root *root)
{
	struct gm_holders *graph = search->graph;
	uint64_t object = graph->vertices.items[vertex].address;
	for (uint32_t slot = 0; slot < root->frame.code->local_count; slot++)
		if (gm_python_local(graph->python, &root->frame, slot) == object)
			return; /* a local, which was found as such */
	const struct gm_code *code = root->frame.code;
	add_part(search, vertex, address, "argument",
	        (struct gm_native_part){.form = GM_NATIVE_OPERAND,
	                .name = code->name,
	                .of = code->file,
	                .number = root->frame.line});
	note_owner(search, GM_OWNER_FRAME, address);
}

/* The allocator's record of a block refers to no tensor. What lies behind it in its chunk is old.
 */
static bool is_in_block_record(struct search *search, uint64_t address)
{
	uint64_t start, size;
	return gm_heap_chunk(search->graph, address, &start, &size) &&
	       gm_map_find(&search->block_words, start + 1);
}

static void add_heap(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	uint64_t words[3];
	struct gm_holders *graph = search->graph;
	if (is_in_block_record(search, hit->address)) {
		search->unattributed_list->stale++;
		return;
	}
	/* pointers of a node or a control block to itself hold nothing */
	if (gm_image_try_read(graph->image, hit->address - sizeof(words), words, sizeof(words))) {
		for (size_t i = 0; i < 3; i++) {
			const struct gm_class *class =
			        gm_classes_at(gm_torch_classes(graph->torch), words[i]);
			if (class && class->kind == GM_CLASS_SHARED)
				return;
		}
	}
	add_native(search, vertex, hit->address);
}

/* Numbers and strings have no references: a word there that looks like one was freed. */
static bool has_no_fields(const char *type)
{
	static const char *const names[] = {"int", "float", "bool", "str", "bytes", "complex"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(type, names[i]) == 0)
			return true;
	return false;
}

/* A Python object that the collector does not track, with the word in its first fields. The other
 * Python objects were visited, so their references are in the graph. True: the word belongs to a
 * Python object, or to one that was visited. */
static bool add_untracked(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const char *name;
	struct gm_pool_block block;
	uint64_t first = hit->address - 64;
	if (gm_pool_block(graph, hit->address, &block) && block.start > first)
		first = block.start;
	for (uint64_t start = hit->address - 16; start >= first; start -= 8) {
		if (gm_graph_find(graph, start) != GM_NO_VERTEX)
			return hit->address - start < gm_python_size(graph->python, start, NULL);
		if (!gm_python_type_name(graph->python, start, &name) || has_no_fields(name) ||
		        hit->address - start >= gm_python_size(graph->python, start, NULL))
			continue;
		add_part(search, vertex, hit->address, "object",
		        (struct gm_native_part){
		                .form = GM_NATIVE_FIELD, .name = name, .number = start});
		return true;
	}
	return false;
}

/* A c10::DataPtr outside of any storage: pointer, deleter, context. */
static bool is_data_pointer(struct gm_holders *graph, uint64_t address)
{
	uint64_t words[3];
	if (!gm_image_try_read(graph->image, address, words, sizeof(words)))
		return false;
	const struct gm_mapping *code = gm_image_find_mapping(graph->image, words[1]);
	return words[0] == words[2] && code && (code->flags & GM_MAPPING_EXEC);
}

static void add_block_word(struct search *search, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	uint64_t before = 0, next = 0;
	(void)gm_image_try_u64(graph->image, hit->address - 16, &before);
	(void)gm_image_try_u64(graph->image, hit->address + 8, &next);
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	if (!mapping || gm_is_stack(graph, &search->stacks, mapping, hit->address) ||
	        gm_map_find(&search->block_words, hit->address) ||
	        gm_map_find(&search->block_words, next + 1))
		return; /* the allocator's records, and its table from addresses to records */
	if (is_data_pointer(graph, hit->address)) {
		add_part(search, GM_NO_VERTEX, hit->address, "native_heap",
		        (struct gm_native_part){
		                .form = GM_NATIVE_DATA_POINTER, .number = hit->address});
		note_heap(search, hit->address, GM_WORD_NAMED);
	} else if (before != hit->value) { /* the context of a DataPtr is its third word */
		add_native(search, GM_NO_VERTEX, hit->address);
	}
}

static void add_static(
        struct search *search, uint32_t vertex, uint64_t address, const struct gm_module *module)
{
	enum gm_word_evidence sense;
	_cleanup_owner_ struct gm_native_owner *owner =
	        gm_owner_static(search->graph, module, address, &sense);
	add(search, vertex, address, GM_PLAUSIBLE, "native_heap", owner);
	note_owner(search, GM_OWNER_STATIC, address);
	struct gm_unattributed *last = added(search, address);
	if (last)
		last->sense = sense;
}

/* An argument of a call, in CPython's array of arguments. */
static bool add_argument(struct search *search, uint32_t vertex, const struct gm_hit *hit)
{
	if (!gm_is_call_argument(search->graph, &search->stacks, &search->live, hit->address))
		return false;
	add_part(search, vertex, hit->address, "argument",
	        (struct gm_native_part){.form = GM_NATIVE_ARGUMENT});
	note_owner(search, GM_OWNER_CALL, hit->address);
	struct gm_unattributed *last = added(search, hit->address);
	if (last)
		last->sense = GM_WORD_READ;
	return true;
}

static void sort_hit(struct search *search, const struct gm_hit *hit)
{
	struct gm_holders *graph = search->graph;
	const uint64_t *target = gm_map_find(&search->targets, hit->value);
	if (gm_is_unused(graph, hit->address)) {
		search->unattributed_list->stale++;
		return;
	}
	if (!target) {
		add_block_word(search, hit);
		return;
	}
	uint32_t vertex = (uint32_t)(*target - 1);
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, hit->address);
	if (!mapping || gm_map_find(&graph->typed_words, hit->address) ||
	        gm_graph_is_weak_field(graph, hit, vertex))
		return;
	const struct gm_frame_root *frame = frame_at(graph, hit->address);
	/* the zero-initialized data of a library is in a mapping without a name */
	const struct gm_module *module = gm_symbols_module_at(graph->symbols, hit->address);
	bool python = graph->vertices.items[vertex].kind == GM_VERTEX_PYTHON;
	if (!python && gm_is_in_ctypes_object(graph, hit->address))
		return;
	if (frame && python)
		add_frame_word(search, vertex, hit->address, frame);
	else if (gm_is_stack(graph, &search->stacks, mapping, hit->address))
		add_stack(search, vertex, hit);
	else if (module)
		add_static(search, vertex, hit->address, module);
	else if (!python ||
	         (!add_argument(search, vertex, hit) && !add_untracked(search, vertex, hit)))
		add_heap(search, vertex, hit);
}

/* Workspaces of cuBLAS are recognized by name. */
static void add_workspace(void *context, enum gm_torch_static kind, uint64_t address, uint64_t word)
{
	struct search *search = context;
	if (kind != GM_STATIC_AUTOCAST && address - search->block < search->block_size &&
	        gm_map_put(&search->block_words, word, NULL)) {
		_cleanup_owner_ struct gm_native_owner *owner = gm_static_owner(kind);
		add(search, GM_NO_VERTEX, word, GM_PROVEN, "native_heap", owner);
	}
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
	if (!note_block_words(search))
		return &gm_error_no_memory;
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
		gm_torch_statics(search->graph->torch, add_workspace, search);
	}
	struct gm_scan_result result;
	_cleanup_free_ struct gm_range *numbers =
	        gm_graph_host_data(search->graph, &options.left_out_count);
	if (!numbers)
		return &gm_error_no_memory;
	options.left_out = numbers;
	gm_try(gm_scan(search->graph->image, &options, &result));
	for (size_t i = 0; i < result.count; i++)
		sort_hit(search, &result.hits[i]);
	free(result.hits);
	return search->no_memory ? &gm_error_no_memory
	                         : gm_unattributed_name_owners(search->graph, &search->stacks,
	                                   search->unattributed_list);
}

struct gm_error *gm_graph_find_unattributed(struct gm_holders *graph, const uint32_t *targets,
        size_t target_count, uint64_t block, uint64_t block_size,
        struct gm_unattributed_list *ret_unattributed)
{
	struct gm_unattributed_list unattributed_list = {0};
	struct search search = {.graph = graph,
	        .block = block,
	        .block_size = block_size,
	        .unattributed_list = &unattributed_list,
	        .most = MAX_UNATTRIBUTED + UNATTRIBUTED_EACH * target_count};
	struct gm_error *error = search_all(&search, targets, target_count);
	gm_map_deinit(&search.targets);
	gm_map_deinit(&search.said);
	gm_map_deinit(&search.block_words);
	gm_map_deinit(&search.live);
	gm_stacks_deinit(&search.stacks);
	if (error)
		gm_unattributed_list_deinit(&unattributed_list);
	else
		*ret_unattributed = unattributed_list;
	return error;
}
