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

/* "parameter 'weight' of Linear: module 'mlp' of Block: module '3' of ModuleList: ..." is of "3.mlp"; of a root module's own
 * parameters the path is that of the root. */
static char *path_of(const struct gm_holder *holder)
{
	static const char grad[] = ".grad of a Parameter: ", module[] = ": module '";
	const char *text = holder->text, *names[DEPTH_MAX];
	size_t lengths[DEPTH_MAX], depth = 0, size;
	char *path = NULL;
	if (!holder->rooted || holder->class != GM_PROVEN)
		return NULL;
	if (strncmp(text, grad, sizeof(grad) - 1) == 0)
		text += sizeof(grad) - 1;
	if (strncmp(text, "parameter '", 11) != 0 && strncmp(text, "buffer '", 8) != 0)
		return NULL;
	while (depth < DEPTH_MAX && (text = strstr(text, module))) {
		text += sizeof(module) - 1;
		names[depth] = text;
		lengths[depth++] = strcspn(text, "'");
	}
	FILE *out = open_memstream(&path, &size);
	if (!out)
		return NULL;
	for (size_t i = depth; i-- > 0;)
		fprintf(out, "%.*s%s", (int)lengths[i], names[i], i ? "." : "");
	if (!depth)
		fputs(root_module, out);
	if (fclose(out) != 0) {
		free(path);
		return NULL;
	}
	return path;
}

/* "optimizer state 'exp_avg' of AdamW for parameter '0.weight'" */
static char *path_of_state(const struct gm_holder *holder)
{
	static const char before[] = " for parameter '";
	const char *from = strstr(holder->text, before);
	if (strncmp(holder->text, "optimizer state ", 16) != 0 || !from)
		return NULL;
	from += sizeof(before) - 1;
	const char *end = strchr(from, '\''), *dot = NULL;
	for (const char *at = from; end && at < end; at++)
		dot = *at == '.' ? at : dot;
	return dot ? strndup(from, (size_t)(dot - from)) : strdup(root_module);
}

struct gm_error *gm_module_of_address(struct gm_holders *holders, uint64_t address, char **ret_path)
{
	struct gm_holders_answer answer;
	char *path = NULL;
	gm_try(gm_holders_find(holders, address, &answer));
	for (size_t i = 0; i < answer.holder_count && !path; i++)
		path = path_of(&answer.holders[i]);
	for (size_t i = 0; i < answer.holder_count && !path; i++)
		path = path_of_state(&answer.holders[i]);
	gm_holders_answer_deinit(&answer);
	*ret_path = path;
	return NULL;
}
