/*
 * Any bytes as a model's config, index or safetensors header: read or refused. What is read is
 * estimated under settings that the first byte chooses, and the answer's sums hold.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "estimate/estimate.h"
#include "render/estimate_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gm_estimate_settings settings_of(uint8_t bits)
{
	return (struct gm_estimate_settings){
	        .batch = bits & 1 ? 1 << 30 : 1,
	        .sequence = bits & 2 ? 1 << 30 : 128,
	        .accumulation = bits & 4 ? 8 : 1,
	        .zero = bits >> 3 & 3,
	        .world = 8,
	        .tp = bits & 32 ? 2 : 1,
	        .pp = bits & 64 ? 2 : 1,
	        .cp = 1,
	        .ep = 1,
	        .inference = bits & 128,
	        .materialized = bits & 1,
	        .autocast = bits & 4 ? GM_ESTIMATE_BFLOAT16 : GM_ESTIMATE_NO_DTYPE,
	        .checkpointing = (enum gm_estimate_checkpointing)(bits % 3),
	        .optimizer = (enum gm_estimate_optimizer)(bits % GM_ESTIMATE_OPTIMIZERS),
	};
}

static void check(const struct gm_estimate *estimate)
{
	for (unsigned i = 0; i < GM_ESTIMATE_TERMS; i++) {
		const struct gm_estimate_term *term = &estimate->terms[i];
		if (!term->there)
			continue;
		_cleanup_free_ char *filled = gm_estimate_formula_filled(term);
		if (term->bytes > INT64_MAX || !filled)
			abort();
	}
	if (estimate->total < estimate->terms[GM_ESTIMATE_PARAMETERS].bytes ||
	        estimate->total > INT64_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct gm_estimate_numbers none = {0};
	struct gm_estimate_model model = {0};
	struct gm_estimate estimate;
	if (!size)
		return 0;
	const struct gm_estimate_settings settings = settings_of(data[0]);
	/* A NUL behind the bytes, as the file's reader puts there. */
	_cleanup_free_ char *bytes = calloc(1, size);
	if (!bytes)
		return 0;
	for (size_t i = 1; i < size; i++)
		bytes[i - 1] = (char)data[i];
	_cleanup_error_ struct gm_error *error =
	        gm_estimate_model_read_bytes(bytes, size - 1, "/nonexistent/file", &none, &model);
	if (!error) {
		error = gm_estimate_formula(&model, &settings, &estimate);
		if (!error)
			check(&estimate);
	}
	gm_estimate_model_deinit(&model);
	return 0;
}
