/*
 * The gradients of a GradScaler's check. The check has one result for all of them: whether any is
 * not finite. It does not change inf and NaN, so the gradients' own values show which ones they
 * are. If the check has found something, the agent examines each gradient that the host can read:
 * those of CPU tensors, and on the simulated device those that were computed. Nothing is copied
 * from a real GPU.
 *
 * A gradient has no name, but an index: the scaler passes an optimizer's gradients in the same
 * order in each step. While names of tensors are to be read (names.h), the addresses of all
 * gradients are noted; the names that are then found at these addresses show which parameter an
 * index belongs to.
 *
 * A tensor's fields are read with the known layouts, and accepted if dtype, sizes, storage and
 * device agree.
 */
#include "agent/gradients.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/lookup.h"
#include "agent/spool.h"
#include "agent/stacks/memory.h"
#include "agent/state.h"
#include "sim/account.h"
#include "torch/layouts.h"
#include "torch/tensor_fields.h"

enum {
	LISTED_MAX = 4096, /* most gradients of a check that are recorded individually */
	CPU = 0,
	CUDA = 1, /* c10::DeviceType */
	HALF = 5,
	FLOAT = 6,
	DOUBLE = 7,
	BFLOAT16 = 15, /* c10::ScalarType */
};

struct gradient {
	uint64_t data, elements;
	unsigned dtype, element; /* c10::ScalarType; bytes of an element */
	int8_t device_type;
	bool dense; /* the elements are contiguous in memory */
};

static unsigned element_of(unsigned dtype)
{
	return dtype == HALF || dtype == BFLOAT16 ? 2
	       : dtype == FLOAT                   ? 4
	       : dtype == DOUBLE                  ? 8
	                                          : 0;
}

static bool read_program(const void *context, uint64_t address, void *ret_bytes, size_t size)
{
	return gm_read_checked(address, ret_bytes, size);
}

/* False: according to this layout it is not a tensor of floating-point numbers. */
static bool read_with(
        const struct gm_torch_layout *layout, uint64_t impl, struct gradient *ret_gradient)
{
	struct gm_tensor_fields fields;
	uint64_t start, bytes, end;
	int8_t storage_device;
#define READ(address, value) gm_read_checked(address, &(value), sizeof(value))
	if (!gm_tensor_fields_read(layout, read_program, NULL, impl, &fields) ||
	        !READ(fields.storage + layout->storage.data, start) ||
	        !READ(fields.storage + layout->storage.size_bytes, bytes) ||
	        !READ(fields.storage + layout->storage.device, storage_device))
		return false;
#undef READ
	const uint64_t element = element_of(fields.shape.type);
	if (!element || fields.device_type != storage_device ||
	        (storage_device != CPU && storage_device != CUDA) || fields.numel == 0 ||
	        __builtin_add_overflow(fields.storage_offset, fields.numel, &end) ||
	        __builtin_mul_overflow(end, element, &end) || end > bytes)
		return false;
	*ret_gradient = (struct gradient){.data = start + fields.storage_offset * element,
	        .elements = fields.numel,
	        .dtype = fields.shape.type,
	        .element = (unsigned)element,
	        .device_type = fields.device_type,
	        .dense = fields.shape.bytes == fields.numel * element};
	return true;
}

static bool read_gradient(uint64_t impl, struct gradient *ret_gradient)
{
	const struct gm_torch_layout *row, *last = NULL;
	for (size_t i = 0; (row = gm_torch_layout_at(i)); i++) {
		bool same = last && memcmp(&last->tensor, &row->tensor, sizeof(row->tensor)) == 0 &&
		            memcmp(&last->storage, &row->storage, sizeof(row->storage)) == 0;
		if (!same && read_with(row, impl, ret_gradient))
			return true;
		last = row;
	}
	return false;
}

/* ---- values ---- */

/* Its first and last byte can be read, so it is neither a truncated file nor a wrong address. */
static bool is_there(const struct gradient *gradient)
{
	uint8_t byte;
	return gm_read_checked(gradient->data, &byte, 1) &&
	       gm_read_checked(
	               gradient->data + gradient->elements * gradient->element - 1, &byte, 1);
}

/* Can the host read a gradient's values? */
static bool can_read(const struct gradient *gradient)
{
	if (!gradient->dense)
		return false;
	if (gradient->device_type == CPU)
		return is_there(gradient);
	bool (*computed)(const void *, uint64_t);
	void *found = gm_agent_lookup("libgpumem-sim.so", GM_SIM_COMPUTED_SYMBOL);
	memcpy(&computed, &found, sizeof(found));
	return computed && computed((const void *)(uintptr_t)gradient->data,
	                           gradient->elements * gradient->element);
}

struct counts {
	uint64_t not_finite, nan;
};

/* All bits of the exponent are set: inf if the fraction is 0, otherwise NaN. */
static struct counts count_values(const struct gradient *gradient)
{
	struct counts counts = {0};
	const uint8_t *at = (const uint8_t *)(uintptr_t)gradient->data;
	uint64_t exponent = gradient->dtype == HALF       ? 0x7c00
	                    : gradient->dtype == BFLOAT16 ? 0x7f80
	                    : gradient->dtype == FLOAT    ? 0x7f800000
	                                                  : UINT64_C(0x7ff) << 52;
	uint64_t magnitude = (UINT64_C(1) << (gradient->element * 8 - 1)) - 1;
	for (uint64_t i = 0; i < gradient->elements; i++, at += gradient->element) {
		uint64_t bits = 0;
		memcpy(&bits, at, gradient->element);
		bits &= magnitude;
		counts.not_finite += bits >= exponent;
		counts.nan += bits > exponent;
	}
	return counts;
}

/* The result of the check, if the host can read it; otherwise nothing. */
static bool has_found(uint64_t found_inf)
{
	struct gradient result;
	float value;
	if (!read_gradient(found_inf, &result) || result.dtype != FLOAT || !can_read(&result))
		return false;
	memcpy(&value, (const void *)(uintptr_t)result.data, sizeof(value));
	return value != 0;
}

/* ---- records ---- */

static void put_gradient(gm_agent_put_seen *put, uint32_t number, size_t index, size_t count,
        const struct gradient *gradient, const struct counts *counts)
{
	const double values[] = {(double)index, (double)count, (double)gradient->data,
	        (double)gradient->elements, gradient->dtype,
	        counts ? (double)counts->not_finite : 0, counts ? (double)counts->nan : 0};
	put(GM_AGENT_AMP_GRADIENT, number, values, counts ? 7 : 5);
}

/* All of them, for their names. */
static void list_all(
        const uint64_t *gradients, size_t count, uint32_t number, gm_agent_put_seen *put)
{
	for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
		struct gradient gradient;
		if (read_gradient(gradients[i], &gradient))
			put_gradient(put, number, i, count, &gradient, NULL);
	}
}

static void look_at_all(
        const uint64_t *gradients, size_t count, uint32_t number, gm_agent_put_seen *put)
{
	size_t read = 0, not_finite = 0;
	for (size_t i = 0; i < count; i++) {
		struct gradient gradient;
		if (!read_gradient(gradients[i], &gradient) || !can_read(&gradient))
			continue;
		const struct counts counts = count_values(&gradient);
		read++;
		if (counts.not_finite && not_finite++ < LISTED_MAX)
			put_gradient(put, number, i, count, &gradient, &counts);
	}
	const double values[] = {(double)count, (double)read, (double)not_finite};
	put(GM_AGENT_AMP_LOOKED, number, values, 3);
}

/* Are names wanted and not read yet? */
static bool to_be_named(void)
{
	const struct gm_agent_file_header *header = gm_agent_spool_header();
	return header && gm_agent_setting_has("names", "1") &&
	       atomic_load(&header->names) != GM_AGENT_NAMES_DONE;
}

void gm_agent_gradients_checked(const uint64_t *gradients, size_t count, uint64_t found_inf,
        uint32_t number, gm_agent_put_seen *put)
{
	if (to_be_named())
		list_all(gradients, count, number, put);
	if (has_found(found_inf))
		look_at_all(gradients, count, number, put);
}
