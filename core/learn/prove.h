/* The proof that gpumem's readers see with a row what PyTorch says. Internal to core/learn. */
#ifndef GM_LEARN_PROVE_H
#define GM_LEARN_PROVE_H

#include "learn/probe.h"
#include "torch/learned.h"

/* GM_TARGET: names the first thing that differs. Reads the probe, which is stopped. */
struct gm_error *gm_answer_prove(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, const struct gm_torch_layout *layout);

#endif
