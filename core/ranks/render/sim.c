#include "ranks/render/sim.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "render/json.h"
#include "render/say.h"
#include "render/text.h"

enum { SPANS_SHOWN = 8 };

static const char *const fits[] = {
        [GM_SIM_FITS] = "fits",
        [GM_SIM_DOES_NOT_FIT] = "does_not_fit",
        [GM_SIM_FIT_NOT_KNOWN] = "not_known",
};

/* "0-15, 32, 33-63 by 2"; the caller frees it. */
static char *ranks_text(const struct gm_sim_spans *spans)
{
	size_t count = spans->list.count;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	if (!file)
		return NULL;
	for (size_t i = 0; i < count && i < SPANS_SHOWN; i++) {
		const struct gm_sim_span *span = &spans->list.items[i];
		fprintf(file, "%s%" PRIu32, i ? ", " : "", span->first);
		if (span->last == span->first + span->step && span->step > 1)
			fprintf(file, ", %" PRIu32, span->last);
		else if (span->last != span->first)
			fprintf(file, "-%" PRIu32, span->last);
		if (span->step > 1 && span->last > span->first + span->step)
			fprintf(file, " by %" PRIu32, span->step);
	}
	if (count > SPANS_SHOWN)
		fputs(", ...", file);
	fclose(file);
	return text;
}

static char *group_ranks(const struct gm_sim_group *group)
{
	return ranks_text(&group->spans);
}

static uint32_t ranks_in(const struct gm_sim_group *group)
{
	return group->run + group->inferred;
}

/* Whether each rank was run: nothing is inferred or open. */
static bool is_complete(const struct gm_sim_answer *answer)
{
	return !answer->inferred && !answer->unknown;
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_head(const struct gm_sim_answer *answer, FILE *out)
{
	const struct gm_sim_job *job = answer->job;
	char size[GM_SIZE_TEXT];
	gm_put(out, "%" PRIu32 " ranks", job->world);
	if (answer->total)
		gm_put(out, " on simulated devices of %s", gm_text_size(answer->total, size));
	gm_put(out, ": %" PRIu32 " run", answer->run);
	if (answer->earlier)
		gm_put(out, " (%" PRIu32 " of them by earlier commands)", answer->earlier);
	if (answer->inferred)
		gm_put(out, ", %" PRIu32 " inferred from equal ranks on both sides",
		        answer->inferred);
	if (answer->unknown)
		gm_put(out, ", %" PRIu32 " not known", answer->unknown);
	fputs("\n", out);
	if (answer->inferred)
		gm_put(out,
		        "  %" PRIu32 " of the ranks that were run had been inferred before, and "
		        "were as inferred\n",
		        answer->checked);
}

static void put_inferred(const struct gm_sim_group *group, FILE *out)
{
	if (group->inferred)
		gm_put(out, " (%" PRIu32 " of them inferred)", group->inferred);
}

static void put_highest(const struct gm_sim_answer *answer, FILE *out)
{
	const struct gm_sim_group *group = &answer->groups.items[0];
	const struct gm_sim_result *result = &group->result;
	char allocated[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	_cleanup_free_ char *ranks = group_ranks(group);
	if (!answer->used)
		return;
	fputs("the highest peak", out);
	if (!is_complete(answer))
		gm_put(out, " of the %" PRIu32 " rank%s that %s run", answer->run,
		        gm_text_s(answer->run), answer->run == 1 ? "was" : "were");
	gm_put(out, ": %s allocated (%s bytes), %s reserved, on rank%s %s",
	        gm_text_size(result->peak_allocated, allocated),
	        gm_text_grouped(result->peak_allocated, exact),
	        gm_text_size(result->peak_reserved, reserved), gm_text_s(ranks_in(group)),
	        ranks ? ranks : "");
	put_inferred(group, out);
	fputs("\n", out);
}

/* Segments are what the device must have: another rank may have reserved more. */
static void put_most_reserved(const struct gm_sim_answer *answer, FILE *out)
{
	const struct gm_sim_group *most = &answer->groups.items[0];
	char reserved[GM_SIZE_TEXT];
	for (size_t i = 1; i < answer->groups.count; i++)
		if (answer->groups.items[i].result.peak_reserved > most->result.peak_reserved)
			most = &answer->groups.items[i];
	if (most == &answer->groups.items[0])
		return;
	_cleanup_free_ char *ranks = group_ranks(most);
	gm_put(out, "the most reserved: %s, on rank%s %s",
	        gm_text_size(most->result.peak_reserved, reserved), gm_text_s(ranks_in(most)),
	        ranks ? ranks : "");
	put_inferred(most, out);
	fputs("\n", out);
}

/* The ranks that ran out of memory: "rank 3", "ranks 4-7, rank 9". */
static void put_who_ran_out(const struct gm_sim_answer *answer, FILE *out)
{
	bool first = true;
	for (size_t i = 0; i < answer->groups.count; i++) {
		const struct gm_sim_group *group = &answer->groups.items[i];
		if (group->result.outcome != GM_SIM_OUT_OF_MEMORY)
			continue;
		_cleanup_free_ char *ranks = group_ranks(group);
		gm_put(out, "%srank%s %s", first ? "" : ", ", gm_text_s(ranks_in(group)),
		        ranks ? ranks : "");
		put_inferred(group, out);
		first = false;
	}
}

/* What is claimed is what was run. */
static void put_fit(const struct gm_sim_answer *answer, FILE *out)
{
	char size[GM_SIZE_TEXT], device[GM_SIZE_TEXT + 32] = "device's memory";
	if (answer->total)
		snprintf(device, sizeof(device), "device's %s", gm_text_size(answer->total, size));
	if (answer->fit == GM_SIM_DOES_NOT_FIT) {
		fputs("it does not fit: ", out);
		put_who_ran_out(answer, out);
		gm_put(out, " ran out of the %s\n", device);
	} else if (answer->failed) {
		fputs("whether it fits is not known: a rank failed for another reason\n", out);
	} else if (!answer->used) {
		fputs("nothing was allocated on a device: no answer\n", out);
	} else if (is_complete(answer)) {
		gm_put(out, "it fits: no rank ran out of the %s\n", device);
	} else {
		gm_put(out,
		        "it fits, as far as was run: of %" PRIu32 " ranks %" PRIu32
		        " %s run, and none ran out of the %s\n",
		        answer->job->world, answer->run, answer->run == 1 ? "was" : "were", device);
	}
}

static char *outcome_text(const struct gm_sim_result *result)
{
	struct gm_said_sizes sizes = {0};
	const char *colon = *result->line ? ": " : "";
	switch (result->outcome) {
	case GM_SIM_OUT_OF_MEMORY:
		return gm_say(
		        "out of memory: asked for %s", gm_say_size(&sizes, result->requested));
	case GM_SIM_FAILED:
		return gm_say("exit status %" PRIu32 "%s%s", result->status, colon, result->line);
	case GM_SIM_CRASHED:
		return gm_say("%s%s%s", strsignal((int)result->status), colon, result->line);
	case GM_SIM_TIMED_OUT:
		return gm_say("timed out (--timeout)%s%s", colon, result->line);
	default:
		return gm_say("ran");
	}
}

static bool put_groups(const struct gm_sim_answer *answer, FILE *out)
{
	static const char *const heads[] = {
	        "ranks", "run", "allocated", "reserved", "which", "result", NULL};
	const struct gm_style style = {0};
	struct gm_table *table = gm_table_create(heads, "rrrrll");
	for (size_t i = 0; table && i < answer->groups.count; i++) {
		const struct gm_sim_group *group = &answer->groups.items[i];
		char allocated[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT];
		_cleanup_free_ char *ranks = group_ranks(group);
		_cleanup_free_ char *outcome = outcome_text(&group->result);
		gm_table_cell(table, "%" PRIu32, ranks_in(group));
		gm_table_cell(table, "%" PRIu32, group->run);
		gm_table_cell(table, "%s", gm_text_size(group->result.peak_allocated, allocated));
		gm_table_cell(table, "%s", gm_text_size(group->result.peak_reserved, reserved));
		gm_table_cell(table, "%s", ranks ? ranks : "");
		gm_table_cell(table, "%s", outcome ? outcome : "");
	}
	return table && gm_table_finish(table, &style, out);
}

/* The recording that tells most: of a rank that ran out of memory, else the highest peak's. */
static void put_next(const struct gm_sim_answer *answer, FILE *out)
{
	const struct gm_sim_result *which = NULL;
	for (size_t i = 0; i < answer->groups.count; i++) {
		const struct gm_sim_result *result = &answer->groups.items[i].result;
		bool first = !which || (result->outcome == GM_SIM_OUT_OF_MEMORY &&
		                               which->outcome != GM_SIM_OUT_OF_MEMORY);
		if (result->events && first)
			which = result;
	}
	if (which)
		gm_put(out, "next: gpumem %s %s/rank.%" PRIu32 ".gpumem\n",
		        which->outcome == GM_SIM_OUT_OF_MEMORY ? "oom" : "peak",
		        answer->job->folder, which->rank);
}

struct gm_error *gm_render_sim_text(const struct gm_sim_answer *answer, FILE *out)
{
	put_head(answer, out);
	if (answer->groups.count) {
		put_highest(answer, out);
		put_most_reserved(answer, out);
		put_fit(answer, out);
		fputs("\n", out);
		if (!put_groups(answer, out))
			return &gm_error_no_memory;
	}
	if (answer->unknown) {
		_cleanup_free_ char *ranks = ranks_text(&answer->unknown_spans);
		gm_put(out, "not known: rank%s %s\n", gm_text_s(answer->unknown),
		        ranks ? ranks : "");
	}
	put_next(answer, out);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *spans_json(const struct gm_sim_spans *spans)
{
	json_t *list = json_array();
	for (size_t i = 0; i < spans->list.count; i++) {
		const struct gm_sim_span *span = &spans->list.items[i];
		json_array_append_new(
		        list, json_pack("{s:I, s:I, s:I}", "first", (json_int_t)span->first, "last",
		                      (json_int_t)span->last, "step", (json_int_t)span->step));
	}
	return list;
}

static json_t *group_json(const struct gm_sim_group *group)
{
	const struct gm_sim_result *result = &group->result;
	json_t *value = json_object();
	json_object_set_new(value, "ranks", spans_json(&group->spans));
	json_object_set_new(value, "count", json_integer(ranks_in(group)));
	json_object_set_new(value, "run", json_integer(group->run));
	json_object_set_new(value, "inferred", json_integer(group->inferred));
	json_object_set_new(value, "first_run", json_integer(result->rank));
	json_object_set_new(value, "outcome", json_string(gm_sim_outcome_name(result->outcome)));
	json_object_set_new(value, "status", json_integer(result->status));
	json_object_set_new(
	        value, "peak_allocated", json_integer((json_int_t)result->peak_allocated));
	json_object_set_new(
	        value, "peak_reserved", json_integer((json_int_t)result->peak_reserved));
	json_object_set_new(value, "requested",
	        result->ooms ? json_integer((json_int_t)result->requested) : json_null());
	json_object_set_new(value, "events", json_integer((json_int_t)result->events));
	json_object_set_new(value, "line", gm_json_string_or_null(result->line));
	return value;
}

struct gm_error *gm_render_sim_json(const struct gm_sim_answer *answer, FILE *out)
{
	json_t *value = json_object(), *groups = json_array();
	for (size_t i = 0; i < answer->groups.count; i++)
		json_array_append_new(groups, group_json(&answer->groups.items[i]));
	json_object_set_new(value, "world", json_integer(answer->job->world));
	json_object_set_new(value, "run", json_integer(answer->run));
	json_object_set_new(value, "run_earlier", json_integer(answer->earlier));
	json_object_set_new(value, "inferred", json_integer(answer->inferred));
	json_object_set_new(value, "not_known", json_integer(answer->unknown));
	json_object_set_new(value, "not_known_ranks", spans_json(&answer->unknown_spans));
	json_object_set_new(value, "checked", json_integer(answer->checked));
	json_object_set_new(value, "fit", json_string(fits[answer->fit]));
	json_object_set_new(value, "every_rank_run", json_boolean(is_complete(answer)));
	json_object_set_new(value, "device_used", json_boolean(answer->used));
	json_object_set_new(value, "device_total",
	        answer->total ? json_integer((json_int_t)answer->total) : json_null());
	json_object_set_new(value, "groups", groups);
	json_object_set_new(value, "folder", gm_json_string(answer->job->folder));
	json_object_set_new(value, "processes", json_integer(answer->processes));
	json_object_set_new(value, "machines", json_integer(answer->machines));
	json_object_set_new(value, "seconds", json_real(answer->seconds));
	json_object_set_new(value, "elapsed", json_real(answer->elapsed));
	return gm_json_write(value, true, out);
}
