/* Finds the table of a version among those that gpumem ships. */
#ifndef GM_TORCH_LAYOUTS_H
#define GM_TORCH_LAYOUTS_H

#include "torch/layout.h"

/* The tables, newest first; NULL beyond the last. */
const struct gm_torch_layout *gm_torch_layout_at(size_t index);
/* The table for "2.11.0+cu130"; NULL: this version has none. */
const struct gm_torch_layout *gm_torch_layout_for(const char *version, bool old_strings);
/* "2.4 to 2.15; …": the versions that have a table, for messages. */
const char *gm_torch_layout_versions(void);

#endif
