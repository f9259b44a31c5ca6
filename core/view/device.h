/*
 * The columns of one device: its memory at every 64 events (levels of detail), what changes it
 * beside blocks, and its blocks.
 */
#ifndef GM_VIEW_DEVICE_H
#define GM_VIEW_DEVICE_H

#include "ask/recording/buckets.h"
#include "model/categories.h"
#include "model/model.h"
#include "view/column.h"
#include "view/tables.h"

/* The events of a bucket of the levels. Coarser levels are the page's to make. */
enum { GM_VIEW_BUCKET = 64 };

/* The columns `PREFIX.level.…` and `PREFIX.reserved.…`. */
void gm_view_levels(
        const struct gm_buckets *buckets, const char *prefix, struct gm_view_columns *columns);
/* The columns `dN.…`, N being the number of the device in the model. */
struct gm_error *gm_view_device_levels(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_view_columns *columns);
struct gm_error *gm_view_device_blocks(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_view_tables *tables,
        struct gm_view_columns *columns, uint64_t *ret_blocks);
/* How many events after its release a block's memory was free: it waits for other streams. Up to
 * the end of the recording where it never was; 0 of a block that was not released. */
uint64_t gm_view_pending(const struct gm_model *model, const struct gm_block *block);
/* Segments: what happened to them; and blocks from before the recording. */
struct gm_error *gm_view_device_segments(
        const struct gm_model *model, size_t device, struct gm_view_columns *columns);
void gm_view_device_before(
        const struct gm_model *model, size_t device, struct gm_view_columns *columns);

#endif
