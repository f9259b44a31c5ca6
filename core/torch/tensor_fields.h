/*
 * The fields of a TensorImpl (c10/core/TensorImpl.h), read by a layout and believed where they
 * agree: its sizes multiply to its number of elements. The agent uses this inside the program: it
 * needs no library, and whoever asks says how memory is read.
 */
#ifndef GM_TORCH_TENSOR_FIELDS_H
#define GM_TORCH_TENSOR_FIELDS_H

#include "torch/layout.h"
#include "torch/new_tensor.h"

/* Copies memory of the program; false: it is not there. */
typedef bool (*gm_read_program)(
        const void *context, uint64_t address, void *ret_bytes, size_t size);

struct gm_tensor_fields {
	uint64_t storage, storage_offset, numel; /* StorageImpl; elements */
	uint64_t python;                         /* its object in Python, with the layout's flags */
	int8_t device_type;                      /* c10::DeviceType */
	/* dtype, sizes, strides and, where they are known, the bytes from the first element to the
	 * last one */
	struct gm_new_tensor shape;
};

/* Any address may be asked about. False: by this layout there is no tensor of a type that has whole
 * bytes. */
bool gm_tensor_fields_read(const struct gm_torch_layout *layout, gm_read_program read,
        const void *context, uint64_t impl, struct gm_tensor_fields *ret_fields);

/* May an object be at this address? */
static inline bool gm_is_object_address(uint64_t address)
{
	return address >= 0x10000 && (address & 7) == 0 && address < UINT64_C(1) << 47;
}

#endif
