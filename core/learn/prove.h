/* What a probe handed over: the row in it, and the proof that gpumem's readers see with it what
 * PyTorch says. Internal to core/learn. */
#ifndef GM_LEARN_PROVE_H
#define GM_LEARN_PROVE_H

#include "learn/probe.h"

/* GM_TARGET: it is no answer of a probe's, or a field that is needed is missing. *ret_missing: a
 * line each; owned by the caller. */
struct gm_error *gm_answer_row(
        const struct gm_probe *probe, struct gm_torch_layout *ret_layout, char **ret_missing);

/* GM_TARGET: names the first thing that differs. Reads the probe, which stands still. */
struct gm_error *gm_answer_prove(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, const struct gm_torch_layout *layout);

#endif
