/* Which process reads which recording: each file once. */
#ifndef GM_RANKS_FILES_H
#define GM_RANKS_FILES_H

#include "base/array.h"
#include "ranks/world.h"

/* What a summary that is kept beside a recording ends with. */
#define GM_KEPT_SUFFIX ".summary"

struct gm_rank_paths {
	GM_ARRAY(char *) items; /* owned */
};
void gm_rank_paths_deinit(struct gm_rank_paths *paths);

/*
 * Of the files that the patterns mean those that this process reads, so that all have as many bytes
 * to read. local: each machine has its own files, and its processes share them; otherwise process 0
 * looks for the files, and all see them.
 */
struct gm_error *gm_rank_files(struct gm_world *world, const char *const *patterns, size_t count,
        bool local, struct gm_rank_paths *ret_paths);

#endif
