#include "ranks/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ranks/sections/collectives.h"
#include "ranks/sections/leaks.h"
#include "ranks/sections/peak.h"
#include "ranks/sections/steps.h"
#include "ranks/sections/timeline.h"

void gm_ranks_answer_deinit(struct gm_ranks_answer *answer)
{
	gm_compare_deinit(&answer->compare);
	gm_rank_groups_deinit(&answer->groups);
	gm_rank_table_deinit(&answer->rows);
	gm_rank_table_deinit(&answer->columns);
	free(gm_take(answer->files));
}

/* --- side by side ----------------------------------------------------------------------------- */

static struct gm_error *compare_ones(
        const struct gm_job *job, struct gm_ranks_answer *answer, struct gm_compared_one *ones)
{
	static const struct gm_compare_options options = {.by = GM_BY_NONE};
	for (size_t i = 0; i < answer->count; i++) {
		const struct gm_rank_summary *file = &job->files.items[answer->files[i]];
		struct gm_peak_section peak;
		bool no_memory;
		if (!gm_summary_section(file, GM_SECTION_PEAK, &peak, &no_memory))
			return no_memory ? &gm_error_no_memory
			                 : gm_error_create(GM_INTERNAL,
			                           "%s: its summary cannot be read",
			                           gm_job_string(job, file->path));
		ones[i] = peak.one;
		ones[i].file.path = gm_job_string(job, file->path);
	}
	gm_try(gm_compare_join(ones, answer->count, &options, &job->strings, &answer->compare));
	return gm_rank_groups(&answer->compare, &answer->groups);
}

static struct gm_error *compare(const struct gm_job *job, struct gm_ranks_answer *answer)
{
	struct gm_compared_one *ones = calloc(answer->count + 1, sizeof(*ones));
	answer->compare.odd = SIZE_MAX;
	if (!answer->count) {
		free(ones);
		return NULL;
	}
	if (!ones)
		return &gm_error_no_memory;
	struct gm_error *error = compare_ones(job, answer, ones);
	for (size_t i = 0; i < answer->count; i++)
		gm_compared_one_deinit(&ones[i]);
	free(ones);
	return error;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool add_steps(struct gm_ranks_answer *answer, size_t file, const void *section)
{
	const struct gm_steps_section *steps = section;
	bool fits = true;
	for (size_t i = 0; i < steps->items.count && fits; i++) {
		const struct gm_stretch *step = &steps->items.items[i].stretch;
		if (step->step)
			fits = gm_rank_table_add(&answer->rows, step->step, GM_FIGURE_PEAK, file,
			               step->peak) &&
			       gm_rank_table_add(
			               &answer->rows, step->step, GM_FIGURE_END, file, step->end);
	}
	return fits;
}

static bool add_phases(struct gm_ranks_answer *answer, size_t file, const void *section)
{
	const struct gm_phases_section *phases = section;
	bool fits = true;
	for (size_t i = 0; i < phases->items.count && fits; i++) {
		const struct gm_stretch *phase = &phases->items.items[i].stretch;
		fits = gm_rank_table_add(
		               &answer->rows, phase->phase, GM_FIGURE_PEAK, file, phase->peak) &&
		       gm_rank_table_add(
		               &answer->rows, phase->phase, GM_FIGURE_BYTES, file, phase->bytes);
	}
	return fits;
}

static bool add_leaks(struct gm_ranks_answer *answer, size_t file, const void *section)
{
	const struct gm_leaks_section *leaks = section;
	bool fits = true;
	for (size_t i = 0; i < leaks->items.count && fits; i++) {
		const struct gm_kept_leak *leak = &leaks->items.items[i];
		fits = gm_rank_table_add(&answer->rows, leak->line,
		        leak->bound == GM_LEAK_GROWS ? GM_FIGURE_BYTES : GM_FIGURE_BOUND, file,
		        leak->bytes);
	}
	return fits;
}

static bool add_timeline(struct gm_ranks_answer *answer, size_t file, const void *section)
{
	const struct gm_timeline_section *timeline = section;
	bool fits = true;
	for (size_t i = 0; i < timeline->shapes.count && fits; i++)
		fits = gm_rank_table_add(&answer->rows, timeline->shapes.items[i].kind,
		        GM_FIGURE_BYTES, file, timeline->shapes.items[i].bytes);
	for (size_t i = 0; i < timeline->column_count && fits; i++)
		fits = gm_rank_table_add(&answer->columns, (uint32_t)i, GM_FIGURE_PEAK, file,
		        timeline->columns[i].allocated);
	return fits;
}

enum { PHASE_BITS = 5, KIND_BITS = 5 };

static uint32_t calls_key(const struct gm_kept_calls *calls)
{
	uint32_t most = UINT32_MAX >> (PHASE_BITS + KIND_BITS);
	uint32_t ranks = calls->ranks < most ? calls->ranks : most;
	return (ranks << KIND_BITS | (calls->kind & ((1U << KIND_BITS) - 1))) << PHASE_BITS |
	       calls->phase;
}

struct gm_calls_name gm_calls_of(uint32_t key)
{
	return (struct gm_calls_name){.phase = key & ((1U << PHASE_BITS) - 1),
	        .kind = key >> PHASE_BITS & ((1U << KIND_BITS) - 1),
	        .ranks = key >> (PHASE_BITS + KIND_BITS)};
}
_Static_assert(GM_PHASE_COUNT <= 1 << PHASE_BITS, "phases");
_Static_assert(GM_COLLECTIVE_COUNT <= 1 << KIND_BITS, "kinds");

static bool add_collectives(struct gm_ranks_answer *answer, size_t file, const void *section)
{
	const struct gm_collectives_section *kept = section;
	bool fits = true;
	for (size_t i = 0; i < kept->items.count && fits; i++) {
		const struct gm_kept_calls *calls = &kept->items.items[i];
		uint64_t moved = calls->send_bytes > calls->receive_bytes ? calls->send_bytes
		                                                          : calls->receive_bytes;
		uint32_t key = calls_key(calls);
		fits = gm_rank_table_add(&answer->rows, key, GM_FIGURE_CALLS, file, calls->calls) &&
		       gm_rank_table_add(&answer->rows, key, GM_FIGURE_MOVED, file, moved);
	}
	return fits;
}

static bool (*const adders[GM_SECTIONS])(
        struct gm_ranks_answer *answer, size_t file, const void *section) = {
        [GM_SECTION_STEPS] = add_steps,
        [GM_SECTION_PHASES] = add_phases,
        [GM_SECTION_LEAKS] = add_leaks,
        [GM_SECTION_TIMELINE] = add_timeline,
        [GM_SECTION_COLLECTIVES] = add_collectives,
};

static struct gm_error *add_file(
        const struct gm_job *job, struct gm_ranks_answer *answer, size_t file)
{
	enum gm_section number = answer->section;
	_cleanup_free_ void *section = calloc(1, gm_sections[number]->size);
	bool no_memory = false;
	if (!section)
		return &gm_error_no_memory;
	if (!gm_summary_section(
	            &job->files.items[answer->files[file]], number, section, &no_memory)) {
		answer->without++;
		return no_memory ? &gm_error_no_memory : NULL;
	}
	bool fits = !adders[number] || adders[number](answer, file, section);
	gm_sections[number]->deinit(section);
	return fits ? NULL : &gm_error_no_memory;
}

static struct gm_error *make_rows(const struct gm_job *job, struct gm_ranks_answer *answer)
{
	for (size_t i = 0; i < answer->count; i++)
		gm_try(add_file(job, answer, i));
	if (!gm_rank_table_finish(&answer->rows) || !gm_rank_table_finish(&answer->columns))
		return &gm_error_no_memory;
	gm_rank_table_sort_by_key(&answer->columns);
	if (answer->section == GM_SECTION_LEAKS || answer->section == GM_SECTION_TIMELINE)
		gm_rank_table_sort_by_most(&answer->rows);
	else
		gm_rank_table_sort_by_key(&answer->rows);
	return NULL;
}

struct gm_error *gm_ranks_answer(
        const struct gm_job *job, enum gm_section section, struct gm_ranks_answer *ret_answer)
{
	struct gm_ranks_answer answer = {.section = section};
	answer.files = calloc(job->files.count + 1, sizeof(*answer.files));
	if (!answer.files)
		return &gm_error_no_memory;
	for (size_t i = 0; i < job->files.count; i++)
		if (job->files.items[i].state == GM_RANK_READ)
			answer.files[answer.count++] = i;
	struct gm_error *error =
	        section == GM_SECTION_PEAK ? compare(job, &answer) : make_rows(job, &answer);
	if (error)
		gm_ranks_answer_deinit(&answer);
	else
		*ret_answer = answer;
	return error;
}
