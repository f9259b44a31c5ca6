/* What the agent can evaluate itself. Internal to core/walk. */
#ifndef GM_WALK_FILTER_H
#define GM_WALK_FILTER_H

#include "walk/state.h"

/* The operations that say where a condition may hold; false: there are too many for the agent. */
bool gm_walk_compile(struct gm_walk *walk, struct gm_stop_filter *ret_filter);
/* Which numbers of an event rule out, each alone, that a condition holds at it. */
struct gm_walk_ruled_out {
	bool python, native, tensor;
};
void gm_walk_rule_out(
        struct gm_walk *walk, const struct gm_event *event, struct gm_walk_ruled_out *ret);

#endif
