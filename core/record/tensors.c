/*
 * Dtype, sizes and strides of the tensor for which a block is allocated: the arguments of the two
 * functions that create nearly every tensor with its own memory (ATen/EmptyTensor.h). A breakpoint
 * at the entry of each notes them for its thread. The allocator's report takes the note if that
 * call is still in progress and if the bytes that follow from its arguments are the requested ones.
 * A resized storage has a note by resized.c; others (workspaces) stay unknown. agent/tensors.c does
 * the same within the program.
 */
#include "record/tensors.h"

enum { THREADS_MAX = 4096 };

static struct gm_tensor_note *find_note(struct gm_recorder *recorder, pid_t thread)
{
	for (size_t i = 0; i < recorder->notes.count; i++)
		if (recorder->notes.items[i].thread == thread)
			return &recorder->notes.items[i];
	return NULL;
}

struct gm_tensor_note *gm_record_tensor_note(struct gm_recorder *recorder, pid_t thread)
{
	struct gm_tensor_note *note = find_note(recorder, thread);
	for (size_t i = 0; i < recorder->notes.count && !note; i++)
		if (recorder->notes.items[i].tensor.bytes == 0)
			note = &recorder->notes.items[i];
	if (!note && recorder->notes.count < THREADS_MAX &&
	        gm_array_push(&recorder->notes, (struct gm_tensor_note){0}))
		note = &recorder->notes.items[recorder->notes.count - 1];
	if (note)
		note->thread = thread;
	return note;
}

static bool read_words(
        struct gm_recorder *recorder, uint64_t address, void *ret_words, uint64_t count)
{
	return count == 0 || gm_image_try_read(recorder->image, address, ret_words, count * 8);
}

/*
 * TensorBase empty_generic(IntArrayRef size, Allocator *, DispatchKeySet, ScalarType,
 * optional<MemoryFormat>): the result is returned in memory, so its address is the first argument;
 * an ArrayRef is two words. The last argument, a byte and a flag, is on the stack after the return
 * address.
 *
 * TensorBase empty_strided_generic(IntArrayRef size, IntArrayRef stride, Allocator *,
 * DispatchKeySet, ScalarType): the last two are on the stack.
 */
void gm_record_note_tensor(
        struct gm_recorder *recorder, const struct gm_moment *moment, bool strided)
{
	const uint64_t *registers = moment->registers.value;
	struct gm_tensor_note *note = gm_record_tensor_note(recorder, moment->thread);
	uint64_t stack[3]; /* return address, arguments */
	if (!note)
		return;
	struct gm_new_tensor *tensor = &note->tensor;
	tensor->bytes = 0;
	uint64_t count = registers[GM_RDX];
	if (!read_words(recorder, registers[GM_RSP], stack, 3))
		return;
	unsigned type = (uint8_t)(strided ? stack[2] : registers[GM_R9]);
	if (!gm_new_tensor_init(tensor, type, count) ||
	        !read_words(recorder, registers[GM_RSI], tensor->sizes, count))
		return;
	note->sp = registers[GM_RSP];
	note->return_address = stack[0];
	if (!strided) {
		bool has_format = stack[1] >> 8 & 0xff;
		gm_new_tensor_put_format(tensor, has_format ? (int)(stack[1] & 0xff) : -1);
	} else if (registers[GM_R8] == count &&
	           read_words(recorder, registers[GM_RCX], tensor->strides, count)) {
		gm_new_tensor_put_strides(tensor);
	}
}

uint32_t gm_record_take_tensor(
        struct gm_recorder *recorder, const struct gm_moment *moment, uint64_t size)
{
	struct gm_tensor_note *note = find_note(recorder, moment->thread);
	if (!note || note->tensor.bytes == 0 || note->tensor.bytes != size)
		return 0;
	struct gm_new_tensor *tensor = &note->tensor;
	uint64_t sp = moment->registers.value[GM_RSP], return_address;
	bool under_way = gm_new_tensor_is_near(note->sp, sp) &&
	                 gm_image_try_u64(recorder->image, note->sp, &return_address) &&
	                 return_address == note->return_address;
	tensor->bytes = 0;
	if (!under_way)
		return 0;
	const struct gm_log_tensor made = {
	        .type = tensor->type,
	        .dimensions = tensor->dimensions,
	        .sizes = tensor->sizes,
	        .strides = tensor->strided ? tensor->strides : NULL,
	};
	uint32_t id = gm_log_writer_tensor(recorder->writer, &made);
	if (id == recorder->tensors.count + 1) /* ids are assigned in order */
		gm_array_push(&recorder->tensors, *tensor);
	return id;
}

const struct gm_new_tensor *gm_record_tensor(const struct gm_recorder *recorder, uint32_t id)
{
	return id > 0 && id <= recorder->tensors.count ? &recorder->tensors.items[id - 1] : NULL;
}
