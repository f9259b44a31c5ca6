/*
 * The stacks of a snapshot, each list of frames read once: which frames are Python's, which of C++,
 * and which of the same function. Numbers are dense and count from 0, so that what is found out
 * about a frame, a function or a stack is an array next to it.
 */
#ifndef GM_IMPORT_STACKS_H
#define GM_IMPORT_STACKS_H

#include "import/native.h"

/* A function, as far as a snapshot tells one from another: a name in a file. */
struct gm_import_code {
	uint32_t file, name; /* string ids of the pickle */
	bool library;  /* PyTorch's own, Python's own: no training loop is searched for in it */
	bool backward; /* where PyTorch's backward() waits for the autograd thread */
};

struct gm_import_frame {
	uint32_t code, line;
	bool native;
	bool in_object; /* native: the file is a library or program, the line an offset in it */
};

struct gm_import_stack {
	uint32_t first, python,
	        native; /* in `members`: the Python frames, then the native ones, innermost first */
	uint32_t backward; /* index of the innermost frame that waits in backward(); UINT32_MAX:
	                      none */
};

struct gm_import_stacks {
	const struct gm_pickle *pickle;
	GM_ARRAY(struct gm_import_code) codes;
	GM_ARRAY(struct gm_import_frame) frames;
	GM_ARRAY(struct gm_import_stack) stacks;
	GM_ARRAY(uint32_t) members;
	struct gm_intern code_ids, frame_ids;
	GM_ARRAY(uint32_t) native; /* room for one stack */
	uint8_t *file_kinds;       /* enum gm_file_kind by string id */
	uint32_t *raw;             /* stack + 1 of each raw stack; 0: not read yet */
};

enum { GM_NO_STACK = UINT32_MAX };

struct gm_error *gm_import_stacks_init(
        struct gm_import_stacks *stacks, const struct gm_pickle *pickle);
void gm_import_stacks_deinit(struct gm_import_stacks *stacks);

/* The stack that a list of frames is; GM_NO_STACK where it is no list. */
struct gm_error *gm_import_stack(
        struct gm_import_stacks *stacks, gm_value frames, uint32_t *ret_stack);

/*
 * Loops, from the lines that control stood on: where a function, called from the same place as
 * before, stands further up than it did, control has gone round. Snapshots have no bytecode, so
 * this is all that they tell of a loop. Fed with the stacks of one device in the order of its
 * events.
 */
struct gm_import_loop {
	uint32_t code, first_line, last_line;
	uint32_t rounds;
	uint64_t first, last; /* when control went round, among all times that it did */
	bool again;           /* and it came down to last_line once more after that */
};

struct gm_import_loops {
	const struct gm_import_stacks *stacks;
	GM_ARRAY(struct gm_import_loop) items;  /* after gm_import_loops_finish() by code */
	GM_ARRAY(struct gm_import_loop) leaves; /* a `with` at first_line was left from last_line */
	uint32_t last;                          /* stack; GM_NO_STACK: none */
	uint64_t turns;                         /* how often control went round or left a `with` */
};

void gm_import_loops_init(struct gm_import_loops *loops, const struct gm_import_stacks *stacks);
void gm_import_loops_deinit(struct gm_import_loops *loops);
/* False: no memory. */
bool gm_import_loops_feed(struct gm_import_loops *loops, uint32_t stack);
/* Is this frame, called from another, the end of that one's `with`? */
bool gm_import_leaves_with(const struct gm_import_stacks *stacks, uint32_t frame);
/* The last line from which a `with` of this line was seen to be left; the line itself where that
 * was not seen. */
uint32_t gm_import_loops_left_from(
        const struct gm_import_loops *loops, uint32_t code, uint32_t line);
/* Puts together what overlaps, and drops what may be an expression of a few lines. */
void gm_import_loops_finish(struct gm_import_loops *loops);

#endif
