/*
 * The model: the state derived from a log's events. It has the lifetime of every block, the state
 * at any event, the peak, segments, steps of the training loop and phases.
 *
 * A block costs 40 bytes and an event 8; the rest stays in the log, which must outlive the model.
 * This room may include base and log. It knows no process: shapes, holders and names of live
 * objects come from elsewhere.
 */
#ifndef GM_MODEL_MODEL_H
#define GM_MODEL_MODEL_H

#include "log/log.h"
#include "model/block_names.h"
#include "model/labels.h"
#include "model/runs.h"
#include "model/state.h"
#include "model/step_types.h"
#include "model/types.h"

struct gm_model;

struct gm_error *gm_model_create(const struct gm_log *log, struct gm_model **ret_model);
/* The same for a log that may grow: gm_model_read_on() adds the events that were appended since
 * (gm_log_refresh()); its cost depends only on the new events. After a failure the model is
 * incomplete and must be destroyed. */
struct gm_error *gm_model_follow(const struct gm_log *log, struct gm_model **ret_model);
bool gm_model_follows(const struct gm_model *model);
struct gm_error *gm_model_read_on(struct gm_model *model);
/* The number of events processed so far, for tests. */
uint64_t gm_model_events_read(const struct gm_model *model);
/* For a model that follows a log: the currently allocated blocks, in no order; the cost is
 * proportional to their number. The caller frees the array. */
struct gm_error *gm_model_live_blocks(
        const struct gm_model *model, size_t device, uint32_t **ret_blocks, size_t *ret_count);
void gm_model_destroy(struct gm_model *model);
const struct gm_log *gm_model_log(const struct gm_model *model);

size_t gm_model_device_count(const struct gm_model *model);
/* Owned by the model. */
const struct gm_model_device *gm_model_device(const struct gm_model *model, size_t index);
/* The default device of questions: the CUDA one with the highest peak, else another accelerator,
 * else any. A stray block on cuda:0 does not hide the device that a rank works on. SIZE_MAX: there
 * is none. */
size_t gm_model_main_device(const struct gm_model *model);

/* The accelerator with that index, whatever its type; SIZE_MAX: there is none. */
size_t gm_model_accelerator(const struct gm_model *model, uint64_t index);

size_t gm_model_block_count(const struct gm_model *model);
/* In the order of their first events. */
const struct gm_block *gm_model_block(const struct gm_model *model, size_t index);
/* The block that an event allocated or freed; GM_NO_BLOCK: none (segments, out of memory). */
uint32_t gm_model_event_block(const struct gm_model *model, uint64_t event);
/* An event's stacks (0: none), without a look into the log. */
void gm_model_stacks(
        const struct gm_model *model, uint64_t event, uint32_t *ret_python, uint32_t *ret_native);

/* The names of a block, in the order in which they were read and each once. Returns their
 * number; at most `max` are stored. */
size_t gm_model_names(
        const struct gm_model *model, size_t block, struct gm_block_name *ret_names, size_t max);
/* All of them. False: no memory. Freed by gm_all_names_deinit() in either case. */
bool gm_model_all_names(const struct gm_model *model, size_t block, struct gm_all_names *ret_names);
void gm_all_names_deinit(struct gm_all_names *names);
/* Were names read? Even then blocks of other iterations have none. */
bool gm_model_has_names(const struct gm_model *model);
/* The loops around those, the innermost first; at most `max`. */
size_t gm_model_loops_around(
        const struct gm_model *model, struct gm_step_loop *ret_loops, size_t max);
/* The loops after an event in which the plan's thread calls modules, but not around those with the
 * steps: an evaluation after the training. In the order in which they come; at most `max`. */
size_t gm_model_loops_later(
        const struct gm_model *model, uint32_t event, struct gm_step_loop *ret_loops, size_t max);
/* The iterations of any loop of the plan's thread. */
struct gm_model_iterations {
	uint32_t *starts; /* the first event of each */
	uint32_t *ends;   /* the event after the last one of each, with a Python stack */
	uint32_t count;
	uint32_t end; /* after the last event in any of them */
};
/* Reads all events. */
struct gm_error *gm_model_iterations(const struct gm_model *model, const struct gm_step_loop *loop,
        struct gm_model_iterations *ret_iterations);
void gm_model_iterations_deinit(struct gm_model_iterations *iterations);
/* Plans for each of the loops that an event is in, in its thread, the innermost first: they need
 * not be the steps' (an evaluation's loop). At most `max`. */
size_t gm_model_plans_of_event(
        const struct gm_model *model, uint64_t event, struct gm_step_plan *ret_plans, size_t max);
/* The iterations of such a plan. */
struct gm_error *gm_model_iterations_of(const struct gm_model *model,
        const struct gm_step_plan *plan, struct gm_model_iterations *ret_iterations);
/* Makes the iterations of the innermost loop at this line of this file (the end of its path is
 * enough) the steps; `file` NULL: the steps found automatically. False: there is no loop, and
 * nothing changes. Otherwise *ret_error is NULL, or the reason why the steps cannot be numbered. */
bool gm_model_choose_loop(
        struct gm_model *model, const char *file, uint32_t line, struct gm_error **ret_error);
#endif
