/* A PyTorch that is not known, met by a question about a process: it is learned (core/learn). */
#ifndef GM_ASK_CONTEXT_LEARN_H
#define GM_ASK_CONTEXT_LEARN_H

#include "ask/context.h"
#include "torch/learned.h"

/* *ret_fresh: a row was learned, or another of us has just kept one; false where learning is
 * switched off: then the refusal is the opener's. The context's `learned` says what was
 * done. Needs its symbols. */
struct gm_error *gm_context_learn(
        struct gm_context *context, struct gm_torch_learned *ret_learned, bool *ret_fresh);

/* The same for a CPython; its row then serves whoever opens it. */
struct gm_error *gm_context_learn_python(struct gm_context *context, bool *ret_fresh);

/* Switched off by --no-learn or GPUMEM_NO_LEARN. */
bool gm_context_learn_is_off(const struct gm_context *context);

#endif
