#include "ranks/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ask/context.h"
#include "base/allocation.h"
#include "base/cleanup.h"
#include "log/log.h"
#include "ranks/codec.h"

void gm_rank_summary_deinit(struct gm_rank_summary *summary)
{
	gm_compared_one_deinit(&summary->compared);
}

static int compare_shares(const void *a, const void *b)
{
	const struct gm_compared_share *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return (left->key > right->key) - (left->key < right->key);
}

static void bound(struct gm_rank_summary *summary)
{
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++) {
		if (summary->compared.shares[i].count <= GM_SUMMARY_SHARES_MOST)
			continue;
		qsort(summary->compared.shares[i].items, summary->compared.shares[i].count,
		        sizeof(*summary->compared.shares[i].items), compare_shares);
		summary->compared.shares[i].count = GM_SUMMARY_SHARES_MOST;
		summary->cut = true;
	}
	if (summary->compared.file.step_count > GM_SUMMARY_STEPS_MOST) {
		summary->compared.file.step_count = GM_SUMMARY_STEPS_MOST;
		summary->cut = true;
	}
}

/* What the recorder noted of the job: a counter of this name, or the first of the launchers'
 * variables that has a number, the innermost launcher's first (core/agent/job.h). */
static uint32_t job_number(
        const struct gm_log *log, const char *counter, const char *const *variables)
{
	uint64_t value;
	if (gm_log_counter(log, counter, &value) && value < GM_RANK_NONE)
		return (uint32_t)value;
	for (; *variables; variables++) {
		const char *text = gm_log_setting(log, *variables);
		char *end;
		if (!text || *text < '0' || *text > '9')
			continue;
		unsigned long number = strtoul(text, &end, 10);
		if (!*end && number < GM_RANK_NONE)
			return (uint32_t)number;
	}
	return GM_RANK_NONE;
}

static const char *const rank_variables[] = {
        "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
static const char *const world_variables[] = {
        "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};

static struct gm_error *read_recording(
        struct gm_context *context, struct gm_strings *strings, struct gm_rank_summary *summary)
{
	static const struct gm_compare_options options = {.by = GM_BY_NONE};
	struct gm_log *log;
	gm_try(gm_context_log(context, &log));
	summary->closed = gm_log_closed(log);
	summary->truncated = gm_log_truncated(log, &summary->truncated_at);
	summary->source = gm_strings_add(strings, gm_log_source(log));
	summary->pid = gm_log_pid(log);
	summary->start_ns = gm_log_start_ns(log);
	summary->rank = job_number(log, "job.rank", rank_variables);
	summary->world = job_number(log, "job.world", world_variables);
	gm_try(gm_compare_read(context, &options, strings, &summary->compared));
	bound(summary);
	return NULL;
}

static struct gm_error *look_at(const char *path, struct gm_rank_summary *summary)
{
	struct stat file;
	if (stat(path, &file) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot open it", path);
	summary->size = (uint64_t)file.st_size;
	summary->modified_ns = (uint64_t)file.st_mtim.tv_sec * UINT64_C(1000000000) +
	                       (uint64_t)file.st_mtim.tv_nsec;
	return NULL;
}

struct gm_error *gm_rank_summarise(const char *path, const char *host, struct gm_strings *strings,
        struct gm_rank_summary *ret_summary)
{
	struct gm_rank_summary summary = {.path = gm_strings_add(strings, path),
	        .host = gm_strings_add(strings, host),
	        .version = gm_strings_add(strings, GPUMEM_VERSION),
	        .rank = GM_RANK_NONE,
	        .world = GM_RANK_NONE};
	struct gm_context context;
	gm_context_init(&context);
	context.shell = true;
	gm_allocation_forget();
	_cleanup_error_ struct gm_error *error = look_at(path, &summary);
	if (!error)
		error = gm_context_set_log(&context, path);
	if (!error)
		error = read_recording(&context, strings, &summary);
	gm_context_deinit(&context);
	summary.compared.file.path = NULL;
	if (gm_allocation_failed() && !error)
		error = &gm_error_no_memory;
	if (error) {
		gm_compared_one_deinit(&summary.compared);
		summary.state = GM_RANK_UNREADABLE;
		summary.status = error->status;
		summary.why = gm_strings_add(strings, error->message);
	}
	if (!summary.path || (error && !summary.why)) {
		gm_rank_summary_deinit(&summary);
		return &gm_error_no_memory;
	}
	*ret_summary = summary;
	return NULL;
}

/* --- as bytes --------------------------------------------------------------------------------- */

static void code_share(struct gm_codec *codec, struct gm_compared_share *share)
{
	unsigned kind = share->kind;
	gm_code_enum(codec, &kind, GM_GROUP_ROOT_MODULE);
	share->kind = kind;
	gm_code_string(codec, &share->key);
	gm_code_string(codec, &share->line);
	gm_code_u64(codec, &share->bytes);
	gm_code_u64(codec, &share->blocks);
	if (!share->key)
		codec->bad = true;
}

static void code_steps(struct gm_codec *codec, struct gm_compared_file *file)
{
	struct gm_compared_step before = {0};
	size_t count = gm_code_count(codec, file->step_count, GM_SUMMARY_STEPS_MOST);
	if (!codec->writing && !(file->steps = calloc(count + 1, sizeof(*file->steps)))) {
		codec->bad = codec->no_memory = true;
		return;
	}
	file->step_count = count;
	/* Steps are mostly alike: as differences they are mostly 0. */
	for (size_t i = 0; i < count && !codec->bad; i++) {
		struct gm_compared_step *step = &file->steps[i];
		uint64_t peak = gm_zigzag((int64_t)(step->peak - before.peak));
		uint64_t kept = gm_zigzag((int64_t)(step->kept - before.kept));
		gm_code_u64(codec, &peak);
		gm_code_u64(codec, &kept);
		step->peak = before.peak + (uint64_t)gm_unzigzag(peak);
		step->kept = before.kept + (uint64_t)gm_unzigzag(kept);
		before = *step;
	}
}

static void code_file(struct gm_codec *codec, struct gm_compared_file *file)
{
	uint32_t type = file->device_type, device = (uint16_t)file->device;
	unsigned phase = file->phase;
	gm_code_bool(codec, &file->has_device);
	gm_code_enum(codec, &type, UINT8_MAX);
	gm_code_enum(codec, &device, UINT16_MAX);
	file->device_type = (uint8_t)type;
	file->device = (int16_t)device;
	gm_code_bool(codec, &file->complete);
	gm_code_u64(codec, &file->events);
	gm_code_u64(codec, &file->reserved);
	gm_code_u64(codec, &file->allocated);
	gm_code_u32(codec, &file->event);
	gm_code_u32(codec, &file->step);
	gm_code_enum(codec, &phase, GM_PHASE_COUNT - 1);
	file->phase = phase;
	code_steps(codec, file);
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
	gm_code_bool(codec, &summary->closed);
	gm_code_bool(codec, &summary->truncated);
	gm_code_u64(codec, &summary->truncated_at);
	gm_code_string(codec, &summary->source);
	gm_code_u64(codec, &summary->pid);
	gm_code_u64(codec, &summary->start_ns);
	gm_code_u32(codec, &summary->rank);
	gm_code_u32(codec, &summary->world);
	gm_code_bool(codec, &summary->cut);
	code_file(codec, &summary->compared.file);
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++)
		gm_code_array(
		        codec, &summary->compared.shares[i], GM_SUMMARY_SHARES_MOST, code_share);
}
