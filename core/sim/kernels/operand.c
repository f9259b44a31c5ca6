/* The operands of a launch: their addresses, whether the memory exists, and whether it was ever
 * computed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/kernels/kernels.h"

/*
 * Values that decide control flow are small; those of a training step are large, and nobody reads
 * them. The scores of a vocabulary's words are larger: WIDE times as much, for kernels that need
 * it; the positions of a batch's tokens are INTEGERS times as much.
 */
#define COMPUTE_BELOW (UINT64_C(64) << 10)
enum { WIDE = 256, INTEGERS = 64 };

uint64_t gm_sim_compute_limit(void)
{
	static _Atomic uint64_t known = UINT64_MAX;
	uint64_t limit = known;
	if (limit != UINT64_MAX)
		return limit;
	limit = COMPUTE_BELOW;
	const char *text = getenv("GPUMEM_SIM_COMPUTE_BELOW");
	if (text && *text) {
		char *end;
		errno = 0;
		unsigned long long bytes = strtoull(text, &end, 10);
		if (errno || *end || bytes >= UINT64_MAX)
			gm_sim_say("GPUMEM_SIM_COMPUTE_BELOW='%.32s': not a number of bytes: using "
			           "%llu",
			        text, (unsigned long long)COMPUTE_BELOW);
		else
			limit = bytes;
	}
	known = limit;
	return limit;
}

/*
 * int dims; IntDivider<unsigned> sizes_[MAX_DIMS] (divisor, m1, shift); stride_t
 * strides_[MAX_DIMS][max(N, 1)], MAX_DIMS = 25 on CUDA.
 */
size_t gm_sim_offsets_bytes(unsigned operands)
{
	return 4 + GM_SIM_DIMS * 12 + GM_SIM_DIMS * 4 * (size_t)(operands ? operands : 1);
}

bool gm_sim_offsets_read(
        const void *at, unsigned operands, uint64_t numel, struct gm_sim_offsets *ret)
{
	const int32_t *words = at;
	if (words[0] < 0 || words[0] > GM_SIM_DIMS || operands > GM_SIM_OPERANDS)
		return false;
	ret->dims = (unsigned)words[0];
	ret->operands = operands;
	uint64_t product = 1;
	for (unsigned i = 0; i < ret->dims; i++) {
		ret->sizes[i] = (uint32_t)words[1 + 3 * i];
		if (!ret->sizes[i] || ret->sizes[i] > INT32_MAX || product > INT32_MAX)
			return false;
		product *= ret->sizes[i];
		for (unsigned k = 0; k < operands; k++)
			ret->strides[i][k] =
			        words[1 + 3 * GM_SIM_DIMS + i * (operands ? operands : 1) + k];
	}
	return !numel || product == numel;
}

void gm_sim_offsets_trivial(
        uint64_t numel, unsigned operands, const unsigned *sizes, struct gm_sim_offsets *ret)
{
	ret->dims = 1;
	ret->operands = operands;
	ret->sizes[0] = (uint32_t)numel;
	for (unsigned k = 0; k < operands; k++)
		ret->strides[0][k] = sizes[k];
}

void gm_sim_offsets_get(const struct gm_sim_offsets *offsets, uint64_t index, int64_t *ret)
{
	for (unsigned k = 0; k < offsets->operands; k++)
		ret[k] = 0;
	for (unsigned i = 0; i < offsets->dims; i++) {
		uint64_t within = index % offsets->sizes[i];
		index /= offsets->sizes[i];
		for (unsigned k = 0; k < offsets->operands; k++)
			ret[k] += (int64_t)within * offsets->strides[i][k];
	}
}

static _Thread_local bool *asks; /* gm_sim_use_ask() */

static uint64_t most(const struct gm_sim_use *use)
{
	return gm_sim_compute_limit() * (use->wide ? WIDE : use->integers ? INTEGERS : 1);
}

/*
 * What the launch writes; of more ranges (a list of many tensors) the rest is not known. A library
 * that is loaded later has little room for variables of threads.
 */
enum { WRITES = 16 };
static _Thread_local struct {
	unsigned count;
	struct {
		const void *at;
		uint64_t size;
	} range[WRITES];
} writes;

static void writes_to(const void *at, uint64_t size)
{
	const char *start = at;
	if (writes.count) {
		/* Parts of one output, as of a concatenation; what only adjoins may be another. */
		const char *last = writes.range[writes.count - 1].at;
		uint64_t *length = &writes.range[writes.count - 1].size;
		if (start >= last && start < last + *length) {
			uint64_t end = (uint64_t)(start - last) + size;
			*length = end > *length ? end : *length;
			return;
		}
	}
	if (writes.count == WRITES)
		return;
	writes.range[writes.count].at = at;
	writes.range[writes.count++].size = size;
}

void gm_sim_use_begin(void)
{
	writes.count = 0;
}

static void mark_stale(const void *at, uint64_t size)
{
	struct gm_sim_device *device = gm_sim_device_of(at);
	if (device && gm_sim_memory_holds(device, at, size))
		gm_sim_data_stale(device, at, size);
}

void gm_sim_use_end(bool computed)
{
	for (unsigned i = 0; !computed && !asks && i < writes.count; i++)
		/* A collective in progress would mark what it writes as computed. */
		if (!gm_sim_work_then(writes.range[i].at, writes.range[i].size, mark_stale))
			mark_stale(writes.range[i].at, writes.range[i].size);
}

static void use(struct gm_sim_use *use, const void *at, uint64_t size, bool read)
{
	if (size && !read)
		writes_to(at, size);
	if (!size || use->wrong)
		return;
	use->bytes += size;
	if (use->bytes < size || use->bytes > most(use)) {
		use->wrong = true;
		return;
	}
	struct gm_sim_device *device = gm_sim_device_of(at);
	struct gm_sim_range host;
	if (device) {
		use->wrong |= !gm_sim_memory_holds(device, at, size);
		if (read && !use->wrong)
			use->unknown |= !gm_sim_data_known(device, at, size, &use->unwritten);
	} else {
		/* Pinned memory: the host wrote it, so it is known. */
		use->wrong |= !gm_sim_host_find(at, &host) ||
		              (uintptr_t)at + size > host.start + host.size;
	}
}

void gm_sim_use_read(struct gm_sim_use *u, const void *at, uint64_t size)
{
	use(u, at, size, true);
}

void gm_sim_use_write(struct gm_sim_use *u, const void *at, uint64_t size)
{
	use(u, at, size, false);
}

/* From its lowest to its highest byte. */
static const char *extent(const struct gm_sim_offsets *offsets, unsigned operand, const void *base,
        unsigned element, uint64_t *ret_size)
{
	int64_t low = 0, high = element;
	for (unsigned i = 0; i < offsets->dims; i++) {
		int64_t span = (int64_t)(offsets->sizes[i] - 1) * offsets->strides[i][operand];
		*(span < 0 ? &low : &high) += span;
	}
	*ret_size = (uint64_t)(high - low);
	return (const char *)base + low;
}

void gm_sim_use_operand(struct gm_sim_use *u, const struct gm_sim_offsets *offsets,
        unsigned operand, const void *base, unsigned element, bool write)
{
	uint64_t size, elements = element;
	const char *at = extent(offsets, operand, base, element, &size);
	/* The computed size counts, without gaps; but a broadcast operand is read repeatedly. */
	for (unsigned i = 0; i < offsets->dims; i++)
		elements *= offsets->sizes[i];
	if (elements > most(u))
		u->wrong = true;
	use(u, at, size, !write);
}

void gm_sim_use_in_place(struct gm_sim_use *u, const struct gm_sim_offsets *offsets,
        const void *base, unsigned element)
{
	uint64_t size;
	const char *at = extent(offsets, 0, base, element, &size);
	writes_to(at, size);
	gm_sim_use_operand(u, offsets, 0, base, element, false);
}

void gm_sim_use_extent(struct gm_sim_use *u, const struct gm_sim_offsets *offsets, unsigned operand,
        const void *base, unsigned element, bool write)
{
	uint64_t size;
	const char *at = extent(offsets, operand, base, element, &size);
	if (write)
		writes_to(at, size);
	struct gm_sim_device *device = gm_sim_device_of(at);
	if (!device || !gm_sim_memory_holds(device, at, size))
		u->wrong = true;
	else
		u->unknown |= !gm_sim_data_known(device, at, size, &u->unwritten);
}

void gm_sim_use_ask(bool *ret)
{
	asks = ret;
}

bool gm_sim_use_good(const struct gm_sim_use *u)
{
	if (asks) {
		*asks = *asks || !u->wrong;
		return false;
	}
	return !u->wrong && !(u->unwritten && u->bytes > gm_sim_compute_limit());
}

void gm_sim_use_wrote(const struct gm_sim_use *u, const void *at, uint64_t size)
{
	struct gm_sim_device *device = gm_sim_device_of(at);
	if (device && size)
		gm_sim_data_computed(device, at, size, !u->unknown);
}

void gm_sim_use_wrote_operand(const struct gm_sim_use *u, const struct gm_sim_offsets *offsets,
        unsigned operand, const void *base, unsigned element)
{
	uint64_t size;
	const char *at = extent(offsets, operand, base, element, &size);
	gm_sim_use_wrote(u, at, size);
}

bool gm_sim_info_read(const char *at, bool wide, unsigned element, struct gm_sim_info *ret)
{
	unsigned width = wide ? 8 : 4;
	int32_t dims;
	memcpy(&dims, at + 8 + 2 * GM_SIM_DIMS * width, sizeof(dims));
	if (dims < 0 || dims > GM_SIM_DIMS)
		return false;
	ret->data = gm_sim_load_pointer(at);
	ret->offsets.dims = (unsigned)dims;
	ret->offsets.operands = 1;
	ret->numel = 1;
	for (int i = 0; i < dims; i++) {
		const char *size = at + 8 + width * i, *stride = size + width * GM_SIM_DIMS;
		ret->sizes[i] = gm_sim_load(wide ? GM_SIM_I64 : GM_SIM_U32, size).integer;
		ret->strides[i] = gm_sim_load(wide ? GM_SIM_I64 : GM_SIM_I32, stride).integer;
		if (ret->sizes[i] <= 0 || ret->sizes[i] > INT32_MAX || ret->numel > INT32_MAX)
			return false;
		ret->numel *= (uint64_t)ret->sizes[i];
		ret->offsets.sizes[dims - 1 - i] = (uint32_t)ret->sizes[i];
		ret->offsets.strides[dims - 1 - i][0] = ret->strides[i] * element;
	}
	return true;
}
