/* info: what a recording holds, and how complete it is. */
#ifndef GM_ASK_INFO_H
#define GM_ASK_INFO_H

#include "ask/context.h"
#include "model/model.h"

enum gm_gap_kind {
	GM_GAP_RECORDED, /* text: what the recorder says of it */
	GM_GAP_TRACE, /* it is PyTorch's own trace: no times, and sizes from the requested ones */
	GM_GAP_TRUNCATED, /* the file ends inside a chunk, at byte `counted` */
	GM_GAP_FREES, /* `counted` blocks of a device, `bytes` in all, were freed whose allocation
	                 is not in the recording */
	GM_GAP_ALLOCATED, /* of a device: what the allocator itself counts; bytes: what the events
	                     add up to */
	GM_GAP_RESERVED,  /* the same of reserved bytes */
};

struct gm_gap {
	enum gm_gap_kind kind;
	const char *text; /* the log's; NULL: of another kind */
	uint64_t counted, bytes;
	const struct gm_model_device *device; /* the model's; NULL: of none */
};

struct gm_info {
	const struct gm_model *model; /* the context's */
	bool complete; /* closed, and no gaps are known: until then events may be missing */
	size_t gap_count;
	struct gm_gap *gaps; /* owned: the recorder's own and what was found here */
	bool closed;
	/* For the simulated device: all launches, those that computed nothing, bytes read that rest
	 * on such. */
	uint64_t kernels_launched, kernels_not_computed, library_calls_not_computed,
	        bytes_read_back;
};

struct gm_error *gm_ask_info(struct gm_context *context, struct gm_info *ret_info);
void gm_info_deinit(struct gm_info *info);

#endif
