/* The tensor that a block was allocated for, as a recording has it: dtype, shape, strides. */
#ifndef GM_RENDER_TENSOR_H
#define GM_RENDER_TENSOR_H

#include <jansson.h>

#include "log/log.h"

enum { GM_TENSOR_TEXT = 200 };
/* "(5000, 50000) float32", and " strides (1, 5000)" where it is not contiguous; "" where nothing
 * was recorded. */
const char *gm_text_tensor(const struct gm_log *log, uint32_t id, char text[GM_TENSOR_TEXT]);
/* Sets "dtype", "shape" and "strides" (null: contiguous) of an event or a block; nothing where
 * nothing was recorded. */
void gm_json_set_tensor(json_t *value, const struct gm_log *log, uint32_t id);

#endif
