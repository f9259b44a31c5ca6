#include "ranks/render/file_json.h"

#include "ranks/render/job.h"
#include "ranks/sections/collectives.h"
#include "ranks/sections/leaks.h"
#include "ranks/sections/oom.h"
#include "ranks/sections/steps.h"
#include "ranks/sections/timeline.h"
#include "render/group_text.h"
#include "render/json.h"
#include "render/say.h"
#include "render/step_head.h"
#include "torch/dtypes.h"

static json_t *integer(uint64_t number)
{
	return json_integer((json_int_t)number);
}

static json_t *number_or_null(uint32_t number)
{
	return number ? json_integer(number) : json_null();
}

static json_t *bytes_or_null(uint64_t bytes)
{
	return bytes == GM_NOT_KNOWN ? json_null() : integer(bytes);
}

static json_t *text_or_null(const struct gm_job *job, uint32_t string)
{
	return gm_json_string_or_null(gm_job_string(job, string));
}

static void set_steps(json_t *value, const struct gm_steps_section *section)
{
	json_t *steps = json_array(), *outside = json_array();
	for (size_t i = 0; i < section->items.count; i++) {
		const struct gm_stretch *stretch = &section->items.items[i].stretch;
		json_t *one = gm_json_stretch(stretch);
		json_object_set_new(one, "peak_phase", json_string(gm_phase_name(stretch->phase)));
		json_object_set_new(one, "replaced",
		        stretch->followed ? integer(stretch->replaced) : json_null());
		if (stretch->step)
			json_object_set_new(one, "step", json_integer(stretch->step));
		json_array_append_new(stretch->step ? steps : outside, one);
	}
	json_object_set_new(value, "iterations", json_integer(section->steps));
	json_object_set_new(value, "steps", steps);
	json_object_set_new(value, "outside", outside);
	json_object_set_new(value, "growth_per_step", integer(section->growth));
}

static void set_phases(json_t *value, const struct gm_phases_section *section)
{
	json_t *phases = json_array();
	for (size_t i = 0; i < section->items.count; i++) {
		const struct gm_kept_stretch *kept = &section->items.items[i];
		json_t *one = gm_json_stretch(&kept->stretch);
		json_object_set_new(one, "phase", json_string(gm_phase_name(kept->stretch.phase)));
		json_object_set_new(one, "peak_step", number_or_null(kept->peak_step));
		json_array_append_new(phases, one);
	}
	json_object_set_new(value, "phases", phases);
}

static json_t *leak_json(const struct gm_job *job, const struct gm_kept_leak *leak)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:s, s:s}", "site",
	        text_or_null(job, leak->line), "loop", text_or_null(job, leak->loop), "iterations",
	        json_pack("[I, I]", (json_int_t)leak->from, (json_int_t)leak->to), "steps",
	        (json_int_t)leak->steps, "bytes", (json_int_t)leak->bytes, "blocks",
	        (json_int_t)leak->blocks, "category", gm_category_name(leak->category), "growth",
	        leak->joined ? "joined" : "piles_up", "bound", gm_leak_bound_name(leak->bound));
}

static void set_leaks(
        json_t *value, const struct gm_job *job, const struct gm_leaks_section *section)
{
	json_t *sites = json_array(), *bounded = json_array();
	for (size_t i = 0; i < section->items.count; i++) {
		const struct gm_kept_leak *leak = &section->items.items[i];
		json_array_append_new(
		        leak->bound == GM_LEAK_GROWS ? sites : bounded, leak_json(job, leak));
	}
	json_object_set_new(value, "steps",
	        section->to >= section->from
	                ? json_pack("[I, I]", (json_int_t)section->from, (json_int_t)section->to)
	                : json_null());
	json_object_set_new(value, "sites", sites);
	json_object_set_new(value, "bounded", bounded);
}

static json_t *holder_json(const struct gm_job *job, const struct gm_kept_holder *holder)
{
	json_t *text = holder->line ? gm_json_string(gm_text_group(
	                                      holder->kind, gm_job_string(job, holder->line)))
	                            : gm_json_take(gm_say("%u smaller", holder->smaller));
	return json_pack("{s:o, s:I, s:I}", "text", text, "bytes", (json_int_t)holder->bytes,
	        "blocks", (json_int_t)holder->blocks);
}

static void set_oom(json_t *value, const struct gm_job *job, const struct gm_oom_section *section)
{
	json_t *top = json_array();
	for (size_t i = 0; i < section->top.count; i++)
		json_array_append_new(top, holder_json(job, &section->top.items[i]));
	json_object_set_new(value, "ran_out", json_boolean(section->has));
	json_object_set_new(value, "top", top);
	if (!section->has)
		return;
	json_object_set_new(value, "ooms", bytes_or_null(section->ooms));
	json_object_set_new(value, "event", gm_json_event_or_null(section->event));
	json_object_set_new(value, "site", text_or_null(job, section->site));
	json_object_set_new(value, "requested", bytes_or_null(section->requested));
	json_object_set_new(value, "needed", bytes_or_null(section->needed));
	json_object_set_new(value, "total", bytes_or_null(section->total));
	json_object_set_new(value, "free", bytes_or_null(section->free));
	json_object_set_new(value, "allocated", bytes_or_null(section->allocated));
	json_object_set_new(value, "reserved", bytes_or_null(section->reserved));
	json_object_set_new(value, "verdict",
	        section->verdict ? json_string(gm_oom_verdict_name(section->verdict))
	                         : json_null());
}

static json_t *shape_json(const struct gm_job *job, const struct gm_kept_shape *shape)
{
	json_t *value = json_object();
	json_object_set_new(value, "kind", json_string(gm_shape_name(shape->kind)));
	json_object_set_new(value, "step", number_or_null(shape->step));
	json_object_set_new(value, "first_event", json_integer(shape->first));
	json_object_set_new(value, "last_event", gm_json_event_or_null(shape->last));
	json_object_set_new(value, "bytes", integer(shape->bytes));
	json_object_set_new(value, "blocks", integer(shape->blocks));
	json_object_set_new(value, "count", json_integer(shape->count));
	json_object_set_new(value, "of", integer(shape->of));
	json_object_set_new(value, "note", text_or_null(job, shape->note));
	json_object_set_new(value, "site", text_or_null(job, shape->site));
	return value;
}

static void set_timeline(
        json_t *value, const struct gm_job *job, const struct gm_timeline_section *section)
{
	json_t *columns = json_array(), *shapes = json_array();
	for (size_t i = 0; i < section->column_count; i++) {
		const struct gm_column *column = &section->columns[i];
		json_array_append_new(columns,
		        json_pack("{s:I, s:I, s:I, s:I, s:o, s:s}", "first_event",
		                (json_int_t)column->first, "last_event", (json_int_t)column->last,
		                "allocated", (json_int_t)column->allocated, "reserved",
		                (json_int_t)column->reserved, "step", number_or_null(column->step),
		                "phase", gm_phase_name(column->phase)));
	}
	for (size_t i = 0; i < section->shapes.count; i++)
		json_array_append_new(shapes, shape_json(job, &section->shapes.items[i]));
	json_object_set_new(value, "columns", columns);
	json_object_set_new(value, "shapes", shapes);
}

static void set_collectives(json_t *value, const struct gm_collectives_section *section)
{
	json_t *collectives = json_array();
	for (size_t i = 0; i < section->items.count; i++) {
		const struct gm_kept_calls *calls = &section->items.items[i];
		const char *kind = gm_collective_kind_name(calls->kind);
		const char *dtype =
		        calls->dtype == GM_LOG_NO_DTYPE ? NULL : gm_torch_dtype_name(calls->dtype);
		json_array_append_new(collectives,
		        json_pack("{s:o, s:s, s:o, s:o, s:I, s:I, s:I}", "kind",
		                gm_json_string_or_null(kind), "phase", gm_phase_name(calls->phase),
		                "ranks", number_or_null(calls->ranks), "dtype",
		                gm_json_string_or_null(dtype), "calls", (json_int_t)calls->calls,
		                "send_bytes", (json_int_t)calls->send_bytes, "receive_bytes",
		                (json_int_t)calls->receive_bytes));
	}
	json_object_set_new(value, "calls", integer(section->calls));
	json_object_set_new(value, "collectives", collectives);
}

json_t *gm_ranks_file_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        size_t file, const void *section)
{
	const struct gm_rank_summary *summary = &job->files.items[answer->files[file]];
	json_t *value = json_object();
	json_object_set_new(value, "file", gm_json_string(gm_job_string(job, summary->path)));
	json_object_set_new(value, "rank", gm_job_rank_json(job, answer, file));
	switch (answer->section) {
	case GM_SECTION_STEPS:
		set_steps(value, section);
		break;
	case GM_SECTION_PHASES:
		set_phases(value, section);
		break;
	case GM_SECTION_LEAKS:
		set_leaks(value, job, section);
		break;
	case GM_SECTION_OOM:
		set_oom(value, job, section);
		break;
	case GM_SECTION_TIMELINE:
		set_timeline(value, job, section);
		break;
	default:
		set_collectives(value, section);
	}
	return value;
}
