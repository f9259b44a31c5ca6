#include "holders/heap/stacks.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/heap/heap.h"
#include "image/stop.h"

enum {
	MAX_FRAMES = 512,
	MAX_THREADS = 4096,
	GUARD_BYTES = 1 << 20, /* the largest guard area below a thread's stack */
	FIBER_BYTES = 8 << 20, /* the largest stack that a program makes for a fiber */
	BEYOND_BYTES = 4096,   /* of such a stack, above its outermost frame */
	RED_ZONE = 128,        /* below the stack pointer, but still in use (System V ABI, 3.2.2) */
};

static const struct gm_mapping *mapping_before(
        struct gm_holders *graph, const struct gm_mapping *mapping)
{
	size_t count;
	const struct gm_mapping *all = gm_image_mappings(graph->image, &count);
	return mapping > all && mapping < all + count ? mapping - 1 : NULL;
}

static bool is_named(const struct gm_mapping *mapping)
{
	return strncmp(mapping->path, "[stack", 6) == 0;
}

/* The main stack is known by name. Up to 2.41, glibc puts an unreadable guard area below the stack
 * of each thread (nptl/allocatestack.c). */
static bool is_stack_alone(struct gm_holders *graph, const struct gm_mapping *mapping)
{
	if (is_named(mapping))
		return true;
	const struct gm_mapping *guard = mapping_before(graph, mapping);
	return mapping->path[0] == 0 && guard && guard->end == mapping->start &&
	       guard->path[0] == 0 && !(guard->flags & (GM_MAPPING_READ | GM_MAPPING_WRITE)) &&
	       guard->end - guard->start <= GUARD_BYTES;
}

static bool is_within(const struct gm_stack_range *range, uint64_t address)
{
	return range->start <= address && address < range->end;
}

/* Only the ranges of recorded stacks are known to the byte. Of the others the one is taken whose
 * thread's stack pointer is next below the address. */
static const struct gm_stack *stack_at(const struct gm_stacks *stacks, uint64_t address)
{
	const struct gm_stack *best = NULL;
	for (size_t i = 0; i < stacks->items.count; i++) {
		const struct gm_stack *stack = &stacks->items.items[i];
		if (!is_within(&stack->range, address))
			continue;
		if (stack->range.record)
			return stack;
		bool alive = stack->pointer <= address + RED_ZONE;
		bool best_alive = best && best->pointer <= address + RED_ZONE;
		if (!best || (alive && !best_alive) ||
		        (alive && best_alive && stack->pointer > best->pointer))
			best = stack;
	}
	return best;
}

bool gm_is_stack(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address)
{
	if (!(mapping->flags & GM_MAPPING_WRITE))
		return false;
	/* from 2.42 on the guard is a page of the same mapping, and a program may put a stack
	 * anywhere: a mapping may have several, beside other memory */
	gm_stacks_read(graph, stacks);
	if (stack_at(stacks, address))
		return true;
	bool alone = is_stack_alone(graph, mapping);
	for (size_t i = 0; i < stacks->items.count && alone; i++)
		alone = stacks->items.items[i].range.start < mapping->start ||
		        stacks->items.items[i].range.start >= mapping->end;
	return alone;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool gm_stack_range_find(struct gm_holders *graph, const struct gm_registers *registers,
        struct gm_stack_range *ret_used, struct gm_stack_range *ret_left)
{
	uint64_t pointer = registers->value[GM_RSP], start, size;
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, pointer);
	*ret_left = (struct gm_stack_range){0};
	if (!mapping)
		return false;
	*ret_used = (struct gm_stack_range){.start = mapping->start, .end = mapping->end};
	if (is_named(mapping))
		return true;
	struct gm_stack_range recorded;
	bool found = gm_thread_record_find(graph->image, registers, mapping->end, &recorded);
	if (found && is_within(&recorded, pointer)) {
		*ret_used = recorded;
		return true;
	}
	if (found)
		*ret_left = recorded;
	if (gm_heap_recorded_chunk(graph, pointer, &start, &size)) {
		*ret_used = (struct gm_stack_range){.start = start, .end = start + size};
		return true;
	}
	if (found && !is_stack_alone(graph, mapping) && pointer - mapping->start > RED_ZONE)
		ret_used->start = pointer - RED_ZONE;
	if (found && mapping->end - pointer > FIBER_BYTES)
		ret_used->end = pointer + FIBER_BYTES;
	return strcmp(mapping->path, "[heap]") != 0;
}

/* The frames of a handler of signals, which may have a stack of its own, are followed by those of
 * the thread's stack, as it was left. */
static void split_frames(
        const struct gm_stacks *stacks, struct gm_stack *used, struct gm_stack *left)
{
	const uint64_t *pointers = stacks->pointers.items + used->first;
	size_t count = 0;
	while (count < used->count && is_within(&used->range, pointers[count]))
		count++;
	if (count == used->count || !is_within(&left->range, pointers[count]))
		return;
	left->first = used->first + count;
	left->count = used->count - count;
	left->pointer = pointers[count];
	left->outermost = used->outermost;
	left->whole = used->whole;
	used->count = count;
	used->outermost = pointers[count ? count - 1 : 0];
	used->whole = false;
}

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
	struct gm_stack used = {.thread = thread, .registers = registers, .pointer = pointer};
	struct gm_stack left = {.thread = thread, .registers = registers};
	bool known = gm_stack_range_find(graph, &registers, &used.range, &left.range);
	used.first = used.walk_first = stacks->addresses.count;
	left.first = left.walk_first = used.first;
	used.count = gm_symbols_unwind_frames(
	        graph->symbols, &registers, addresses, pointers, MAX_FRAMES, &used.whole);
	used.walk_count = left.walk_count = used.count;
	used.outermost = used.count ? pointers[used.count - 1] : pointer;
	for (size_t i = 0; i < used.count; i++)
		if (!gm_array_push(&stacks->addresses, addresses[i]) ||
		        !gm_array_push(&stacks->pointers, pointers[i]))
			graph->no_memory = true;
	if (graph->no_memory)
		return true;
	if (left.range.end) {
		/* which part of it is alive is not known, unless frames lead there */
		left.pointer = left.outermost = left.range.start;
		split_frames(stacks, &used, &left);
		if (used.whole && is_within(&used.range, used.outermost) &&
		        used.range.end - used.outermost > BEYOND_BYTES)
			used.range.end = used.outermost + BEYOND_BYTES;
		graph->no_memory |= !gm_array_push(&stacks->items, left);
	}
	if (known && !gm_array_push(&stacks->items, used))
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
	/* refused: then the used parts of the stacks are not known */
	struct gm_error *error = gm_stop_begin(graph->image, &stop);
	if (error) {
		gm_error_destroy(error);
		return;
	}
	add_stacks(graph, stacks);
	gm_stop_end(&stop);
}

/* --- queries ---------------------------------------------------------------------------------- */

static struct gm_native_owner *frame_owner(struct gm_holders *graph, const struct gm_stacks *stacks,
        const struct gm_stack *stack, uint64_t address)
{
	size_t frame = stack->first;
	struct gm_symbol symbol = {0};
	const uint64_t *pointers = stacks->pointers.items;
	while (frame + 1 < stack->first + stack->count && pointers[frame + 1] <= address)
		frame++;
	/* beyond the last frame that could be unwound, the owner is not known */
	bool known = stack->count && (frame + 1 < stack->first + stack->count || stack->whole);
	size_t saver = stack->walk_first + gm_symbols_saver(graph->symbols, &stack->registers,
	                                           address, stack->walk_count);
	if (known && saver > frame && saver < stack->walk_first + stack->walk_count)
		frame = saver;
	struct gm_error *error =
	        known ? gm_symbols_name_functions(graph->symbols, &stacks->addresses.items[frame],
	                        1, frame > stack->walk_first, &symbol)
	              : NULL;
	if (error)
		gm_error_destroy(error);
	return gm_native_owner_create((struct gm_native_part){.form = GM_NATIVE_STACK,
	        .name = symbol.function,
	        .number = (uint64_t)stack->thread});
}

enum gm_stack_part gm_stacks_part(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address, struct gm_native_owner **ret_owner)
{
	*ret_owner = NULL;
	gm_stacks_read(graph, stacks);
	const struct gm_stack *stack = stack_at(stacks, address);
	if (!stack) {
		*ret_owner = gm_native_owner_create((struct gm_native_part){
		        .form = GM_NATIVE_UNKNOWN_STACK, .index = mapping->path[0] != 0});
		return GM_STACK_UNKNOWN;
	}
	if (address + RED_ZONE < stack->pointer)
		return GM_STACK_DEAD;
	if (address >= stack->outermost && stack->count > 1) {
		uint64_t record = stack->range.record;
		if (record ? address >= record : stack->whole)
			return GM_STACK_CONTROL;
		if (record && stack->whole) {
			*ret_owner = gm_native_owner_create((struct gm_native_part){
			        .form = GM_NATIVE_THREAD_LOCAL, .number = (uint64_t)stack->thread});
			return GM_STACK_DATA;
		}
	}
	*ret_owner = frame_owner(graph, stacks, stack, address);
	return GM_STACK_FRAME;
}

void gm_stacks_deinit(struct gm_stacks *stacks)
{
	gm_array_deinit(&stacks->items);
	gm_array_deinit(&stacks->addresses);
	gm_array_deinit(&stacks->pointers);
}
