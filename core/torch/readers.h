/*
 * What core/holders needs of the torch reader beyond torch.h: classes by vtable, layouts, the
 * graph's nodes. core/record needs the layout alone; not for other rooms.
 */
#ifndef GM_TORCH_READERS_H
#define GM_TORCH_READERS_H

#include "torch/classes.h"
#include "torch/layout.h"
#include "torch/learned.h"

struct gm_python;
struct gm_torch;

/* A torch::autograd::Node. Until 2.12 its std::shared_ptr's control block tells that it lives, and
 * how many own it; from 2.13 on it has counts of its own. */
struct gm_node {
	uint64_t address;
	const struct gm_class *class;
	uint32_t refcount; /* owners */
	uint64_t edges;    /* first of its next_edges */
	uint32_t edge_count;
	uint64_t python_object; /* PyNode: the Python autograd.Function context; else 0 */
	/* with counts of its own: its Python object, 0: none; and who owns a count of whom, as of a
	 * tensor */
	uint64_t python;
	bool python_holds, holds_python;
};

/* One node has as many as its operation has inputs: torch.stack() of all losses has thousands. */
enum { GM_NODE_MAX_EDGES = 1 << 20 };

/* Opens a target with a row that is not proved yet. */
struct gm_error *gm_torch_open_row(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, const struct gm_torch_layout *layout,
        struct gm_torch **ret_torch);
/* Which PyTorch a target has. */
struct gm_error *gm_torch_builds_of(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_torch_builds *ret_builds);

struct gm_classes *gm_torch_classes(struct gm_torch *torch);
const struct gm_torch_layout *gm_torch_layout_of(const struct gm_torch *torch);

/* False where no live node is at `address`. */
bool gm_torch_node(struct gm_torch *torch, uint64_t address, struct gm_node *ret_node);
/* Is it the one undefined tensor (what an empty at::Tensor points to)? */
bool gm_torch_is_undefined(struct gm_torch *torch, uint64_t tensor);
/* The object behind c10::cuda::CUDACachingAllocator::allocator; 0: none. */
uint64_t gm_torch_allocator_object(struct gm_torch *torch);

#endif
