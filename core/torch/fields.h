/*
 * The fields of struct gm_torch_layout by name: a row of layouts can be read from a file, written
 * to one, compared and checked. The table is complete: tests/checks/test_fields.py compares it with
 * the struct.
 */
#ifndef GM_TORCH_FIELDS_H
#define GM_TORCH_FIELDS_H

#include <stddef.h>

#include "torch/layout.h"

struct gm_torch_field {
	const char *name;   /* "storage.size_of", or "hash.count" of allocator.hash */
	uint16_t at, width; /* where in the struct, and how many bytes: 1 (a bool), 2 or 4 */
	uint16_t bytes;     /* what is read there of the target's object, and its alignment; 0: no
	                       offset */
	uint16_t size_at;   /* of the field with the size of the object that it is in; 0: in none */
	uint32_t most;      /* the largest value that is believed */
	bool optional;      /* 0: not known; what needs it reports it */
};

extern const struct gm_torch_field gm_torch_fields[];
extern const size_t gm_torch_field_count;

const struct gm_torch_field *gm_torch_field_find(const char *name); /* NULL: there is none */
uint32_t gm_torch_field_get(
        const struct gm_torch_layout *layout, const struct gm_torch_field *field);
void gm_torch_field_set(
        struct gm_torch_layout *layout, const struct gm_torch_field *field, uint32_t value);

/* A row from outside is hostile: no reader may be led out of the buffers that it reads objects
 * into. NULL: the row is sound; else the first field that is not, and why in `ret_why`. */
const struct gm_torch_field *gm_torch_layout_unsound(
        const struct gm_torch_layout *layout, const char **ret_why);

#endif
