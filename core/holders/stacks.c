#include "holders/stacks.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/stop.h"

enum {
	MAX_FRAMES = 512,
	MAX_THREADS = 4096,
	GUARD_BYTES = 1 << 20, /* the largest guard below a thread's stack */
	RED_ZONE = 128,        /* below the stack pointer, still alive (System V ABI, 3.2.2) */
	CONTROL_STEP = 64,     /* struct pthread is aligned to this (glibc, nptl/descr.h) */
	CONTROL_SPAN = 64 << 10,
};

static const struct gm_mapping *mapping_before(
        struct gm_holders *graph, const struct gm_mapping *mapping)
{
	size_t count;
	const struct gm_mapping *all = gm_image_mappings(graph->image, &count);
	return mapping > all && mapping < all + count ? mapping - 1 : NULL;
}

/* The main stack by name; glibc puts an unreadable guard below each thread's (nptl/allocatestack.c). */
bool gm_is_stack(struct gm_holders *graph, const struct gm_mapping *mapping)
{
	if (strncmp(mapping->path, "[stack", 6) == 0)
		return true;
	const struct gm_mapping *guard = mapping_before(graph, mapping);
	return mapping->path[0] == 0 && guard && guard->end == mapping->start &&
	       guard->path[0] == 0 && !(guard->flags & (GM_MAPPING_READ | GM_MAPPING_WRITE)) &&
	       guard->end - guard->start <= GUARD_BYTES;
}

/* --- reading ---------------------------------------------------------------------------------------- */

static bool add_stack(struct gm_holders *graph, struct gm_stacks *stacks, pid_t thread)
{
	struct gm_registers registers;
	uint64_t addresses[MAX_FRAMES], pointers[MAX_FRAMES];
	struct gm_error *error = gm_image_registers(graph->image, thread, &registers);
	if (error) {
		gm_error_destroy(error);
		return false;
	}
	uint64_t pointer = registers.value[GM_RSP];
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, pointer);
	if (!mapping)
		return true;
	struct gm_stack stack = {.thread = thread,
	        .pointer = pointer,
	        .start = mapping->start,
	        .end = mapping->end,
	        .first = stacks->addresses.count};
	stack.count = gm_symbols_unwind_frames(
	        graph->symbols, &registers, addresses, pointers, MAX_FRAMES, &stack.whole);
	stack.outermost = stack.count ? pointers[stack.count - 1] : pointer;
	for (size_t i = 0; i < stack.count; i++)
		if (!gm_array_push(&stacks->addresses, addresses[i]) ||
		        !gm_array_push(&stacks->pointers, pointers[i]))
			graph->no_memory = true;
	if (!gm_array_push(&stacks->items, stack))
		graph->no_memory = true;
	return true;
}

static bool add_stacks(struct gm_holders *graph, struct gm_stacks *stacks)
{
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	struct gm_error *error = gm_image_threads(graph->image, &threads, &count);
	if (error) {
		gm_error_destroy(error);
		return true;
	}
	for (size_t i = 0; i < count && i < MAX_THREADS; i++)
		if (!add_stack(graph, stacks, threads[i]) && i == 0)
			return false;
	return true;
}

void gm_stacks_read(struct gm_holders *graph, struct gm_stacks *stacks)
{
	struct gm_stop stop;
	if (stacks->read)
		return;
	stacks->read = true;
	if (add_stacks(graph, stacks) || gm_image_pid(graph->image) <= 0)
		return;
	/* refused: then what is alive on the stacks is not known */
	struct gm_error *error = gm_stop_begin(graph->image, &stop);
	if (error) {
		gm_error_destroy(error);
		return;
	}
	add_stacks(graph, stacks);
	gm_stop_end(&stop);
}

/* --- asking ----------------------------------------------------------------------------------------- */

/* glibc's struct pthread, at the thread's end of its stack, points to itself twice (nptl/descr.h, sysdeps/x86_64/nptl/tls.h:
 * tcbhead_t.tcb, .self). Its address; UINT64_MAX: there is none, as on the main thread's stack. */
static uint64_t control_block(struct gm_holders *graph, const struct gm_stack *stack)
{
	uint64_t words[3];
	uint64_t at = stack->outermost & ~(uint64_t)(CONTROL_STEP - 1);
	for (uint64_t end = at + CONTROL_SPAN; at < end && at + sizeof(words) <= stack->end;
	        at += CONTROL_STEP)
		if (gm_image_try_read(graph->image, at, words, sizeof(words)) && words[0] == at &&
		        words[2] == at)
			return at;
	return UINT64_MAX;
}

static char *frame_text(struct gm_holders *graph, const struct gm_stacks *stacks,
        const struct gm_stack *stack, uint64_t address)
{
	size_t frame = 0;
	struct gm_symbol symbol = {0};
	char *text;
	const uint64_t *pointers = stacks->pointers.items + stack->first;
	while (frame + 1 < stack->count && pointers[frame + 1] <= address)
		frame++;
	/* beyond the last frame that could be unwound it may be anybody's */
	bool known = stack->count && (frame + 1 < stack->count || stack->whole);
	struct gm_error *error = known ? gm_symbols_name(graph->symbols,
	                                         &stacks->addresses.items[stack->first + frame], 1,
	                                         frame > 0, &symbol)
	                               : NULL;
	if (error)
		gm_error_destroy(error);
	return asprintf(&text, "the native stack of thread %d%s%s", (int)stack->thread,
	               symbol.function ? ", in " : "", symbol.function ? symbol.function : "") < 0
	               ? NULL
	               : text;
}

enum gm_stack_part gm_stacks_part(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address, char **ret_text)
{
	const struct gm_stack *stack = NULL;
	*ret_text = NULL;
	if (!stacks->read)
		gm_stacks_read(graph, stacks);
	for (size_t i = 0; i < stacks->items.count && !stack; i++)
		if (stacks->items.items[i].start == mapping->start)
			stack = &stacks->items.items[i];
	if (!stack) {
		if (asprintf(ret_text, "a native stack%s",
		            mapping->path[0] ? " (the main thread's)" : "") < 0)
			*ret_text = NULL;
		return GM_STACK_UNKNOWN;
	}
	if (address + RED_ZONE < stack->pointer) {
		*ret_text = strdup("a dead part of a native stack");
		return GM_STACK_DEAD;
	}
	if (address >= stack->outermost && stack->count > 1) {
		uint64_t control = control_block(graph, stack);
		if (address >= control || (control == UINT64_MAX && stack->whole)) {
			*ret_text = strdup("what the C library notes of a thread");
			return GM_STACK_CONTROL;
		}
		if (control != UINT64_MAX && stack->whole) {
			if (asprintf(ret_text, "a variable of thread %d's own (thread_local)",
			            (int)stack->thread) < 0)
				*ret_text = NULL;
			return GM_STACK_DATA;
		}
	}
	*ret_text = frame_text(graph, stacks, stack, address);
	return GM_STACK_FRAME;
}

void gm_stacks_deinit(struct gm_stacks *stacks)
{
	gm_array_deinit(&stacks->items);
	gm_array_deinit(&stacks->addresses);
	gm_array_deinit(&stacks->pointers);
}
