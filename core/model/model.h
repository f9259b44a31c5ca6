/*
 * The model: what a log's events mean. Every block's life, the state at any event, the peak,
 * segments, steps of the training loop and phases.
 *
 * A block costs 40 bytes and an event 8; the rest stays in the log, which must outlive the model.
 * This room may include base and log. It knows no process: shapes, holders and names of live things
 * are asked elsewhere.
 */
#ifndef GM_MODEL_MODEL_H
#define GM_MODEL_MODEL_H

#include "log/log.h"
#include "model/block_names.h"
#include "model/steps.h"

struct gm_model;

#define GM_NO_EVENT UINT32_MAX
#define GM_NO_BLOCK UINT32_MAX

/* One life of a piece of memory, from its allocation to its free. Numbers are those of events. */
struct gm_block {
	uint64_t address;
	uint64_t size;      /* bytes, rounded */
	uint64_t requested; /* bytes as asked for; 0 unknown */
	uint32_t alloc; /* GM_NO_EVENT: allocated before the record began, only its free is known */
	uint32_t free_requested; /* GM_NO_EVENT: not in the record */
	uint32_t free_completed;
	uint16_t device; /* index of gm_model_device() */
	uint16_t flags;  /* enum gm_event_flags of its allocation */
};

/* Bytes of one device: PyTorch's meanings. allocated: rounded bytes until the free is requested;
 * active: until it is completed; requested: as asked for, of active blocks; reserved: segments. */
struct gm_usage {
	uint64_t allocated, active, requested, reserved;
};

struct gm_model_device {
	uint8_t type; /* c10::DeviceType */
	int16_t index;
	uint64_t events;
	struct gm_usage now, peak; /* each peak on its own */
	uint32_t peak_event;       /* where allocated first reached its peak; GM_NO_EVENT: nothing
	                              allocated */
	/* The allocator's own figures after its last event, UINT64_MAX: not recorded. Where they
	 * differ from `now`, the record began late or has lost events. */
	uint64_t reported_allocated, reported_reserved;
	uint64_t unknown_frees,
	        unknown_free_bytes; /* frees whose allocation is not in the record */
	uint64_t ooms;
};

struct gm_segment {
	uint64_t address, size, stream;
	uint16_t device;
	uint32_t alloc; /* event; GM_NO_EVENT: before the record */
	bool mapped; /* a stretch of an expandable segment: grows and shrinks by what is mapped and
	                unmapped */
};

struct gm_error *gm_model_create(const struct gm_log *log, struct gm_model **ret_model);
/* The same of a log that may grow: what was appended since (gm_log_refresh()) is taken in by
 * gm_model_read_on(), which costs what came and not what was there. Where it fails the model is not
 * whole: it is to be destroyed. */
struct gm_error *gm_model_follow(const struct gm_log *log, struct gm_model **ret_model);
bool gm_model_follows(const struct gm_model *model);
struct gm_error *gm_model_read_on(struct gm_model *model);
/* How many events were gone through so far: an account of the work, for tests. */
uint64_t gm_model_events_read(const struct gm_model *model);
/* Of a model that follows: the blocks that are allocated now, in no order; costs as many as there
 * are. The caller frees the array. */
struct gm_error *gm_model_live_blocks(
        const struct gm_model *model, size_t device, uint32_t **ret_blocks, size_t *ret_count);
void gm_model_destroy(struct gm_model *model);
const struct gm_log *gm_model_log(const struct gm_model *model);

size_t gm_model_device_count(const struct gm_model *model);
/* Owned by the model. */
const struct gm_model_device *gm_model_device(const struct gm_model *model, size_t index);
/* The device that questions mean when none is named: the first CUDA one with events, else another
 * accelerator, else the first. SIZE_MAX: there is none. */
size_t gm_model_main_device(const struct gm_model *model);

size_t gm_model_block_count(const struct gm_model *model);
/* In the order of their first events. */
const struct gm_block *gm_model_block(const struct gm_model *model, size_t index);
/* The block that an event allocated or freed; GM_NO_BLOCK: none (segments, out of memory). */
uint32_t gm_model_event_block(const struct gm_model *model, uint64_t event);
/* The event that ended a block's being allocated: its free, as requested where the record has that.
 * GM_NO_EVENT: none. */
static inline uint32_t gm_block_end(const struct gm_block *block)
{
	return block->free_requested < block->free_completed ? block->free_requested
	                                                     : block->free_completed;
}
/* Is the block allocated after event `event`? (Free requested ends it.) */
static inline bool gm_block_live_after(const struct gm_block *block, uint32_t event)
{
	return block->alloc != GM_NO_EVENT && block->alloc <= event && gm_block_end(block) > event;
}

/* An event's stacks (0: none), without a look into the log. */
void gm_model_stacks(
        const struct gm_model *model, uint64_t event, uint32_t *ret_python, uint32_t *ret_native);

/* The usage of a device after an event. Costs one pass over at most 2 K events. */
struct gm_usage gm_model_usage_after(const struct gm_model *model, size_t device, uint64_t event);

/* Events that follow one another in one step and phase. */
struct gm_model_run {
	uint32_t first, end; /* events [first, end) */
	uint32_t step;
	enum gm_phase phase;
};
/* Goes through the events of one device in order, with its usage after each. */
struct gm_walk {
	const struct gm_model *model;
	size_t device;
	uint32_t number; /* of the event that gm_walk_next() gave */
	bool brief;
	struct gm_event event; /* brief: its action and size alone */
	uint32_t block;        /* that it is about; GM_NO_BLOCK: none */
	struct gm_usage usage;
	uint32_t ahead;
	size_t run; /* that the event is in: see gm_walk_run() */
};
struct gm_walk gm_walk_begin(const struct gm_model *model, size_t device);
/* The same for who needs no more of the events than what they do to memory: several times as
 * fast. */
struct gm_walk gm_walk_begin_brief(const struct gm_model *model, size_t device);
bool gm_walk_next(struct gm_walk *walk);               /* false: there is no further event */
struct gm_model_run gm_walk_run(struct gm_walk *walk); /* that the event is in */

/* Segments that are there after an event, by address. The caller frees the array. */
struct gm_error *gm_model_segments_after(const struct gm_model *model, uint64_t event,
        struct gm_segment **ret_segments, size_t *ret_count);

size_t gm_model_run_count(const struct gm_model *model);
struct gm_model_run gm_model_run(const struct gm_model *model, size_t index);
/* The run that an event is in; the event must be in the record. */
size_t gm_model_run_at(const struct gm_model *model, uint32_t event);

/* The step of an event, from 1; 0: in none. */
uint32_t gm_model_step(const struct gm_model *model, uint64_t event);
enum gm_phase gm_model_phase(const struct gm_model *model, uint64_t event);
uint32_t gm_model_step_count(const struct gm_model *model);
/* Did the program itself say where its steps begin? Then they are of no loop. */
bool gm_model_steps_marked(const struct gm_model *model);
/* The ranges, named by the program, that an event is in: outermost first, at most `max`. */
size_t gm_model_ranges(
        const struct gm_model *model, uint64_t event, const char **ret_names, size_t max);
/* What the program attached to the event by torch.cuda.memory._set_memory_metadata(); NULL:
 * nothing. */
const char *gm_model_metadata(const struct gm_model *model, uint64_t event);
/* The labels of a block (torch.cuda.memory._annotate_tensor()), in the order in which it got them
 * and each once; at most `max`. */
size_t gm_model_labels(
        const struct gm_model *model, size_t block, const char **ret_labels, size_t max);
bool gm_model_has_labels(const struct gm_model *model);
/* The names of a block, in the order in which they were read and each once. The return value is how
 * many there are; at most `max` are told. */
size_t gm_model_names(
        const struct gm_model *model, size_t block, struct gm_block_name *ret_names, size_t max);
/* Were names read? Blocks of other iterations have none all the same. */
bool gm_model_has_names(const struct gm_model *model);
/* A frame of the stack at which the forward pass made the node whose backward the event is of;
 * innermost first. False: there is no such frame, or the stack is not known: PyTorch keeps it in
 * anomaly mode alone. */
struct gm_forward_frame {
	char file[1024], function[256];
	uint32_t line;
};
bool gm_model_forward(const struct gm_model *model, uint64_t event, size_t index,
        struct gm_forward_frame *ret_frame);
/* The loop whose iterations are the steps, of several the one that has most; false: they are of no
 * loop, or marked. */
bool gm_model_step_loop(const struct gm_model *model, struct gm_step_loop *ret_loop);
/* All loops that have steps, and how that was told; the model's own. Where steps are marked it is
 * not gone by. */
const struct gm_step_plan *gm_model_step_plan(const struct gm_model *model);
/* How many iterations of them there are: several may make one step. */
uint32_t gm_model_iteration_count(const struct gm_model *model);
/* The loops around those, the innermost first; at most `max`. */
size_t gm_model_loops_around(
        const struct gm_model *model, struct gm_step_loop *ret_loops, size_t max);
/* The iterations of any loop of the plan's thread. */
struct gm_model_iterations {
	uint32_t *starts; /* the first event of each; owned by the caller */
	uint32_t count;
	uint32_t end; /* behind the last event in any of them */
};
/* Costs a reading of all events. */
struct gm_error *gm_model_iterations(const struct gm_model *model, const struct gm_step_loop *loop,
        struct gm_model_iterations *ret_iterations);
/* From now on the steps are the iterations of the innermost loop at this line of this file (the end
 * of its path is enough), as the user wants it; `file` NULL: those that are found, again. False: no
 * loop is there, nothing changes. Else *ret_error is NULL or why the steps cannot be numbered. */
bool gm_model_choose_loop(
        struct gm_model *model, const char *file, uint32_t line, struct gm_error **ret_error);
/* The steps of one of the plan's loops, by its index. */
uint32_t gm_model_loop_steps(const struct gm_model *model, uint32_t loop);

#endif
