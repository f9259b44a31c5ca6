/*
 * Stops at events, for gdb's `gpumem next-event`, `until` and `watch`.
 *
 * The debugger writes the first event number that is of interest into gpumem_agent_stops, and sets
 * a breakpoint on gpumem_agent_at_event(). The agent calls this function at each such event or, if
 * there is a filter (stop_filter.h), at those that pass the filter. The evaluation needs no memory,
 * no lock and no system call.
 *
 * In a program that the debugger starts, it writes these variables before the program's first
 * instruction, when the dynamic linker has loaded the agent. They are kept when the recording
 * begins.
 */
#include "agent/stops.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/state.h"
#include "agent/stop_filter.h"

_Atomic uint64_t gpumem_agent_stops = UINT64_MAX;

GM_AGENT_EXPORT extern struct gm_stop_filter gpumem_agent_stop_filter;
struct gm_stop_filter gpumem_agent_stop_filter;
/* Only the debugger writes this. */
GM_AGENT_EXPORT extern uint8_t gpumem_agent_stop_never_python[GM_STOP_PYTHON_MAX];
GM_AGENT_EXPORT extern uint8_t gpumem_agent_stop_never_native[GM_STOP_NATIVE_MAX];
GM_AGENT_EXPORT extern uint8_t gpumem_agent_stop_never_tensor[GM_STOP_TENSORS_MAX];
uint8_t gpumem_agent_stop_never_python[GM_STOP_PYTHON_MAX];
uint8_t gpumem_agent_stop_never_native[GM_STOP_NATIVE_MAX];
uint8_t gpumem_agent_stop_never_tensor[GM_STOP_TENSORS_MAX];

GM_AGENT_EXPORT __attribute__((noinline)) void gpumem_agent_at_event(
        const struct gm_stop_here *here);
void gpumem_agent_at_event(const struct gm_stop_here *here)
{
	__asm__ volatile("" ::"r"(here) : "memory"); /* the call itself is the purpose */
}

/* A log has a segment, and released parts, only together with an event that follows. */
static _Thread_local bool thread_had_segment;
static _Atomic bool had_unmap;
static _Thread_local bool found;

void gm_agent_stops_found(void)
{
	found = true;
}

void gm_agent_stops_begin(void)
{
	/* a debugger that came before the first event has set a later one */
	if (gpumem_agent_stop_filter.pid != gm_agent_pid())
		atomic_store(&gpumem_agent_stops, UINT64_MAX);
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* The events of the log that this one becomes. */
struct seen {
	const struct gm_agent_event *event;
	uint64_t least, most; /* their numbers */
	uint64_t actions;     /* bits */
	bool found;
};

static unsigned judge(const struct seen *seen, const struct gm_stop_op *op)
{
	const struct gm_agent_event *event = seen->event;
	bool allocates = event->action == GM_AGENT_ALLOC;
	uint64_t value;
	switch ((enum gm_stop_fact)op->fact) {
	case GM_STOP_SIZE: /* for host memory, a free does not have it */
		if (event->device_type != 1 && !allocates)
			return GM_MAY_BE_ANY;
		value = event->size;
		break;
	case GM_STOP_REQUESTED: /* for a free, that of its allocation */
		if (!allocates)
			return GM_MAY_BE_ANY;
		if (!event->requested)
			return GM_MAY_BE_UNKNOWN;
		value = event->requested;
		break;
	case GM_STOP_STREAM:
		if (!allocates)
			return GM_MAY_BE_ANY;
		value = event->stream;
		break;
	case GM_STOP_ADDRESS:
		value = event->address;
		break;
	case GM_STOP_DEVICE:
		if (event->device < 0)
			return GM_MAY_BE_ANY;
		value = (uint64_t)event->device;
		break;
	case GM_STOP_ALLOCATED:
	case GM_STOP_RESERVED:
		if (event->device_type != 1 || event->allocated == UINT64_MAX)
			return GM_MAY_BE_ANY;
		value = op->fact == GM_STOP_ALLOCATED ? event->allocated : event->reserved;
		break;
	case GM_STOP_EVENT:
		return gm_stop_compare(
		        (enum gm_stop_compare)op->compare, op->number, seen->least, seen->most);
	case GM_STOP_ACTION:
		return (seen->actions & op->number ? GM_MAY_BE_TRUE : 0) |
		       (seen->actions & ~op->number ? GM_MAY_BE_FALSE : 0);
	case GM_STOP_FOUND:
		return seen->found ? GM_MAY_BE_ANY : GM_MAY_BE_FALSE;
	default:
		return GM_MAY_BE_ANY;
	}
	return gm_stop_compare((enum gm_stop_compare)op->compare, op->number, value, value);
}

static bool may_hold(const struct seen *seen)
{
	const struct gm_stop_filter *filter = &gpumem_agent_stop_filter;
	uint8_t sets[GM_STOP_DEPTH_MAX];
	uint32_t depth = 0;
	for (uint32_t i = 0; i < filter->count && i < GM_STOP_OPS_MAX; i++) {
		const struct gm_stop_op *op = &filter->ops[i];
		if (op->kind == GM_STOP_CLAUSE || op->kind == GM_STOP_SET) {
			if (depth == GM_STOP_DEPTH_MAX)
				return true;
			sets[depth++] =
			        (uint8_t)(op->kind == GM_STOP_SET ? op->number : judge(seen, op));
			continue;
		}
		depth = gm_stop_combine(op->kind, sets, depth);
		if (!depth)
			return true;
	}
	return depth != 1 || sets[0] & GM_MAY_BE_TRUE;
}

static bool is_marked(const uint8_t *table, uint32_t size, uint32_t number)
{
	return number < size && table[number] == (uint8_t)gpumem_agent_stop_filter.generation;
}

/* The events of the log that an event may become, at most. */
static uint64_t count_on(const struct gm_agent_event *event, struct seen *ret)
{
	struct gm_stop_filter *filter = &gpumem_agent_stop_filter;
	bool is_block = event->source == GM_AGENT_C10 && event->device_type == 1;
	bool frees = event->action == GM_AGENT_FREE_REQUESTED;
	uint64_t sure = 0;
	if (is_block && (event->action == GM_AGENT_ALLOC || frees ||
	                        event->action == GM_AGENT_FREE_COMPLETED))
		sure = frees && !event->deferred ? 2 : 1;
	ret->least = atomic_fetch_add_explicit(&filter->least, sure, memory_order_relaxed);
	ret->most =
	        atomic_fetch_add_explicit(&filter->most, sure ? sure : 2, memory_order_relaxed) +
	        (sure ? sure : 2);
	ret->actions = UINT64_C(1) << event->action;
	if (frees && !event->deferred)
		ret->actions |= UINT64_C(1) << GM_AGENT_FREE_COMPLETED;
	return sure;
}

static bool passes_filter(const struct gm_agent_event *event, const struct gm_agent_stacks *stacks)
{
	const struct gm_stop_filter *filter = &gpumem_agent_stop_filter;
	struct seen seen = {.event = event, .found = found};
	found = false;
	uint64_t sure = count_on(event, &seen);
	bool follows = thread_had_segment;
	thread_had_segment =
	        event->action == GM_AGENT_SEGMENT_ALLOC || event->action == GM_AGENT_SEGMENT_MAP;
	if (atomic_load_explicit(&had_unmap, memory_order_relaxed))
		follows |= atomic_exchange(&had_unmap, false);
	if (event->action == GM_AGENT_SEGMENT_UNMAP)
		atomic_store(&had_unmap, true);
	if (follows || (!sure && (event->device_type != 0 || event->source != GM_AGENT_C10)))
		return true; /* memory from CUDA, for example: there are few */
	if (is_marked(gpumem_agent_stop_never_python, GM_STOP_PYTHON_MAX, stacks->python) ||
	        is_marked(gpumem_agent_stop_never_native, GM_STOP_NATIVE_MAX, stacks->native) ||
	        (event->action == GM_AGENT_ALLOC && is_marked(gpumem_agent_stop_never_tensor,
	                                                    GM_STOP_TENSORS_MAX, event->tensor)))
		return false;
	return filter->count == 0 || may_hold(&seen);
}

void gm_agent_stops_see(
        const struct gm_agent_event *event, const struct gm_agent_stacks *stacks, uint64_t sequence)
{
	const struct gm_stop_here here = {.sequence = sequence,
	        .python = stacks->python,
	        .native = stacks->native,
	        .tensor = event->tensor};
	if (gpumem_agent_stop_filter.pid != gm_agent_pid() || passes_filter(event, stacks))
		gpumem_agent_at_event(&here);
}
