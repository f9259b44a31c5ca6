#include "import/stacks.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/packages.h"
#include "base/text.h"
#include "import/values.h"
#include "log/format.h"

struct gm_error *gm_import_stacks_init(
        struct gm_import_stacks *stacks, const struct gm_pickle *pickle)
{
	*stacks = (struct gm_import_stacks){.pickle = pickle};
	size_t count = pickle->raw_stacks.count;
	stacks->raw = calloc(count ? count : 1, sizeof(*stacks->raw));
	stacks->file_kinds = gm_file_kinds(pickle);
	for (uint32_t id = 0; id <= pickle->strings.count; id++) {
		size_t length;
		const char *text = gm_pickle_string(pickle, id, &length);
		gm_packages_see(text, length);
	}
	return stacks->raw && stacks->file_kinds ? NULL : &gm_error_no_memory;
}

void gm_import_stacks_deinit(struct gm_import_stacks *stacks)
{
	gm_array_deinit(&stacks->codes);
	gm_array_deinit(&stacks->frames);
	gm_array_deinit(&stacks->stacks);
	gm_array_deinit(&stacks->members);
	gm_array_deinit(&stacks->native);
	free(stacks->raw);
	free(stacks->file_kinds);
	gm_intern_deinit(&stacks->code_ids);
	gm_intern_deinit(&stacks->frame_ids);
}

static struct gm_import_code describe(
        const struct gm_pickle *pickle, uint32_t file_id, uint32_t name_id)
{
	size_t file_length, name_length;
	const char *file = gm_pickle_string(pickle, file_id, &file_length);
	const char *name = gm_pickle_string(pickle, name_id, &name_length);
	struct gm_import_code code = {.file = file_id, .name = name_id};
	code.library =
	        gm_packages_torch(file, file_length) ||
	        (gm_packages_library(file, file_length) && !gm_packages_other(file, file_length));
	bool engine = gm_bytes_end_with(file, file_length, "torch/autograd/graph.py") &&
	              gm_bytes_end_with(name, name_length, "_engine_run_backward");
	bool caller = gm_bytes_end_with(file, file_length, "torch/_tensor.py") ||
	              gm_bytes_end_with(file, file_length, "torch/autograd/__init__.py");
	bool named = (name_length == 8 && memcmp(name, "backward", 8) == 0) ||
	             (name_length == 4 && memcmp(name, "grad", 4) == 0);
	code.backward = engine || (caller && named);
	return code;
}

/* A frame's number; UINT32_MAX: out of memory. */
static uint32_t frame_number(struct gm_import_stacks *stacks, const struct gm_frame_record *record)
{
	enum gm_file_kind kind = (enum gm_file_kind)stacks->file_kinds[record->file];
	bool native = kind != GM_FILE_PYTHON;
	uint32_t line = native || record->line <= INT32_MAX ? record->line : 0;
	size_t length;
	const char *name = gm_pickle_string(stacks->pickle, record->name, &length);
	/* no Python function has this name; an offset in a library without symbols has */
	native |= length == 2 && memcmp(name, "??", 2) == 0;
	const uint32_t code_key[] = {record->file, record->name};
	uint32_t code = gm_intern_add(&stacks->code_ids, code_key, sizeof(code_key));
	if (!code)
		return UINT32_MAX;
	if (code > stacks->codes.count &&
	        !gm_array_push(
	                &stacks->codes, describe(stacks->pickle, record->file, record->name)))
		return UINT32_MAX;
	const uint32_t frame_key[] = {code, line};
	uint32_t frame = gm_intern_add(&stacks->frame_ids, frame_key, sizeof(frame_key));
	if (!frame)
		return UINT32_MAX;
	const struct gm_import_frame fresh = {code - 1, line, native, kind == GM_FILE_OBJECT};
	if (frame > stacks->frames.count && !gm_array_push(&stacks->frames, fresh))
		return UINT32_MAX;
	return frame - 1;
}

/* The next frame of the current stack; false: out of memory. */
static bool add_frame(
        struct gm_import_stacks *stacks, struct gm_import_stack *stack, uint32_t index)
{
	struct gm_frame_record *record = &stacks->pickle->frames.items[index];
	if (!record->result) {
		uint32_t number = frame_number(stacks, record);
		if (number == UINT32_MAX)
			return false;
		record->result = number + 1;
	}
	const struct gm_import_frame *frame = &stacks->frames.items[record->result - 1];
	if (frame->native)
		return stacks->native.count == GM_LOG_STACK_MAX ||
		       gm_array_push(&stacks->native, record->result - 1);
	if (stack->python == GM_LOG_STACK_MAX)
		return true;
	if (stack->backward == UINT32_MAX && stacks->codes.items[frame->code].backward)
		stack->backward = stack->python;
	stack->python++;
	return gm_array_push(&stacks->members, record->result - 1);
}

/* The stack for a list of frames, or for a raw stack. */
static struct gm_error *add_stack(
        struct gm_import_stacks *stacks, gm_value frames, uint32_t *ret_result)
{
	const struct gm_pickle *pickle = stacks->pickle;
	if (stacks->members.count > UINT32_MAX - 2 * GM_LOG_STACK_MAX)
		return &gm_error_no_memory;
	struct gm_import_stack stack = {
	        .first = (uint32_t)stacks->members.count, .backward = UINT32_MAX};
	stacks->native.count = 0;
	if (gm_value_tag(frames) == GM_TAG_STACK) {
		const struct gm_raw_stack *raw = &pickle->raw_stacks.items[gm_value_stack(frames)];
		for (uint32_t i = 0; i < raw->count; i++)
			if (!add_frame(stacks, &stack, pickle->stack_frames.items[raw->first + i]))
				return &gm_error_no_memory;
	} else {
		struct gm_pickle_place place = gm_pickle_first(pickle, frames);
		gm_value value;
		while (gm_pickle_next(pickle, &place, &value)) {
			const struct gm_object *object = gm_pickle_object(pickle, value);
			if (object && object->kind == GM_FRAME &&
			        !add_frame(stacks, &stack, object->first))
				return &gm_error_no_memory;
		}
	}
	for (size_t i = 0; i < stacks->native.count; i++)
		if (!gm_array_push(&stacks->members, stacks->native.items[i]))
			return &gm_error_no_memory;
	stack.native = (uint32_t)stacks->native.count;
	if (!gm_array_push(&stacks->stacks, stack))
		return &gm_error_no_memory;
	*ret_result = (uint32_t)stacks->stacks.count;
	return NULL;
}

struct gm_error *gm_import_stack(
        struct gm_import_stacks *stacks, gm_value frames, uint32_t *ret_stack)
{
	*ret_stack = GM_NO_STACK;
	uint32_t *result;
	if (gm_value_tag(frames) == GM_TAG_STACK) {
		result = &stacks->raw[gm_value_stack(frames)];
	} else {
		struct gm_object *list = gm_pickle_object(stacks->pickle, frames);
		if (!list || list->kind != GM_LIST)
			return NULL;
		result = &list->result;
	}
	if (!*result)
		gm_try(add_stack(stacks, frames, result));
	*ret_stack = *result - 1;
	return NULL;
}
