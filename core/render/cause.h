/* A block's life in words. The texts are the caller's to free; what the program named is written as
 * it is (base/put.h). */
#ifndef GM_RENDER_CAUSE_H
#define GM_RENDER_CAUSE_H

#include "ask/why.h"

/* "The block of 4.0 MiB was allocated at train.py:12 in step 3 and was ..." */
struct gm_error *gm_cause_sentence(const struct gm_why *why, char **ret_text);
/* "`outputs` until train.py:12 in step 4"; NULL: not known, or still alive. */
struct gm_error *gm_cause_held_until(const struct gm_why *why, char **ret_text);
/* For the sentence only by what the block was released: "released by the rebinding of `outputs` at
 * train.py:12 in train()". The block has been released; of `why` the model, the block, `freed`,
 * `freed_at` and the cause are examined. */
struct gm_error *gm_cause_text(const struct gm_why *why, char **ret_text);

#endif
