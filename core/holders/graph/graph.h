/*
 * The references of one moment. Internal to core/holders.
 *
 * A vertex is an object (a storage, a tensor, an autograd node, a Python object) or a root (a
 * thread's frame). An edge is one counted reference. Edges are appended as they are found and then
 * sorted by what they point to, so that "who refers to this" is one slice of an array: a process
 * with PyTorch has some 300,000 Python objects and two million references, and a query asks for a
 * few hundred of them. References to objects that hold nothing (strings, numbers, code, classes
 * of instances) are not in the graph.
 *
 * Dead ends are left out too: an object that refers to nothing that could hold a tensor (a list of
 * numbers) cannot be on a path to a block, nor can one that refers only to such objects.
 *
 * Cost: 24 bytes for each vertex and 12 for each edge; building it takes two to three streaming
 * reads of the memory.
 */
#ifndef GM_HOLDERS_GRAPH_H
#define GM_HOLDERS_GRAPH_H

#include "base/address_set.h"
#include "base/array.h"
#include "cpython/sweep/sweep.h"
#include "holders/holders.h"
#include "base/map.h"
#include "torch/readers.h"

struct gm_malloc;

enum gm_vertex_kind {
	GM_VERTEX_STORAGE = 1,
	GM_VERTEX_TENSOR,
	GM_VERTEX_NODE,
	GM_VERTEX_PYTHON,
	GM_VERTEX_FRAME,  /* a frame of a running thread: a root */
	GM_VERTEX_THREAD, /* what threads hold outside of frames (exceptions being handled): a root
	                   */
	GM_VERTEX_NATIVE, /* of C++: a static variable, an object, a frame of a native stack: a root
	                   */
};

/* What a reference is, from the holder's side. */
enum gm_reference {
	GM_REF_STORAGE = 1, /* tensor -> its storage */
	GM_REF_WRAPPER,     /* Python Tensor -> tensor, Python UntypedStorage -> storage */
	GM_REF_WRAPPED,     /* tensor, storage -> its Python object, while others hold it too */
	GM_REF_GRAD,        /* tensor -> its .grad */
	GM_REF_GRAD_FN,     /* tensor -> node */
	GM_REF_VIEW_BASE,   /* view -> tensor it is a view of */
	GM_REF_SAVED,      /* node -> tensor, or -> Python object of saved_tensors_hooks; extra: the
	                      offset in the node, of a vector's with GM_SAVED_IN_VECTOR */
	GM_REF_ACCUMULATE, /* AccumulateGrad -> leaf */
	GM_REF_NEXT,       /* node -> node */
	GM_REF_NODE_OBJECT,   /* Python grad_fn object -> node */
	GM_REF_CONTEXT,       /* PyNode -> its Python ctx */
	GM_REF_CONTEXT_SAVED, /* Python ctx -> tensor (save_for_backward) */
	GM_REF_HOOK,   /* tensor, node -> Python hooks; extra: 0, GM_HOOK_AFTER_ACCUMULATION */
	GM_REF_PYTHON, /* Python object -> Python object; extra: enum gm_edge_kind. Its name is
	                        asked for again when told */
	GM_REF_PART,   /* tensor -> a tensor that it is made of; extra: its word behind TensorImpl's
	                */
	GM_REF_TANGENT,  /* tensor -> its forward-mode gradient */
	GM_REF_METADATA, /* node -> the dict of its metadata */
	GM_REF_LOCAL,    /* frame -> Python object; extra: slot */
	GM_REF_THREAD,   /* thread -> Python object; extra: index in thread_names */
	GM_REF_INSTANCE, /* Python object -> its class, where nothing else was found to hold that */
	GM_REF_MEMORY_OWNER, /* storage, capsule -> what its memory was lent by: tensor, Python
	                        object */
	GM_REF_NATIVE, /* C++, or what leads to its memory -> an object; extra: index in natives */
};

/* In a GM_REF_PYTHON's extra: the link from an object to its own __dict__. */
enum { GM_LINK_IS_DICT = GM_WALK_OWN_DICT };

enum { GM_HOOK_AFTER_ACCUMULATION = 1 };

enum { GM_SAVED_IN_VECTOR = 1 << 23, GM_SAVED_NOWHERE = 0xffffff };

enum { GM_VERTEX_ROOT_MODULE = 1, GM_VERTEX_WRAPPER = 2 };

struct gm_vertex {
	uint64_t address;
	uint32_t detail; /* index in the kind's own array; of a module's dict: in `modules` */
	uint8_t kind, flags;
	uint32_t first, count; /* edges that point here, in `edges` */
};

struct gm_edge {
	uint32_t from, to;
	uint32_t extra : 24, kind : 8; /* enum gm_reference */
};

/* References between Python's objects as the walk found them, after the first `after` of the other
 * edges. */
struct gm_edge_run {
	struct gm_walk_reference *references; /* owned */
	size_t count, after;
};

struct gm_frame_root {
	struct gm_python_frame frame;
	pid_t thread;
};

struct gm_module_root {
	char *name;
	uint64_t dict;
};

/* A reference that C++ code holds. */
struct gm_native {
	struct gm_native_owner *owner;
	const char *kind; /* of the step: "native_heap", "native_stack", "object" */
	uint64_t address; /* of the word */
	bool inferred;    /* by counting alone: what the word is there for is not known */
};

struct gm_graph_object {
	uint64_t address;
	uint32_t number;
};

struct gm_holders {
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python; /* may be NULL */
	struct gm_torch *torch;

	/* The objects that Python's collector tracks come first, by address: their vertices'
	 * numbers are those in `objects`. All others are in `by_address`. */
	GM_ARRAY(struct gm_vertex) vertices;
	struct gm_address_set objects;
	struct gm_sweep *sweep; /* found them in one pass through memory; NULL: their lists did */
	/* Not tracked by the collector: those that may own C++ objects. */
	size_t swept; /* vertices there were when the sweep had ended */
	GM_ARRAY(struct gm_graph_object) untracked;
	struct gm_map by_address; /* -> vertex + 1 */
	GM_ARRAY(struct gm_edge) edges;
	GM_ARRAY(struct gm_edge_run) runs; /* until it is frozen */
	size_t run_edges;
	bool frozen, no_memory;
	/* Python objects that refer to nothing of the graph are left out of it, unless all are
	 * kept: C++ may hold something for them, or they are what is left of a class. */
	bool keep_all;
	struct gm_map typed_words; /* addresses of words that edges were read from */
	struct gm_map
	        accounted; /* stack_words.h: object -> references that C code in progress has */

	GM_ARRAY(struct gm_storage) storages;
	GM_ARRAY(struct gm_tensor) tensors;
	GM_ARRAY(struct gm_node) nodes;
	GM_ARRAY(struct gm_frame_root) frames;
	GM_ARRAY(struct gm_module_root) modules;
	GM_ARRAY(char *) thread_names; /* "exception being handled" */
	GM_ARRAY(struct gm_native) natives;
	struct gm_map classes_done; /* whose instances were sought */
	struct gm_malloc *malloc;   /* heap.h: read when it is first needed */
	uint32_t *storages_by_data; /* vertex numbers, sorted by data */

	bool blocks_read;
	struct gm_block_record *blocks; /* of the CUDA allocator, by address */
	size_t block_count;

	bool hits_truncated;
	struct gm_holders_cost cost;
};

enum { GM_NO_VERTEX = UINT32_MAX };

/* The vertex of an address; GM_NO_VERTEX: none. */
static inline uint32_t gm_graph_find(const struct gm_holders *graph, uint64_t address)
{
	uint32_t number = gm_address_set_find(&graph->objects, address);
	if (number != GM_NO_ADDRESS_NUMBER)
		return number;
	const uint64_t *found = gm_map_find(&graph->by_address, address);
	return found ? (uint32_t)(*found - 1) : (uint32_t)GM_NO_VERTEX;
}

/* Adds a vertex, or finds the one that is there. GM_NO_VERTEX: no memory, or address 0. */
uint32_t gm_graph_add(
        struct gm_holders *graph, uint64_t address, enum gm_vertex_kind kind, uint32_t detail);
/* Adds a reference; `word` is the address it was read from, 0 where that is no native word. */
void gm_graph_refer(struct gm_holders *graph, uint32_t from, uint32_t to, enum gm_reference kind,
        uint32_t extra, uint64_t word);
/* Takes over what the walk found between vertices, all of it behind the edges there are. */
void gm_graph_take(struct gm_holders *graph, struct gm_walk_reference *references, size_t count);
/* What was taken over from the walk; it is in `edges` once these are sorted. */
void gm_graph_deinit_runs(struct gm_holders *graph);
void gm_graph_deinit_edges(struct gm_holders *graph);

/* A reference that C++ holds, from a root at `address` or (where not GM_NO_VERTEX) from `from`. */
void gm_graph_refer_native(struct gm_holders *graph, uint32_t from, uint64_t address, uint32_t to,
        uint64_t word, const char *kind, struct gm_native_owner *owner, bool inferred);

static inline bool gm_graph_is_root(const struct gm_vertex *vertex)
{
	return vertex->kind == GM_VERTEX_FRAME || vertex->kind == GM_VERTEX_THREAD ||
	       vertex->kind == GM_VERTEX_NATIVE || (vertex->flags & GM_VERTEX_ROOT_MODULE);
}

/*
 * A way from a root down to a storage: edges in that order, edges[i] leading to where edges[i + 1]
 * starts. Where `rooted` is false nothing was found that refers to the first.
 */
struct gm_chain {
	uint32_t *edges; /* indexes in graph->edges */
	size_t count;
	bool rooted;
	bool garbage; /* not rooted, and all references to what leads here are accounted for */
	bool stays;   /* garbage that gc.collect() does not free */
};

#endif
