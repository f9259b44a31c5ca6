#include "model/watches.h"

#include <stdlib.h>

#include "base/cleanup.h"

static struct gm_watch *find(const struct gm_watches *watches, uint32_t id)
{
	for (size_t i = 0; i < watches->list.count; i++)
		if (watches->list.items[i].id == id)
			return &watches->list.items[i];
	return NULL;
}

struct gm_error *gm_watches_add(struct gm_watches *watches, enum gm_subject subject, uint32_t id,
        const char *text, bool once)
{
	struct gm_watch watch = {.id = id, .once = once};
	if (id == 0 || find(watches, id))
		return gm_error_create(GM_USAGE, "condition %u: there is one of this number", id);
	if (watches->list.count == GM_WATCHES_MAX)
		return gm_error_create(GM_USAGE,
		        "there are %d conditions already: delete one of them", GM_WATCHES_MAX);
	gm_try(gm_condition_parse(text, subject, NULL, &watch.condition));
	if (gm_array_push(&watches->list, watch))
		return NULL;
	gm_condition_destroy(watch.condition);
	return &gm_error_no_memory;
}

void gm_watches_remove(struct gm_watches *watches, uint32_t id)
{
	struct gm_watch *watch = find(watches, id);
	if (!watch)
		return;
	gm_condition_destroy(watch->condition);
	*watch = watches->list.items[--watches->list.count];
}

uint64_t gm_watches_hits(const struct gm_watches *watches, uint32_t id)
{
	const struct gm_watch *watch = find(watches, id);
	return watch ? watch->hits : 0;
}

void gm_watches_deinit(struct gm_watches *watches)
{
	for (size_t i = 0; i < watches->list.count; i++)
		gm_condition_destroy(watches->list.items[i].condition);
	gm_array_deinit(&watches->list);
}

bool gm_watches_judge(
        struct gm_watches *watches, gm_judge *judge, const void *subject, uint64_t event)
{
	bool any = false;
	for (size_t i = 0; i < watches->list.count; i++) {
		struct gm_watch *watch = &watches->list.items[i];
		if (!gm_watch_is_due(watch) ||
		        gm_condition_holds(watch->condition, judge, subject) != GM_TRUE)
			continue;
		watch->hits++;
		any = true;
		if (watches->stopped_by)
			continue;
		watches->stopped_by = watch->id;
		watches->stopped_at = event;
	}
	return any;
}

static enum gm_truth known(uint64_t number, const struct gm_clause *clause)
{
	return number == UINT64_MAX ? GM_UNKNOWN : gm_compare_numbers(number, clause);
}

enum gm_truth gm_compare_event(
        const struct gm_watched_event *watched, const struct gm_clause *clause)
{
	const struct gm_event *event = watched->event;
	switch (clause->fact) {
	case GM_FACT_SIZE:
		return gm_compare_numbers(event->size, clause);
	case GM_FACT_REQUESTED: /* 0: not recorded */
		return event->requested ? gm_compare_numbers(event->requested, clause) : GM_UNKNOWN;
	case GM_FACT_STEP:
		return watched->steps ? gm_compare_numbers(watched->step, clause) : GM_UNKNOWN;
	case GM_FACT_STREAM:
		return gm_compare_numbers(event->stream, clause);
	case GM_FACT_ADDRESS:
		return gm_compare_numbers(event->address, clause);
	case GM_FACT_EVENT:
		return gm_compare_numbers(watched->number, clause);
	case GM_FACT_BLOCK:
		return known(watched->block, clause);
	case GM_FACT_DEVICE:
		return gm_compare_numbers((uint64_t)event->device, clause);
	case GM_FACT_ALLOCATED:
		return known(event->allocated, clause);
	case GM_FACT_RESERVED:
		return known(event->reserved, clause);
	case GM_FACT_ACTION:
		return gm_compare_texts(gm_action_name((enum gm_action)event->action), clause);
	case GM_FACT_PHASE:
		return watched->steps
		               ? gm_compare_texts(
		                         gm_phase_name(gm_steps_phase(watched->steps)), clause)
		               : GM_UNKNOWN;
	default:
		return GM_UNKNOWN;
	}
}
