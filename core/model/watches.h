/*
 * Conditions at which a debugger stops a program: a list by the debugger's numbers, evaluated at
 * one event after the other while the program runs. record does so at breakpoints, walk at the
 * agent's events.
 */
#ifndef GM_MODEL_WATCHES_H
#define GM_MODEL_WATCHES_H

#include "base/array.h"
#include "log/log.h"
#include "model/condition.h"
#include "model/steps.h"

enum { GM_WATCHES_MAX = 256 };

struct gm_watch {
	uint32_t id; /* the debugger's, not 0 */
	bool once;
	uint64_t hits;
	struct gm_condition *condition; /* owned */
};

struct gm_watches {
	GM_ARRAY(struct gm_watch) list;
	uint32_t stopped_by; /* the condition that held first at the latest stop, 0: none did */
	uint64_t stopped_at; /* the event at which it did */
};

/* GM_USAGE: the condition cannot be read, or there are too many. */
struct gm_error *gm_watches_add(struct gm_watches *watches, enum gm_subject subject, uint32_t id,
        const char *condition, bool once);
void gm_watches_remove(struct gm_watches *watches, uint32_t id);
uint64_t gm_watches_hits(const struct gm_watches *watches, uint32_t id);
void gm_watches_deinit(struct gm_watches *watches);

/* May it hold at another event? */
static inline bool gm_watch_is_due(const struct gm_watch *watch)
{
	return !watch->once || watch->hits == 0;
}

/* Counts the conditions that hold at an event, and notes the first one if no earlier event of this
 * stop had one. False: none holds. */
bool gm_watches_judge(
        struct gm_watches *watches, gm_judge *judge, const void *subject, uint64_t event);

/* What is known of an event without its stacks and its tensor. */
struct gm_watched_event {
	const struct gm_event *event;
	uint64_t number;
	uint64_t block; /* number of the event that allocated its block; UINT64_MAX: not recorded */
	const struct gm_steps *steps; /* NULL: not known */
	uint32_t step;
};
/* GM_UNKNOWN also of a fact that is not of these. */
enum gm_truth gm_compare_event(
        const struct gm_watched_event *watched, const struct gm_clause *clause);

#endif
