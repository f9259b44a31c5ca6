/*
 * Whether autograd records in the thread that allocates: a thread-local bit of libc10's, which an
 * exported function of a few instructions reads. It takes no lock and allocates nothing.
 */
#include "agent/grad_mode.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/spool.h"
#include "agent/lookup.h"
#include "torch/names.h"

typedef bool grad_function(void);

static void *_Atomic enabled;
static _Atomic bool looked_for;

void gm_agent_grad_mode_begin(void)
{
	/* the header of each file says what its events contain */
	atomic_store(&enabled, NULL);
	atomic_store(&looked_for, false);
}

static void look(void)
{
	struct gm_agent_file_header *header = gm_agent_spool_header();
	if (!header || atomic_exchange(&looked_for, true))
		return;
	void *found = gm_agent_lookup("libc10.so", GM_TORCH_GRAD_ENABLED);
	if (found)
		header->features |= GM_AGENT_HAS_GRAD;
	atomic_store(&enabled, found);
}

uint32_t gm_agent_grad_bits(const struct gm_agent_event *event)
{
	bool is_block = event->action == GM_AGENT_ALLOC || event->action == GM_AGENT_FREE_REQUESTED;
	if (!is_block || event->source != GM_AGENT_C10 || event->preexisting)
		return 0;
	if (__builtin_expect(!atomic_load_explicit(&looked_for, memory_order_relaxed), 0))
		look();
	void *found = atomic_load_explicit(&enabled, memory_order_relaxed);
	grad_function *is_enabled;
	memcpy(&is_enabled, &found, sizeof(is_enabled));
	return is_enabled && !is_enabled() ? GM_AGENT_NO_GRAD : 0;
}
