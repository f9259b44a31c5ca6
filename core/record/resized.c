/*
 * The tensor that a storage is resized for: one that has all its bytes (torch/filling_tensor.h), in
 * a register of the caller, in a local variable of the innermost Python functions, or on the
 * caller's stack. agent/resized.c does the same in the program.
 */
#include "record/resized.h"

#include "record/tensors.h"
#include "torch/filling_tensor.h"
#include "torch/readers.h"

enum { FRAMES = 4 };

static bool read_program(const void *context, uint64_t address, void *ret_bytes, size_t size)
{
	struct gm_image *image = (struct gm_image *)(uintptr_t)context;
	return gm_image_try_read(image, address, ret_bytes, size);
}

static void search_locals(struct gm_recorder *recorder, pid_t thread, struct gm_filled *filled)
{
	struct gm_python_frame frames[FRAMES];
	size_t count = gm_python_stack(recorder->python, thread, frames, FRAMES);
	for (size_t i = 0; i < count && filled->count == 0; i++)
		for (uint32_t slot = 0; slot < frames[i].code->local_count; slot++)
			gm_filled_try_python(
			        filled, gm_python_local(recorder->python, &frames[i], slot));
}

/* void resize_bytes_cuda(StorageImpl *, size_t) (ATen/native/cuda/Resize.h), and resize_bytes_cpu()
 * (ATen/native/Resize.h) */
void gm_record_note_resize(struct gm_recorder *recorder, const struct gm_moment *moment)
{
	static const int callers[] = {GM_RBX, GM_RBP, GM_R12, GM_R13, GM_R14, GM_R15};
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
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++)
		gm_filled_try(&filled, registers[callers[i]]);
	if (filled.count == 0 && recorder->python)
		search_locals(recorder, moment->thread, &filled);
	if (filled.count == 0)
		gm_filled_try_stack(&filled);
	struct gm_tensor_note *note = gm_record_tensor_note(recorder, moment->thread);
	if (!note)
		return;
	note->sp = registers[GM_RSP];
	note->return_address = return_address;
	note->tensor = filled.found; /* bytes 0: none is */
}
