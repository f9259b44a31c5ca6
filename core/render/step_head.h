/* What `steps` and `phases` say alike: which loop has the steps and how that was told, and a
 * stretch of events. */
#ifndef GM_RENDER_STEP_HEAD_H
#define GM_RENDER_STEP_HEAD_H

#include "ask/recording/stretch.h"
#include "render/text.h"

#include <jansson.h>

void gm_put_bytes_cell(struct gm_table *table, uint64_t bytes);
/* "train.py:20" */
void gm_put_step_loop(const struct gm_model *model, const struct gm_step_loop *loop, FILE *out);
enum { GM_DEVICE_OPTION_TEXT = 24 };
/* " --device 1", which a command needs to ask about this device of the model; "": it needs none. */
const char *gm_text_device_option(
        const struct gm_model *model, size_t index, char buffer[GM_DEVICE_OPTION_TEXT]);
/* Which other devices with events the same question can be asked about; nothing where there are
 * none. named: the device of this answer is told too. */
void gm_put_other_devices(
        const struct gm_model *model, size_t index, bool named, const char *question, FILE *out);
/* "cuda:0: 3 steps of the loop at train.py:20"; index: of the model's devices. */
void gm_put_steps_head(const struct gm_model *model, size_t index, const char *what, FILE *out);
/* Which other threads and tasks train, whose steps are not counted; nothing where there are none.
 */
void gm_put_other_training(const struct gm_model *model, FILE *out);
/* How it was told what the steps are, as a sentence. */
void gm_put_steps_reason(const struct gm_model *model, FILE *out);
json_t *gm_json_stretch(const struct gm_stretch *stretch);
/* device: of the model's; SIZE_MAX: no events at all. */
json_t *gm_json_steps_head(const struct gm_model *model, size_t device);

#endif
