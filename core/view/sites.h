/*
 * By which lines the page names places. `blocks --by line` descends from a line into the library
 * that it calls where the line holds much of what is asked about. A page shows all moments, and a
 * block has one name in it: it descends from the lines that hold much of the device's peak.
 */
#ifndef GM_VIEW_SITES_H
#define GM_VIEW_SITES_H

#include "ask/recording/driven.h"
#include "model/model.h"

/* *ret_driven is NULL where no line needs it. The caller destroys it. */
struct gm_error *gm_view_driven(
        const struct gm_model *model, size_t device, struct gm_driven **ret_driven);

#endif
