/*
 * A process that is not there: Python objects of CPython 3.11 in a piece of memory that an image
 * reads, PyTorch's storages and tensors as rows, and the graph of references over both. What reads
 * memory (names of keys, types, reference counts) reads this one; what searches memory finds
 * nothing beside it.
 *
 * Objects are added, then process_ready() sorts the graph and sets each reference count to the
 * references there are, plus `uncounted` ones.
 */
#ifndef GM_TESTS_SYNTHETIC_PROCESS_H
#define GM_TESTS_SYNTHETIC_PROCESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"
#include "holders/graph/graph.h"
#include "holders/graph/freeze.h"
#include "holders/holders.h"
#include "image/remote.h"
#include "random.h"
#include "torch/internal.h"
#include "torch/layout_rows.h"

#define PROCESS_BASE UINT64_C(0x10000000)

enum {
	PROCESS_BYTES = 1 << 18,
	PROCESS_ITEMS = 24, /* of a container */
	PROCESS_FRAMES = 8,
	PROCESS_SLOTS = 8,
};

enum process_type {
	PROCESS_TYPE,
	PROCESS_OBJECT,
	PROCESS_STR,
	PROCESS_LIST,
	PROCESS_DICT,
	PROCESS_CELL,
	PROCESS_TENSOR,    /* of a wrapper */
	PROCESS_THING,     /* a class with a __dict__, like those below */
	PROCESS_MODULE,    /* torch.nn.Module */
	PROCESS_OPTIMIZER, /* torch.optim.Optimizer */
	PROCESS_TYPE_COUNT,
};

struct process_frame_code {
	struct gm_code code;
	char name[16], slots[PROCESS_SLOTS][16];
	const char *names[PROCESS_SLOTS];
	uint8_t kinds[PROCESS_SLOTS];
};

struct process {
	uint8_t *memory;
	size_t used;
	struct gm_python *python;
	struct gm_symbols *symbols;
	struct gm_torch torch;
	struct gm_holders *graph;
	uint64_t types[PROCESS_TYPE_COUNT];
	struct process_frame_code codes[PROCESS_FRAMES];
	uint32_t *uncounted; /* by vertex, PROCESS_BYTES / 16 of them */
};

/* --- memory ----------------------------------------------------------------------------------- */

static inline uint64_t process_take(struct process *process, size_t bytes)
{
	size_t at = process->used;
	process->used += (bytes + 15) & ~(size_t)15;
	if (process->used > PROCESS_BYTES)
		abort();
	return PROCESS_BASE + at;
}

static inline void process_put(
        struct process *process, uint64_t object, int32_t offset, uint64_t value)
{
	memcpy(process->memory + (object - PROCESS_BASE) + offset, &value, sizeof(value));
}

static inline uint64_t process_word(const struct process *process, uint64_t object, int32_t offset)
{
	uint64_t value;
	memcpy(&value, process->memory + (object - PROCESS_BASE) + offset, sizeof(value));
	return value;
}

static inline size_t process_read(void *context, uint64_t address, void *buffer, size_t size)
{
	const struct process *process = context;
	if (address < PROCESS_BASE || size > PROCESS_BYTES ||
	        address - PROCESS_BASE > PROCESS_BYTES - size)
		return 0;
	memcpy(buffer, process->memory + (address - PROCESS_BASE), size);
	return size;
}

static inline bool process_registers(void *context, pid_t thread, uint64_t *words)
{
	return false;
}

static inline bool process_file(void *context, const char *path, char *ret_path, size_t size)
{
	return false;
}

static inline uint64_t process_text(struct process *process, const char *text)
{
	uint64_t at = process_take(process, strlen(text) + 1);
	memcpy(process->memory + (at - PROCESS_BASE), text, strlen(text) + 1);
	return at;
}

/* A str that is ASCII and compact. */
static inline uint64_t process_str(struct process *process, const char *text)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint64_t object = process_take(process, (size_t)l->str_ascii_size + strlen(text) + 1);
	process_put(process, object, l->object_refcount, 1);
	process_put(process, object, l->object_type, process->types[PROCESS_STR]);
	process_put(process, object, l->str_length, strlen(text));
	process_put(process, object, l->str_state, 1 << 2 | 1 << 5 | 1 << 6);
	memcpy(process->memory + (object - PROCESS_BASE) + l->str_ascii_size, text,
	        strlen(text) + 1);
	return object;
}

/* --- Python objects --------------------------------------------------------------------------- */

static inline void process_make_types(struct process *process)
{
	static const struct {
		const char *name;
		uint64_t size, flags;
		enum process_type base;
		uint64_t dict;
	} rows[PROCESS_TYPE_COUNT] = {
	        [PROCESS_TYPE] = {"type", 408, GM_TYPE_FLAG_TYPE, PROCESS_OBJECT, 0},
	        [PROCESS_OBJECT] = {"object", 16, 0, PROCESS_OBJECT, 0},
	        [PROCESS_STR] = {"str", 80, GM_TYPE_FLAG_STR, PROCESS_OBJECT, 0},
	        [PROCESS_LIST] = {"list", 40, GM_TYPE_FLAG_LIST, PROCESS_OBJECT, 0},
	        [PROCESS_DICT] = {"dict", 48, GM_TYPE_FLAG_DICT, PROCESS_OBJECT, 0},
	        [PROCESS_CELL] = {"cell", 24, 0, PROCESS_OBJECT, 0},
	        [PROCESS_TENSOR] = {"Tensor", 16, 0, PROCESS_OBJECT, 0},
	        [PROCESS_THING] = {"Thing", 24, 0, PROCESS_OBJECT, 16},
	        [PROCESS_MODULE] = {"Module", 24, 0, PROCESS_OBJECT, 16},
	        [PROCESS_OPTIMIZER] = {"Optimizer", 24, 0, PROCESS_OBJECT, 16},
	};
	const struct gm_python_layout *l = &process->python->layout;
	for (int i = 0; i < PROCESS_TYPE_COUNT; i++)
		process->types[i] = process_take(process, (size_t)l->type_size);
	for (int i = 0; i < PROCESS_TYPE_COUNT; i++) {
		uint64_t type = process->types[i];
		process_put(process, type, l->object_refcount, 1);
		process_put(process, type, l->object_type, process->types[PROCESS_TYPE]);
		process_put(process, type, l->type_name, process_text(process, rows[i].name));
		process_put(process, type, l->type_basicsize, rows[i].size);
		process_put(process, type, l->type_dictoffset, rows[i].dict);
		process_put(process, type, l->type_flags, rows[i].flags | GM_TYPE_FLAG_READY);
		if (i != PROCESS_OBJECT)
			process_put(process, type, l->type_base, process->types[rows[i].base]);
	}
	process->python->type_type = process->types[PROCESS_TYPE];
}

static inline uint32_t process_object(struct process *process, enum process_type type, size_t size)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint64_t object = process_take(process, size);
	process_put(process, object, l->object_type, process->types[type]);
	return gm_graph_add(process->graph, object, GM_VERTEX_PYTHON, 0);
}

static inline uint64_t process_address(const struct process *process, uint32_t vertex)
{
	return process->graph->vertices.items[vertex].address;
}

static inline uint32_t process_list(struct process *process)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint32_t list = process_object(process, PROCESS_LIST, 40);
	uint64_t at = process_address(process, list);
	process_put(process, at, l->list_items, process_take(process, PROCESS_ITEMS * 8));
	process_put(process, at, l->list_allocated, PROCESS_ITEMS);
	return list;
}

/* False: it is full. */
static inline bool process_item(struct process *process, uint32_t list, uint32_t item)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint64_t at = process_address(process, list),
	         count = process_word(process, at, l->object_size);
	if (count == PROCESS_ITEMS)
		return false;
	uint64_t word = process_word(process, at, l->list_items) + 8 * count;
	process_put(process, word, 0, process_address(process, item));
	process_put(process, at, l->object_size, count + 1);
	gm_graph_refer(process->graph, list, item, GM_REF_PYTHON, GM_EDGE_ITEM, word);
	return true;
}

static inline uint32_t process_dict(struct process *process)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint32_t dict = process_object(process, PROCESS_DICT, 48);
	uint64_t keys = process_take(process, (size_t)l->keys_indices + 64 + 16 * PROCESS_ITEMS);
	process_put(process, process_address(process, dict), l->dict_keys, keys);
	uint8_t *head = process->memory + (keys - PROCESS_BASE);
	head[l->keys_log2_size] = 6;
	head[l->keys_log2_index_bytes] = 6;
	head[l->keys_kind] = 1; /* all keys are str */
	return dict;
}

/* The address of the entry; 0: the dict is full. */
static inline uint64_t process_put_entry(
        struct process *process, uint32_t dict, uint64_t key, uint64_t value)
{
	const struct gm_python_layout *l = &process->python->layout;
	uint64_t keys = process_word(process, process_address(process, dict), l->dict_keys);
	uint64_t count = process_word(process, keys, l->keys_entries);
	if (count == PROCESS_ITEMS)
		return 0;
	uint64_t entry = keys + (uint64_t)l->keys_indices + 64 + 16 * count;
	process_put(process, entry, 0, key);
	process_put(process, entry, 8, value);
	process_put(process, keys, l->keys_entries, count + 1);
	return entry;
}

static inline bool process_key(
        struct process *process, uint32_t dict, const char *key, uint32_t value)
{
	uint64_t entry = process_put_entry(
	        process, dict, process_str(process, key), process_address(process, value));
	if (entry)
		gm_graph_refer(process->graph, dict, value, GM_REF_PYTHON, GM_EDGE_KEY, entry + 8);
	return entry != 0;
}

/* An entry whose key is an object of the graph, as a parameter is in an optimizer's state. */
static inline bool process_key_by_object(
        struct process *process, uint32_t dict, uint32_t key, uint32_t value)
{
	uint64_t entry = process_put_entry(
	        process, dict, process_address(process, key), process_address(process, value));
	if (!entry)
		return false;
	gm_graph_refer(process->graph, dict, key, GM_REF_PYTHON, GM_EDGE_DICT_KEY, entry);
	gm_graph_refer(process->graph, dict, value, GM_REF_PYTHON, GM_EDGE_KEY, entry + 8);
	return true;
}

/* An instance with a dict of its own, whose vertex is returned by `ret_dict`. */
static inline uint32_t process_instance(
        struct process *process, enum process_type type, uint32_t *ret_dict)
{
	uint32_t instance = process_object(process, type, 24);
	*ret_dict = process_dict(process);
	uint64_t word = process_address(process, instance) + 16;
	process_put(process, word, 0, process_address(process, *ret_dict));
	gm_graph_refer(process->graph, instance, *ret_dict, GM_REF_PYTHON,
	        GM_EDGE_OTHER | GM_LINK_IS_DICT, word);
	return instance;
}

static inline uint32_t process_cell(struct process *process, uint32_t content)
{
	uint32_t cell = process_object(process, PROCESS_CELL, 24);
	uint64_t word =
	        process_address(process, cell) + (uint64_t)process->python->layout.cell_content;
	process_put(process, word, 0, process_address(process, content));
	gm_graph_refer(process->graph, cell, content, GM_REF_PYTHON, GM_EDGE_CELL, word);
	return cell;
}

/* --- PyTorch's objects ------------------------------------------------------------------------ */

static inline uint32_t process_storage(
        struct process *process, uint64_t data, uint64_t size, int8_t device_type)
{
	struct gm_holders *graph = process->graph;
	struct gm_storage storage = {.address = process_take(process, 16),
	        .data = data,
	        .size = size,
	        .device_type = device_type,
	        .device = device_type == GM_DEVICE_CPU ? -1 : 0};
	if (!gm_array_push(&graph->storages, storage))
		abort();
	return gm_graph_add(
	        graph, storage.address, GM_VERTEX_STORAGE, (uint32_t)graph->storages.count - 1);
}

static inline uint32_t process_tensor(struct process *process, uint32_t storage)
{
	struct gm_holders *graph = process->graph;
	struct gm_tensor tensor = {.address = process_take(process, 16),
	        .storage = process_address(process, storage),
	        .dtype = "float32",
	        .dimensions = 1,
	        .shape = {1}};
	if (!gm_array_push(&graph->tensors, tensor))
		abort();
	uint32_t vertex = gm_graph_add(
	        graph, tensor.address, GM_VERTEX_TENSOR, (uint32_t)graph->tensors.count - 1);
	gm_graph_refer(graph, vertex, storage, GM_REF_STORAGE, 0, 0);
	return vertex;
}

/* The Python object of a tensor. */
static inline uint32_t process_wrapper(struct process *process, uint32_t tensor)
{
	struct gm_holders *graph = process->graph;
	uint32_t wrapper = process_object(process, PROCESS_TENSOR, 16);
	graph->vertices.items[wrapper].flags |= GM_VERTEX_WRAPPER;
	graph->tensors.items[graph->vertices.items[tensor].detail].python =
	        process_address(process, wrapper);
	gm_graph_refer(graph, wrapper, tensor, GM_REF_WRAPPER, 0, 0);
	return wrapper;
}

static inline uint32_t process_node(struct process *process)
{
	struct gm_holders *graph = process->graph;
	struct gm_node node = {.address = process_take(process, 16)};
	if (!gm_array_push(&graph->nodes, node))
		abort();
	return gm_graph_add(graph, node.address, GM_VERTEX_NODE, (uint32_t)graph->nodes.count - 1);
}

/* --- roots ------------------------------------------------------------------------------------ */

/* A frame of a function "f0", "f1", ... whose variables are "v0", "v1", ... Innermost frames come
 * first. */
static inline uint32_t process_frame(struct process *process)
{
	struct gm_holders *graph = process->graph;
	size_t number = graph->frames.count;
	if (number >= PROCESS_FRAMES)
		abort();
	struct process_frame_code *of = &process->codes[number];
	snprintf(of->name, sizeof(of->name), "f%zu", number);
	for (int i = 0; i < PROCESS_SLOTS; i++) {
		snprintf(of->slots[i], sizeof(of->slots[i]), "v%d", i);
		of->names[i] = of->slots[i];
		of->kinds[i] = 0x20;
	}
	of->code = (struct gm_code){.id = (uint32_t)number + 1,
	        .file = "/srv/run.py",
	        .name = of->name,
	        .first_line = 1,
	        .local_count = PROCESS_SLOTS,
	        .local_names = of->names,
	        .local_kinds = of->kinds};
	struct gm_frame_root root = {.frame = {.code = &of->code,
	                                     .line = (uint32_t)number + 10,
	                                     .address = process_take(process, 16)},
	        .thread = 1};
	if (!gm_array_push(&graph->frames, root))
		abort();
	return gm_graph_add(graph, root.frame.address, GM_VERTEX_FRAME, (uint32_t)number);
}

static inline void process_local(
        struct process *process, uint32_t frame, uint32_t slot, uint32_t object)
{
	gm_graph_refer(process->graph, frame, object, GM_REF_LOCAL, slot, 0);
}

/* A module's globals: a dict. */
static inline uint32_t process_globals(struct process *process, const char *name)
{
	struct gm_holders *graph = process->graph;
	uint32_t dict = process_dict(process);
	struct gm_module_root module = {strdup(name), process_address(process, dict)};
	if (!module.name || !gm_array_push(&graph->modules, module))
		abort();
	graph->vertices.items[dict].flags |= GM_VERTEX_ROOT_MODULE;
	graph->vertices.items[dict].detail = (uint32_t)graph->modules.count - 1;
	return dict;
}

/* --- begin, ready, end ------------------------------------------------------------------------ */

static inline void process_begin(struct process *process)
{
	*process = (struct process){.memory = calloc(1, PROCESS_BYTES),
	        .python = calloc(1, sizeof(*process->python)),
	        .graph = calloc(1, sizeof(*process->graph)),
	        .uncounted = calloc(PROCESS_BYTES / 16, sizeof(uint32_t))};
	if (!process->memory || !process->python || !process->graph || !process->uncounted)
		abort();
	process->python->version = 0x030b;
	process->python->layout = gm_python_layout_311;
	process->python->opcodes = gm_opcodes_311;
	process_make_types(process);
	process->graph->python = process->python;
	process->graph->keep_all = true;
	process->graph->blocks_read = true;
}

static inline void process_set_refcount(struct process *process, uint32_t number, uint32_t count)
{
	struct gm_holders *graph = process->graph;
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	switch (vertex->kind) {
	case GM_VERTEX_STORAGE:
		graph->storages.items[vertex->detail].refcount = count;
		break;
	case GM_VERTEX_TENSOR:
		graph->tensors.items[vertex->detail].refcount = count;
		break;
	case GM_VERTEX_NODE:
		graph->nodes.items[vertex->detail].refcount = count;
		break;
	case GM_VERTEX_PYTHON:
		process_put(
		        process, vertex->address, process->python->layout.object_refcount, count);
		break;
	default:
		break;
	}
}

static inline void process_ready(struct process *process)
{
	struct gm_holders *graph = process->graph;
	uint32_t *counts = calloc(graph->vertices.count + 1, sizeof(*counts));
	if (!counts)
		abort();
	for (size_t i = 0; i < graph->edges.count; i++)
		counts[graph->edges.items[i].to]++;
	for (uint32_t i = 0; i < graph->vertices.count; i++)
		process_set_refcount(process, i, counts[i] + process->uncounted[i]);
	free(counts);
	char maps[128];
	snprintf(maps, sizeof(maps), "%jx-%jx rw-p 00000000 00:00 0 \n", (uintmax_t)PROCESS_BASE,
	        (uintmax_t)PROCESS_BASE + PROCESS_BYTES);
	const struct gm_remote remote = {.context = process,
	        .read = process_read,
	        .registers = process_registers,
	        .file = process_file,
	        .maps = maps};
	if (gm_image_open_remote(&remote, NULL, &process->python->image) ||
	        gm_symbols_create(process->python->image, &process->symbols))
		abort();
	process->torch = (struct gm_torch){.image = process->python->image,
	        .symbols = process->symbols,
	        .python = process->python,
	        .layout = &gm_torch_layouts[0]};
	gm_classes_init(&process->torch.classes, process->python->image, process->symbols);
	graph->image = process->python->image;
	graph->symbols = process->symbols;
	graph->torch = &process->torch;
	if (!gm_graph_freeze(graph))
		abort();
}

static inline void process_end(struct process *process)
{
	gm_holders_destroy(process->graph);
	gm_classes_deinit(&process->torch.classes);
	gm_map_deinit(&process->torch.statics);
	gm_symbols_destroy(process->symbols);
	if (process->python->image)
		gm_image_close(process->python->image);
	process->python->image = NULL;
	gm_python_close(process->python);
	free(process->memory);
	free(process->uncounted);
}

#endif
