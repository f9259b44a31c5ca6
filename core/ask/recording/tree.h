/*
 * The call tree of the blocks of an answer: who called whom down to where each block was allocated,
 * with the bytes below each call. Frames of the program's own and of packages that work with
 * modules are told; of PyTorch's the innermost alone, at the end; what only passes calls on is left
 * out (model/wrapper_frames.h).
 */
#ifndef GM_ASK_TREE_H
#define GM_ASK_TREE_H

#include "ask/recording/driven.h"

enum gm_tree_kind {
	GM_TREE_ROOT,  /* all that was asked about: its children are the outermost calls */
	GM_TREE_FRAME, /* a call: `place` */
	GM_TREE_WORK,  /* below a call: the autograd node and PyTorch's operator, in `place` and its
	                  strings */
	GM_TREE_UNKNOWN, /* no stack was recorded */
	GM_TREE_BEFORE,  /* bytes that were allocated before the recording began, in no block */
};

#define GM_TREE_NONE UINT32_MAX

/* The frames of a Python stack that the tree tells, outermost first. */
struct gm_tree_walk {
	const struct gm_log *log;
	const struct gm_wrapper_frames *wrapper_frames;
	uint32_t stack;
	size_t left;        /* frames that are not gone through */
	size_t site, inner; /* the frame that the stack is named by; PyTorch's innermost */
	size_t forward;     /* of the module whose call was passed last */
};
struct gm_tree_walk gm_tree_walk_begin(
        const struct gm_log *log, const struct gm_wrapper_frames *wrapper_frames, uint32_t stack);
/* False: there are no more. `*ret_index`: innermost is 0. */
bool gm_tree_walk_next(
        struct gm_tree_walk *walk, size_t *ret_index, struct gm_frame_place *ret_place);
/* Whether the tree tells the node and the operator below the frames: where there are none, or where
 * they are of the thread that waits in backward(). */
bool gm_tree_shows_work(uint32_t python_stack, unsigned flags);

struct gm_tree_node {
	enum gm_tree_kind kind;
	struct gm_shown_site site; /* FRAME: its place; WORK: node and operator_name */
	uint64_t bytes, blocks;    /* with those of its children; bytes of a node that its children
	                              lack are its own */
	uint32_t first,
	        next; /* its first child, its next sibling: indices, biggest first; GM_TREE_NONE */
};

struct gm_tree {
	struct gm_tree_node *nodes; /* the first is the root; owned */
	size_t count;
};

/* Of the model's blocks of these indices; `unattributed`: bytes that are in no block. */
struct gm_error *gm_ask_tree(const struct gm_model *model, const uint32_t *blocks, size_t count,
        uint64_t unattributed, struct gm_tree *ret_tree);
void gm_tree_deinit(struct gm_tree *tree);

#endif
