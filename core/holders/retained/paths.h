/*
 * The nearest way from the root to each vertex, in a user's words: a list of steps (a variable, an
 * attribute, a module's child), without internal edges, and with repetitions shown
 * once. Ways that read the same are the same: all items of a list are one. Internal to
 * core/holders.
 */
#ifndef GM_HOLDERS_PATHS_H
#define GM_HOLDERS_PATHS_H

#include "holders/retained/reach.h"

enum { GM_PATH_MAX = 64 /* steps of a way; what lies deeper is shown as the last one */ };

/* Parts of the answer's tree beyond those of edges. */
enum {
	GM_PART_PARAMETERS = 32, /* of a module: a group */
	GM_PART_BUFFERS,
	GM_PART_GRADS,
	GM_PART_SAVED_GROUP,
	GM_PART_SHARED, /* name: a set of sharers */
	GM_PART_UNKNOWN,
};

struct gm_step {
	uint8_t part;
	uint32_t name; /* in reach->strings; of variables and kept locals a label; of GM_PART_STATE
	                  a vertex + 1 */
};

/* A way: the last step, and the way before it. Way 0 is the empty one. */
struct gm_path {
	uint32_t before;
	uint32_t depth;
	struct gm_step step;
};

struct gm_paths {
	const struct gm_reach *reach;
	GM_ARRAY(struct gm_path) paths;
	struct gm_map by_step;
	uint32_t *of;        /* by vertex */
	bool *through_graph; /* by vertex: its nearest way leads through a graph of autograd,
	                        however deep that lies */
};

/* False: no memory. */
bool gm_paths_init(struct gm_paths *paths, struct gm_reach *reach);
void gm_paths_deinit(struct gm_paths *paths);

/* Does the way from one vertex to another that its nearest way leads to lead through a graph of
 * autograd? */
bool gm_paths_through_graph(const struct gm_paths *paths, uint32_t from, uint32_t to);

/* The steps from one vertex to another that its nearest way leads to, at most GM_PATH_MAX; as they
 * are. */
size_t gm_paths_between(const struct gm_paths *paths, uint32_t from, uint32_t to,
        struct gm_step ret_steps[GM_PATH_MAX]);
/* The same in the order in which the answer groups them: a module's parameters, then which; an
 * optimizer's state by its name, then of which parameter. At most 2 * GM_PATH_MAX. */
size_t gm_paths_grouped(const struct gm_paths *paths, uint32_t from, uint32_t to,
        struct gm_step ret_steps[2 * GM_PATH_MAX]);

#endif
