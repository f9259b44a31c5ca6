/*
 * GradScaler's kernels (ATen/native/cuda/AmpKernels.cu): the check of gradients for values that are
 * not finite, and the update of the scale. A gradient larger than the limit is not read: kernels
 * that compute nothing leave it finite.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/readable.h"
#include "sim/cuda/sim.h"
#include "sim/kernels/kernels.h"

/* GPUMEM_SIM_OVERFLOW_AT: the checks that find infinity (each step of an optimizer with a scaler
 * has one or more). */
static bool scripted(uint64_t step)
{
	const char *list = getenv("GPUMEM_SIM_OVERFLOW_AT");
	for (const char *at = list; at && *at;) {
		char *end;
		unsigned long long number = strtoull(at, &end, 10);
		if (end == at)
			return false;
		if (number == step)
			return true;
		at = *end == ',' ? end + 1 : end;
		if (*end && *end != ',')
			return false;
	}
	return false;
}

/* Updates of the scale count the steps: the first step's checks come before the first update. */
static _Atomic uint64_t updates;

static bool overflow_now(void)
{
	return scripted(updates + 1);
}

/*
 * TensorListMetadata<1> (MultiTensorApply.cuh): const void *addresses[tensors], int64_t
 * numel_for_tensor[tensors], index block_to_tensor[blocks], int32_t block_to_chunk[blocks]. Since
 * torch 2.12 a build for CUDA 13 has seven times the capacity. The kernel's name does not show it,
 * so the arguments must be consistent with one of the two.
 */
enum { CHUNK = 65536 };
static const struct list {
	int tensors;
	unsigned blocks, index_size;
} lists[] = {{110, 320, 1}, {770, 2240, 2}};

/* The work of one block: `numel` elements of the tensor at `address` from chunk `chunk`. */
struct part {
	unsigned tensor;
	int32_t chunk;
	int64_t numel;
	char *address;
};

static bool part_of(const struct list *list, const char *metadata, unsigned block, struct part *ret)
{
	const char *tensors = metadata + 16 * list->tensors;
	if (block >= list->blocks)
		return false;
	uint16_t tensor = (uint8_t)tensors[block * list->index_size];
	if (list->index_size == 2)
		memcpy(&tensor, tensors + 2 * (size_t)block, sizeof(tensor));
	if (tensor >= list->tensors)
		return false;
	ret->tensor = tensor;
	memcpy(&ret->address, metadata + 8 * tensor, sizeof(ret->address));
	memcpy(&ret->numel, metadata + 8 * list->tensors + 8 * tensor, sizeof(ret->numel));
	memcpy(&ret->chunk, tensors + list->blocks * list->index_size + 4 * (size_t)block,
	        sizeof(ret->chunk));
	return ret->chunk >= 0 && ret->numel > (int64_t)ret->chunk * CHUNK &&
	       ret->numel < INT64_C(1) << 48;
}

/*
 * The blocks of a launch process the tensors in order, chunk by chunk, and end with a tensor's last
 * chunk or with the list's last block; each tensor is one on the device. True if they do.
 *
 * If the list is the other one, this one may reach beyond the end of the thread's stack.
 */
static bool fits(const struct list *list, const char *metadata, unsigned blocks, unsigned size)
{
	struct part before = {0}, now = {0};
	size_t used =
	        (size_t)16 * list->tensors + list->blocks * list->index_size + (size_t)4 * blocks;
	if (blocks > list->blocks || gm_sim_readable(metadata, used) < used)
		return false;
	for (unsigned block = 0; block < blocks; block++, before = now) {
		if (!part_of(list, metadata, block, &now))
			return false;
		bool same = block && now.tensor == before.tensor;
		bool next = block && now.tensor == before.tensor + 1 && !now.chunk &&
		            before.numel <= ((int64_t)before.chunk + 1) * CHUNK;
		if (block ? !next && !(same && now.chunk == before.chunk + 1) : now.tensor != 0)
			return false;
		struct gm_sim_device *device = gm_sim_device_of(now.address);
		if (!device || gm_sim_device_of(now.address + now.numel * size - 1) != device)
			return false;
	}
	return blocks == list->blocks || (blocks && now.numel <= ((int64_t)now.chunk + 1) * CHUNK);
}

/*
 * In a short launch most of the list is uninitialized stack memory, which may be consistent by
 * chance. A program uses one of the two layouts as long as it runs, and a launch that is consistent
 * with only one of them decides.
 */
static const struct list *list_of(const char *metadata, unsigned blocks, unsigned size)
{
	static const struct list *_Atomic certain;
	enum { SMALL, LARGE };
	bool small = fits(&lists[SMALL], metadata, blocks, size);
	bool large = fits(&lists[LARGE], metadata, blocks, size);
	const struct list *known = certain;
	if (small && large)
		return known ? known : &lists[LARGE];
	if (!small && !large)
		return NULL;
	known = &lists[large ? LARGE : SMALL];
	certain = known;
	return known;
}

/*
 * multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<T, 1, 1, 0>, LAMBDA>(metadata,
 * functor, lambda) with LAMBDA capturing float *found_inf, const float *inv_scale.
 */
static bool unscale(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	const char *metadata = launch->arguments[0];
	float *found;
	const float *inverse;
	memcpy(&found, launch->arguments[2], sizeof(found));
	memcpy(&inverse, (const char *)launch->arguments[2] + 8, sizeof(inverse));
	struct gm_sim_use flags = {0};
	gm_sim_use_write(&flags, found, sizeof(*found));
	gm_sim_use_read(&flags, inverse, sizeof(*inverse));
	if (!gm_sim_use_good(&flags))
		return false;
	flags.unknown = false;
	unsigned size = gm_sim_type_size(plan->type[0]);
	const struct list *list = list_of(metadata, launch->grid[0], size);
	if (!list)
		return false;
	double scale = *inverse;
	bool all = true;
	for (unsigned block = 0; block < launch->grid[0]; block++) {
		struct part part;
		if (!part_of(list, metadata, block, &part))
			return false;
		uint64_t first = (uint64_t)part.chunk * CHUNK, left = (uint64_t)part.numel - first;
		uint64_t count = left < CHUNK ? left : CHUNK;
		char *address = part.address + first * size;
		struct gm_sim_use use = {0};
		gm_sim_use_read(&use, address, count * size);
		if (!gm_sim_use_good(&use)) {
			all = false;
			continue;
		}
		if (use.unknown) {
			all = false; /* zeros: scaled or not, they are finite */
			continue;
		}
		for (uint64_t i = 0; i < count; i++) {
			struct gm_sim_value value = gm_sim_load(plan->type[0], address + i * size);
			if (!isfinite(value.real)) {
				*found = 1;
				gm_sim_use_wrote(&flags, found, sizeof(*found));
			}
			if (scale != 1)
				gm_sim_store(plan->type[0], address + i * size,
				        gm_sim_real(value.real * scale));
		}
		gm_sim_use_wrote(&use, address, count * size);
	}
	if (overflow_now()) {
		*found = 1;
		gm_sim_use_wrote(&flags, found, sizeof(*found));
	}
	/* Gradients that were not computed stay as they are, zero, and the check has its result: it
	 * marks itself what it wrote. */
	gm_sim_use_begin();
	return all;
}

/* found_inf_check<T>(const T *, …) does not exist; a single tensor is processed by gpu_kernel with
 * the same lambda. */

/* (float *scale, int *growth_tracker, const float *found_inf, double growth, double backoff, int
 * interval) */
static bool update(const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch)
{
	float *scale;
	int32_t *tracker, interval;
	const float *found;
	double growth, backoff;
	memcpy(&scale, launch->arguments[0], sizeof(scale));
	memcpy(&tracker, launch->arguments[1], sizeof(tracker));
	memcpy(&found, launch->arguments[2], sizeof(found));
	memcpy(&growth, launch->arguments[3], sizeof(growth));
	memcpy(&backoff, launch->arguments[4], sizeof(backoff));
	memcpy(&interval, launch->arguments[5], sizeof(interval));
	struct gm_sim_use use = {0};
	gm_sim_use_read(&use, scale, sizeof(*scale));
	gm_sim_use_read(&use, tracker, sizeof(*tracker));
	gm_sim_use_read(&use, found, sizeof(*found));
	if (!gm_sim_use_good(&use))
		return false;
	updates++;
	if (*found > 0) {
		*scale = (float)(*scale * backoff);
		*tracker = 0;
	} else if (*tracker + 1 == interval) {
		float grown = (float)(*scale * growth);
		if (isfinite(grown))
			*scale = grown;
		*tracker = 0;
	} else {
		*tracker += 1;
	}
	gm_sim_use_wrote(&use, scale, sizeof(*scale));
	gm_sim_use_wrote(&use, tracker, sizeof(*tracker));
	return true;
}

bool gm_sim_scaler_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	if (gm_sim_text_is(base, "amp_update_scale_cuda_kernel")) {
		ret->compute = update;
		return true;
	}
	struct gm_sim_text functor, own[4];
	if (!gm_sim_text_is(base, "multi_tensor_apply_kernel") || count != 3 ||
	        !gm_sim_text_begins(arguments[0], "TensorListMetadata<1>") ||
	        !gm_sim_text_begins(
	                arguments[2], "_amp_foreach_non_finite_check_and_unscale_cuda_"))
		return false;
	if (gm_sim_name_template(arguments[1], &functor, own, 4) != 4 ||
	        !gm_sim_text_is(functor, "UnaryOpFunctor"))
		return false;
	ret->type[0] = gm_sim_type_of(own[0]);
	ret->compute = unscale;
	return gm_sim_type_is_real(ret->type[0]);
}
