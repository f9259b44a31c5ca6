#include "ask/names/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/names/fragments.h"
#include "ask/names/optimizers.h"
#include "ask/names/prefixes.h"
#include "base/cleanup.h"
#include "image/image.h"

void gm_tensor_names_deinit(struct gm_tensor_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i].name);
	free(names->items);
	*names = (struct gm_tensor_names){0};
}

static void push(struct gm_zero_reading *reading, struct gm_zero_objects *objects, uint64_t object)
{
	if (objects->count < GM_ZERO_OBJECTS_MAX && !gm_array_push(objects, object))
		reading->no_memory = true;
}

static bool see_object(void *context, uint64_t object)
{
	struct gm_zero_reading *reading = context;
	if (gm_python_is_instance(reading->python, object, "Module"))
		push(reading, &reading->modules, object);
	else if (gm_python_is_instance(reading->python, object, "Optimizer"))
		push(reading, &reading->optimizers, object);
	return !reading->no_memory;
}

/* "exp_avg of generator.0.weight"; NULL: out of memory, or the name is too long. */
static char *full_name(const struct gm_name_walk *walk, const struct gm_found_name *found)
{
	const char *prefix =
	        found->root == UINT32_MAX ? NULL : walk->roots.items[found->root].prefix;
	char *name = NULL;
	int length = asprintf(&name, "%s%s%s%s%s", found->key ? found->key : "",
	        found->key ? " of " : "", prefix ? prefix : "", prefix ? "." : "", found->path);
	if (length < 0)
		return NULL;
	if (length == 0 || length > GM_LOG_NAME_MAX) {
		free(name);
		return NULL;
	}
	return name;
}

static struct gm_error *take(struct gm_name_walk *walk, struct gm_tensor_names *names)
{
	names->items = calloc(walk->found.count + 1, sizeof(*names->items));
	if (!names->items)
		return &gm_error_no_memory;
	for (size_t i = 0; i < walk->found.count; i++) {
		struct gm_tensor_name *name = &names->items[names->count];
		*name = walk->found.items[i].tensor;
		name->name = full_name(walk, &walk->found.items[i]);
		if (name->name)
			names->count++;
		else
			walk->omitted++;
	}
	names->omitted = walk->omitted;
	return NULL;
}

static struct gm_error *fill(struct gm_context *context, struct gm_tensor_names *names)
{
	struct gm_zero_reading reading = {0};
	size_t count;
	gm_try(gm_context_python(context, &reading.python));
	gm_try(gm_context_torch(context, &reading.torch));
	struct gm_name_walk *walk = calloc(1, sizeof(*walk));
	if (!walk)
		return &gm_error_no_memory;
	walk->reading = &reading;
	struct gm_error *error = gm_python_tracked(reading.python, see_object, &reading, &count);
	if (!error) {
		gm_name_walk_modules(walk);
		gm_name_walk_fragments(walk);
		gm_name_walk_optimizers(walk);
		gm_name_walk_prefixes(walk);
		error = reading.no_memory || walk->no_memory ? &gm_error_no_memory
		                                             : take(walk, names);
	}
	gm_name_walk_deinit(walk);
	free(walk);
	gm_array_deinit(&reading.modules);
	gm_array_deinit(&reading.optimizers);
	return error;
}

struct gm_error *gm_ask_tensor_names(struct gm_context *context, uint64_t word_at,
        void (*stopped)(void *input), void *input, struct gm_tensor_names *ret_names)
{
	struct gm_tensor_names names = {0};
	struct gm_image *image;
	gm_try(gm_context_pause(context, GM_READS_REFERENCES));
	struct gm_error *error = gm_context_image(context, &image);
	if (stopped)
		stopped(input);
	if (!error && word_at)
		error = gm_image_read(image, word_at, &names.sequence, sizeof(names.sequence));
	if (!error)
		error = fill(context, &names);
	gm_context_resume(context, &names.pause);
	if (!error && !gm_pause_is_still(&names.pause))
		error = gm_error_create(GM_TARGET, "the process could not be stopped");
	if (!error && names.pause.lost)
		error = gm_error_create(GM_TARGET, "the process has changed while it was read");
	if (error) {
		gm_tensor_names_deinit(&names);
		return error;
	}
	*ret_names = names;
	return NULL;
}
