/*
 * The tensor for which a storage is resized.
 *
 * resize_bytes_cuda() and resize_bytes_cpu() get the storage and the new size. The tensor is found
 * through the caller, if it covers all the bytes (torch/filling_tensor.h):
 *
 *   - Tensor.resize_() and operators with an empty output call it for a TensorImpl, which they
 *     have in a register or on their stack;
 *   - UntypedStorage.resize_() is called from Python: FSDP frees and makes storages so
 *     (`tensor.untyped_storage().resize_(size)`), and the tensor is a local variable of that
 *     function or of one that called it.
 *
 * If two different ones are found, neither is used. The result is noted as the tensor of a call in
 * progress, for the allocator's report (tensors.c).
 */
#include "agent/resized.h"

#include <stdatomic.h>

#include "agent/hook_entry.h"
#include "agent/lookup.h"
#include "agent/stacks/inside.h"
#include "agent/stacks/locals.h"
#include "agent/state.h"
#include "torch/filling_tensor.h"
#include "torch/layouts.h"
#include "torch/names.h"

SEE void *gm_agent_see_resize_cuda(const struct call *call);
SEE void *gm_agent_see_resize_cpu(const struct call *call);

HOOK(GM_TORCH_RESIZE_CUDA, "gm_agent_see_resize_cuda");
HOOK(GM_TORCH_RESIZE_CPU, "gm_agent_see_resize_cpu");

GM_AGENT_EXPORT void hook_resize_cuda(void) __asm__(GM_TORCH_RESIZE_CUDA);
GM_AGENT_EXPORT void hook_resize_cpu(void) __asm__(GM_TORCH_RESIZE_CPU);

static void *_Atomic before_resize_cuda, *_Atomic before_resize_cpu;

const struct gm_agent_hook gm_agent_resize_hooks[] = {
        {GM_TORCH_RESIZE_CUDA, (void *)hook_resize_cuda, &before_resize_cuda},
        {GM_TORCH_RESIZE_CPU, (void *)hook_resize_cpu, &before_resize_cpu},
        {NULL, NULL, NULL},
};

static bool read_program(const void *context, uint64_t address, void *ret_bytes, size_t size)
{
	return gm_read_checked(address, ret_bytes, size);
}

static void see_object(void *context, uint64_t object)
{
	gm_filled_try_python(context, object);
}

static bool try_locals(void *context, uint32_t depth, struct gm_filled *filled)
{
	return gm_stacks_look() && gm_stacks_locals(depth, see_object, filled);
}

/* With the layout of one version. A tensor of another one's does not fit it: a wrapper and its
 * TensorImpl must know each other, and the sizes to be those of the bytes. */
static void search_with(struct gm_filled *filled, const struct gm_agent_registers *at)
{
	const uint64_t registers[GM_FILLED_REGISTERS] = {
	        at->rbx, at->rbp, at->r12, at->r13, at->r14, at->r15};
	gm_filled_search(filled, registers, try_locals, NULL);
}

static bool same_fields(const struct gm_torch_layout *a, const struct gm_torch_layout *b)
{
	return a->tensor.python == b->tensor.python && a->tensor.sizes == b->tensor.sizes &&
	       a->tensor.dtype == b->tensor.dtype &&
	       a->python.tensor_maybe_owned == b->python.tensor_maybe_owned;
}

static void note_resize(const struct call *call)
{
	struct gm_stacks_thread *thread = gm_stacks_thread();
	const struct gm_torch_layout *row, *last = NULL;
	struct gm_filled filled = {.read = read_program,
	        .sp = call->at.rsp,
	        .storage = call->argument[0],
	        .bytes = call->argument[1]};
	if (!thread || filled.bytes == 0)
		return;
	thread->tensor.tensor.bytes = 0;
	for (size_t i = 0; (row = gm_torch_layout_at(i)) && filled.count == 0; i++) {
		if (last && same_fields(last, row))
			continue;
		filled.layout = last = row;
		search_with(&filled, &call->at);
	}
	if (filled.count > 0)
		thread->tensor = (struct gm_agent_tensor_note){
		        .sp = call->at.rsp, .return_address = call->at.rip, .tensor = filled.found};
}

static void see(const struct call *call, enum gm_agent_feature device)
{
	/* memory that is not recorded begins no file */
	if ((!gm_agent_waits() || gm_agent_records(device)) && gm_agent_enter()) {
		note_resize(call);
		gm_agent_leave();
	}
}

/* void resize_bytes_cuda(StorageImpl *, size_t) (ATen/native/cuda/Resize.h) */
void *gm_agent_see_resize_cuda(const struct call *call)
{
	see(call, GM_AGENT_CUDA);
	return gm_agent_go_on(&before_resize_cuda, "libtorch_cuda.so", GM_TORCH_RESIZE_CUDA);
}

/* void resize_bytes_cpu(StorageImpl *, size_t) (ATen/native/Resize.h) */
void *gm_agent_see_resize_cpu(const struct call *call)
{
	see(call, GM_AGENT_CPU);
	return gm_agent_go_on(&before_resize_cpu, "libtorch_cpu.so", GM_TORCH_RESIZE_CPU);
}
