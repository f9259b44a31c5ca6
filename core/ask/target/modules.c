#include "ask/target/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "model/wrapper_frames.h"

enum { DEPTH_MAX = 64 };

/* "Net" of "make.<locals>.Net.forward". Before Python 3.11, and in snapshots, a function's name
 * does not contain its class, and neither does that of a function that the program substituted for
 * a forward(): then its file is used. */
static void name_module(const struct gm_frame_place *place, char *name, size_t size)
{
	const char *dot = strrchr(place->function, '.'), *from = place->function;
	for (const char *at = from; dot && at < dot; at++)
		from = *at == '.' ? at + 1 : from;
	if (dot && *from != '<')
		snprintf(name, size, "%.*s", (int)(dot - from), from);
	else
		snprintf(name, size, "%s:%u", gm_place_base_name(place->file), place->line);
}

char *gm_modules_of_stack(const struct gm_log *log, uint32_t python_stack)
{
	size_t count, depth = 0, size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	gm_log_python_stack(log, python_stack, &count);
	for (size_t i = count; i-- > 0 && depth < DEPTH_MAX;) {
		char name[128];
		struct gm_frame_place place;
		if (!gm_place_frame(log, python_stack, i, &place) ||
		        !gm_frame_calls_module(place.file, place.function))
			continue;
		size_t forward = gm_module_forward(log, python_stack, i);
		if (forward == SIZE_MAX || !gm_place_frame(log, python_stack, forward, &place))
			continue;
		name_module(&place, name, sizeof(name));
		fprintf(out, "%s%s", depth++ ? " > " : "", name);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* "0.weight" has module "0"; "weight" of the root module has "". */
static char *module_of_parameter(const char *name, size_t length)
{
	const char *dot = memrchr(name, '.', length);
	return dot ? strndup(name, (size_t)(dot - name)) : strdup("");
}

/* The state of an optimizer has the name of its parameter; a gradient has its step, however its
 * parameter is held. */
static char *path_of_state(const struct gm_holder *holder)
{
	const struct gm_holder_step *first = gm_holder_first(holder);
	for (size_t i = 0; i < holder->step_count; i++) {
		const struct gm_holder_step *step = &holder->steps[i];
		if (step->form == GM_STEP_GRAD && step->name)
			return module_of_parameter(step->name, strlen(step->name));
	}
	if (!first || first->form != GM_STEP_OPTIMIZER_STATE || !first->of)
		return NULL;
	return module_of_parameter(first->of, strlen(first->of));
}

struct gm_error *gm_module_of_address(struct gm_holders *holders, uint64_t address, char **ret_path)
{
	struct gm_holders_answer answer;
	char *path = NULL;
	gm_try(gm_holders_find(holders, address, &answer));
	if (answer.part)
		path = module_of_parameter(answer.part, strlen(answer.part));
	for (size_t i = 0; i < answer.holder_count && !path; i++)
		path = path_of_state(&answer.holders[i]);
	gm_holders_answer_deinit(&answer);
	*ret_path = path;
	return NULL;
}
