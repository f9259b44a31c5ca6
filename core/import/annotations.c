#include "import/annotations.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "import/values.h"
#include "log/log.h"

enum { DEPTH_MAX = 256 }; /* ranges that are open at the same time */

static int compare(const void *a, const void *b)
{
	const struct gm_annotation *left = a, *right = b;
	if (left->time_us != right->time_us)
		return left->time_us < right->time_us ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

struct gm_error *gm_annotations_read(
        struct gm_annotations *annotations, const struct gm_pickle *pickle, gm_value list)
{
	struct gm_pickle_place place = gm_pickle_first(pickle, list);
	gm_value one;
	while (gm_pickle_next(pickle, &place, &one)) {
		gm_value stage = gm_pickle_get(pickle, one, GM_KEY_STAGE);
		gm_value name = gm_pickle_get(pickle, one, GM_KEY_NAME);
		struct gm_annotation annotation = {
		        .name = (uint32_t)(name >> 3),
		        .order = (uint32_t)annotations->items.count,
		        .ends = gm_pickle_text_is(pickle, stage, "END"),
		};
		if ((!annotation.ends && !gm_pickle_text_is(pickle, stage, "START")) ||
		        gm_value_tag(name) != GM_TAG_STRING ||
		        !gm_pickle_number(pickle, gm_pickle_get(pickle, one, GM_KEY_TIME_US),
		                &annotation.time_us) ||
		        annotations->items.count == UINT32_MAX)
			continue;
		if (!gm_array_push(&annotations->items, annotation))
			return &gm_error_no_memory;
	}
	if (annotations->items.count)
		qsort(annotations->items.items, annotations->items.count,
		        sizeof(*annotations->items.items), compare);
	return NULL;
}

void gm_annotations_deinit(struct gm_annotations *annotations)
{
	gm_array_deinit(&annotations->items);
	gm_array_deinit(&annotations->open);
}

/* If a range ends before those within it, it belongs to another thread, and those end with it here.
 * The end of a range that is not open belongs to one that began before the recorder. */
static void end_range(struct gm_annotations *annotations, struct gm_log_writer *log, uint64_t event,
        uint32_t name)
{
	size_t open = annotations->open.count;
	while (open > 0 && annotations->open.items[open - 1] != name)
		open--;
	for (; open > 0 && annotations->open.count >= open; annotations->open.count--) {
		const struct gm_log_mark mark = {.event = event, .kind = GM_MARK_POP};
		gm_log_writer_mark(log, &mark);
	}
}

struct gm_error *gm_annotations_say(struct gm_annotations *annotations, struct gm_log_writer *log,
        uint64_t event, uint64_t time_us, uint32_t metadata)
{
	for (; annotations->next < annotations->items.count; annotations->next++) {
		const struct gm_annotation *one = &annotations->items.items[annotations->next];
		/* an event of the same microsecond is within the range */
		if (one->time_us > time_us || (one->ends && one->time_us == time_us))
			break;
		if (one->ends) {
			end_range(annotations, log, event, one->name);
			continue;
		}
		if (annotations->open.count == DEPTH_MAX)
			continue;
		if (!gm_array_push(&annotations->open, one->name))
			return &gm_error_no_memory;
		const struct gm_log_mark mark = {
		        .event = event, .kind = GM_MARK_PUSH, .name = one->name};
		gm_log_writer_mark(log, &mark);
	}
	if (metadata != annotations->metadata) {
		const struct gm_log_mark mark = {
		        .event = event, .kind = GM_MARK_METADATA, .name = metadata};
		gm_log_writer_mark(log, &mark);
		annotations->metadata = metadata;
	}
	return NULL;
}

uint32_t gm_annotations_metadata(const struct gm_pickle *pickle, uint32_t entry)
{
	size_t low = gm_partition_point(
	        pickle->metadata.count, middle, pickle->metadata.items[middle].entry <= entry);
	return low ? pickle->metadata.items[low - 1].text : 0;
}
