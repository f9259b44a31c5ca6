/* What tensors in a block are called, as text and JSON. */
#ifndef GM_RENDER_NAMES_H
#define GM_RENDER_NAMES_H

#include <jansson.h>

#include "model/model.h"

enum { GM_NAMES_TEXT = 1200 };

/* "layers.0.weight", "flat.0 and 7 more"; "": the block has none. */
const char *gm_text_names(const struct gm_model *model, size_t block, char text[GM_NAMES_TEXT]);
/* Sets "name" (the first; null) and "names" where the recording has names. */
void gm_json_set_names(json_t *value, const struct gm_model *model, size_t block);

#endif
