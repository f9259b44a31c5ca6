/*
 * zero: how the optimizers' state of a process or a core is sharded over the ranks of its job, from
 * Python's objects: what this rank owns, and the bytes of it beside the ZeRO paper's.
 */
#ifndef GM_ASK_ZERO_H
#define GM_ASK_ZERO_H

#include "ask/context.h"
#include "ask/zero/facts.h"

const char *gm_zero_scheme_name(enum gm_zero_scheme scheme);
const char *gm_zero_part_name(enum gm_zero_part part);
const char *gm_zero_difference_name(enum gm_zero_difference difference);
const char *gm_zero_bucket_kind_name(enum gm_zero_bucket_kind kind);

struct gm_error *gm_ask_zero(struct gm_context *context, struct gm_zero_now *ret_now);
void gm_zero_deinit(struct gm_zero_now *now);

#endif
