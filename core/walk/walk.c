#include "walk/walk.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "model/log_steps.h"
#include "walk/filter.h"
#include "walk/judge.h"

enum {
	GENERATIONS = 255,
	SLACK = 64, /* events of threads that have not counted theirs yet, segments that wait */
};

struct gm_error *gm_walk_create(const char *path, struct gm_walk **ret_walk)
{
	struct gm_walk *walk = calloc(1, sizeof(*walk));
	if (!walk || !(walk->path = strdup(path))) {
		free(walk);
		return &gm_error_no_memory;
	}
	*ret_walk = walk;
	return NULL;
}

static void forget_events(struct gm_walk *walk)
{
	struct gm_walk_block *block, *next;
	HASH_ITER(hh, walk->blocks, block, next)
	{
		HASH_DEL(walk->blocks, block);
		free(block);
	}
	gm_steps_destroy(walk->steps);
	gm_log_close(walk->log);
	gm_spool_live_close(walk->live);
}

void gm_walk_destroy(struct gm_walk *walk)
{
	if (!walk)
		return;
	forget_events(walk);
	gm_image_close(walk->image);
	gm_watches_deinit(&walk->watches);
	free(walk->path);
	free(walk);
}

/* ---- conditions ------------------------------------------------------------------------------ */

struct gm_error *gm_walk_watch(struct gm_walk *walk, uint32_t id, const char *condition, bool once)
{
	return gm_watches_add(&walk->watches, GM_OF_AGENT_EVENTS, id, condition, once);
}

void gm_walk_unwatch(struct gm_walk *walk, uint32_t id)
{
	gm_watches_remove(&walk->watches, id);
}

uint64_t gm_walk_hits(const struct gm_walk *walk, uint32_t id)
{
	return gm_watches_hits(&walk->watches, id);
}

uint32_t gm_walk_stopped_by(const struct gm_walk *walk, uint64_t *ret_event)
{
	*ret_event = walk->watches.stopped_at;
	return walk->watches.stopped_by;
}

uint64_t gm_walk_event_count(const struct gm_walk *walk)
{
	return walk->seen;
}

/* Does a condition use names of native functions, which take long to look up? */
static bool needs_names(const struct gm_walk *walk)
{
	for (size_t i = 0; i < walk->watches.list.count; i++) {
		enum gm_node_kind kind;
		const struct gm_clause *clause;
		for (size_t j = 0;
		        gm_condition_node(walk->watches.list.items[i].condition, j, &kind, &clause);
		        j++)
			if (clause &&
			        (clause->fact == GM_FACT_OPERATOR || clause->fact == GM_FACT_NODE ||
			                clause->fact == GM_FACT_COLLECTIVE))
				return true;
	}
	return false;
}

/* --- the agent's data ------------------------------------------------------------------------- */

static struct gm_error *open_events(struct gm_walk *walk, uint64_t sequence)
{
	gm_try(gm_spool_live_open_at(walk->path, sequence, &walk->live, &walk->log));
	if (!walk->live)
		return gm_error_create(GM_TARGET,
		        "%s: its process has ended, or it keeps only the newest events: conditions "
		        "cannot be evaluated",
		        walk->path);
	walk->steps = gm_log_steps_create(walk->log);
	return walk->steps ? NULL : &gm_error_no_memory;
}

/* Continues reading; `sequence`: the agent's number of the event to be evaluated, 0: none. */
static struct gm_error *read_on(struct gm_walk *walk, uint64_t sequence)
{
	bool opens = !walk->live, ended = false;
	walk->from = walk->to = 0;
	if (opens && !sequence && access(walk->path, F_OK) != 0)
		return NULL;
	if (opens)
		gm_try(open_events(walk, sequence));
	else
		gm_spool_live_seek(walk->live, sequence);
	gm_spool_live_name(walk->live, needs_names(walk));
	/* A second time: an event of another thread that has a number already, but is not written
	 * yet, is not waited for. */
	for (int i = 0; i < 2; i++) {
		if (!opens || i > 0)
			gm_try(gm_spool_live_update(walk->live, &ended));
		if (!sequence || ended || gm_spool_live_found(walk->live, &walk->from, &walk->to))
			break;
	}
	gm_try(gm_log_refresh(walk->log));
	return gm_walk_read(walk);
}

/* ---- the process ----------------------------------------------------------------------------- */

static struct gm_error *write_at(
        const struct gm_walk *walk, uint64_t address, const void *bytes, size_t size)
{
	struct iovec from = {(void *)(uintptr_t)bytes, size};
	struct iovec to = {(void *)(uintptr_t)address, size};
	if (process_vm_writev(walk->pid, &from, 1, &to, 1, 0) == (ssize_t)size)
		return NULL;
	return gm_error_os(GM_TARGET, errno, "process %d: its agent's memory cannot be written",
	        (int)walk->pid);
}

/* All earlier marks are invalid. */
static struct gm_error *next_generation(struct gm_walk *walk)
{
	static const uint8_t zeros[1 << 16];
	const struct {
		uint64_t address, size;
	} tables[] = {{walk->place.never_python, GM_STOP_PYTHON_MAX},
	        {walk->place.never_native, GM_STOP_NATIVE_MAX},
	        {walk->place.never_tensor, GM_STOP_TENSORS_MAX}};
	if (++walk->generation <= GENERATIONS)
		return NULL;
	walk->generation = 1;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (uint64_t at = 0; at < tables[i].size; at += sizeof(zeros))
			gm_try(write_at(walk, tables[i].address + at, zeros, sizeof(zeros)));
	return NULL;
}

static struct gm_error *write_filter(struct gm_walk *walk, bool active)
{
	_cleanup_free_ struct gm_stop_filter *filter = calloc(1, sizeof(*filter));
	if (!filter)
		return &gm_error_no_memory;
	gm_try(next_generation(walk));
	if (walk->every || !gm_walk_compile(walk, filter))
		filter->count = 0;
	filter->pid = (uint32_t)walk->pid;
	filter->generation = walk->generation;
	filter->least = walk->seen > SLACK ? walk->seen - SLACK : 0;
	filter->most = walk->seen + SLACK;
	const size_t size =
	        offsetof(struct gm_stop_filter, ops) + filter->count * sizeof(struct gm_stop_op);
	gm_try(write_at(walk, walk->place.filter, filter, size));
	const uint64_t stops = active ? 0 : UINT64_MAX;
	return write_at(walk, walk->place.stops, &stops, sizeof(stops));
}

struct gm_error *gm_walk_arm(struct gm_walk *walk, pid_t pid, const struct gm_walk_place *place,
        bool every, bool *ret_active)
{
	if (!walk->image)
		gm_try(gm_image_open_pid(pid, &walk->image));
	walk->pid = pid;
	walk->place = *place;
	walk->every = every;
	*ret_active = every;
	for (size_t i = 0; i < walk->watches.list.count; i++)
		*ret_active |= gm_watch_is_due(&walk->watches.list.items[i]);
	gm_try(read_on(walk, 0));
	return write_filter(walk, *ret_active);
}

/* ---- a stop ---------------------------------------------------------------------------------- */

static struct gm_error *mark(struct gm_walk *walk, const struct gm_stop_here *here)
{
	struct gm_event event;
	struct gm_walk_ruled_out out;
	const uint8_t generation = (uint8_t)walk->generation;
	/* one that waits for a block to be allocated must not miss it */
	if (walk->every || walk->waits_for_block || walk->from == walk->to)
		return NULL;
	gm_log_event(walk->log, walk->to - 1, &event);
	gm_walk_rule_out(walk, &event, &out);
	if (out.python && here->python < GM_STOP_PYTHON_MAX)
		gm_try(write_at(walk, walk->place.never_python + here->python, &generation, 1));
	if (out.native && here->native < GM_STOP_NATIVE_MAX)
		gm_try(write_at(walk, walk->place.never_native + here->native, &generation, 1));
	if (out.tensor && event.action == GM_ALLOC && here->tensor < GM_STOP_TENSORS_MAX)
		gm_try(write_at(walk, walk->place.never_tensor + here->tensor, &generation, 1));
	return NULL;
}

struct gm_error *gm_walk_stop(struct gm_walk *walk, pid_t thread, bool *ret_holds)
{
	struct gm_registers registers;
	struct gm_stop_here here;
	walk->watches.stopped_by = 0;
	gm_image_invalidate(walk->image);
	gm_try(gm_image_registers(walk->image, thread, &registers));
	if (!gm_image_try_read(walk->image, registers.value[GM_RDI], &here, sizeof(here)))
		return gm_error_create(GM_TARGET,
		        "process %d: the agent's data about an event cannot be read",
		        (int)walk->pid);
	gm_try(read_on(walk, here.sequence));
	*ret_holds = walk->watches.stopped_by != 0;
	if (!*ret_holds)
		gm_try(mark(walk, &here));
	if (walk->waits_for_block && walk->seen > walk->block_waited_for)
		return write_filter(walk, true);
	return NULL;
}
