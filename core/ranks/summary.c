#include "ranks/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ask/info.h"
#include "base/allocation.h"
#include "base/cleanup.h"
#include "log/log.h"
#include "ranks/sections/peak.h"

const struct gm_section_kind *const gm_sections[GM_SECTIONS] = {
        [GM_SECTION_PEAK] = &gm_section_peak,
        [GM_SECTION_STEPS] = &gm_section_steps,
        [GM_SECTION_PHASES] = &gm_section_phases,
        [GM_SECTION_LEAKS] = &gm_section_leaks,
        [GM_SECTION_OOM] = &gm_section_oom,
        [GM_SECTION_TIMELINE] = &gm_section_timeline,
        [GM_SECTION_COLLECTIVES] = &gm_section_collectives,
};

const char *gm_job_number_name(enum gm_job_number number)
{
	static const char *const names[GM_JOB_NUMBERS] = {
	        "rank", "world", "local_rank", "tp", "pp", "dp", "ep", "cp"};
	return names[number];
}

/* The variables of launchers and scripts that have it, as recorded: the innermost launcher's first,
 * as it knows best (core/agent/job.c). */
enum { VARIABLES_MOST = 6 };
static const char *const variables[GM_JOB_NUMBERS][VARIABLES_MOST] = {
        [GM_JOB_RANK] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"},
        [GM_JOB_WORLD] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"},
        [GM_JOB_LOCAL_RANK] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                "SLURM_LOCALID"},
        [GM_JOB_TENSOR] = {"TP_RANK"},
        [GM_JOB_PIPELINE] = {"PP_RANK"},
        [GM_JOB_DATA] = {"DP_RANK", "VLLM_DP_RANK"},
        [GM_JOB_EXPERT] = {"EP_RANK"},
        [GM_JOB_CONTEXT] = {"CP_RANK"},
};

static uint32_t read_number(const struct gm_log *log, enum gm_job_number number)
{
	for (size_t i = 0; i < VARIABLES_MOST && variables[number][i]; i++) {
		const char *text = gm_log_setting(log, variables[number][i]);
		char *end;
		if (!text || *text < '0' || *text > '9')
			continue;
		unsigned long value = strtoul(text, &end, 10);
		if (!*end && value < GM_RANK_NONE)
			return (uint32_t)value;
	}
	return GM_RANK_NONE;
}

void gm_rank_summary_deinit(struct gm_rank_summary *summary)
{
	for (unsigned i = 0; i < GM_SECTIONS; i++)
		free(gm_take(summary->sections[i].owned));
}

/* --- sections --------------------------------------------------------------------------------- */

/* Encodes a struct as the bytes of a section. */
static bool encode(enum gm_section number, void *section, struct gm_strings *strings,
        struct gm_summary_section *kept)
{
	struct gm_codec codec;
	gm_codec_write(&codec, strings);
	gm_sections[number]->code(&codec, section);
	bool fits = !codec.bad;
	if (fits) {
		kept->there = true;
		kept->size = codec.out.count;
		kept->bytes = kept->owned = gm_take(codec.out.items);
	}
	gm_codec_deinit(&codec);
	return fits;
}

static struct gm_error *read_section(struct gm_context *context, enum gm_section number,
        struct gm_strings *strings, struct gm_rank_summary *summary)
{
	struct gm_summary_section *kept = &summary->sections[number];
	_cleanup_free_ void *section = calloc(1, gm_sections[number]->size);
	if (!section)
		return &gm_error_no_memory;
	struct gm_error *error = gm_sections[number]->read(context, strings, section, &kept->cut);
	if (!error && !encode(number, section, strings, kept))
		error = &gm_error_no_memory;
	gm_sections[number]->deinit(section);
	return error;
}

bool gm_summary_section(const struct gm_rank_summary *summary, enum gm_section section,
        void *ret_struct, bool *ret_no_memory)
{
	const struct gm_summary_section *kept = &summary->sections[section];
	const struct gm_section_kind *kind = gm_sections[section];
	struct gm_codec codec;
	memset(ret_struct, 0, kind->size);
	*ret_no_memory = false;
	if (!kept->there || !summary->strings)
		return false;
	gm_codec_read_part(&codec, kept->bytes, kept->size, summary->strings);
	kind->code(&codec, ret_struct);
	bool whole = !codec.bad && codec.in.at == codec.in.end;
	*ret_no_memory = codec.no_memory;
	gm_codec_deinit(&codec);
	if (!whole) {
		kind->deinit(ret_struct);
		memset(ret_struct, 0, kind->size);
	}
	return whole;
}

/* --- a recording ------------------------------------------------------------------------------ */

/* The later name counts where both are set, as in PyTorch. */
static uint32_t read_allocator(const struct gm_log *log, struct gm_strings *strings)
{
	const char *settings = gm_log_setting(log, "PYTORCH_ALLOC_CONF");
	if (!settings)
		settings = gm_log_setting(log, "PYTORCH_CUDA_ALLOC_CONF");
	return gm_strings_add(strings, settings);
}

static bool read_batch(const struct gm_log *log, struct gm_strings *strings, uint32_t *ret_batch)
{
	static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID"};
	*ret_batch = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = gm_log_setting(log, names[i]);
		char *text;
		if (!value)
			continue;
		if (asprintf(&text, "%s %s", names[i], value) < 0)
			return false;
		*ret_batch = gm_strings_add(strings, text);
		free(text);
		return *ret_batch != 0;
	}
	return true;
}

/* An earlier gpumem wrote the time of the packing as the start, which is after all events. */
static void read_times(const struct gm_log *log, struct gm_rank_summary *summary)
{
	uint64_t count = gm_log_event_count(log);
	struct gm_event first = {0}, last = {0};
	summary->start_ns = gm_log_start_ns(log);
	if (count) {
		gm_log_event(log, 0, &first);
		gm_log_event(log, count - 1, &last);
	}
	if (first.time_ns && first.time_ns < summary->start_ns)
		summary->start_ns = first.time_ns;
	summary->end_ns = last.time_ns > summary->start_ns ? last.time_ns : summary->start_ns;
}

static struct gm_error *read_devices(
        struct gm_context *context, const struct gm_log *log, struct gm_rank_summary *summary)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	size_t chosen = gm_model_main_device(model);
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		summary->ooms += device->ooms;
		if (i == chosen && device->type == 1 &&
		        !gm_log_device_total(log, device->index, &summary->total))
			summary->total = 0;
	}
	return NULL;
}

static struct gm_error *read_recording(struct gm_context *context, unsigned sections,
        struct gm_strings *strings, struct gm_rank_summary *summary)
{
	struct gm_log *log;
	struct gm_info info;
	gm_try(gm_context_log(context, &log));
	summary->closed = gm_log_closed(log);
	summary->truncated = gm_log_truncated(log, &summary->truncated_at);
	summary->source = gm_strings_add(strings, gm_log_source(log));
	summary->allocator = read_allocator(log, strings);
	if (!read_batch(log, strings, &summary->batch))
		return &gm_error_no_memory;
	summary->pid = gm_log_pid(log);
	read_times(log, summary);
	for (unsigned i = 0; i < GM_JOB_NUMBERS; i++)
		summary->numbers[i] = read_number(log, i);
	gm_try(read_devices(context, log, summary));
	gm_try(gm_ask_info(context, &info));
	summary->complete = info.complete;
	gm_info_deinit(&info);
	gm_try(read_section(context, GM_SECTION_PEAK, strings, summary));
	for (unsigned i = 0; i < GM_SECTIONS; i++) {
		if (i == GM_SECTION_PEAK || !(sections & 1U << i))
			continue;
		_cleanup_error_ struct gm_error *error = read_section(context, i, strings, summary);
		if (error == &gm_error_no_memory)
			return gm_take(error);
		if (error)
			summary->sections[i].why = gm_strings_add(strings, error->message);
	}
	return NULL;
}

static struct gm_error *look_at(const char *path, struct gm_rank_summary *summary)
{
	struct stat file;
	if (stat(path, &file) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot open it", path);
	if (S_ISDIR(file.st_mode))
		return gm_error_create(GM_CORRUPT,
		        "%s: is a folder: name its files, as in '%s/*.gpumem'", path, path);
	summary->size = (uint64_t)file.st_size;
	summary->modified_ns = (uint64_t)file.st_mtim.tv_sec * UINT64_C(1000000000) +
	                       (uint64_t)file.st_mtim.tv_nsec;
	return NULL;
}

struct gm_error *gm_rank_summarise(const char *path, const char *host, unsigned sections,
        struct gm_strings *strings, struct gm_rank_summary *ret_summary)
{
	struct gm_rank_summary summary = {.path = gm_strings_add(strings, path),
	        .host = gm_strings_add(strings, host),
	        .version = gm_strings_add(strings, GPUMEM_VERSION)};
	struct gm_context context;
	for (unsigned i = 0; i < GM_JOB_NUMBERS; i++)
		summary.numbers[i] = GM_RANK_NONE;
	gm_context_init(&context);
	context.shell = true;
	gm_allocation_forget();
	_cleanup_error_ struct gm_error *error = look_at(path, &summary);
	if (!error)
		error = gm_context_set_log(&context, path);
	if (!error)
		error = read_recording(&context, sections, strings, &summary);
	gm_context_deinit(&context);
	/* A search without memory has found nothing, without an error of its own. */
	if (gm_allocation_failed() && !error)
		error = &gm_error_no_memory;
	if (error) {
		gm_rank_summary_deinit(&summary);
		memset(summary.sections, 0, sizeof(summary.sections));
		summary.state = GM_RANK_UNREADABLE;
		summary.status = error->status;
		summary.why = gm_strings_add(strings, error->message);
	}
	if (!summary.path || !summary.host || !summary.version || (error && !summary.why)) {
		gm_rank_summary_deinit(&summary);
		return &gm_error_no_memory;
	}
	*ret_summary = summary;
	return NULL;
}

/* --- as bytes --------------------------------------------------------------------------------- */

static void code_section(struct gm_codec *codec, struct gm_summary_section *section)
{
	gm_code_bool(codec, &section->there);
	gm_code_bool(codec, &section->cut);
	gm_code_string(codec, &section->why);
	if (section->there)
		gm_code_bytes(codec, &section->bytes, &section->size);
}

void gm_code_summary(struct gm_codec *codec, struct gm_rank_summary *summary)
{
	unsigned state = summary->state, status = summary->status;
	gm_code_string(codec, &summary->path);
	gm_code_string(codec, &summary->host);
	gm_code_u64(codec, &summary->size);
	gm_code_u64(codec, &summary->modified_ns);
	gm_code_enum(codec, &state, GM_RANK_STATES - 1);
	gm_code_enum(codec, &status, GM_INTERNAL);
	summary->state = state;
	summary->status = status;
	gm_code_string(codec, &summary->why);
	gm_code_string(codec, &summary->version);
	gm_code_bool(codec, &summary->kept);
	gm_code_bool(codec, &summary->closed);
	gm_code_bool(codec, &summary->complete);
	gm_code_bool(codec, &summary->truncated);
	gm_code_u64(codec, &summary->truncated_at);
	gm_code_string(codec, &summary->source);
	gm_code_string(codec, &summary->allocator);
	gm_code_string(codec, &summary->batch);
	gm_code_u64(codec, &summary->pid);
	gm_code_u64(codec, &summary->start_ns);
	gm_code_u64(codec, &summary->end_ns);
	gm_code_u64(codec, &summary->total);
	gm_code_u64(codec, &summary->ooms);
	for (unsigned i = 0; i < GM_JOB_NUMBERS; i++)
		gm_code_u32(codec, &summary->numbers[i]);
	for (unsigned i = 0; i < GM_SECTIONS; i++)
		code_section(codec, &summary->sections[i]);
}

/* --- from table to table ---------------------------------------------------------------------- */

static bool number_all(
        const struct gm_strings *from, struct gm_strings *to, struct gm_string_numbers *numbers)
{
	for (size_t i = 0; i < from->items.count; i++) {
		uint32_t number = gm_strings_add(to, from->items.items[i]);
		if (!number || !gm_array_push(&numbers->of, number))
			return false;
	}
	return true;
}

static bool move_sections(
        const struct gm_rank_summary *summary, struct gm_strings *to, struct gm_rank_summary *moved)
{
	for (unsigned i = 0; i < GM_SECTIONS; i++) {
		bool no_memory;
		if (!summary->sections[i].there)
			continue;
		_cleanup_free_ void *section = calloc(1, gm_sections[i]->size);
		bool fits = section && gm_summary_section(summary, i, section, &no_memory);
		fits = fits && encode(i, section, to, &moved->sections[i]);
		if (section)
			gm_sections[i]->deinit(section);
		if (!fits)
			return false;
	}
	return true;
}

static uint32_t moved_string(const struct gm_string_numbers *numbers, uint32_t number)
{
	return number && number <= numbers->of.count ? numbers->of.items[number - 1] : 0;
}

bool gm_summary_move(const struct gm_rank_summary *summary, const struct gm_strings *from,
        struct gm_strings *to, struct gm_rank_summary *ret_summary)
{
	struct gm_string_numbers numbers = {0};
	struct gm_rank_summary moved = *summary, reading = *summary;
	bool fits = number_all(from, to, &numbers);
	uint32_t *const strings[] = {&moved.path, &moved.host, &moved.why, &moved.version,
	        &moved.source, &moved.allocator, &moved.batch};
	for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++)
		*strings[i] = moved_string(&numbers, *strings[i]);
	for (unsigned i = 0; i < GM_SECTIONS; i++) {
		moved.sections[i] = (struct gm_summary_section){.cut = summary->sections[i].cut,
		        .why = moved_string(&numbers, summary->sections[i].why)};
	}
	reading.strings = &numbers;
	moved.strings = NULL;
	fits = fits && move_sections(&reading, to, &moved);
	gm_array_deinit(&numbers.of);
	if (!fits)
		gm_rank_summary_deinit(&moved);
	else
		*ret_summary = moved;
	return fits;
}
