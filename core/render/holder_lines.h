/*
 * Which holders `who-holds` shows as text. While PyTorch runs, its frames are further roots of
 * everything that they work with: a module's parameter is held by way of `self` of each function
 * that is being called on it. Where the program's own variables lead to an object, the paths from
 * PyTorch's and Python's frames to the same object are counted and not listed. JSON has them all.
 */
#ifndef GM_RENDER_HOLDER_LINES_H
#define GM_RENDER_HOLDER_LINES_H

#include "holders/holders.h"

struct gm_holder_line {
	bool hidden;
	size_t further; /* hidden paths to the same object, told below this line, the last one that
	                 * leads there; 0: none */
};

/* One for each holder of the answer; to be freed. NULL: no memory. `all`: none is hidden. */
struct gm_holder_line *gm_holder_lines(const struct gm_holders_answer *answer, bool all);
/* The object that the path leads to and that refers to the tensor: "parameter 'weight' of Linear".
 * Caller frees. NULL: no memory. */
char *gm_holder_object_text(const struct gm_holder *holder);

#endif
