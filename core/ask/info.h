/* info: what a recording holds, and how complete it is. */
#ifndef GM_ASK_INFO_H
#define GM_ASK_INFO_H

#include "ask/context.h"
#include "model/model.h"

struct gm_info {
	const struct gm_model *model; /* the context's */
	bool complete;
	size_t gap_count;
	char **gaps; /* owned: the recorder's own and what the model found */
	bool closed;
	/* Of the simulated device: all launches, those that computed nothing, bytes read that rest
	 * on such. */
	uint64_t kernels_launched, kernels_not_computed, library_calls_not_computed,
	        bytes_read_back;
};

struct gm_error *gm_ask_info(struct gm_context *context, struct gm_info *ret_info);
void gm_info_deinit(struct gm_info *info);

#endif
