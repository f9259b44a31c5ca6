/* The columns of the levels of detail: buckets of 64 events. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "view/device.h"

static void begin(struct gm_view_columns *columns, const char *prefix, const char *name,
        enum gm_view_form form)
{
	char text[128];
	snprintf(text, sizeof(text), "%s.%s", prefix, name);
	gm_view_column_begin(columns, text, form);
}

static void write_changes(struct gm_view_columns *columns, const char *prefix, const char *name,
        const struct gm_bucket_change *changes, size_t count)
{
	char text[64];
	snprintf(text, sizeof(text), "%s.event", name);
	begin(columns, prefix, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, changes[i].event);
	gm_view_column_end(columns);
	snprintf(text, sizeof(text), "%s.bytes", name);
	begin(columns, prefix, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, changes[i].bytes);
	gm_view_column_end(columns);
}

static void write_sum(struct gm_view_columns *columns, const char *prefix,
        const struct gm_buckets *buckets, size_t sum, const char *name)
{
	bool any = false;
	char text[64];
	for (size_t i = 0; i < buckets->count && !any; i++)
		any = buckets->items[i].sums[sum] != 0;
	if (!any)
		return;
	snprintf(text, sizeof(text), "level.%s", name);
	begin(columns, prefix, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < buckets->count; i++)
		gm_view_put(columns, buckets->items[i].sums[sum]);
	gm_view_column_end(columns);
}

void gm_view_levels(
        const struct gm_buckets *buckets, const char *prefix, struct gm_view_columns *columns)
{
	begin(columns, prefix, "level.at", GM_VIEW_NUMBERS);
	for (size_t i = 0; i < buckets->count; i++)
		gm_view_put(columns, buckets->items[i].at);
	gm_view_column_end(columns);
	for (size_t i = 0; i < GM_CATEGORY_COUNT; i++)
		write_sum(columns, prefix, buckets, i, gm_category_name((enum gm_category)i));
	write_sum(columns, prefix, buckets, GM_BUCKET_REST, "rest");
	write_changes(
	        columns, prefix, "reserved", buckets->reserved.items, buckets->reserved.count);
}

struct gm_error *gm_view_device_levels(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_view_columns *columns)
{
	_cleanup_(gm_buckets_deinit) struct gm_buckets buckets = {0};
	char prefix[32];
	snprintf(prefix, sizeof(prefix), "d%zu", device);
	gm_try(gm_buckets_find(model, device, categories, GM_VIEW_BUCKET, &buckets));
	gm_view_levels(&buckets, prefix, columns);
	write_changes(columns, prefix, "rest", buckets.rest.items, buckets.rest.count);
	write_changes(columns, prefix, "oom", buckets.oom.items, buckets.oom.count);
	return NULL;
}
