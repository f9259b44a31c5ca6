/* Which analysis made a summary: the build makes the function (cmake/analysis.cmake). */
#ifndef GM_RANKS_ANALYSIS_H
#define GM_RANKS_ANALYSIS_H

/* "gpumem 0.1.0, 3f2a...": a hash of the sources that decide what a summary says. */
const char *gm_ranks_analysis(void);

#endif
