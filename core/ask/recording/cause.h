/*
 * Cause: by what a block was released, told from the event of its free alone: the instruction under
 * way, what was being torn down, and the native frames between the interpreter and the allocator.
 * What lies innermost wins: a graph that releases a tensor it saved is the cause, though a STORE
 * set it going. Where the evidence does not settle it the kind is unknown.
 */
#ifndef GM_ASK_CAUSE_H
#define GM_ASK_CAUSE_H

#include "ask/recording/place.h"
#include "model/model.h"

enum gm_cause_kind {
	GM_CAUSE_UNKNOWN = 0,
	GM_CAUSE_REBOUND,
	GM_CAUSE_DELETED,
	GM_CAUSE_FUNCTION_RETURN,
	GM_CAUSE_CONTAINER_CHANGE,
	GM_CAUSE_ATTRIBUTE_CHANGE,
	GM_CAUSE_AUTOGRAD_RELEASE,
	GM_CAUSE_OPTIMIZER,
	GM_CAUSE_GC_CYCLE,
	GM_CAUSE_EXCEPTION_CLEARED,
	GM_CAUSE_GENERATOR_END,
	GM_CAUSE_TEMPORARY,
	GM_CAUSE_NATIVE,
	GM_CAUSE_INTERPRETER_EXIT,
	GM_CAUSE_STORAGE_CHANGE, /* the tensor lives on with other memory: set_(), resize_() */
	GM_CAUSE_RESULT_DROPPED, /* it went with what a function returned, which nothing took */
	GM_CAUSE_AUTOCAST_CACHE, /* autocast was left, and cleared its cache of cast weights */
	GM_CAUSE_COUNT,
};
const char *gm_cause_name(enum gm_cause_kind kind);

/* What the native frames of a free show, from the allocator outwards to the first Python frame. */
struct gm_teardown {
	bool named;  /* some of the frames had names */
	bool node;   /* a node of the autograd graph was releasing what it saved */
	bool engine; /* within a backward pass */
	bool leaf; /* innermost of nodes the one that gathers a leaf's gradient, which saves nothing
	            */
	bool generator;        /* a generator or coroutine had ended */
	bool storage;          /* a tensor was given other memory */
	bool in_place;         /* an operator changed an object in place: `|=` */
	bool wrapper;          /* a Python tensor was being deallocated */
	bool collector;        /* within the cyclic garbage collector */
	bool autocast;         /* autocast's cache of cast weights was being cleared */
	bool finalizing;       /* the interpreter was shutting down */
	const char *node_name; /* "AddmmBackward0", NULL; points into the log's string */
	int node_name_length;
};

struct gm_cause {
	enum gm_cause_kind kind;
	const char *name; /* of the variable, attribute or local; NULL: none or not known */
	struct gm_frame_place place; /* the statement; code 0: none */
	struct gm_frame_place dying; /* the function that returned or ended: function_return,
	                                generator_end, result_dropped; code 0: none */
	uint32_t step;
	bool in_backward; /* it was freed while a backward pass ran */
	struct gm_teardown teardown;
};

void gm_teardown_read(
        const struct gm_log *log, uint32_t native_stack, struct gm_teardown *ret_teardown);
/* The cause of a block's free; the block has been freed. */
void gm_cause_find(
        const struct gm_model *model, const struct gm_block *block, struct gm_cause *ret_cause);

#endif
