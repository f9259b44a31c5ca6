/* The tensor for which a storage is resized (torch/filling_tensor.h), at a breakpoint.
 * agent/resized.c does the same within the program. */
#include "record/resized.h"

#include "record/tensors.h"
#include "torch/filling_tensor.h"
#include "torch/readers.h"

static const size_t NOT_READ = SIZE_MAX;

static bool read_program(const void *context, uint64_t address, void *ret_bytes, size_t size)
{
	struct gm_image *image = (struct gm_image *)(uintptr_t)context;
	return gm_image_try_read(image, address, ret_bytes, size);
}

/* The Python frames of the thread, read once. */
struct frames {
	struct gm_recorder *recorder;
	pid_t thread;
	size_t count; /* NOT_READ: not yet */
	struct gm_python_frame frames[GM_FILLED_FRAMES];
};

static bool try_locals(void *context, uint32_t depth, struct gm_filled *filled)
{
	struct frames *frames = context;
	struct gm_python *python = frames->recorder->python;
	if (frames->count == NOT_READ)
		frames->count = python ? gm_python_stack(python, frames->thread, frames->frames,
		                                 GM_FILLED_FRAMES)
		                       : 0;
	if (depth >= frames->count)
		return false;
	const struct gm_python_frame *frame = &frames->frames[depth];
	for (uint32_t slot = 0; slot < frame->code->local_count; slot++)
		gm_filled_try_python(filled, gm_python_local(python, frame, slot));
	return true;
}

/* void resize_bytes_cuda(StorageImpl *, size_t) (ATen/native/cuda/Resize.h), and resize_bytes_cpu()
 * (ATen/native/Resize.h) */
void gm_record_note_resize(struct gm_recorder *recorder, const struct gm_moment *moment)
{
	const uint64_t *registers = moment->registers.value;
	uint64_t return_address;
	if (!recorder->torch || registers[GM_RSI] == 0 ||
	        !gm_image_try_u64(recorder->image, registers[GM_RSP], &return_address))
		return;
	struct gm_filled filled = {.layout = gm_torch_layout_of(recorder->torch),
	        .read = read_program,
	        .context = recorder->image,
	        .sp = registers[GM_RSP] + sizeof(return_address),
	        .storage = registers[GM_RDI],
	        .bytes = registers[GM_RSI]};
	const uint64_t callers[GM_FILLED_REGISTERS] = {registers[GM_RBX], registers[GM_RBP],
	        registers[GM_R12], registers[GM_R13], registers[GM_R14], registers[GM_R15]};
	struct frames frames = {.recorder = recorder, .thread = moment->thread, .count = NOT_READ};
	gm_filled_search(&filled, callers, try_locals, &frames);
	struct gm_tensor_note *note = gm_record_tensor_note(recorder, moment->thread);
	if (!note)
		return;
	note->sp = registers[GM_RSP];
	note->return_address = return_address;
	note->tensor = filled.found; /* bytes 0: none is */
}
