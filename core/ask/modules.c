#include "ask/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/place.h"
#include "base/cleanup.h"

enum { DEPTH_MAX = 64 };

static const char root_module[] = "(the root module)";

/* Is the frame a module's forward(), called by Module._call_impl? Before Python 3.11, and in snapshots, a function has no
 * class in its name: its file stands for it. */
static bool is_forward(
        const struct gm_log *log, uint32_t stack, size_t index, char *name, size_t size)
{
	struct gm_frame_place place, caller;
	if (!gm_place_frame(log, stack, index, &place) ||
	        !gm_place_frame(log, stack, index + 1, &caller))
		return false;
	const char *dot = strrchr(place.function, '.');
	const char *called = strrchr(caller.function, '.');
	if (strcmp(dot ? dot + 1 : place.function, "forward") != 0 ||
	        strcmp(called ? called + 1 : caller.function, "_call_impl") != 0)
		return false;
	if (dot) {
		const char *from = place.function;
		for (const char *at = from; at < dot; at++)
			from = *at == '.' ? at + 1 : from; /* "make.<locals>.Net" */
		snprintf(name, size, "%.*s", (int)(dot - from), from);
	} else {
		snprintf(name, size, "%s:%u", gm_place_base_name(place.file), place.line);
	}
	return true;
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
		if (is_forward(log, python_stack, i, name, sizeof(name)))
			fprintf(out, "%s%s", depth++ ? " > " : "", name);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* "0.weight" is of "0". */
static char *module_of_parameter(const char *name, size_t length)
{
	const char *dot = memrchr(name, '.', length);
	return dot ? strndup(name, (size_t)(dot - name)) : strdup(root_module);
}

/* "optimizer state 'exp_avg' of AdamW for parameter '0.weight'"; of a gradient its step has the name, however its parameter
 * is held. */
static char *path_of_state(const struct gm_holder *holder)
{
	static const char before[] = " for parameter '";
	const char *from = strstr(holder->text, before);
	for (size_t i = 0; i < holder->step_count; i++) {
		const struct gm_holder_step *step = &holder->steps[i];
		if (strcmp(step->kind, "grad") == 0 && step->name)
			return module_of_parameter(step->name, strlen(step->name));
	}
	if (strncmp(holder->text, "optimizer state ", 16) != 0 || !from)
		return NULL;
	from += sizeof(before) - 1;
	return module_of_parameter(from, strcspn(from, "'"));
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
