#include "view/calls.h"

#include "ask/recording/tree.h"
#include "base/array.h"
#include "base/cleanup.h"

typedef GM_ARRAY(uint32_t) index_array;

static bool write_shown(const struct gm_log *log, const struct gm_wrapper_frames *wrapper_frames,
        uint32_t stack, index_array *shown, struct gm_view_columns *columns)
{
	struct gm_frame_place place;
	size_t index;
	struct gm_tree_walk walk = gm_tree_walk_begin(log, wrapper_frames, stack);
	shown->count = 0;
	while (gm_tree_walk_next(&walk, &index, &place))
		if (!gm_array_push(shown, (uint32_t)index))
			return false;
	gm_view_put(columns, shown->count);
	for (size_t i = 0; i < shown->count; i++)
		gm_view_put(columns, shown->items[i]);
	return true;
}

struct gm_error *gm_view_calls(const struct gm_model *model, const uint32_t *stacks, size_t count,
        struct gm_view_columns *columns)
{
	struct gm_wrapper_frames *wrapper_frames;
	index_array shown = {0};
	bool memory = true;
	gm_try(gm_wrapper_frames_create(model, &wrapper_frames));
	gm_view_column_begin(columns, "stacks.told", GM_VIEW_NUMBERS);
	for (size_t i = 0; i < count && memory; i++)
		memory = write_shown(
		        gm_model_log(model), wrapper_frames, stacks[i], &shown, columns);
	gm_view_column_end(columns);
	gm_array_deinit(&shown);
	gm_wrapper_frames_destroy(wrapper_frames);
	return memory ? NULL : &gm_error_no_memory;
}
