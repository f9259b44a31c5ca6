/*
 * A call is not an event of the allocator. Its time shows which two events it was between. Each
 * thread takes an event number first and reads the clock afterwards, so the times of adjacent
 * events may be out of order by that interval. A call is placed after the last event that is
 * earlier than the call.
 *
 * The phase of a call comes from its Python stack, or, if the stack does not show it, from the
 * event before it. The step is that event's.
 */
#include "ask/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/by_address.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "model/log_steps.h"
#include "model/native_names.h"
#include "model/site.h"

static int by_time(const void *a, const void *b)
{
	const struct gm_collective *x = a, *y = b;
	return (x->call.time_ns > y->call.time_ns) - (x->call.time_ns < y->call.time_ns);
}

static void place(const struct gm_model *model, struct gm_collective *one, uint32_t after)
{
	one->after = after;
	one->phase = gm_log_collective_phase(gm_model_log(model), one->call.python_stack);
	if (after == GM_NO_EVENT)
		return;
	one->step = gm_model_step(model, after);
	if (one->phase == GM_PHASE_OTHER)
		one->phase = gm_model_phase(model, after);
}

/* Reads the events once, which costs less than a search for each of many calls. */
static void place_all(struct gm_collectives *found)
{
	const struct gm_log *log = gm_model_log(found->model);
	uint64_t count = gm_log_event_count(log), at = 0;
	uint32_t after = GM_NO_EVENT;
	size_t next = 0, many;
	while (next < found->count && at < count) {
		const struct gm_event *events = gm_log_events(log, at, &many);
		if (!events || !many)
			break;
		for (size_t i = 0; i < many && next < found->count; i++) {
			while (next < found->count &&
			        found->items[next].call.time_ns < events[i].time_ns)
				place(found->model, &found->items[next++], after);
			after = (uint32_t)(at + i);
		}
		at += many;
	}
	while (next < found->count)
		place(found->model, &found->items[next++], after);
}

static bool is_of(const struct gm_collective_group *group, const struct gm_collective *one)
{
	return group->step == one->step && group->phase == one->phase &&
	       group->kind == one->call.kind && group->group == one->call.group &&
	       group->dtype == one->call.dtype;
}

static struct gm_error *group_all(struct gm_collectives *found)
{
	enum { NEAR = 32 }; /* kinds of calls that alternate */
	GM_ARRAY(struct gm_collective_group) groups = {0};
	for (size_t i = 0; i < found->count; i++) {
		const struct gm_collective *one = &found->items[i];
		struct gm_collective_group *group = NULL;
		for (size_t k = groups.count; k-- > 0 && groups.count - k <= NEAR && !group;)
			if (is_of(&groups.items[k], one))
				group = &groups.items[k];
		if (!group) {
			const struct gm_collective_group fresh = {.step = one->step,
			        .phase = one->phase,
			        .kind = one->call.kind,
			        .group = one->call.group,
			        .dtype = one->call.dtype,
			        .first = (uint32_t)i};
			if (!gm_array_push(&groups, fresh)) {
				gm_array_deinit(&groups);
				return &gm_error_no_memory;
			}
			group = &groups.items[groups.count - 1];
		}
		group->last = (uint32_t)i;
		group->calls++;
		group->send_bytes += one->call.send_bytes;
		group->receive_bytes += one->call.receive_bytes;
	}
	found->groups = groups.items;
	found->group_count = groups.count;
	return NULL;
}

struct gm_error *gm_collectives_find(
        const struct gm_model *model, struct gm_collectives *ret_collectives)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_collectives found = {.model = model, .count = gm_log_collective_count(log)};
	found.items = calloc(found.count + 1, sizeof(*found.items));
	if (!found.items)
		return &gm_error_no_memory;
	for (size_t i = 0; i < found.count; i++) {
		gm_log_collective(log, i, &found.items[i].call);
		found.items[i].send_block = found.items[i].receive_block = GM_NO_BLOCK;
	}
	qsort(found.items, found.count, sizeof(*found.items), by_time);
	place_all(&found);
	struct gm_error *error = group_all(&found);
	if (error)
		gm_collectives_deinit(&found);
	else
		*ret_collectives = found;
	return error;
}

struct gm_error *gm_ask_collectives(
        struct gm_context *context, struct gm_collectives *ret_collectives)
{
	struct gm_model *model;
	struct gm_by_address by_address;
	gm_try(gm_context_model(context, &model));
	gm_try(gm_by_address_init(&by_address, model));
	struct gm_error *error = gm_collectives_find(model, ret_collectives);
	for (size_t i = 0; !error && i < ret_collectives->count; i++) {
		struct gm_collective *one = &ret_collectives->items[i];
		if (one->after == GM_NO_EVENT)
			continue;
		one->send_block = gm_block_at_address(&by_address, one->call.send, one->after + 1);
		one->receive_block =
		        gm_block_at_address(&by_address, one->call.receive, one->after + 1);
	}
	gm_by_address_deinit(&by_address);
	return error;
}

static bool is_collectives_own(const char *file)
{
	return gm_file_is_collectives(file) ||
	       gm_text_ends_with(file, "torch/distributed/c10d_logger.py");
}

bool gm_collective_place(const struct gm_log *log, const struct gm_log_collective *call,
        struct gm_frame_place *ret_place)
{
	size_t index = gm_site_index(log, call->python_stack);
	struct gm_frame_place outer;
	if (!gm_place_frame(log, call->python_stack, index, ret_place))
		return false;
	while (is_collectives_own(ret_place->file) &&
	        gm_place_frame(log, call->python_stack, ++index, &outer))
		*ret_place = outer;
	return true;
}

void gm_collectives_deinit(struct gm_collectives *collectives)
{
	free(collectives->items);
	free(collectives->groups);
	*collectives = (struct gm_collectives){0};
}
