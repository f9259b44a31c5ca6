/*
 * Records GradScaler and autocast.
 *
 * GradScaler (torch/amp/grad_scaler.py): its decision to skip an optimizer's step allocates
 * nothing, so no event shows it. It calls three operators, and each has a hook:
 *
 *   _amp_foreach_non_finite_check_and_unscale_
 *                       unscale_(): the gradients are checked, and a tensor, found_inf, gets the
 *                       result. This is a check, and has a number
 *   item                step() reads found_inf on the host, and skips the optimizer's step if it is
 *                       not 0; get_scale() reads the scale
 *   _amp_update_scale_  update()
 *
 * item() returns the value itself, so it is known on any device, without an additional wait. A
 * fused optimizer reads found_inf on the device: then the value is not known on the host, unless
 * the device is simulated, because its memory is host memory.
 *
 * Tensors are identified by their TensorImpl. After the check its memory may belong to another
 * tensor; the Python stack of each record distinguishes a read by step() itself from others, such
 * as those of the optimizer.
 *
 * autocast: cached_cast() converts an argument of an operator, and keeps the copies of parameters
 * (ATen/autocast_mode.cpp). A hook notes whose copy it makes; the allocator's report comes from
 * within the call, and takes the note (as in tensors.c).
 */
#include "agent/amp.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/gradients.h"
#include "agent/hook_entry.h"
#include "agent/lookup.h"
#include "agent/put.h"
#include "agent/simulated.h"
#include "agent/stacks/memory.h"
#include "agent/stacks/stacks.h"
#include "agent/state.h"
#include "agent/stops.h"
#include "base/varint.h"
#include "torch/layouts.h"
#include "torch/names.h"

SEE void *gm_agent_see_item(const struct call *call);
SEE void *gm_agent_see_cast(const struct call *call);
HOOK(GM_TORCH_ITEM, "gm_agent_see_item");
HOOK(GM_TORCH_CACHED_CAST, "gm_agent_see_cast");
GM_AGENT_EXPORT void hook_item(void) __asm__(GM_TORCH_ITEM);
GM_AGENT_EXPORT void hook_cast(void) __asm__(GM_TORCH_CACHED_CAST);

/* An at::Tensor is one word, the TensorImpl's address; an at::TensorList is two, the array's
 * address and its size. */
struct tensor {
	uint64_t impl;
};

GM_AGENT_EXPORT void hook_unscale(const struct tensor *gradients, size_t count,
        struct tensor *found_inf, const struct tensor *inverse_scale) __asm__(GM_TORCH_UNSCALE);
GM_AGENT_EXPORT struct tensor *hook_update(struct tensor *scale, struct tensor *tracker,
        const struct tensor *found_inf, double growth_factor, double backoff_factor,
        int64_t growth_interval) __asm__(GM_TORCH_UPDATE_SCALE);

static void *_Atomic before_item, *_Atomic before_cast, *_Atomic before_unscale,
        *_Atomic before_update;

const struct gm_agent_hook gm_agent_amp_hooks[] = {
        {GM_TORCH_ITEM, (void *)hook_item, &before_item},
        {GM_TORCH_CACHED_CAST, (void *)hook_cast, &before_cast},
        {GM_TORCH_UNSCALE, (void *)hook_unscale, &before_unscale},
        {GM_TORCH_UPDATE_SCALE, (void *)hook_update, &before_update},
        {NULL, NULL, NULL},
};

/* --- known tensors ---------------------------------------------------------------------------- */

enum { KNOWN_MAX = 32 }; /* a new one replaces the oldest */

struct known {
	_Atomic uint64_t impl;
	_Atomic uint32_t number;
};
struct known_tensors {
	struct known items[KNOWN_MAX];
	_Atomic uint32_t next, last_number;
};
static struct known_tensors checks, scales;

/* The number of a tensor; 0 if it is not known. */
static uint32_t number_of(struct known_tensors *tensors, uint64_t impl)
{
	for (int i = 0; i < KNOWN_MAX; i++)
		if (atomic_load_explicit(&tensors->items[i].impl, memory_order_relaxed) == impl)
			return atomic_load_explicit(
			        &tensors->items[i].number, memory_order_relaxed);
	return 0;
}

/* Gives a tensor a new number. */
static uint32_t number_tensor(struct known_tensors *tensors, uint64_t impl)
{
	struct known *place = NULL;
	for (int i = 0; i < KNOWN_MAX && !place; i++)
		if (atomic_load(&tensors->items[i].impl) == impl)
			place = &tensors->items[i];
	if (!place)
		place = &tensors->items[atomic_fetch_add(&tensors->next, 1) % KNOWN_MAX];
	uint32_t number = atomic_fetch_add(&tensors->last_number, 1) + 1;
	atomic_store(&place->number, number);
	atomic_store(&place->impl, impl);
	return number;
}

/* ---- values on the simulated device ---- */

/* Is an address in the memory of a simulated device? That is host memory, and a kernel has run when
 * the launching call returns. */
static bool is_simulated(const struct gm_sim_account *sim, uint64_t address)
{
	for (uint32_t i = 0; i < sim->devices && i < GM_SIM_DEVICES_MAX; i++)
		if (sim->device[i].address && address >= sim->device[i].address &&
		        address - sim->device[i].address < sim->device[i].span)
			return true;
	return false;
}

static const void *simulated_data(const struct tensor *tensor, const char *symbol)
{
	const struct gm_sim_account *sim = gm_agent_simulation();
	void *found = sim ? gm_agent_lookup("libtorch_cpu.so", symbol) : NULL;
	if (!found)
		return NULL;
	void *(*data)(const struct tensor *);
	memcpy(&data, &found, sizeof(data));
	void *at = data(tensor);
	return is_simulated(sim, (uint64_t)(uintptr_t)at) ? at : NULL;
}

static bool read_float(const struct tensor *tensor, double *ret_value)
{
	const void *at = simulated_data(tensor, GM_TORCH_DATA_OF_FLOATS);
	float value = 0;
	if (at)
		memcpy(&value, at, sizeof(value));
	*ret_value = (double)value;
	return at != NULL;
}

static bool read_int(const struct tensor *tensor, double *ret_value)
{
	const void *at = simulated_data(tensor, GM_TORCH_DATA_OF_INTS);
	int32_t value = 0;
	if (at)
		memcpy(&value, at, sizeof(value));
	*ret_value = value;
	return at != NULL;
}

/* ---- records ---- */

static void put(enum gm_agent_amp kind, uint32_t number, const double *values, unsigned count,
        const struct gm_agent_registers *at)
{
	uint8_t bytes[16 + 10 * (GM_AGENT_AMP_VALUES + 4)], *end = bytes;
	struct gm_agent_stacks stacks = {0};

	bool is_outcome = kind == GM_AGENT_AMP_FOUND || (kind == GM_AGENT_AMP_CHECK && count > 1);
	if (is_outcome && values[count - 1] != 0)
		gm_agent_stops_found();
	if (at)
		gm_stacks_take(at, false, &stacks);
	end = gm_put_varint(end, kind);
	end = gm_put_varint(end, stacks.python);
	end = gm_put_varint(end, number);
	end = gm_put_varint(end, count);
	for (unsigned i = 0; i < count; i++) {
		uint64_t bits;
		memcpy(&bits, &values[i], sizeof(bits));
		end = gm_put_varint(end, bits);
	}
	gm_agent_put(GM_AGENT_AMP, 0, bytes, (size_t)(end - bytes));
}

static void put_seen(enum gm_agent_amp kind, uint32_t number, const double *values, unsigned count)
{
	put(kind, number, values, count, NULL);
}

/* The found_inf that this thread's last call wrote to: the gradients of one optimizer take several
 * calls, one for each dtype and device. 0: its result has been used since, so the next call belongs
 * to another check, even at the same address. */
static _Thread_local uint64_t checked_last;

/* Begins writing in this thread, until it leaves. A program that allocates nothing that is recorded
 * creates no file. */
static bool enter(void)
{
	return !gm_agent_waits() && gm_agent_enter();
}

void hook_unscale(const struct tensor *gradients, size_t count, struct tensor *found_inf,
        const struct tensor *inverse_scale)
{
	void (*function)(const struct tensor *, size_t, struct tensor *, const struct tensor *) =
	        NULL;
	void *found = gm_agent_go_on(&before_unscale, "libtorch_cpu.so", GM_TORCH_UNSCALE);
	memcpy(&function, &found, sizeof(found));
	if (!function)
		return;
	function(gradients, count, found_inf, inverse_scale);
	if (!enter())
		return;
	uint32_t number = checked_last == found_inf->impl ? number_of(&checks, checked_last) : 0;
	if (!number)
		number = number_tensor(&checks, found_inf->impl);
	checked_last = found_inf->impl;
	double values[2] = {(double)count};
	const struct gm_agent_registers at = gm_agent_caller();
	put(GM_AGENT_AMP_CHECK, number, values, read_float(found_inf, &values[1]) ? 2 : 1, &at);
	gm_agent_gradients_checked(&gradients->impl, count, found_inf->impl, number, put_seen);
	gm_agent_leave();
}

struct tensor *hook_update(struct tensor *scale, struct tensor *tracker,
        const struct tensor *found_inf, double growth_factor, double backoff_factor,
        int64_t growth_interval)
{
	struct tensor *(*function)(struct tensor *, struct tensor *, const struct tensor *, double,
	        double, int64_t) = NULL;
	void *found = gm_agent_go_on(&before_update, "libtorch_cpu.so", GM_TORCH_UPDATE_SCALE);
	memcpy(&function, &found, sizeof(found));
	if (!function)
		return scale;
	struct tensor *result =
	        function(scale, tracker, found_inf, growth_factor, backoff_factor, growth_interval);
	if (!enter())
		return result;
	checked_last = 0;
	uint32_t number = number_of(&scales, scale->impl);
	if (!number)
		number = number_tensor(&scales, scale->impl);
	double values[] = {growth_factor, backoff_factor, (double)growth_interval, 0, 0};
	bool is_read = read_float(scale, &values[3]) && read_int(tracker, &values[4]);
	const struct gm_agent_registers at = gm_agent_caller();
	put(GM_AGENT_AMP_UPDATE, number, values, is_read ? 5 : 3, &at);
	gm_agent_leave();
	return result;
}

/* c10::Scalar (c10/core/Scalar.h): a tag, 0 for a double, and the value, aligned for two doubles.
 * */
struct scalar {
	int32_t tag;
	int32_t padding[3];
	double value;
	uint64_t more;
};

/* Replaces item() for a known tensor: Scalar item(const Tensor &), returned in memory. */
static void *read_item(struct scalar *ret, const struct tensor *tensor)
{
	void *(*function)(struct scalar *, const struct tensor *) = NULL;
	void *found = gm_agent_go_on(&before_item, "libtorch_cpu.so", GM_TORCH_ITEM);
	memcpy(&function, &found, sizeof(found));
	const uint64_t impl = tensor->impl;
	void *result = function(ret, tensor);
	if (ret->tag != 0 || !enter())
		return result;
	const struct gm_agent_registers at = gm_agent_caller();
	uint32_t number = number_of(&checks, impl), scale = number_of(&scales, impl);
	checked_last = 0;
	if (number)
		put(GM_AGENT_AMP_FOUND, number, &ret->value, 1, &at);
	if (scale)
		put(GM_AGENT_AMP_SCALE, scale, &ret->value, 1, &at);
	gm_agent_leave();
	return result;
}

void *gm_agent_see_item(const struct call *call)
{
	const struct tensor *tensor = (const void *)(uintptr_t)call->argument[1];
	void *function = gm_agent_go_on(&before_item, "libtorch_cpu.so", GM_TORCH_ITEM);
	if (function && (number_of(&checks, tensor->impl) || number_of(&scales, tensor->impl)))
		return (void *)(uintptr_t)read_item;
	return function;
}

/* ---- autocast ---- */

/* The call of cached_cast() that this thread is in. */
static _Thread_local struct {
	uint64_t impl; /* 0: none */
	uint64_t sp, return_address;
} casting;

/* Tensor cached_cast(ScalarType to_type, const Tensor &arg, DeviceType device_type), returned in
 * memory. */
void *gm_agent_see_cast(const struct call *call)
{
	const struct tensor *tensor = (const void *)(uintptr_t)call->argument[2];
	casting.impl = tensor->impl;
	casting.sp = call->at.rsp;
	casting.return_address = call->at.rip;
	return gm_agent_go_on(&before_cast, "libtorch_cpu.so", GM_TORCH_CACHED_CAST);
}

/* The offsets of the fields that storage_of() reads, if they are the same in all versions; NULL if
 * they differ. */
static const struct gm_torch_layout *storage_layout(void)
{
	static _Atomic enum { NOT_LOOKED, SAME, DIFFERENT } versions;
	const struct gm_torch_layout *first = gm_torch_layout_at(0), *row;
	if (atomic_load_explicit(&versions, memory_order_relaxed) == NOT_LOOKED) {
		bool same = true;
		for (size_t i = 0; (row = gm_torch_layout_at(i)); i++)
			same &= row->tensor.storage == first->tensor.storage &&
			        row->storage.data == first->storage.data;
		atomic_store_explicit(&versions, same ? SAME : DIFFERENT, memory_order_relaxed);
	}
	return atomic_load_explicit(&versions, memory_order_relaxed) == SAME ? first : NULL;
}

/* The beginning of the memory of a tensor's storage; 0 if it cannot be read. */
static uint64_t storage_of(uint64_t impl)
{
	const struct gm_torch_layout *first = storage_layout();
	uint64_t storage = 0, data = 0;
	if (!first || !gm_read_checked(impl + first->tensor.storage, &storage, sizeof(storage)) ||
	        !gm_read_checked(storage + first->storage.data, &data, sizeof(data)))
		return 0;
	return data;
}

void gm_agent_amp_cast(uint64_t sp)
{
	if (!casting.impl)
		return;
	uint64_t impl = casting.impl;
	casting.impl = 0;
	if (!gm_call_is_under_way(casting.sp, casting.return_address, sp))
		return;
	double address = (double)storage_of(impl); /* 2^53 is more than a process can have */
	if (address > 0)
		put(GM_AGENT_AMP_CAST, 0, &address, 1, NULL);
}
