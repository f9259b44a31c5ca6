#include "ask/recording/driven.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/operator.h"
#include "ask/recording/place.h"
#include "base/array.h"
#include "model/site.h"

struct line {
	uint32_t code, line;
	uint64_t bytes;
};

struct gm_driven {
	struct gm_wrapper_frames *wrapper_frames;
	GM_ARRAY(struct line) lines;
};

void gm_driven_destroy(struct gm_driven *driven)
{
	if (!driven)
		return;
	gm_wrapper_frames_destroy(driven->wrapper_frames);
	gm_array_deinit(&driven->lines);
	free(driven);
}

static bool is_own(const struct gm_frame_place *place)
{
	const char *package;
	size_t length;
	return gm_code_owner(place->file, &package, &length) == GM_CODE_OWN;
}

/* --- which lines ------------------------------------------------------------------------------ */

static int compare_lines(const void *a, const void *b)
{
	const struct line *left = a, *right = b;
	if (left->code != right->code)
		return left->code < right->code ? -1 : 1;
	return left->line < right->line ? -1 : left->line > right->line;
}

/* A stack, and the sum of the blocks allocated with it. */
struct stack {
	uint32_t stack;
	uint64_t bytes;
};

static int compare_stacks(const void *a, const void *b)
{
	const struct stack *left = a, *right = b;
	return left->stack < right->stack ? -1 : left->stack > right->stack;
}

typedef GM_ARRAY(struct stack) stack_array;

static struct gm_error *sum_stacks(
        const struct gm_model *model, const uint32_t *live, size_t count, stack_array *stacks)
{
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = gm_model_block(model, live[i]);
		uint32_t python, native;
		if (block->alloc == GM_NO_EVENT)
			continue;
		gm_model_stacks(model, block->alloc, &python, &native);
		if (python && !gm_array_push(stacks, ((struct stack){python, block->size})))
			return &gm_error_no_memory;
	}
	if (!stacks->count)
		return NULL;
	qsort(stacks->items, stacks->count, sizeof(*stacks->items), compare_stacks);
	size_t kept = 0;
	for (size_t i = 1; i < stacks->count; i++) {
		if (stacks->items[i].stack == stacks->items[kept].stack)
			stacks->items[kept].bytes += stacks->items[i].bytes;
		else
			stacks->items[++kept] = stacks->items[i];
	}
	stacks->count = kept + 1;
	return NULL;
}

/* The program's own lines that hold enough. A stack without such lines is always descended from. */
static struct gm_error *find_lines(const struct gm_log *log, const stack_array *stacks,
        uint64_t bytes, struct gm_driven *driven, bool *ret_any)
{
	struct gm_frame_place place;
	size_t kept = 0;
	for (size_t i = 0; i < stacks->count; i++) {
		if (!gm_place_site(log, stacks->items[i].stack, &place))
			continue;
		if (!is_own(&place)) {
			*ret_any = true;
			continue;
		}
		if (!gm_array_push(&driven->lines,
		            ((struct line){place.code, place.line, stacks->items[i].bytes})))
			return &gm_error_no_memory;
	}
	if (!driven->lines.count)
		return NULL;
	struct line *lines = driven->lines.items;
	qsort(lines, driven->lines.count, sizeof(*lines), compare_lines);
	for (size_t i = 0, next; i < driven->lines.count; i = next) {
		struct line sum = lines[i];
		for (next = i + 1;
		        next < driven->lines.count && compare_lines(&lines[i], &lines[next]) == 0;
		        next++)
			sum.bytes += lines[next].bytes;
		if (sum.bytes >= bytes / GM_DRIVEN_PART)
			lines[kept++] = sum;
	}
	driven->lines.count = kept;
	*ret_any |= kept > 0;
	return NULL;
}

struct gm_error *gm_driven_find(const struct gm_model *model, const uint32_t *live, size_t count,
        uint64_t bytes, struct gm_driven **ret_driven)
{
	bool any = false;
	stack_array stacks = {0};
	struct gm_driven *driven = calloc(1, sizeof(*driven));
	if (!driven)
		return &gm_error_no_memory;
	struct gm_error *error = sum_stacks(model, live, count, &stacks);
	if (!error)
		error = find_lines(gm_model_log(model), &stacks, bytes, driven, &any);
	if (!error && any)
		error = gm_wrapper_frames_create(model, &driven->wrapper_frames);
	gm_array_deinit(&stacks);
	if (error || !any) {
		gm_driven_destroy(driven);
		driven = NULL;
	}
	if (!error)
		*ret_driven = driven;
	return error;
}

static bool is_driven(const struct gm_driven *driven, const struct gm_frame_place *place)
{
	const struct line line = {place->code, place->line, 0};
	return driven->lines.count && bsearch(&line, driven->lines.items, driven->lines.count,
	                                      sizeof(line), compare_lines);
}

/* --- the site of a stack ---------------------------------------------------------------------- */

bool gm_shown_site(const struct gm_driven *driven, const struct gm_log *log,
        const struct gm_event *event, struct gm_shown_site *ret_site)
{
	struct gm_shown_site site = {0};
	bool python = gm_place_site(log, event->python_stack, &site.place);
	bool own = python && is_own(&site.place), descended = false;
	if (python && driven && (!own || is_driven(driven, &site.place))) {
		size_t index = gm_wrapper_frames_site(driven->wrapper_frames, event->python_stack);
		descended = index != SIZE_MAX || event->flags & GM_EVENT_BORROWED;
		if (index != SIZE_MAX) {
			site.caller = own ? site.place : (struct gm_frame_place){0};
			gm_place_frame(log, event->python_stack, index, &site.place);
		}
	}
	if (!python || (descended && event->flags & GM_EVENT_BORROWED)) {
		gm_node_of(log, event->native_stack, site.node);
		gm_operator_of(log, event->native_stack, site.operator_name);
	}
	if (!python && !site.node[0] && !site.operator_name[0])
		return false;
	*ret_site = site;
	return true;
}

void gm_put_node(const struct gm_shown_site *site, FILE *out)
{
	bool both = site->node[0] && site->operator_name[0];
	fprintf(out, "%s%s%s%s", site->node, both ? " (" : "", site->operator_name,
	        both ? ")" : "");
}

void gm_put_shown_site(const struct gm_shown_site *site, FILE *out)
{
	if (site->place.code)
		fprintf(out, "%s:%u in %s", site->place.file, site->place.line,
		        site->place.function);
	if (site->place.code && (site->node[0] || site->operator_name[0]))
		fputs(": ", out);
	gm_put_node(site, out);
	if (site->caller.code)
		fprintf(out, " ← %s:%u", site->caller.file, site->caller.line);
}
