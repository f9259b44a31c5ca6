/*
 * Checkpoints: what a module's calls leave for backward is released when the call is over, and
 * computed again when backward comes to it.
 *
 * A module's class is the code object of its forward(). Its calls are told apart by the stacks of
 * their allocations: another call begins where none was under way, where the calling frame stands
 * elsewhere, where forward() itself stands further up than before, and where the call's first stack
 * comes again; in a loop of forward() or of what it calls the last two show nothing.
 *
 * What a call allocated last of what stays is its result, which the next call's checkpoint keeps.
 * The others are there again from where backward came to the call: behind the last release of an
 * activation before the first one of the call's own.
 */
#include <string.h>

#include "ask/advise/measures.h"
#include "base/cleanup.h"
#include "base/search.h"

/* A module's frame on a stack; `index` counts from the innermost one. */
struct module_frame {
	size_t index;
	uint32_t code, lasti;
	uint32_t caller, caller_lasti;
	bool loops; /* it stands in a loop, or what it called does */
};

static bool is_forward(const struct gm_frame_place *place)
{
	const char *dot = strrchr(place->function, '.');
	return strcmp(dot ? dot + 1 : place->function, "forward") == 0;
}

/* Does the frame stand in a loop of its code? */
static bool in_loop(const struct gm_log *log, const struct gm_frame_place *place)
{
	struct gm_log_code code;
	if (!gm_log_code(log, place->code, &code))
		return false;
	for (uint32_t i = 0; i < code.loop_count; i++)
		if (gm_log_loop_contains(&code.loops[i], place->lasti, place->line))
			return true;
	return false;
}

static uint32_t python_stack(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t python, native;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	return python;
}

/* The frames of modules on a stack, innermost first; how many, at most `max`. */
static size_t module_frames(
        const struct gm_log *log, uint32_t stack, struct module_frame *ret_frames, size_t max)
{
	struct gm_frame_place place, caller = {0};
	size_t count = 0;
	bool loops = false;
	for (size_t i = 0; count < max && gm_place_frame(log, stack, i, &place); i++) {
		loops |= in_loop(log, &place);
		if (!is_forward(&place))
			continue;
		/* the first frame that is not PyTorch's own way of calling a module */
		size_t out = i + 1;
		while (gm_place_frame(log, stack, out, &caller) &&
		        strstr(caller.function, "_call_impl"))
			out++;
		ret_frames[count++] = (struct module_frame){
		        i, place.code, place.lasti, caller.code, caller.lasti, loops};
	}
	return count;
}

/* The outermost frame of a module on each stack, once it was looked for. */
struct known_frame {
	bool looked, has;
	struct module_frame frame;
};
struct known_frames {
	GM_ARRAY(struct known_frame) list; /* by Python stack */
};

enum { FRAMES_MAX = 64 };

/* NULL: no memory. */
static const struct known_frame *find_module(
        struct known_frames *known, const struct gm_log *log, uint32_t stack, uint32_t code)
{
	struct module_frame frames[FRAMES_MAX];
	if (!gm_array_reach(&known->list, stack))
		return NULL;
	struct known_frame *of = &known->list.items[stack];
	if (of->looked)
		return of;
	of->looked = true;
	for (size_t i = module_frames(log, stack, frames, FRAMES_MAX); i-- > 0 && !of->has;) {
		of->has = frames[i].code == code;
		of->frame = frames[i];
	}
	return of;
}

/* ---- which modules ---- */

struct class_bytes {
	uint32_t code, stack;
	size_t index;
	uint64_t kept; /* bytes that wait for backward */
	uint64_t all;  /* that its calls allocated in forward */
};
struct classes {
	GM_ARRAY(struct class_bytes) list;
	uint64_t all;
};

enum { CLASSES_MAX = 1024, ADVISED_MAX = 6 };

static bool add_class(struct classes *classes, const struct module_frame *frame, uint32_t stack,
        uint64_t size, bool waits)
{
	struct class_bytes *of = NULL;
	for (size_t i = 0; i < classes->list.count && !of; i++)
		if (classes->list.items[i].code == frame->code)
			of = &classes->list.items[i];
	if (!of && classes->list.count >= CLASSES_MAX)
		return true;
	if (!of) {
		struct class_bytes new = {frame->code, stack, frame->index, 0, 0};
		if (!gm_array_push(&classes->list, new))
			return false;
		of = &classes->list.items[classes->list.count - 1];
	}
	of->all += size;
	of->kept += waits ? size : 0;
	return true;
}

static bool gather(const struct gm_advise_facts *facts, struct classes *classes)
{
	struct module_frame frames[FRAMES_MAX];
	uint32_t last = 0;
	size_t count = 0;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		if (!gm_advise_in_forward(facts, i))
			continue;
		uint32_t stack = python_stack(facts, i);
		uint64_t size = gm_model_block(facts->model, i)->size;
		if (stack != last)
			count = module_frames(facts->log, stack, frames, FRAMES_MAX);
		last = stack;
		classes->all += size;
		for (size_t j = 0; j < count; j++) {
			bool again = false; /* a module within one of its own class */
			for (size_t k = 0; k < j; k++)
				again |= frames[k].code == frames[j].code;
			if (!again && !add_class(classes, &frames[j], stack, size,
			                      gm_advise_waits_for_backward(facts, i)))
				return false;
		}
	}
	return true;
}

static int by_kept(const void *a, const void *b)
{
	const struct class_bytes *left = a, *right = b;
	if (left->kept != right->kept)
		return left->kept > right->kept ? -1 : 1;
	return left->code < right->code ? -1 : left->code > right->code;
}

struct gm_error *gm_measure_find_modules(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates)
{
	struct classes classes = {0};
	bool good = gather(facts, &classes);
	if (good && classes.list.count)
		qsort(classes.list.items, classes.list.count, sizeof(*classes.list.items), by_kept);
	for (size_t i = 0; i < classes.list.count && i < ADVISED_MAX && good; i++) {
		const struct class_bytes *of = &classes.list.items[i];
		struct gm_frame_place place;
		if (!of->kept || !gm_place_frame(facts->log, of->stack, of->index, &place))
			continue;
		struct gm_log_code code = {0};
		gm_log_code(facts->log, of->code, &code);
		place.line = code.first_line;
		struct gm_candidate candidate = {.measure = GM_MEASURE_CHECKPOINT,
		        .name = place.function,
		        .place = place,
		        .code = of->code,
		        .recomputed = (double)of->all / (double)classes.all};
		good = gm_array_push(&candidates->list, candidate);
	}
	gm_array_deinit(&classes.list);
	return good ? NULL : &gm_error_no_memory;
}

/* ---- what a checkpoint does ---- */

struct call {
	uint32_t step, first_stack, last_lasti;
	struct module_frame frame;
	uint32_t end;            /* the event behind its last allocation */
	GM_ARRAY(uint32_t) kept; /* blocks */
};

/* Where activations are released in backward, ascending. */
struct releases {
	GM_ARRAY(uint32_t) list;
};

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool find_releases(const struct gm_advise_facts *facts, struct releases *releases)
{
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++)
		if (gm_advise_in_forward(facts, i) && gm_advise_waits_for_backward(facts, i) &&
		        !gm_array_push(
		                &releases->list, gm_block_end(gm_model_block(facts->model, i))))
			return false;
	if (releases->list.count)
		qsort(releases->list.items, releases->list.count, sizeof(uint32_t), by_number);
	return true;
}

static void close_call(const struct gm_advise_facts *facts, struct call *call,
        const struct releases *releases, struct gm_whatif *whatif)
{
	uint32_t first = GM_NO_EVENT;
	const uint32_t *ends = releases->list.items;
	if (call->kept.count < 2) {
		call->kept.count = 0;
		return;
	}
	for (size_t i = 0; i + 1 < call->kept.count; i++) {
		uint32_t end = gm_block_end(gm_model_block(facts->model, call->kept.items[i]));
		first = end < first ? end : first;
	}
	size_t at = gm_partition_point(releases->list.count, middle, ends[middle] < first);
	uint32_t again = facts->steps[call->step].backward;
	if (at && ends[at - 1] >= again)
		again = ends[at - 1] + 1;
	for (size_t i = 0; i + 1 < call->kept.count; i++) {
		uint32_t block = call->kept.items[i], end = whatif->end[block];
		if (end <= call->end)
			continue;
		gm_whatif_end(whatif, block, call->end);
		gm_whatif_again(whatif, block, again, end);
	}
	call->kept.count = 0;
}

static bool begins(
        const struct call *call, uint32_t step, uint32_t stack, const struct module_frame *frame)
{
	const struct module_frame *last = &call->frame;
	return !call->step || call->step != step || last->caller != frame->caller ||
	       last->caller_lasti != frame->caller_lasti ||
	       (!frame->loops && (frame->lasti < last->lasti || stack == call->first_stack));
}

struct gm_error *gm_measure_checkpoint(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct call call = {0};
	struct releases releases = {0};
	struct known_frames known = {0};
	bool good = find_releases(facts, &releases);
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && good; i++) {
		if (!gm_advise_in_forward(facts, i))
			continue;
		uint32_t stack = python_stack(facts, i), step = gm_advise_step(facts, i);
		const struct known_frame *of =
		        find_module(&known, facts->log, stack, candidate->code);
		good = of != NULL;
		if (!of || !of->has) {
			close_call(facts, &call, &releases, whatif);
			call.step = 0;
			continue;
		}
		if (begins(&call, step, stack, &of->frame)) {
			close_call(facts, &call, &releases, whatif);
			call.step = step;
			call.first_stack = stack;
		}
		call.frame = of->frame;
		call.end = gm_model_block(facts->model, i)->alloc + 1;
		if (gm_advise_waits_for_backward(facts, i))
			good = gm_array_push(&call.kept, i);
	}
	if (good)
		close_call(facts, &call, &releases, whatif);
	gm_array_deinit(&call.kept);
	gm_array_deinit(&releases.list);
	gm_array_deinit(&known.list);
	return good ? NULL : &gm_error_no_memory;
}
