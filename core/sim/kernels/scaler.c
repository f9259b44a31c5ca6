/*
 * GradScaler's kernels (ATen/native/cuda/AmpKernels.cu): the check of gradients for what is not finite, and the
 * scale's update. A gradient larger than the limit is not looked at: kernels that compute nothing leave it finite.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/kernels/kernels.h"

/* GPUMEM_SIM_OVERFLOW_AT: the checks (each step of an optimizer under a scaler has one or more) that find infinity. */
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

/* Steps are counted by the scale's updates: the first step's checks come before the first. */
static _Atomic uint64_t updates;

static bool overflow_now(void)
{
	return scripted(updates + 1);
}

static const int tensors_most[] = {
        110, 64, 48, 36, 30}; /* MultiTensorApply.cuh: depth_to_max_tensors */

/*
 * multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<T, 1, 1, 0>, LAMBDA>(metadata, functor, lambda)
 * with LAMBDA capturing float *found_inf, const float *inv_scale. The metadata: addresses[1][110],
 * numel_for_tensor[110], block_to_tensor[320] (bytes), block_to_chunk[320], start_tensor_this_launch.
 */
static bool unscale(const struct gm_sim_plan *plan, const struct gm_sim_launch *launch)
{
	enum { BLOCKS = 320, CHUNK = 65536 };
	const int most = tensors_most[0];
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
	const uint8_t *tensor_of = (const uint8_t *)metadata + 16 * most;
	const char *chunk_of = metadata + 16 * most + BLOCKS;
	unsigned size = gm_sim_type_size(plan->type[0]);
	double scale = *inverse;
	bool all = true;
	for (unsigned block = 0; block < launch->grid[0] && block < BLOCKS; block++) {
		if (tensor_of[block] >= most)
			return false;
		char *address;
		int64_t numel;
		int32_t chunk;
		memcpy(&address, metadata + 8 * tensor_of[block], sizeof(address));
		memcpy(&numel, metadata + 8 * most + 8 * tensor_of[block], sizeof(numel));
		memcpy(&chunk, chunk_of + 4 * block, sizeof(chunk));
		uint64_t first = (uint64_t)(uint32_t)chunk * CHUNK;
		if (chunk < 0 || numel < 0 || first >= (uint64_t)numel)
			continue;
		uint64_t count = (uint64_t)numel - first < CHUNK ? (uint64_t)numel - first : CHUNK;
		address += first * size;
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
	return all;
}

/* found_inf_check<T>(const T *, …) does not exist; one tensor at a time goes through gpu_kernel with the same lambda. */

/* (float *scale, int *growth_tracker, const float *found_inf, double growth, double backoff, int interval) */
static bool update(const struct gm_sim_plan *plan, const struct gm_sim_launch *launch)
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
