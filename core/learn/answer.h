/* The row in what a probe passed. Internal to core/learn. */
#ifndef GM_LEARN_ANSWER_H
#define GM_LEARN_ANSWER_H

#include "learn/probe.h"
#include "torch/learned.h"

/* GM_TARGET: it is no answer of a probe's, or a field that is needed is missing. *ret_missing: a
 * line each; owned by the caller. */
struct gm_error *gm_answer_row(
        const struct gm_probe *probe, struct gm_torch_layout *ret_layout, char **ret_missing);

#endif
