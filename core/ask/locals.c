/* The variables of a Python frame, and which of them are tensors in blocks of the recording. */
#include "ask/locals.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/by_address.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "image/image.h"

enum { TEXT_MAX = 60, NAME_MAX_SHOWN = 1024 };

struct reading {
	struct gm_python *python;
	struct gm_torch *torch; /* NULL: it is not loaded, or not known */
	struct gm_locals *locals;
	bool all, failed;
};

static bool is_definition(const char *name, const char *type)
{
	static const char *const types[] = {"module", "function", "builtin_function_or_method",
	        "type", "method", "_Feature", "ABCMeta", "EnumType", "EnumMeta"};
	size_t length = strlen(name);
	if (length > 4 && strncmp(name, "__", 2) == 0 && strcmp(name + length - 2, "__") == 0)
		return true;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static void read_tensor(struct reading *reading, uint64_t object, struct gm_local *local)
{
	uint64_t address = reading->torch ? gm_torch_unwrap(reading->torch, object) : 0;
	local->is_tensor = address && gm_torch_tensor(reading->torch, address, &local->tensor);
	local->has_storage = local->is_tensor && gm_torch_storage(reading->torch,
	                                                 local->tensor.storage, &local->storage);
}

static void free_local(struct gm_local *local)
{
	free(local->name);
	free(local->type);
	free(local->text);
}

static bool see_variable(void *context, const char *name, uint64_t object)
{
	struct reading *reading = context;
	struct gm_locals *locals = reading->locals;
	const char *type = NULL;
	bool unreadable = object && !gm_python_type_name(reading->python, object, &type);
	if (type && !reading->all && is_definition(name, type)) {
		locals->left_out++;
		return true;
	}
	locals->cut = locals->count == GM_LOCALS_MAX;
	if (locals->cut)
		return false;
	struct gm_local local = {.name = strndup(name, NAME_MAX_SHOWN),
	        .unreadable = unreadable,
	        .block = GM_NO_BLOCK};
	local.type = type ? strndup(type, NAME_MAX_SHOWN) : NULL;
	if (type) {
		local.text = gm_python_short_text(reading->python, object, TEXT_MAX);
		read_tensor(reading, object, &local);
	}
	reading->failed = !local.name || (type && !local.type) || !gm_array_push(locals, local);
	if (reading->failed)
		free_local(&local);
	return !reading->failed;
}

static struct gm_error *read_variables(
        struct gm_context *context, bool all, struct gm_locals *locals)
{
	struct reading reading = {.locals = locals, .all = all};
	gm_try(gm_context_python(context, &reading.python));
	/* the variables of a program that was not recorded are shown anyway */
	struct gm_error *error = gm_context_torch(context, &reading.torch);
	if (error) {
		reading.torch = NULL;
		gm_error_destroy(error);
	}
	gm_python_variables(
	        reading.python, &locals->frames.frames[locals->number], see_variable, &reading);
	return reading.failed ? &gm_error_no_memory : NULL;
}

/* Finds the recording's block of each tensor. */
static struct gm_error *find_blocks(struct gm_context *context, struct gm_locals *locals)
{
	struct gm_model *model;
	struct gm_by_address by_address;
	if (!context->log_path)
		return NULL;
	gm_try(gm_context_any_model(context, &model));
	const struct gm_log *log = gm_model_log(model);
	if (context->pid && gm_log_pid(log) != (uint64_t)context->pid)
		return NULL;
	gm_try(gm_by_address_init(&by_address, model));
	uint32_t end = (uint32_t)gm_log_event_count(log);
	locals->model = model;
	for (size_t i = 0; i < locals->count; i++) {
		struct gm_local *local = &locals->items[i];
		if (!local->has_storage)
			continue;
		local->block = gm_block_at_address(&by_address, local->storage.data, end);
		if (local->block != GM_NO_BLOCK &&
		        gm_model_block(model, local->block)->size < local->storage.size)
			local->block = GM_NO_BLOCK;
	}
	gm_by_address_deinit(&by_address);
	return NULL;
}

struct gm_error *gm_ask_locals(
        struct gm_context *context, uint64_t number, bool all, struct gm_locals *ret_locals)
{
	struct gm_locals locals = {.number = number};
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = gm_ask_frames(context, &locals.frames);
	if (!error)
		error = gm_frames_check(&locals.frames, number);
	if (!error)
		error = read_variables(context, all, &locals);
	gm_context_resume(context, &locals.frames.pause);
	if (!error)
		error = find_blocks(context, &locals);
	if (!error)
		error = gm_context_check_there(context);
	if (error)
		gm_locals_deinit(&locals);
	else
		*ret_locals = locals;
	return error;
}

void gm_locals_deinit(struct gm_locals *locals)
{
	for (size_t i = 0; i < locals->count; i++)
		free_local(&locals->items[i]);
	gm_array_deinit(locals);
	gm_frames_deinit(&locals->frames);
}
