/*
 * What a picture of a recording shows: one device's memory by category over the events, in at most
 * GM_PICTURE_COLUMNS columns of equally many events, and what is known to be missing. Steps and
 * phases are the model's.
 */
#ifndef GM_ASK_RECORDING_PICTURE_H
#define GM_ASK_RECORDING_PICTURE_H

#include "ask/context.h"
#include "ask/info.h"
#include "ask/recording/buckets.h"

enum { GM_PICTURE_COLUMNS = 1500 };

struct gm_picture_options {
	bool has_device; /* else the main one */
	uint64_t device; /* the CUDA device's index */
};

struct gm_picture {
	const struct gm_model *model; /* the context's */
	size_t device;                /* of the model; SIZE_MAX: nothing was recorded of any */
	uint64_t events;              /* of the recording */
	uint64_t blocks;              /* of the device, whose allocations are in the recording */
	size_t devices;               /* with events */
	struct gm_buckets columns;
	uint64_t *reserved;            /* the greatest in each column */
	uint64_t peak[GM_BUCKET_SUMS]; /* what the device's peak is made of */
	struct gm_info info;
};

struct gm_error *gm_ask_picture(struct gm_context *context,
        const struct gm_picture_options *options, struct gm_picture *ret_picture);
void gm_picture_deinit(struct gm_picture *picture);

#endif
