/*
 * metrics: what a recorded process has allocated now, as sums for a monitoring system: of each
 * device by category, of other libraries' memory by library, of NCCL's calls by communicator. They
 * are read from the recording; the process is not touched.
 */
#ifndef GM_ASK_METRICS_H
#define GM_ASK_METRICS_H

#include "ask/context.h"
#include "model/categories.h"
#include "model/model.h"

struct gm_metrics_device {
	size_t device;                           /* of the model */
	bool beside;                             /* memory that PyTorch knows nothing of */
	uint64_t by_category[GM_CATEGORY_COUNT]; /* bytes; their sum is `allocated` */
	uint64_t allocated, reserved;            /* the allocator's own figures, where recorded */
	uint64_t peak_allocated, peak_reserved;
};

/* Memory of a device that another library got. */
struct gm_metrics_library {
	size_t device;
	const char *name; /* the log's; "": not known */
	uint64_t bytes;
};

/* Calls of one kind by one communicator, since the recording began. */
struct gm_metrics_collective {
	uint32_t group, ranks, kind; /* as in struct gm_log_collective */
	uint64_t calls, send_bytes, receive_bytes;
};

struct gm_metrics {
	const struct gm_model *model;
	struct gm_metrics_device *devices; /* accelerators, and what is beside them */
	size_t device_count;
	struct gm_metrics_library *libraries;
	size_t library_count;
	struct gm_metrics_collective *collectives;
	size_t collective_count;
	uint64_t gaps; /* those of `info`, but not that the process still runs */
};

/* The log is examined again. */
struct gm_error *gm_ask_metrics(struct gm_context *context, struct gm_metrics *ret_metrics);
void gm_metrics_deinit(struct gm_metrics *metrics);

#endif
