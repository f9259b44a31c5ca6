/* Words of an estimate: the formulas written out, and the names that --json and the command line
 * have for everything. */
#ifndef GM_RENDER_ESTIMATE_WORDS_H
#define GM_RENDER_ESTIMATE_WORDS_H

#include "estimate/estimate.h"

/* A formula as it is written, and the names of its operands: one letter each. */
struct gm_estimate_formula_text {
	const char *text;     /* "ceil(N / Z) * P" */
	const char *operands; /* "NZP" */
};
const struct gm_estimate_formula_text *gm_estimate_formula_text(enum gm_estimate_formula formula);
/* With the numbers in the operands' places; NULL: no memory. The caller frees it. */
char *gm_estimate_formula_filled(const struct gm_estimate_term *term);
const char *gm_estimate_term_name(enum gm_estimate_term_kind kind);
const char *gm_estimate_source_name(enum gm_estimate_source source);
const char *gm_estimate_way_name(enum gm_estimate_way way);
const char *gm_estimate_note_name(enum gm_estimate_note note);
const char *gm_estimate_checkpointing_name(enum gm_estimate_checkpointing checkpointing);
const char *gm_estimate_peak_name(enum gm_estimate_peak peak);
const char *gm_estimate_input_name(enum gm_estimate_input input);

#endif
