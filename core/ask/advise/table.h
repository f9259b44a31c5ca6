/* The table of measures, and what one of them does. Internal to core/ask. */
#ifndef GM_ASK_ADVISE_TABLE_H
#define GM_ASK_ADVISE_TABLE_H

#include "ask/advise/measures.h"

/* GM_MEASURE_COUNT rows, by measure. */
extern const struct gm_measure_row gm_measure_rows[];

#endif
