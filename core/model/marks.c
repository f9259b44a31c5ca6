#include "model/marks.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/search.h"
#include "model/log_steps.h"

enum { DEPTH_MAX = 256, THREADS_MAX = 1024 };

/* A range within other ranges. Each is created once where it begins, so that one number describes
 * the ranges of any moment. */
struct range {
	uint32_t parent; /* index + 1; 0: none */
	uint32_t name;
	uint8_t phase; /* named by it or by one around it; OTHER: by none */
	bool said;     /* by the program; otherwise by PyTorch's own code around it */
};

/* From `event` on, this is the innermost open range. */
struct change {
	uint64_t event;
	uint32_t range; /* index + 1 */
};

struct thread_ranges {
	uint64_t thread;
	GM_ARRAY(struct change) changes;
	size_t near; /* the last change that was looked up: events are mostly read in order */
	GM_ARRAY(struct change) metadata; /* string ids instead of ranges */
	GM_ARRAY(struct change) forward;  /* the same */
};

struct gm_marks {
	const struct gm_log *log;
	GM_ARRAY(struct range) ranges;
	GM_ARRAY(struct thread_ranges) threads;
	GM_ARRAY(uint64_t) steps; /* the events at which they begin */
	size_t read;              /* number of the log's marks that were added */
};

static const char optimizer_step[] = "Optimizer.step#"; /* the name continues with the class */

bool gm_marks_begins_optimizer_step(const struct gm_log *log, const struct gm_log_mark *mark)
{
	return mark->kind == GM_MARK_PUSH && strncmp(gm_log_string(log, mark->name), optimizer_step,
	                                             sizeof(optimizer_step) - 1) == 0;
}

/* Commonly used names of ranges: users' own, and those of PyTorch's profiler
 * (torch/optim/optimizer.py, torch/utils/data/dataloader.py). */
static enum gm_phase phase_named(const char *name, bool *ret_said)
{
	static const struct {
		const char *name;
		enum gm_phase phase;
	} words[] = {{"forward", GM_PHASE_FORWARD}, {"fwd", GM_PHASE_FORWARD},
	        {"forward pass", GM_PHASE_FORWARD}, {"forward_pass", GM_PHASE_FORWARD},
	        {"backward", GM_PHASE_BACKWARD}, {"bwd", GM_PHASE_BACKWARD},
	        {"backward pass", GM_PHASE_BACKWARD}, {"backward_pass", GM_PHASE_BACKWARD},
	        {"optimizer", GM_PHASE_OPTIMIZER}, {"optimizer step", GM_PHASE_OPTIMIZER},
	        {"optimizer_step", GM_PHASE_OPTIMIZER}, {"optimizer.step", GM_PHASE_OPTIMIZER},
	        {"opt", GM_PHASE_OPTIMIZER}, {"zero_grad", GM_PHASE_ZERO_GRAD},
	        {"data", GM_PHASE_DATA}, {"dataload", GM_PHASE_DATA},
	        {"data loading", GM_PHASE_DATA}, {"data_loading", GM_PHASE_DATA},
	        {"dataloader", GM_PHASE_DATA}, {"recompute", GM_PHASE_RECOMPUTE},
	        {"eval", GM_PHASE_EVALUATION}, {"evaluation", GM_PHASE_EVALUATION},
	        {"validation", GM_PHASE_EVALUATION}, {"init", GM_PHASE_INIT}};
	static const struct {
		const char *begin;
		enum gm_phase phase;
	} begins[] = {{optimizer_step, GM_PHASE_OPTIMIZER},
	        {"Optimizer.zero_grad#", GM_PHASE_ZERO_GRAD},
	        {"enumerate(DataLoader)#", GM_PHASE_DATA}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(name, words[i].name) == 0)
			return words[i].phase;
	*ret_said = false;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(name, begins[i].begin, strlen(begins[i].begin)) == 0)
			return begins[i].phase;
	return GM_PHASE_OTHER;
}

static struct thread_ranges *ranges_of(struct gm_marks *marks, uint64_t thread)
{
	for (size_t i = 0; i < marks->threads.count; i++)
		if (marks->threads.items[i].thread == thread)
			return &marks->threads.items[i];
	const struct thread_ranges fresh = {.thread = thread};
	if (marks->threads.count == THREADS_MAX || !gm_array_push(&marks->threads, fresh))
		return NULL;
	return &marks->threads.items[marks->threads.count - 1];
}

static uint32_t range_now(const struct thread_ranges *thread)
{
	return thread->changes.count ? thread->changes.items[thread->changes.count - 1].range : 0;
}

static bool change(struct thread_ranges *thread, uint64_t event, uint32_t range)
{
	size_t count = thread->changes.count;
	if (count && thread->changes.items[count - 1].event == event) {
		thread->changes.items[count - 1].range = range;
		return true;
	}
	return gm_array_push(&thread->changes, ((struct change){event, range}));
}

/* emit_nvtx() repeats what record_function() has reported. */
static bool is_echo(const struct gm_marks *marks, uint32_t around, uint32_t name)
{
	return around && marks->ranges.items[around - 1].name == name;
}

static bool add(struct gm_marks *marks, const struct gm_log_mark *mark)
{
	struct thread_ranges *thread;
	uint32_t now;
	switch ((enum gm_mark_kind)mark->kind) {
	case GM_MARK_METADATA:
		thread = ranges_of(marks, mark->thread);
		return thread ? gm_array_push(&thread->metadata,
		                        ((struct change){mark->event, mark->name}))
		              : marks->threads.count == THREADS_MAX;
	case GM_MARK_FORWARD:
		thread = ranges_of(marks, mark->thread);
		return thread ? gm_array_push(&thread->forward,
		                        ((struct change){mark->event, mark->name}))
		              : marks->threads.count == THREADS_MAX;
	case GM_MARK_STEP:
		return gm_array_push(&marks->steps, mark->event);
	case GM_MARK_PUSH:
	case GM_MARK_POP:
		thread = ranges_of(marks, mark->thread);
		if (!thread)
			return marks->threads.count == THREADS_MAX;
		now = range_now(thread);
		/* an end without a beginning belongs to a range that was open when recording began
		 * */
		if (mark->kind == GM_MARK_POP)
			return !now ||
			       change(thread, mark->event, marks->ranges.items[now - 1].parent);
		const char *name = gm_log_string(marks->log, mark->name);
		struct range range = {.parent = now, .name = mark->name, .said = true};
		range.phase = (uint8_t)phase_named(name, &range.said);
		if (range.phase == GM_PHASE_OTHER && now) {
			range.phase = marks->ranges.items[now - 1].phase;
			range.said = marks->ranges.items[now - 1].said;
		}
		/* the name of steps in PyTorch's profiler */
		if (strncmp(name, "ProfilerStep#", 13) == 0 && !is_echo(marks, now, mark->name) &&
		        !gm_array_push(&marks->steps, mark->event))
			return false;
		return marks->ranges.count < UINT32_MAX - 1 &&
		       gm_array_push(&marks->ranges, range) &&
		       change(thread, mark->event, (uint32_t)marks->ranges.count);
	case GM_MARK_TASK: /* runs.c */
	case GM_MARK_COUNT:
		break;
	}
	return true;
}

bool gm_marks_read(struct gm_marks **marks, const struct gm_log *log)
{
	if (!*marks && !(*marks = calloc(1, sizeof(**marks))))
		return false;
	(*marks)->log = log;
	for (; (*marks)->read < gm_log_mark_count(log); (*marks)->read++) {
		struct gm_log_mark mark;
		gm_log_mark(log, (*marks)->read, &mark);
		if (!add(*marks, &mark))
			return false;
	}
	return true;
}

void gm_marks_destroy(struct gm_marks *marks)
{
	if (!marks)
		return;
	for (size_t i = 0; i < marks->threads.count; i++) {
		gm_array_deinit(&marks->threads.items[i].changes);
		gm_array_deinit(&marks->threads.items[i].metadata);
		gm_array_deinit(&marks->threads.items[i].forward);
	}
	gm_array_deinit(&marks->threads);
	gm_array_deinit(&marks->ranges);
	gm_array_deinit(&marks->steps);
	free(marks);
}

bool gm_marks_has_steps(const struct gm_marks *marks)
{
	return marks && marks->steps.count > 0;
}

uint32_t gm_marks_step(const struct gm_marks *marks, uint64_t event, uint32_t found)
{
	if (!gm_marks_has_steps(marks))
		return found;
	size_t low = 0,
	       high = marks->steps.count; /* those before `low` begin at the event or before it */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (marks->steps.items[middle] <= event)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)low;
}

/* The number of changes that are not after the event. */
static size_t count_until(const struct change *changes, size_t count, uint64_t event)
{
	return gm_partition_point(count, middle, changes[middle].event <= event);
}

/* The last change that is not after the event; 0 if there is none. */
static uint32_t last_of(const struct change *changes, size_t count, uint64_t event)
{
	size_t until = count_until(changes, count, event);
	return until ? changes[until - 1].range : 0;
}

static uint32_t range_at(struct thread_ranges *thread, uint64_t event)
{
	const struct change *changes = thread->changes.items;
	size_t count = thread->changes.count, near = thread->near;
	if (near >= count || changes[near].event > event ||
	        (near + 1 < count && changes[near + 1].event <= event)) {
		size_t until = count_until(changes, count, event);
		if (!until)
			return 0;
		near = until - 1;
	}
	thread->near = near;
	return changes[near].range;
}

/* Backward runs on other threads, while its caller is in its ranges. A thread that the program made
 * is in its own only. */
static uint32_t range_of(const struct gm_marks *marks, uint64_t event, const struct gm_site *site)
{
	uint32_t other = 0, others = 0;
	for (size_t i = 0; i < marks->threads.count; i++) {
		uint32_t range = range_at(&marks->threads.items[i], event);
		if (marks->threads.items[i].thread == site->thread)
			return range;
		if (range) {
			other = range;
			others++;
		}
	}
	if (others != 1 || (!(site->flags & GM_EVENT_BORROWED) &&
	                           gm_log_begins_thread(marks->log, site->python_stack)))
		return 0;
	return other;
}

enum gm_phase gm_marks_phase(const struct gm_marks *marks, uint64_t event,
        const struct gm_site *site, enum gm_phase found)
{
	uint32_t range = marks ? range_of(marks, event, site) : 0;
	uint8_t phase = range ? marks->ranges.items[range - 1].phase : GM_PHASE_OTHER;
	/* in a closure of optimizer.step(), the stack shows forward and backward */
	bool unsaid = range && !marks->ranges.items[range - 1].said && found != GM_PHASE_OTHER;
	return phase == GM_PHASE_OTHER || unsaid ? found : (enum gm_phase)phase;
}

size_t gm_marks_ranges(const struct gm_marks *marks, uint64_t event, const struct gm_site *site,
        const char **ret_names, size_t max)
{
	size_t count = 0;
	uint32_t range = marks ? range_of(marks, event, site) : 0;
	for (; range && count < max; range = marks->ranges.items[range - 1].parent) {
		const struct range *one = &marks->ranges.items[range - 1];
		if (!is_echo(marks, one->parent, one->name))
			ret_names[count++] = gm_log_string(marks->log, one->name);
	}
	for (size_t i = 0; i < count / 2; i++) {
		const char *name = ret_names[i];
		ret_names[i] = ret_names[count - 1 - i];
		ret_names[count - 1 - i] = name;
	}
	return count;
}

const char *gm_marks_metadata(const struct gm_marks *marks, uint64_t event, uint64_t thread)
{
	for (size_t i = 0; marks && i < marks->threads.count; i++) {
		const struct thread_ranges *one = &marks->threads.items[i];
		uint32_t name = one->thread == thread
		                        ? last_of(one->metadata.items, one->metadata.count, event)
		                        : 0;
		if (name)
			return gm_log_string(marks->log, name);
	}
	return NULL;
}

const char *gm_marks_forward(const struct gm_marks *marks, uint64_t event, uint64_t thread)
{
	for (size_t i = 0; marks && i < marks->threads.count; i++) {
		const struct thread_ranges *one = &marks->threads.items[i];
		if (one->thread != thread)
			continue;
		uint32_t name = last_of(one->forward.items, one->forward.count, event);
		return name ? gm_log_string(marks->log, name) : NULL;
	}
	return NULL;
}
