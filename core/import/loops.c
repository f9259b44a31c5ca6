#include <stdlib.h>

#include "import/stacks.h"

enum { LOOPS_MAX = 4096 };

void gm_import_loops_init(struct gm_import_loops *loops, const struct gm_import_stacks *stacks)
{
	*loops = (struct gm_import_loops){.stacks = stacks, .last = GM_NO_STACK};
}

void gm_import_loops_deinit(struct gm_import_loops *loops)
{
	gm_array_deinit(&loops->items);
}

static bool go_round(struct gm_import_loops *loops, uint32_t code, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < loops->items.count; i++) {
		struct gm_import_loop *loop = &loops->items.items[i];
		if (loop->code == code && loop->first_line == to && loop->last_line == from) {
			loop->rounds++;
			return true;
		}
	}
	const struct gm_import_loop fresh = {code, to, from, 1};
	return loops->items.count == LOOPS_MAX || gm_array_push(&loops->items, fresh);
}

bool gm_import_loops_feed(struct gm_import_loops *loops, uint32_t stack)
{
	const struct gm_import_stacks *all = loops->stacks;
	if (stack == GM_NO_STACK || stack == loops->last || !all->stacks.items[stack].python)
		return true;
	uint32_t before = loops->last;
	if (before == GM_NO_STACK) {
		loops->last = stack;
		return true;
	}
	const struct gm_import_stack *a = &all->stacks.items[before],
	                             *b = &all->stacks.items[stack];
	const uint32_t *frames_a = all->members.items + a->first + a->python;
	const uint32_t *frames_b = all->members.items + b->first + b->python;
	/* from the outermost in, to the first frame that stands elsewhere */
	for (uint32_t i = 1; i <= a->python && i <= b->python; i++) {
		uint32_t frame_a = *(frames_a - i), frame_b = *(frames_b - i);
		if (frame_a == frame_b)
			continue;
		loops->last = stack;
		const struct gm_import_frame *was = &all->frames.items[frame_a],
		                             *is = &all->frames.items[frame_b];
		if (was->code != is->code || is->line >= was->line ||
		        all->codes.items[is->code].library)
			return true;
		return go_round(loops, is->code, was->line, is->line);
	}
	/* A call that has returned to the same line does not hide how far it had come. */
	if (b->python > a->python)
		loops->last = stack;
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct gm_import_loop *left = a, *right = b;
	if (left->code != right->code)
		return left->code < right->code ? -1 : 1;
	if (left->first_line != right->first_line)
		return left->first_line < right->first_line ? -1 : 1;
	/* the widest first: it may take in those behind it */
	return left->last_line > right->last_line ? -1 : left->last_line < right->last_line;
}

/* Of two ranges that overlap and neither lies within the other, both are parts of one loop: passes differ in
 * which of their lines allocate. */
static bool join(struct gm_import_loop *into, const struct gm_import_loop *from)
{
	if (into->code != from->code || from->first_line > into->last_line ||
	        from->last_line <= into->last_line)
		return false;
	into->last_line = from->last_line;
	into->rounds += from->rounds;
	return true;
}

void gm_import_loops_finish(struct gm_import_loops *loops)
{
	size_t kept = 0;
	if (loops->items.count == 0)
		return;
	qsort(loops->items.items, loops->items.count, sizeof(*loops->items.items), compare);
	for (size_t i = 0; i < loops->items.count; i++) {
		bool joined = false;
		for (size_t j = kept; j-- > 0 && !joined &&
		                      loops->items.items[j].code == loops->items.items[i].code;)
			joined = join(&loops->items.items[j], &loops->items.items[i]);
		/* an expression of several lines is evaluated from its end to its beginning, once */
		const struct gm_import_loop *loop = &loops->items.items[i];
		bool expression = loop->rounds == 1 && loop->last_line - loop->first_line <= 3;
		if (!joined && !expression)
			loops->items.items[kept++] = loops->items.items[i];
	}
	loops->items.count = kept;
}
