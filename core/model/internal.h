/* The model's own parts, shared by the files of core/model that make it and ask it. */
#ifndef GM_MODEL_INTERNAL_H
#define GM_MODEL_INTERNAL_H

#include "base/array.h"
#include "model/block_names.h"
#include "model/live.h"
#include "model/sites.h"
#include "model/types.h"

/* So many events are gone through at most to tell the usage after any one: far below a
 * millisecond. */
enum { CHECKPOINT_EVENTS = 1 << 11 };

/* Where step or phase changes: they do so rarely. */
struct run {
	uint32_t event; /* the first */
	uint32_t step;
	uint32_t iteration; /* of the plan's loops; several may make one step */
	uint8_t phase;
	uint8_t own_phase; /* the phase by its own events, without the runs around it */
};

/* An event that labelled a block. */
struct label {
	uint32_t block, event;
};

/* The usage of every device after each CHECKPOINT_EVENTS events; devices seen later have used
 * nothing. */
struct checkpoint {
	size_t first, count; /* in `usages` */
	size_t run;          /* that its event is in */
};

struct gm_categories;
struct gm_marks;
struct gm_modes;

/* Passes and marks of the log's that a reading was fed. */
struct gm_readers_place {
	size_t iterations, marks;
};

/*
 * A log is read twice: to find the training loop, and, when that is known, to give each event its
 * step and phase. Where both readings stand is kept while the log grows, so that only what came
 * since is read. Is another loop the better one by then, the second reading begins again.
 */
struct readings {
	struct gm_steps *finding, *assigning;
	struct gm_modes *modes;             /* of the second one */
	struct gm_readers_place found, fed; /* how much of what is between events each was fed */
	uint32_t assigned;                  /* events that have a step and a phase */
	size_t indexed;                     /* checkpoints that know their run */
	size_t first_changed;               /* the first run that changed while reading on */
	struct gm_step_plan plan;           /* what the second one goes by ... */
	bool marked;
	uint64_t main_thread; /* whose stack came first; 0: none has come */
	size_t amps;          /* of the log's records of mixed precision, those before the event */
	bool casts;           /* the main thread's next allocation is autocast's copy of a tensor */
	bool has_modes;       /* some event has the grad mode */
	bool over;            /* it has no Python frame any more */
};

struct gm_model {
	const struct gm_log *log;
	bool follows; /* the log may grow: what reading it on takes is kept */
	struct readings readings;
	uint64_t read; /* events fed to either reading */
	GM_ARRAY(struct gm_model_device) devices;
	size_t latest_device; /* of the last event, while the model is made */
	GM_ARRAY(struct gm_block) blocks;
	uint32_t *event_blocks;
	uint32_t *event_sites;
	struct gm_sites sites;
	uint32_t event_count;
	size_t event_capacity;              /* of event_blocks and event_sites */
	size_t iteration_count, mark_count; /* of the log's */
	GM_ARRAY(struct checkpoint) checkpoints;
	GM_ARRAY(struct gm_usage) usages;
	GM_ARRAY(struct run) runs;
	GM_ARRAY(uint32_t) segment_events;
	GM_ARRAY(struct label) labels; /* by block, then by event */
	struct gm_block_names names;
	struct gm_live live; /* while the model is made or the log grows */
	struct gm_step_plan plan;
	bool chosen;                               /* the user named its loop */
	uint32_t *step_of;                         /* by iteration; owned */
	uint32_t iterations;                       /* in step_of */
	uint32_t loop_steps[GM_STEP_LOOPS_CHOSEN]; /* of each of the plan's loops */
	uint32_t step_count;
	struct gm_marks *marks;           /* NULL: the log has none */
	struct gm_categories *categories; /* made when first asked for */
};

static inline uint64_t gm_usage_less(uint64_t from, uint64_t size)
{
	return from > size ? from - size : 0;
}

/* What an event does to a device's usage; `block` is the one it is about, NULL for segments. One
 * place, so that the sums at any event are those that the peak was found with. */
static inline void gm_usage_apply(struct gm_usage *usage, enum gm_action action, uint64_t size,
        const struct gm_block *block, uint32_t number)
{
	uint64_t requested = block ? block->requested : 0;
	switch (action) {
	case GM_ALLOC:
		usage->allocated += size;
		usage->active += size;
		usage->requested += requested;
		break;
	case GM_FREE_REQUESTED:
	case GM_FREE_COMPLETED:
		if (!block || block->alloc == GM_NO_EVENT)
			break; /* its allocation was never counted */
		if (block->free_requested == number ||
		        (block->free_completed == number && block->free_requested == GM_NO_EVENT))
			usage->allocated = gm_usage_less(usage->allocated, block->size);
		if (block->free_completed == number) { /* a request may be both */
			usage->active = gm_usage_less(usage->active, block->size);
			usage->requested = gm_usage_less(usage->requested, requested);
		}
		break;
	case GM_SEGMENT_ALLOC:
	case GM_SEGMENT_MAP:
		usage->reserved += size;
		break;
	case GM_SEGMENT_FREE:
	case GM_SEGMENT_UNMAP:
		usage->reserved = gm_usage_less(usage->reserved, size);
		break;
	default:
		break;
	}
}

/* labels.c */
bool gm_model_add_label(
        struct gm_model *model, const struct gm_event *event, uint32_t number, size_t device);
void gm_model_sort_labels(struct gm_model *model);

/* runs.c: the first reading feeds events, the first of which is number `first`, to a detector of
 * the training loop ... */
struct gm_steps *gm_model_steps_create(const struct gm_model *model);
void gm_model_steps_learn(const struct gm_model *model, struct gm_steps *steps,
        const struct gm_event *events, size_t count, uint32_t first,
        struct gm_readers_place *place);
/* The iteration of an event of the record in a reading whose plan is fixed; events are fed in
 * order. */
uint32_t gm_model_steps_follow(const struct gm_model *model, struct gm_steps *steps,
        uint32_t number, struct gm_readers_place *place);
static inline struct gm_model_run gm_run_at_index(const struct gm_model *model, size_t index)
{
	const struct run *run = &model->runs.items[index];
	uint32_t end = index + 1 < model->runs.count ? run[1].event : model->event_count;
	return (struct gm_model_run){run->event, end, run->step, (enum gm_phase)run->phase};
}
static inline const struct gm_site *gm_model_site(const struct gm_model *model, uint32_t event)
{
	return &model->sites.items.items[model->event_sites[event]];
}
/* Did the event allocate the block that it is about? */
static inline bool gm_model_allocates(const struct gm_model *model, uint32_t event)
{
	uint32_t block = model->event_blocks[event];
	return block != GM_NO_BLOCK && model->blocks.items[block].alloc == event;
}
/* ... and the second, when the loop is known, gives each event its step and phase: those that came
 * since, unless what the others go by is not the same any more. */
struct gm_error *gm_model_assign_steps(struct gm_model *model);

#endif
