/* What a learned row may say of each field of struct gm_python_layout (learned.c). */
#ifndef GM_CPYTHON_LEARNED_FIELDS_H
#define GM_CPYTHON_LEARNED_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "cpython/versions/layout.h"

struct gm_learned_field {
	const char *name;
	size_t at; /* in struct gm_python_layout */
	int32_t least, most;
	int32_t step; /* it is a multiple of this */
};

extern const struct gm_learned_field gm_learned_fields[];
extern const size_t gm_learned_field_count;
extern const char *const gm_learned_optional[]; /* ends with NULL */

#endif
