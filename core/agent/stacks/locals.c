/*
 * The objects in the local variables of the calling thread's innermost Python frames. The frames
 * are its own and do not change meanwhile; objects in locals are alive.
 */
#include "agent/stacks/locals.h"

#include "agent/stacks/inside.h"

enum { LOCALS_MAX = 256 /* of a frame */ };

bool gm_stacks_locals(uint32_t depth, gm_stacks_local visit, void *context)
{
	struct gm_stacks_thread *thread = gm_stacks_current;
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	if (!thread || depth >= thread->python_count)
		return false;
	const struct gm_python_slot *slot = &thread->python[thread->python_count - 1 - depth];
	const uint32_t count =
	        slot->entry->local_count < LOCALS_MAX ? slot->entry->local_count : LOCALS_MAX;
	const uint64_t locals = slot->frame + (uint64_t)layout->frame_localsplus;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t object = gm_stackref_object(layout, gm_load(locals + 8 * (uint64_t)i));
		if (object)
			visit(context, object);
	}
	return true;
}

bool gm_stacks_look(void)
{
	struct gm_stacks_thread *thread = gm_stacks_thread();
	uint64_t state;
	return thread && gm_stacks_options.python &&
	       __atomic_load_n(&gm_stacks_python.on, __ATOMIC_ACQUIRE) &&
	       gm_python_take(thread, &state) && thread->has_frames;
}
