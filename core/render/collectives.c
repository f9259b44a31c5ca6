#include "render/collectives.h"

#include <inttypes.h>

#include "base/put.h"
#include "render/json.h"
#include "torch/dtypes.h"

enum { GROUPS_SHOWN = 64 };

static const char *dtype_name(uint32_t dtype)
{
	const char *name = dtype == GM_LOG_NO_DTYPE ? NULL : gm_torch_dtype_name(dtype);
	return name ? name : "unknown";
}

/* The size of the transfer: the larger side of the call. */
static uint64_t bytes_of(const struct gm_log_collective *call)
{
	return call->send_bytes > call->receive_bytes ? call->send_bytes : call->receive_bytes;
}

/* "group 1: rank 1 of 2" */
static void put_rank(const struct gm_log_collective *call, FILE *out)
{
	gm_put(out, "group %u", call->group);
	if (call->ranks && call->rank != GM_LOG_NO_RANK)
		gm_put(out, ": rank %u of %u", call->rank, call->ranks);
}

/* ---- each call ---- */

static void put_peer(const struct gm_log_collective *call, FILE *out)
{
	if (call->peer == GM_LOG_NO_RANK)
		return;
	gm_put(out, ", %s rank %u",
	        call->kind == GM_COLLECTIVE_SEND      ? "to"
	        : call->kind == GM_COLLECTIVE_RECEIVE ? "from"
	                                              : "root",
	        call->peer);
}

static void put_block(const struct gm_model *model, uint32_t block, const char *what, FILE *out)
{
	if (block != GM_NO_BLOCK && gm_model_block(model, block)->alloc != GM_NO_EVENT)
		gm_put(out, ", %s #%u", what, gm_model_block(model, block)->alloc);
}

static void put_call(const struct gm_model *model, const struct gm_collective *one, FILE *out)
{
	const struct gm_log_collective *call = &one->call;
	char size[GM_SIZE_TEXT], device[GM_SIZE_TEXT], after[24] = "before #0", step[24] = "";
	struct gm_frame_place place;
	if (one->after != GM_NO_EVENT)
		snprintf(after, sizeof(after), "after #%u", one->after);
	if (one->step)
		snprintf(step, sizeof(step), "step %u", one->step);
	gm_put(out, "%-12s  %-14s  %12s  %-8s  %-6s  %-7s  %-9s", after,
	        gm_collective_kind_name(call->kind), gm_text_size(bytes_of(call), size),
	        dtype_name(call->dtype),
	        call->device < 0 ? "" : gm_text_device(1, call->device, device), step,
	        gm_phase_name(one->phase));
	if (gm_collective_place(gm_model_log(model), call, &place))
		gm_put(out, "  %s:%u %s", gm_place_base_name(place.file), place.line,
		        place.function);
	fputs("  (", out);
	put_rank(call, out);
	put_peer(call, out);
	if (one->send_block == one->receive_block) {
		put_block(model, one->send_block, "in", out);
	} else {
		put_block(model, one->send_block, "from", out);
		put_block(model, one->receive_block, "to", out);
	}
	fputs(")\n", out);
}

static void put_none(FILE *out)
{
	fputs("The recording has no collectives: the program called none of NCCL's, or it was not "
	      "recorded by the agent (gpumem run, gpumem attach, `record --engine agent`).\n",
	        out);
}

struct gm_error *gm_render_collectives_text(
        const struct gm_collectives *collectives, const struct gm_style *style, FILE *out)
{
	if (!collectives->count)
		put_none(out);
	for (size_t i = 0; i < collectives->count && !ferror(out); i++)
		put_call(collectives->model, &collectives->items[i], out);
	return NULL;
}

static json_t *number_or_null(uint32_t number, uint32_t none)
{
	return number == none ? json_null() : json_integer(number);
}

static json_t *dtype_json(uint32_t dtype)
{
	return gm_json_string_or_null(dtype == GM_LOG_NO_DTYPE ? NULL : gm_torch_dtype_name(dtype));
}

static json_t *place_json(const struct gm_model *model, const struct gm_log_collective *call)
{
	struct gm_frame_place place;
	return gm_collective_place(gm_model_log(model), call, &place)
	               ? gm_json_place(place.file, place.line, place.function)
	               : json_null();
}

static json_t *block_json(const struct gm_model *model, uint32_t block)
{
	return gm_json_event_or_null(
	        block == GM_NO_BLOCK ? GM_NO_EVENT : gm_model_block(model, block)->alloc);
}

static json_t *address_json(uint64_t address)
{
	return address ? gm_json_address(address) : json_null();
}

static json_t *call_json(const struct gm_model *model, const struct gm_collective *one)
{
	const struct gm_log_collective *call = &one->call;
	json_t *value = json_object();
	json_object_set_new(value, "after_event", gm_json_event_or_null(one->after));
	json_object_set_new(value, "kind", json_string(gm_collective_kind_name(call->kind)));
	json_object_set_new(value, "time_us", json_integer((json_int_t)(call->time_ns / 1000)));
	json_object_set_new(value, "thread", json_integer((json_int_t)call->thread));
	json_object_set_new(value, "step", number_or_null(one->step, 0));
	json_object_set_new(value, "phase", json_string(gm_phase_name(one->phase)));
	json_object_set_new(
	        value, "device", call->device < 0 ? json_null() : json_integer(call->device));
	json_object_set_new(value, "group", json_integer(call->group));
	json_object_set_new(value, "ranks", number_or_null(call->ranks, 0));
	json_object_set_new(value, "rank", number_or_null(call->rank, GM_LOG_NO_RANK));
	json_object_set_new(value, "peer", number_or_null(call->peer, GM_LOG_NO_RANK));
	json_object_set_new(value, "dtype", dtype_json(call->dtype));
	json_object_set_new(value, "count", json_integer((json_int_t)call->count));
	json_object_set_new(value, "send", address_json(call->send));
	json_object_set_new(value, "send_bytes", json_integer((json_int_t)call->send_bytes));
	json_object_set_new(value, "send_block", block_json(model, one->send_block));
	json_object_set_new(value, "receive", address_json(call->receive));
	json_object_set_new(value, "receive_bytes", json_integer((json_int_t)call->receive_bytes));
	json_object_set_new(value, "receive_block", block_json(model, one->receive_block));
	json_object_set_new(value, "borrowed", json_boolean(call->borrowed));
	json_object_set_new(value, "place", place_json(model, call));
	json_object_set_new(
	        value, "python", gm_json_python_stack(gm_model_log(model), call->python_stack));
	return value;
}

struct gm_error *gm_render_collectives_json(const struct gm_collectives *collectives, FILE *out)
{
	struct gm_error *error = NULL;
	for (size_t i = 0; i < collectives->count && !error && !ferror(out); i++)
		error = gm_json_write(
		        call_json(collectives->model, &collectives->items[i]), false, out);
	return error;
}

/* ---- by step and phase ---- */

struct gm_error *gm_render_collective_groups_text(
        const struct gm_collectives *collectives, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"step", "phase", "collective", "calls", "sent",
	        "received", "dtype", "group", "after", "the first at"};
	const struct gm_log *log = gm_model_log(collectives->model);
	if (!collectives->count) {
		put_none(out);
		return NULL;
	}
	gm_put(out,
	        "%zu call%s of NCCL. A recording does not show when the GPU executes a call: it "
	        "runs after the work that was on the stream before it.\n",
	        collectives->count, gm_text_s(collectives->count));
	struct gm_table *table = gm_table_create(heads, "rllrrrlrrl");
	size_t shown =
	        collectives->group_count < GROUPS_SHOWN ? collectives->group_count : GROUPS_SHOWN;
	for (size_t i = 0; i < shown; i++) {
		const struct gm_collective_group *group = &collectives->groups[i];
		const struct gm_collective *first = &collectives->items[group->first];
		char sent[GM_SIZE_TEXT], received[GM_SIZE_TEXT];
		struct gm_frame_place place;
		if (group->step)
			gm_table_cell(table, "%u", group->step);
		else
			gm_table_cell(table, "%s", "");
		gm_table_cell(table, "%s", gm_phase_name(group->phase));
		gm_table_cell(table, "%s", gm_collective_kind_name(group->kind));
		gm_table_cell(table, "%" PRIu64, group->calls);
		gm_table_cell(table, "%s", gm_text_size(group->send_bytes, sent));
		gm_table_cell(table, "%s", gm_text_size(group->receive_bytes, received));
		gm_table_cell(table, "%s", dtype_name(group->dtype));
		if (first->call.ranks && first->call.rank != GM_LOG_NO_RANK)
			gm_table_cell(table, "%u: rank %u of %u", group->group, first->call.rank,
			        first->call.ranks);
		else
			gm_table_cell(table, "%u", group->group);
		if (first->after == GM_NO_EVENT)
			gm_table_cell(table, "%s", "");
		else
			gm_table_cell(table, "#%u", first->after);
		if (gm_collective_place(log, &first->call, &place))
			gm_table_cell(table, "%s:%u in %s", gm_place_base_name(place.file),
			        place.line, place.function);
		else
			gm_table_cell(table, "%s", "");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (shown < collectives->group_count)
		gm_put(out, "%zu more rows: --json has all of them.\n",
		        collectives->group_count - shown);
	fputs("Each call: `gpumem events FILE --collectives`.\n", out);
	return NULL;
}

json_t *gm_json_collective_groups(const struct gm_collectives *collectives)
{
	json_t *groups = json_array();
	for (size_t i = 0; i < collectives->group_count; i++) {
		const struct gm_collective_group *group = &collectives->groups[i];
		const struct gm_collective *first = &collectives->items[group->first];
		json_t *value = json_object();
		json_object_set_new(value, "step", number_or_null(group->step, 0));
		json_object_set_new(value, "phase", json_string(gm_phase_name(group->phase)));
		json_object_set_new(
		        value, "kind", json_string(gm_collective_kind_name(group->kind)));
		json_object_set_new(value, "calls", json_integer((json_int_t)group->calls));
		json_object_set_new(
		        value, "send_bytes", json_integer((json_int_t)group->send_bytes));
		json_object_set_new(
		        value, "receive_bytes", json_integer((json_int_t)group->receive_bytes));
		json_object_set_new(value, "dtype", dtype_json(group->dtype));
		json_object_set_new(value, "group", json_integer(group->group));
		json_object_set_new(value, "ranks", number_or_null(first->call.ranks, 0));
		json_object_set_new(
		        value, "rank", number_or_null(first->call.rank, GM_LOG_NO_RANK));
		json_object_set_new(
		        value, "first_after_event", gm_json_event_or_null(first->after));
		json_object_set_new(value, "last_after_event",
		        gm_json_event_or_null(collectives->items[group->last].after));
		json_object_set_new(value, "place", place_json(collectives->model, &first->call));
		json_array_append_new(groups, value);
	}
	return groups;
}

struct gm_error *gm_render_collective_groups_json(
        const struct gm_collectives *collectives, FILE *out)
{
	json_t *value = json_object();
	json_object_set_new(value, "calls", json_integer((json_int_t)collectives->count));
	json_object_set_new(value, "collectives", gm_json_collective_groups(collectives));
	return gm_json_write(value, true, out);
}

/* Calls of one kind in one phase of a step, of any dtype and group. */
static bool is_first_of_kind(const struct gm_collectives *collectives, size_t index)
{
	const struct gm_collective_group *group = &collectives->groups[index];
	for (size_t i = 0; i < index; i++) {
		const struct gm_collective_group *other = &collectives->groups[i];
		if (other->step == group->step && other->phase == group->phase &&
		        other->kind == group->kind)
			return false;
	}
	return true;
}

void gm_put_collectives_of_step(const struct gm_collectives *collectives, uint32_t step, FILE *out)
{
	const char *between = "";
	char size[GM_SIZE_TEXT];
	for (size_t i = 0; i < collectives->group_count; i++) {
		const struct gm_collective_group *group = &collectives->groups[i];
		uint64_t calls = 0, bytes = 0;
		if (group->step != step || !is_first_of_kind(collectives, i))
			continue;
		for (size_t k = i; k < collectives->group_count; k++) {
			const struct gm_collective_group *more = &collectives->groups[k];
			if (more->step != step || more->phase != group->phase ||
			        more->kind != group->kind)
				continue;
			calls += more->calls;
			bytes += more->send_bytes > more->receive_bytes ? more->send_bytes
			                                                : more->receive_bytes;
		}
		if (!*between)
			gm_put(out, "  step %u calls NCCL: ", step);
		gm_put(out, "%s%" PRIu64 " %s in %s (%s)", between, calls,
		        gm_collective_kind_name(group->kind), gm_phase_name(group->phase),
		        gm_text_size(bytes, size));
		between = ", ";
	}
	if (*between)
		fputc('\n', out);
}
