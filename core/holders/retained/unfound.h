/* A reach, after references that are missing were searched for. Internal to core/holders. */
#ifndef GM_HOLDERS_UNFOUND_H
#define GM_HOLDERS_UNFOUND_H

#include "holders/retained/reach_build.h"

/* As gm_reach_create(), after references that are missing were searched for in all memory. */
struct gm_error *gm_reach_create_promoted(struct gm_holders *graph,
        const struct gm_reach_options *options, struct gm_reach **ret_reach);

#endif
