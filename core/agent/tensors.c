/*
 * The tensor for which a block is allocated: dtype, sizes and strides.
 *
 * at::detail::empty_generic() and empty_strided_generic() make nearly every tensor with its
 * own memory; the others (resize_(), workspaces, storages without a tensor) stay unknown. A hook at
 * each notes the arguments in its thread. The allocator's report comes from within that call and
 * takes the note, if two things hold:
 *
 *   - the call is still in progress: its return address is where the call has put it, a little
 *     above the report's own place on the stack;
 *   - the bytes that follow from sizes, strides and dtype are those that the allocator was asked
 *     for.
 *
 * A note that was not taken (the tensor was empty, or on another device) fails one of these checks
 * and is never used.
 *
 * A description is interned as a chain: dtype, each size, each stride, in the same kind of table as
 * stacks. Equal ones have one number, and those of the same dtype and first sizes share their
 * beginning.
 */
#include "agent/tensors.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/hook_entry.h"
#include "agent/stacks/inside.h"
#include "agent/lookup.h"
#include "agent/state.h"
#include "torch/names.h"

enum { NODES_MAX = 1 << 17 };
_Static_assert(
        (int)GM_NEW_TENSOR_DIMENSIONS <= (int)GM_AGENT_TENSOR_DIMENSIONS, "see gm_spool_tensor()");

static struct gm_trie tensors;
static bool ready;

SEE void *gm_agent_see_empty(const struct call *call);
SEE void *gm_agent_see_empty_strided(const struct call *call);

HOOK(GM_TORCH_EMPTY, "gm_agent_see_empty");
HOOK(GM_TORCH_EMPTY_STRIDED, "gm_agent_see_empty_strided");

GM_AGENT_EXPORT void hook_empty(void) __asm__(GM_TORCH_EMPTY);
GM_AGENT_EXPORT void hook_empty_strided(void) __asm__(GM_TORCH_EMPTY_STRIDED);

static void *_Atomic before_empty, *_Atomic before_empty_strided;

const struct gm_agent_hook gm_agent_tensor_hooks[] = {
        {GM_TORCH_EMPTY, (void *)hook_empty, &before_empty},
        {GM_TORCH_EMPTY_STRIDED, (void *)hook_empty_strided, &before_empty_strided},
        {NULL, NULL, NULL},
};

/* --- the requested tensor --------------------------------------------------------------------- */

/* Notes a call; `format`: c10::MemoryFormat, -1: none. The arrays belong to the caller and are read
 * only here. */
static void note_call(const struct call *call, uint64_t sizes, uint64_t count, uint64_t strides,
        unsigned type, int format)
{
	struct gm_stacks_thread *thread = ready ? gm_stacks_thread() : NULL;
	if (!thread)
		return;
	struct gm_agent_tensor_note *note = &thread->tensor;
	struct gm_new_tensor *tensor = &note->tensor;
	if (!gm_new_tensor_init(tensor, type, count))
		return;
	note->sp = call->at.rsp;
	note->return_address = call->at.rip;
	if (count)
		memcpy(tensor->sizes, (const void *)(uintptr_t)sizes,
		        count * sizeof(*tensor->sizes));
	if (strides && count)
		memcpy(tensor->strides, (const void *)(uintptr_t)strides,
		        count * sizeof(*tensor->strides));
	if (strides)
		gm_new_tensor_put_strides(tensor);
	else
		gm_new_tensor_put_format(tensor, format);
}

/*
 * A program that allocates nothing that is recorded creates no file: as long as there is none, the
 * tensor must be on a device that is recorded. `keys`: c10::DispatchKeySet, whose lowest bits are
 * the backends (c10/core/DispatchKeySet.h, 1.12+). If they are others, only the first tensor stays
 * unknown.
 */
static bool enter(uint64_t keys)
{
	enum { CPU_BIT = 1 << 0, CUDA_BIT = 1 << 1 };
	unsigned features =
	        (keys & CPU_BIT ? GM_AGENT_CPU : 0u) | (keys & CUDA_BIT ? GM_AGENT_CUDA : 0u);
	return (!gm_agent_waits() || gm_agent_records(features)) && gm_agent_enter();
}

/* TensorBase empty_generic(IntArrayRef size, Allocator *, DispatchKeySet, ScalarType,
 * optional<MemoryFormat>) (ATen/EmptyTensor.h). The result is returned in memory, so its address is
 * the first argument; an ArrayRef is two words. The last argument, a byte and a flag, is on the
 * stack. */
void *gm_agent_see_empty(const struct call *call)
{
	if (enter(call->argument[4])) {
		const uint8_t *format = (const uint8_t *)(uintptr_t)call->at.rsp;
		note_call(call, call->argument[1], call->argument[2], 0, (uint8_t)call->argument[5],
		        format[1] ? format[0] : -1);
		gm_agent_leave();
	}
	return gm_agent_go_on(&before_empty, "libtorch_cpu.so", GM_TORCH_EMPTY);
}

/* TensorBase empty_strided_generic(IntArrayRef size, IntArrayRef stride, Allocator *,
 * DispatchKeySet, ScalarType): the last two are on the stack. */
void *gm_agent_see_empty_strided(const struct call *call)
{
	const uint64_t *more = (const uint64_t *)(uintptr_t)call->at.rsp;
	if (enter(more[0])) {
		if (call->argument[2] == call->argument[4])
			note_call(call, call->argument[1], call->argument[2], call->argument[3],
			        (uint8_t)more[1], -1);
		gm_agent_leave();
	}
	return gm_agent_go_on(&before_empty_strided, "libtorch_cpu.so", GM_TORCH_EMPTY_STRIDED);
}

/* ---- the report ------------------------------------------------------------------------------ */

static uint32_t intern(const struct gm_new_tensor *tensor)
{
	uint32_t id = gm_trie_child(
	        &tensors, 0, tensor->type | (tensor->strided ? GM_AGENT_TENSOR_STRIDED : 0u));
	for (uint32_t i = 0; i < tensor->dimensions && id; i++)
		id = gm_trie_child(&tensors, id, (uint64_t)tensor->sizes[i]);
	if (tensor->strided)
		for (uint32_t i = 0; i < tensor->dimensions && id; i++)
			id = gm_trie_child(&tensors, id, (uint64_t)tensor->strides[i]);
	return id;
}

uint32_t gm_agent_tensor_take(uint64_t size, uint64_t sp)
{
	struct gm_stacks_thread *thread = gm_stacks_current;
	if (!thread || thread->tensor.tensor.bytes == 0 || thread->tensor.tensor.bytes != size)
		return 0;
	struct gm_agent_tensor_note *note = &thread->tensor;
	bool under_way = gm_call_is_under_way(note->sp, note->return_address, sp);
	note->tensor.bytes = 0;
	return under_way && ready ? intern(&note->tensor) : 0;
}

static uint32_t write_node(uint8_t *bytes, const struct gm_trie_node *node)
{
	uint8_t *at = gm_put_varint(bytes, node->parent);
	return (uint32_t)(gm_put_varint(at, node->value) - bytes);
}

void gm_agent_tensors_begin(void)
{
	ready = false;
	gm_trie_clear(&tensors);
	ready = gm_trie_init(&tensors, GM_AGENT_TENSOR, NODES_MAX, write_node);
}
