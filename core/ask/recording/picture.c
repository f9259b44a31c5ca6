#include "ask/recording/picture.h"

#include <stdlib.h>
#include <string.h>

#include "ask/blocks.h"
#include "base/cleanup.h"

void gm_picture_deinit(struct gm_picture *picture)
{
	gm_buckets_deinit(&picture->columns);
	free(picture->reserved);
	gm_info_deinit(&picture->info);
}

static void count(struct gm_picture *picture)
{
	for (size_t i = 0; i < gm_model_device_count(picture->model); i++)
		picture->devices += gm_model_device(picture->model, i)->events != 0;
	for (size_t i = 0; i < gm_model_block_count(picture->model); i++) {
		const struct gm_block *block = gm_model_block(picture->model, i);
		picture->blocks += block->device == picture->device && block->alloc != GM_NO_EVENT;
	}
}

/* The reserved bytes at the beginning of a column, and the events in it. */
static struct gm_error *find_reserved(struct gm_picture *picture)
{
	const struct gm_buckets *columns = &picture->columns;
	uint64_t now = 0;
	size_t next = 0;
	picture->reserved = calloc(columns->count + 1, sizeof(*picture->reserved));
	if (!picture->reserved)
		return &gm_error_no_memory;
	for (size_t i = 0; i < columns->count; i++) {
		uint64_t end = (uint64_t)(i + 1) * columns->each;
		uint64_t most = now;
		for (; next < columns->reserved.count && columns->reserved.items[next].event < end;
		        next++) {
			now = columns->reserved.items[next].bytes;
			most = now > most ? now : most;
		}
		picture->reserved[i] = most;
	}
	return NULL;
}

static struct gm_error *find_columns(struct gm_picture *picture, struct gm_model *model)
{
	const struct gm_categories *categories;
	uint32_t peak = gm_model_device(model, picture->device)->peak_event;
	uint64_t each = (picture->events + GM_PICTURE_COLUMNS - 1) / GM_PICTURE_COLUMNS;
	gm_try(gm_model_categories(model, &categories));
	gm_try(gm_buckets_find(
	        model, picture->device, categories, (uint32_t)each, &picture->columns));
	/* the peak is the highest value of its column */
	if (peak != GM_NO_EVENT && peak / each < picture->columns.count)
		memcpy(picture->peak, picture->columns.items[peak / each].sums,
		        sizeof(picture->peak));
	return find_reserved(picture);
}

struct gm_error *gm_ask_picture(struct gm_context *context,
        const struct gm_picture_options *options, struct gm_picture *ret_picture)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_picture picture = {.model = model,
	        .device = gm_model_main_device(model),
	        .events = gm_log_event_count(gm_model_log(model))};
	if (options->has_device)
		gm_try(gm_blocks_find_device(model, options->device, &picture.device));
	gm_try(gm_ask_info(context, &picture.info));
	count(&picture);
	struct gm_error *error = NULL;
	if (picture.device != SIZE_MAX && picture.events)
		error = find_columns(&picture, model);
	if (error) {
		gm_picture_deinit(&picture);
		return error;
	}
	*ret_picture = picture;
	return NULL;
}
