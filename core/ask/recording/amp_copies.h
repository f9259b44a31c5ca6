/* Autocast's copies of parameters. Internal to core/ask. */
#ifndef GM_ASK_AMP_COPIES_H
#define GM_ASK_AMP_COPIES_H

#include "ask/recording/amp_facts.h"
#include "model/categories.h"
#include "model/model.h"

/* Copies of parameters, and whose; amp->copies is made. */
struct gm_error *gm_amp_find_copies(struct gm_amp *amp, const struct gm_categories *categories);

enum {
	GM_AMP_FLOAT16 = 5, /* c10::ScalarType (torch/headeronly/core/ScalarType.h) */
	GM_AMP_FLOAT32 = 6,
	GM_AMP_BFLOAT16 = 15,
};
static inline bool gm_amp_is_half(unsigned type)
{
	return type == GM_AMP_FLOAT16 || type == GM_AMP_BFLOAT16;
}

/* What the names of a native stack say; each stack is examined once. */
enum gm_amp_sign {
	GM_AMP_LOOKED_AT = 1,
	GM_AMP_CASTS = 2,        /* autocast converts an argument */
	GM_AMP_CLEARS_CACHE = 4, /* autocast's cache is cleared */
	GM_AMP_CONVERTS = 8,     /* the backward of a conversion */
};
struct gm_amp_signs {
	uint8_t *items; /* by native stack */
	size_t count, capacity;
};
/* 0: no memory */
uint8_t gm_amp_signs_of(
        struct gm_amp_signs *signs, const struct gm_log *log, uint32_t native_stack);

#endif
