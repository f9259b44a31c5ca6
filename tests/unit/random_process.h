/* A random process: a block with a few storages, and all kinds of things that refer to each other
 * and to it. */
#ifndef GM_TESTS_RANDOM_PROCESS_H
#define GM_TESTS_RANDOM_PROCESS_H

#include "synthetic_process.h"

enum { MOST_VERTICES = 64, MOST_EDGES = 512, BLOCK_SIZE = 0x1000, BLOCKS = 4 };

#define BLOCK UINT64_C(0x7000000000)

struct random_things {
	uint32_t storages[8], tensors[12], wrappers[12], nodes[6], objects[24], containers[16],
	        roots[8];
	size_t storage_count, tensor_count, wrapper_count, node_count, object_count,
	        container_count, root_count;
	char keys; /* makes each key another one */
};

static inline void process_add_random_memory(
        struct process *process, struct random *random, struct random_things *things, int8_t device)
{
	size_t storages = 1 + random_below(random, 5);
	for (size_t i = 0; i < storages; i++) {
		uint64_t block = i == 0 ? 0 : random_below(random, BLOCKS);
		uint64_t data = BLOCK + block * BLOCK_SIZE +
		                (i && random_once_in(random, 3) ? 8 * random_below(random, 64) : 0);
		uint64_t rest = BLOCK_SIZE - (data - BLOCK) % BLOCK_SIZE;
		uint64_t size = random_once_in(random, 3) ? 8 + 8 * random_below(random, 64) : rest;
		things->storages[things->storage_count++] =
		        process_storage(process, data, size < rest ? size : rest, device);
	}
	size_t tensors = 1 + random_below(random, 8);
	for (size_t i = 0; i < tensors; i++) {
		uint32_t tensor = process_tensor(process,
		        things->storages[random_below(random, (uint32_t)things->storage_count)]);
		things->tensors[things->tensor_count++] = tensor;
		if (random_once_in(random, 4))
			continue;
		uint32_t wrapper = process_wrapper(process, tensor);
		things->wrappers[things->wrapper_count++] = wrapper;
		things->objects[things->object_count++] = wrapper;
	}
}

static inline void process_add_random_objects(
        struct process *process, struct random *random, struct random_things *things)
{
	size_t count = random_below(random, 8);
	for (size_t i = 0; i < count; i++) {
		uint32_t container, object;
		if (random_once_in(random, 4)) {
			object = process_instance(process, PROCESS_THING, &container);
		} else if (random_once_in(random, 3)) {
			object = container = process_dict(process);
		} else {
			object = container = process_list(process);
		}
		things->objects[things->object_count++] = object;
		things->containers[things->container_count++] = container;
	}
	count = random_below(random, 5);
	for (size_t i = 0; i < count; i++)
		things->nodes[things->node_count++] = process_node(process);
}

static inline bool process_is_list(const struct process *process, uint32_t vertex)
{
	uint64_t at = process_address(process, vertex);
	return process_word(process, at, process->python->layout.object_type) ==
	       process->types[PROCESS_LIST];
}

static inline void process_put_random(
        struct process *process, struct random_things *things, uint32_t container, uint32_t object)
{
	char key[16];
	snprintf(key, sizeof(key), "k%d", things->keys++);
	if (process_is_list(process, container))
		process_item(process, container, object);
	else
		process_key(process, container, key, object);
}

/* A reference of PyTorch's own. */
static inline void process_refer_random_native(
        struct process *process, struct random *random, const struct random_things *things)
{
	struct gm_holders *graph = process->graph;
	uint32_t tensor = things->tensors[random_below(random, (uint32_t)things->tensor_count)];
	uint32_t other = things->tensors[random_below(random, (uint32_t)things->tensor_count)];
	switch (random_below(random, 6)) {
	case 0:
		gm_graph_refer(graph, tensor, other, GM_REF_GRAD, 0, 0);
		return;
	case 1:
		gm_graph_refer(graph, tensor, other, GM_REF_VIEW_BASE, 0, 0);
		return;
	default:
		break;
	}
	if (things->node_count == 0)
		return;
	uint32_t node = things->nodes[random_below(random, (uint32_t)things->node_count)];
	uint32_t next = things->nodes[random_below(random, (uint32_t)things->node_count)];
	switch (random_below(random, 4)) {
	case 0:
		gm_graph_refer(graph, tensor, node, GM_REF_GRAD_FN, 0, 0);
		break;
	case 1:
		gm_graph_refer(graph, node, next, GM_REF_NEXT, 0, 0);
		break;
	case 2:
		gm_graph_refer(graph, node, tensor, GM_REF_ACCUMULATE, 0, 0);
		break;
	default:
		gm_graph_refer(graph, node, tensor, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	}
}

static inline void process_add_random_roots(
        struct process *process, struct random *random, struct random_things *things)
{
	struct gm_holders *graph = process->graph;
	size_t frames = 1 + random_below(random, 3), modules = random_below(random, 3);
	uint32_t objects = (uint32_t)things->object_count;
	for (size_t i = 0; i < frames; i++) {
		uint32_t frame = process_frame(process);
		for (uint32_t slot = 0; objects && slot < PROCESS_SLOTS; slot++)
			if (random_once_in(random, 6))
				process_local(process, frame, slot,
				        things->objects[random_below(random, objects)]);
	}
	for (size_t i = 0; i < modules; i++) {
		uint32_t globals = process_globals(process, i ? "other" : "__main__");
		for (size_t k = random_below(random, 3); objects && k > 0; k--)
			process_put_random(process, things, globals,
			        things->objects[random_below(random, objects)]);
		/* a module's dict is held too, as by its functions: nothing is looked for behind
		 * it */
		if (things->container_count && random_once_in(random, 2))
			process_put_random(process, things,
			        things->containers[random_below(
			                random, (uint32_t)things->container_count)],
			        globals);
	}
	if (random_once_in(random, 3))
		return;
	/* one or two words at one place of C++ */
	uint64_t native = process_take(process, 16);
	for (size_t i = 1 + random_below(random, 2); i > 0; i--) {
		_cleanup_owner_ struct gm_native_owner *owner =
		        gm_native_owner_create((struct gm_native_part){
		                .form = GM_NATIVE_STATIC, .name = "cache", .of = "libfoo.so"});
		gm_graph_refer_native(graph, GM_NO_VERTEX, native,
		        things->tensors[random_below(random, (uint32_t)things->tensor_count)], 0,
		        "native_heap", owner, false);
	}
}

/* The allocator's blocks, most of them in use. */
static inline void process_add_random_blocks(struct process *process, struct random *random)
{
	struct gm_holders *graph = process->graph;
	graph->blocks = calloc(BLOCKS, sizeof(*graph->blocks));
	if (!graph->blocks)
		abort();
	graph->block_count = BLOCKS;
	for (uint64_t i = 0; i < BLOCKS; i++)
		graph->blocks[i] = (struct gm_block_record){.address = BLOCK + i * BLOCK_SIZE,
		        .size = BLOCK_SIZE,
		        .device = (int8_t)(random_once_in(random, 3) ? 1 : 0),
		        .allocated = i == 0 || !random_once_in(random, 4),
		        .event_count = random_once_in(random, 2) ? 1 : 0,
		        .mapped = true};
}

enum random_process_kind {
	RANDOM_NO_GRAPH = 1,  /* without nodes of autograd */
	RANDOM_DEVICE = 2,    /* blocks of the CUDA allocator, rather than host memory */
	RANDOM_UNCOUNTED = 4, /* a few objects count references that are nowhere */
};

/* Of one round of a test; `kind`: enum random_process_kind. */
static inline void process_make_random(struct process *process, uint64_t round, unsigned kind)
{
	struct random random = random_of_round(round);
	struct random_things things = {0};
	process_begin(process);
	if (kind & RANDOM_DEVICE)
		process_add_random_blocks(process, &random);
	process_add_random_memory(
	        process, &random, &things, kind & RANDOM_DEVICE ? GM_DEVICE_CUDA : GM_DEVICE_CPU);
	process_add_random_objects(process, &random, &things);
	if (kind & RANDOM_NO_GRAPH)
		things.node_count = 0;
	uint32_t containers = (uint32_t)things.container_count;
	uint32_t objects = (uint32_t)things.object_count;
	for (size_t i = random_below(&random, 24); containers && objects && i > 0; i--)
		process_put_random(process, &things,
		        things.containers[random_below(&random, containers)],
		        things.objects[random_below(&random, objects)]);
	for (size_t i = random_below(&random, 10); i > 0; i--)
		process_refer_random_native(process, &random, &things);
	process_add_random_roots(process, &random, &things);
	if (process->graph->vertices.count > MOST_VERTICES ||
	        process->graph->edges.count > MOST_EDGES)
		abort();
	uint32_t vertices = (uint32_t)process->graph->vertices.count;
	for (size_t i = 1 + random_below(&random, 3); (kind & RANDOM_UNCOUNTED) && i > 0; i--)
		process->uncounted[random_below(&random, vertices)] = 1;
	process_ready(process);
}

#endif
