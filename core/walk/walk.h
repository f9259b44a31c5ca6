/*
 * Walk: conditions at the events of a program that the agent records, while it runs under a
 * debugger.
 *
 * Most events are evaluated in the program, by a filter that this room compiles from the conditions
 * (agent/stop_filter.h). If the filter cannot exclude that a condition holds, the agent calls a
 * function on which the debugger has a breakpoint. Then this room reads the new events, evaluates
 * the conditions, and marks in the program the stacks and tensors that exclude a condition by
 * themselves. So gdb shows only the events for which a condition holds.
 *
 * This room may include spool, image, model's watches and steps, dtypes, log, base, and the agent's
 * format. It answers no question and owns no breakpoint.
 */
#ifndef GM_WALK_WALK_H
#define GM_WALK_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "walk/place.h"

struct gm_walk;

/* `path`: the agent's file, which need not be there yet. */
struct gm_error *gm_walk_create(const char *path, struct gm_walk **ret_walk);
void gm_walk_destroy(struct gm_walk *walk);

/* As gm_recorder_watch() and so on (record/record.h). Changes take effect by gm_walk_arm(). */
struct gm_error *gm_walk_watch(struct gm_walk *walk, uint32_t id, const char *condition, bool once);
void gm_walk_unwatch(struct gm_walk *walk, uint32_t id);
uint64_t gm_walk_hits(const struct gm_walk *walk, uint32_t id);
uint32_t gm_walk_stopped_by(const struct gm_walk *walk, uint64_t *ret_event);

/*
 * Writes the filter into the process, whose threads all stand: conditions take effect from the next
 * event on. *ret_active: there are conditions that may still hold. `every`: each event is a stop,
 * whatever the conditions say.
 */
struct gm_error *gm_walk_arm(struct gm_walk *walk, pid_t pid, const struct gm_walk_place *place,
        bool every, bool *ret_active);

/* `thread` stands in gpumem_agent_at_event(). *ret_holds: a condition holds at its event. */
struct gm_error *gm_walk_stop(struct gm_walk *walk, pid_t thread, bool *ret_holds);

/* Of the events that were read so far. */
uint64_t gm_walk_event_count(const struct gm_walk *walk);

#endif
