#include "holders/heap/stacks.h"

#include <string.h>

#include "base/cleanup.h"
#include "image/stop.h"

enum {
	MAX_FRAMES = 512,
	MAX_THREADS = 4096,
	GUARD_BYTES = 1 << 20, /* the largest guard area below a thread's stack */
	RED_ZONE = 128,        /* below the stack pointer, but still in use (System V ABI, 3.2.2) */
	CONTROL_STEP = 64,     /* struct pthread is aligned to this (glibc, nptl/descr.h) */
	CONTROL_SPAN = 64 << 10,
	CONTROL_BYTES = 4096, /* at least sizeof(struct pthread) and what is stored above it */
	BYTES_AT_ONCE = 64 << 10,
	STACK_BYTES = 64 << 20, /* bytes of a stack that are searched for its end */
	PAGE = 4096,
};

static const struct gm_mapping *mapping_before(
        struct gm_holders *graph, const struct gm_mapping *mapping)
{
	size_t count;
	const struct gm_mapping *all = gm_image_mappings(graph->image, &count);
	return mapping > all && mapping < all + count ? mapping - 1 : NULL;
}

/* The main stack is known by name. Up to 2.41, glibc puts an unreadable guard area below the stack
 * of each thread (nptl/allocatestack.c). */
static bool is_stack_alone(struct gm_holders *graph, const struct gm_mapping *mapping)
{
	if (strncmp(mapping->path, "[stack", 6) == 0)
		return true;
	const struct gm_mapping *guard = mapping_before(graph, mapping);
	return mapping->path[0] == 0 && guard && guard->end == mapping->start &&
	       guard->path[0] == 0 && !(guard->flags & (GM_MAPPING_READ | GM_MAPPING_WRITE)) &&
	       guard->end - guard->start <= GUARD_BYTES;
}

static const struct gm_stack *stack_at(const struct gm_stacks *stacks, uint64_t address)
{
	for (size_t i = 0; i < stacks->items.count; i++)
		if (stacks->items.items[i].start <= address && address < stacks->items.items[i].end)
			return &stacks->items.items[i];
	return NULL;
}

bool gm_is_stack(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address)
{
	bool alone = is_stack_alone(graph, mapping);
	if (!alone && (mapping->path[0] != 0 || !(mapping->flags & GM_MAPPING_WRITE)))
		return false;
	/* from 2.42 on the guard is a page of the same mapping, and adjacent stacks may be one
	 * mapping */
	gm_stacks_read(graph, stacks);
	if (stack_at(stacks, address))
		return true;
	for (size_t i = 0; i < stacks->items.count && alone; i++)
		alone = stacks->items.items[i].start < mapping->start ||
		        stacks->items.items[i].start >= mapping->end;
	return alone;
}

/* --- reading ---------------------------------------------------------------------------------- */

/*
 * The range of a thread's stack, from struct pthread at its address `control`. Its consecutive
 * members stackblock, stackblock_size and guardsize (glibc, nptl/descr.h) are recognized by the
 * values that they must have.
 */
static bool bounds_of(struct gm_holders *graph, uint64_t control, uint64_t pointer,
        const struct gm_mapping *mapping, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t words[CONTROL_BYTES / 8];
	size_t count = gm_image_read_some(graph->image, control, words, sizeof(words)) / 8;
	for (size_t i = 3; i + 2 < count; i++) {
		uint64_t block = words[i], size = words[i + 1], guard = words[i + 2];
		if (block == 0 || size == 0 || (block | size | guard) % PAGE != 0 || size >> 47 ||
		        guard >= size || block + guard > pointer || control < pointer ||
		        control - block >= size || block + size > mapping->end)
			continue;
		*ret_start = block + guard > mapping->start ? block + guard : mapping->start;
		*ret_end = block + size;
		return true;
	}
	return false;
}

void gm_stack_bounds(struct gm_holders *graph, uint64_t pointer, const struct gm_mapping *mapping,
        uint64_t *ret_start, uint64_t *ret_end)
{
	_cleanup_free_ uint64_t *words = malloc(BYTES_AT_ONCE);
	uint64_t at = pointer & ~(uint64_t)(CONTROL_STEP - 1);
	uint64_t last = mapping->end - pointer > STACK_BYTES ? pointer + STACK_BYTES : mapping->end;
	*ret_start = mapping->start;
	*ret_end = mapping->end;
	if (strncmp(mapping->path, "[stack", 6) == 0)
		return;
	while (words && at < last) {
		size_t size = last - at < BYTES_AT_ONCE ? (size_t)(last - at) : BYTES_AT_ONCE;
		size_t got = gm_image_read_some(graph->image, at, words, size);
		for (size_t i = 0; (i + 3) * 8 <= got; i += CONTROL_STEP / 8)
			if (words[i] == at + i * 8 && words[i + 2] == words[i] &&
			        bounds_of(graph, words[i], pointer, mapping, ret_start, ret_end))
				return;
		if (got < size)
			return;
		at += size;
	}
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
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, pointer);
	if (!mapping)
		return true;
	struct gm_stack stack = {
	        .thread = thread, .pointer = pointer, .first = stacks->addresses.count};
	gm_stack_bounds(graph, pointer, mapping, &stack.start, &stack.end);
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

/* glibc's struct pthread, at the top of a thread's stack, contains its own address twice
 * (nptl/descr.h, sysdeps/x86_64/nptl/tls.h: tcbhead_t.tcb, .self). Returns its address; UINT64_MAX
 * if there is none, as on the main thread's stack. */
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

static struct gm_native_owner *frame_owner(struct gm_holders *graph, const struct gm_stacks *stacks,
        const struct gm_stack *stack, uint64_t address)
{
	size_t frame = 0;
	struct gm_symbol symbol = {0};
	const uint64_t *pointers = stacks->pointers.items + stack->first;
	while (frame + 1 < stack->count && pointers[frame + 1] <= address)
		frame++;
	/* beyond the last frame that could be unwound, the owner is not known */
	bool known = stack->count && (frame + 1 < stack->count || stack->whole);
	struct gm_error *error = known ? gm_symbols_name_functions(graph->symbols,
	                                         &stacks->addresses.items[stack->first + frame], 1,
	                                         frame > 0, &symbol)
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
		uint64_t control = control_block(graph, stack);
		if (address >= control || (control == UINT64_MAX && stack->whole))
			return GM_STACK_CONTROL;
		if (control != UINT64_MAX && stack->whole) {
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
