/*
 * Strings by number: each different one is kept once, so that names are compared as numbers. 0 is
 * no string.
 */
#ifndef GM_BASE_STRINGS_H
#define GM_BASE_STRINGS_H

#include "base/array.h"
#include "base/map.h"

struct gm_strings {
	GM_ARRAY(char *) items;
	struct gm_map by_hash;
};

/* The number of a string, from 1. 0: `text` is NULL or there is no memory. */
uint32_t gm_strings_add(struct gm_strings *strings, const char *text);
/* "" for 0. Valid until gm_strings_deinit(). */
const char *gm_strings_at(const struct gm_strings *strings, uint32_t number);
void gm_strings_deinit(struct gm_strings *strings);

#endif
