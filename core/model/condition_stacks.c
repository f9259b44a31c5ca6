/* Conditions over the stacks of an event. */
#include "model/condition.h"
#include "base/packages.h"

#include <string.h>

#include "base/text.h"
#include "model/native_names.h"
#include "model/phase.h"
#include "model/wrapper_frames.h"

enum { FRAMES_MAX = 1024 };

static bool function_fits(const char *function, const struct gm_clause *clause)
{
	const char *dot = strrchr(function, '.');
	if (clause->compare == GM_CONTAINS)
		return strstr(function, clause->text);
	return strcmp(function, clause->text) == 0 || (dot && strcmp(dot + 1, clause->text) == 0);
}

static bool line_fits(const char *path, uint32_t line, const struct gm_clause *clause)
{
	bool file = clause->compare == GM_CONTAINS ? strstr(path, clause->text) != NULL
	                                           : gm_is_file(path, clause->text);
	return file && (!clause->number || line == clause->number);
}

static bool name_fits(const char *name, const struct gm_clause *clause)
{
	return clause->compare == GM_CONTAINS ? strstr(name, clause->text) != NULL
	                                      : strcmp(name, clause->text) == 0;
}

static enum gm_truth judge_frames(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause)
{
	struct gm_condition_frame frame;
	bool any = false;
	size_t count = 0;
	for (; count < FRAMES_MAX && stacks->python(stacks->context, count, &frame); count++)
		any |= clause->fact == GM_FACT_LINE ? line_fits(frame.file, frame.line, clause)
		                                    : function_fits(frame.function, clause);
	return gm_compare_several(count > 0, any, clause);
}

/* ---- modules --------------------------------------------------------------------------------- */

/* For "a.<locals>.Net.forward" of a class Net: its length, *ret_class is where it begins. 0: the
 * name is not qualified, or is that of a function within a function */
static size_t class_of(const char *function, const char **ret_class)
{
	const char *end = strrchr(function, '.');
	if (!end || end == function)
		return 0;
	const char *from = end;
	while (from > function && from[-1] != '.')
		from--;
	*ret_class = from;
	return *from == '<' ? 0 : (size_t)(end - from);
}

/* The class that defines the forward() through which a module is called (Module._call_impl):
 * subclasses that inherit it have its name. */
static enum gm_truth judge_module(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause)
{
	struct gm_condition_frame frame;
	bool any = false, unnamed = false, forward = false;
	size_t count = 0;
	struct gm_condition_frame called = {0};
	for (; count < FRAMES_MAX && stacks->python(stacks->context, count, &frame); count++) {
		const char *class = NULL;
		char name[256];
		if (gm_frame_calls_module(frame.file, frame.function) && forward) {
			size_t length = class_of(called.function, &class);
			unnamed |= length == 0;
			if (length > 0 && length < sizeof(name)) {
				memcpy(name, class, length);
				name[length] = 0;
				any |= name_fits(name, clause);
			}
		}
		if (gm_frame_calls_module(frame.file, frame.function)) {
			forward = false;
		} else if (strcmp(gm_plain_name(frame.function), "forward") == 0) {
			called = frame;
			forward = true;
		}
	}
	if (unnamed && !any) /* CPython before 3.11 */
		return GM_UNKNOWN;
	return gm_compare_several(count > 0, any, clause);
}

/* ---- native functions ------------------------------------------------------------------------ */

/* The operator is the outermost one, as the program or autograd called it; the node is the
 * innermost one. A stack without one does not match. */
static enum gm_truth judge_native(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause)
{
	struct gm_clause bare = *clause;
	bool node = clause->fact == GM_FACT_NODE, found = false;
	char name[GM_NATIVE_NAME_MAX], one[GM_NATIVE_NAME_MAX];
	const char *function;
	size_t count = 0;
	for (; count < FRAMES_MAX && (function = stacks->native(stacks->context, count)); count++) {
		if (node ? gm_native_node(function, one) : gm_native_operator(function, one)) {
			memcpy(name, one, sizeof(name));
			found = true;
			if (node)
				break;
		}
	}
	if (count == 0 && !found)
		return GM_UNKNOWN;
	if (!found)
		return clause->compare == GM_IS_NOT ? GM_TRUE : GM_FALSE;
	if (!node && strncmp(bare.text, "aten::", 6) == 0)
		bare.text += 6;
	return gm_compare_texts(name, &bare);
}

/* "all_reduce" of Python is "allreduce" of C++. */
static void without_underscores(const char *name, char *ret_name, size_t size)
{
	size_t length = 0;
	for (; *name && length < size - 1; name++)
		if (*name != '_')
			ret_name[length++] = *name;
	ret_name[length] = 0;
}

static bool collective_fits(const char *name, const struct gm_clause *clause)
{
	char bare[256], text[256];
	struct gm_clause plain = *clause;
	without_underscores(name, bare, sizeof(bare));
	without_underscores(clause->text, text, sizeof(text));
	plain.text = text;
	return name_fits(bare, &plain);
}

/* The collective of a Python frame; NULL: none. FSDP2 (fully_shard) creates the buffers of
 * collectives itself, in functions such as foreach_all_gather() and foreach_reduce(), which also
 * scatters. */
static const char *collective_of(const struct gm_condition_frame *frame)
{
	const char *name = gm_plain_name(frame->function);
	if (gm_file_is_collectives(frame->file))
		return name;
	if (!gm_file_is_of_torch(
	            frame->file, "/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"))
		return NULL;
	if (strncmp(name, "foreach_all_gather", strlen("foreach_all_gather")) == 0)
		return "all_gather";
	return strncmp(name, "foreach_reduce", strlen("foreach_reduce")) == 0 ? "reduce_scatter"
	                                                                      : NULL;
}

/* A function of torch.distributed, in Python or in C++, that is on a stack; "none" if there is
 * none. */
static enum gm_truth judge_collective(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause)
{
	struct gm_condition_frame frame;
	char name[GM_NATIVE_NAME_MAX];
	const char *function;
	bool any = false, inside = false;
	size_t python = 0, native = 0;
	for (; python < FRAMES_MAX && stacks->python(stacks->context, python, &frame); python++) {
		const char *collective = collective_of(&frame);
		if (!collective)
			continue;
		inside = true;
		any |= collective_fits(collective, clause);
	}
	for (; native < FRAMES_MAX && (function = stacks->native(stacks->context, native));
	        native++) {
		if (!gm_native_collective(function, name))
			continue;
		inside = true;
		any |= collective_fits(name, clause);
	}
	if (native == 0 && !any) /* C++ may have called one */
		return GM_UNKNOWN;
	if (!inside)
		any = name_fits("none", clause);
	return gm_compare_several(true, any, clause);
}

enum gm_truth gm_compare_stacks(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause)
{
	switch (clause->fact) {
	case GM_FACT_LINE:
	case GM_FACT_FUNCTION:
		return judge_frames(stacks, clause);
	case GM_FACT_MODULE:
		return judge_module(stacks, clause);
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
		return judge_native(stacks, clause);
	case GM_FACT_COLLECTIVE:
		return judge_collective(stacks, clause);
	default:
		return GM_UNKNOWN;
	}
}
