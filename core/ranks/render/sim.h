/* Text and JSON of `gpumem-ranks sim`. */
#ifndef GM_RANKS_RENDER_SIM_H
#define GM_RANKS_RENDER_SIM_H

#include <stdio.h>

#include "ranks/sim_answer.h"

struct gm_error *gm_render_sim_text(const struct gm_sim_answer *answer, FILE *out);
struct gm_error *gm_render_sim_json(const struct gm_sim_answer *answer, FILE *out);

#endif
