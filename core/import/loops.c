#include <stdlib.h>
#include <string.h>

#include "import/stacks.h"
#include "import/values.h"

enum { LOOPS_MAX = 4096 };

void gm_import_loops_init(struct gm_import_loops *loops, const struct gm_import_stacks *stacks)
{
	*loops = (struct gm_import_loops){.stacks = stacks, .last = GM_NO_STACK};
}

void gm_import_loops_deinit(struct gm_import_loops *loops)
{
	gm_array_deinit(&loops->items);
	gm_array_deinit(&loops->leaves);
}

static bool count(struct gm_import_loop *items, size_t count, const struct gm_import_loop *wanted)
{
	for (size_t i = 0; i < count; i++) {
		if (items[i].code == wanted->code && items[i].first_line == wanted->first_line &&
		        items[i].last_line == wanted->last_line) {
			items[i].rounds++;
			items[i].last = wanted->last;
			return true;
		}
	}
	return false;
}

static bool go_round(struct gm_import_loops *loops, uint32_t code, uint32_t from, uint32_t to)
{
	uint64_t now = ++loops->turns;
	const struct gm_import_loop fresh = {code, to, from, 1, now, now, false};
	return count(loops->items.items, loops->items.count, &fresh) ||
	       loops->items.count == LOOPS_MAX || gm_array_push(&loops->items, fresh);
}

/* Control comes back down to the line from which it went up: that was an expression of several
 * lines. */
static void come_again(struct gm_import_loops *loops, uint32_t code, uint32_t line)
{
	for (size_t i = 0; i < loops->items.count; i++) {
		struct gm_import_loop *loop = &loops->items.items[i];
		if (loop->code == code && loop->last_line == line && loop->rounds == 1)
			loop->again = true;
	}
}

static bool leave(struct gm_import_loops *loops, uint32_t code, uint32_t from, uint32_t to)
{
	uint64_t now = ++loops->turns;
	const struct gm_import_loop fresh = {code, to, from, 1, now, now, false};
	return to >= from || count(loops->leaves.items, loops->leaves.count, &fresh) ||
	       loops->leaves.count == LOOPS_MAX || gm_array_push(&loops->leaves, fresh);
}

/* Leaving a `with` returns to its first line, which is not an iteration of a loop. */
bool gm_import_leaves_with(const struct gm_import_stacks *all, uint32_t frame)
{
	size_t length;
	const char *name = gm_pickle_string(
	        all->pickle, all->codes.items[all->frames.items[frame].code].name, &length);
	return (length == 8 && memcmp(name, "__exit__", 8) == 0) ||
	       (length == 9 && memcmp(name, "__aexit__", 9) == 0);
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
	/* from the outermost in, to the first frame at another line */
	for (uint32_t i = 1; i <= a->python && i <= b->python; i++) {
		uint32_t frame_a = *(frames_a - i), frame_b = *(frames_b - i);
		if (frame_a == frame_b)
			continue;
		const struct gm_import_frame *was = &all->frames.items[frame_a],
		                             *is = &all->frames.items[frame_b];
		if (i < b->python && gm_import_leaves_with(all, *(frames_b - i - 1)))
			return was->code != is->code || leave(loops, is->code, was->line, is->line);
		loops->last = stack;
		if (was->code != is->code || all->codes.items[is->code].library)
			return true;
		if (is->line >= was->line) {
			come_again(loops, is->code, is->line);
			return true;
		}
		return go_round(loops, is->code, was->line, is->line);
	}
	/* A call that has returned to the same line does not hide how far control had come. */
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
	/* the widest first: it may contain those after it */
	return left->last_line > right->last_line ? -1 : left->last_line < right->last_line;
}

/* Two ranges that overlap, neither within the other, are parts of one loop: its iterations differ
 * in which lines allocate. */
static bool join(struct gm_import_loop *into, const struct gm_import_loop *from)
{
	if (into->code != from->code || from->first_line > into->last_line ||
	        from->last_line <= into->last_line)
		return false;
	into->last_line = from->last_line;
	into->rounds += from->rounds;
	return true;
}

static int compare_narrow(const void *a, const void *b)
{
	const struct gm_import_loop *left = a, *right = b;
	if (left->code != right->code || left->first_line != right->first_line)
		return compare(a, b);
	return left->last_line < right->last_line ? -1 : left->last_line > right->last_line;
}

/*
 * An optimizer allocates its state only in the first step. So control comes once from further down,
 * and afterwards always from further up. Ranges with the same beginning that alternate are nested
 * loops; those that do not alternate are one loop. The narrowest are merged first, because the
 * widest may be a loop around all of them.
 */
static void join_same_start(struct gm_import_loops *loops)
{
	size_t kept = 0;
	qsort(loops->items.items, loops->items.count, sizeof(*loops->items.items), compare_narrow);
	for (size_t i = 0; i < loops->items.count; i++) {
		const struct gm_import_loop from = loops->items.items[i];
		struct gm_import_loop *into = kept ? &loops->items.items[kept - 1] : NULL;
		bool same = into && into->code == from.code && into->first_line == from.first_line;
		if (!same || (into->last >= from.first && from.last >= into->first)) {
			loops->items.items[kept++] = from;
			continue;
		}
		into->last_line = from.last_line;
		into->rounds += from.rounds;
		into->first = from.first < into->first ? from.first : into->first;
		into->last = from.last > into->last ? from.last : into->last;
	}
	loops->items.count = kept;
}

/* A `with` that is left repeatedly from within a loop is part of the loop, even if nothing is
 * allocated on its line. */
static void take_in(const struct gm_import_loops *loops, struct gm_import_loop *loop)
{
	for (size_t i = 0; i < loops->leaves.count; i++) {
		const struct gm_import_loop *with = &loops->leaves.items[i];
		if (with->code == loop->code && with->first_line < loop->first_line &&
		        with->last_line >= loop->first_line && with->last_line <= loop->last_line &&
		        with->rounds > 1 && with->rounds >= loop->rounds / 2)
			loop->first_line = with->first_line;
	}
}

uint32_t gm_import_loops_left_from(
        const struct gm_import_loops *loops, uint32_t code, uint32_t line)
{
	uint32_t last = line;
	for (size_t i = 0; i < loops->leaves.count; i++) {
		const struct gm_import_loop *with = &loops->leaves.items[i];
		if (with->code == code && with->first_line == line && with->last_line > last)
			last = with->last_line;
	}
	return last;
}

void gm_import_loops_finish(struct gm_import_loops *loops)
{
	size_t kept = 0;
	if (loops->items.count == 0)
		return;
	join_same_start(loops);
	qsort(loops->items.items, loops->items.count, sizeof(*loops->items.items), compare);
	for (size_t i = 0; i < loops->items.count; i++) {
		bool joined = false;
		for (size_t j = kept; j-- > 0 && !joined &&
		                      loops->items.items[j].code == loops->items.items[i].code;)
			joined = join(&loops->items.items[j], &loops->items.items[i]);
		/* an expression of several lines is evaluated once, from its end to its beginning
		 * */
		const struct gm_import_loop *loop = &loops->items.items[i];
		bool expression = loop->rounds == 1 && !loop->again &&
		                  loop->last_line - loop->first_line <= 3;
		if (!joined && !expression)
			loops->items.items[kept++] = loops->items.items[i];
	}
	loops->items.count = kept;
	for (size_t i = 0; i < kept; i++)
		take_in(loops, &loops->items.items[i]);
}
