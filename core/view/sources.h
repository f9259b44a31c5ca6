/*
 * Lines of source files of this machine, for the stacks of a page: of files of Python that have not
 * changed since the recording, and only where the user asked for them, as a page may be passed on.
 */
#ifndef GM_VIEW_SOURCES_H
#define GM_VIEW_SOURCES_H

#include <stdint.h>

#include "base/error.h"

struct gm_view_sources;

/* until_ns: since the Unix epoch; a file that was changed later is not the one that ran. */
struct gm_error *gm_view_sources_create(uint64_t until_ns, struct gm_view_sources **ret_sources);
void gm_view_sources_destroy(struct gm_view_sources *sources);

/* The line without the spaces around it; NULL: it is not there. Valid until the next call. */
const char *gm_view_source(struct gm_view_sources *sources, const char *path, uint32_t line);

#endif
