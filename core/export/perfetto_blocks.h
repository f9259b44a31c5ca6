/* Blocks in a trace of Chrome's: a slice for each of the largest. Internal to core/export. */
#ifndef GM_EXPORT_PERFETTO_BLOCKS_H
#define GM_EXPORT_PERFETTO_BLOCKS_H

#include <stdio.h>

#include "model/model.h"

enum { GM_PERFETTO_BLOCKS_MAX = 8192 };

struct gm_perfetto_left_out {
	uint64_t blocks, bytes;
};

/* Each object begins with a comma. */
struct gm_error *gm_perfetto_put_blocks(
        struct gm_model *model, FILE *out, struct gm_perfetto_left_out *ret_left_out);

#endif
