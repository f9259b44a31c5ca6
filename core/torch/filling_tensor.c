#include "torch/filling_tensor.h"

#include <string.h>

#include "torch/dtypes.h"

enum {
	STACK_WORDS = 64,
	STACK_NEAR = 1 << 20, /* addresses of the stack itself are not objects */
};

static bool read_fields(
        const struct gm_filled *filled, uint64_t impl, struct gm_tensor_fields *ret_fields)
{
	return gm_tensor_fields_read(
	        filled->layout, filled->read, filled->context, impl, ret_fields);
}

/* Does it cover the storage, from its first byte to its last? */
static bool fills(const struct gm_filled *filled, const struct gm_tensor_fields *fields)
{
	const uint64_t element = (uint64_t)gm_torch_dtype_bits(fields->shape.type) / 8;
	return fields->storage == filled->storage && fields->storage_offset == 0 &&
	       fields->shape.bytes != 0 && fields->shape.bytes == filled->bytes &&
	       filled->bytes % element == 0 && fields->numel == filled->bytes / element;
}

static bool agree(const struct gm_new_tensor *a, const struct gm_new_tensor *b)
{
	const size_t bytes = a->dimensions * sizeof(*a->sizes);
	return a->type == b->type && a->dimensions == b->dimensions && a->strided == b->strided &&
	       memcmp(a->sizes, b->sizes, bytes) == 0 &&
	       (!a->strided || memcmp(a->strides, b->strides, bytes) == 0);
}

static void take(struct gm_filled *filled, const struct gm_tensor_fields *fields)
{
	if (!fills(filled, fields))
		return;
	if (filled->count++ == 0)
		filled->found = fields->shape;
	else if (!agree(&filled->found, &fields->shape))
		filled->found.bytes = 0;
}

void gm_filled_try(struct gm_filled *filled, uint64_t impl)
{
	struct gm_tensor_fields fields;
	if (read_fields(filled, impl, &fields))
		take(filled, &fields);
}

void gm_filled_try_python(struct gm_filled *filled, uint64_t python_object)
{
	const struct gm_torch_layout *layout = filled->layout;
	uint64_t at = python_object + layout->python.tensor_cdata, impl;
	struct gm_tensor_fields fields;
	if (layout->python.tensor_maybe_owned)
		at += sizeof(uint64_t);
	/* up to 2.9 the low bit of the wrapper's address shows which of them owns the other */
	if (gm_is_object_address(python_object) &&
	        filled->read(filled->context, at, &impl, sizeof(impl)) &&
	        read_fields(filled, impl, &fields) &&
	        (fields.python & ~UINT64_C(1)) == python_object)
		take(filled, &fields);
}

static void try_stack(struct gm_filled *filled)
{
	uint64_t words[STACK_WORDS];
	if (!filled->read(filled->context, filled->sp, words, sizeof(words)))
		return;
	for (size_t i = 0; i < STACK_WORDS; i++)
		if (words[i] - filled->sp + STACK_NEAR > 2 * (uint64_t)STACK_NEAR)
			gm_filled_try(filled, words[i]);
}

void gm_filled_search(struct gm_filled *filled, const uint64_t registers[GM_FILLED_REGISTERS],
        gm_filled_locals *locals, void *context)
{
	for (size_t i = 0; i < GM_FILLED_REGISTERS; i++)
		gm_filled_try(filled, registers[i]);
	for (uint32_t depth = 0; depth < GM_FILLED_FRAMES && filled->count == 0; depth++)
		if (!locals(context, depth, filled))
			break;
	if (filled->count == 0)
		try_stack(filled);
}
