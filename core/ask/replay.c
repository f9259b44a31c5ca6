#include "ask/replay.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trusted_path.h"
#include "model/model.h"

/* What is tried where no setting is named: each of the allocator's that changes how memory is laid
 * out ("Memory management" in PyTorch's CUDA semantics). */
static const char *const usual[] = {
        "",
        "expandable_segments:True",
        "max_split_size_mb:64",
        "max_split_size_mb:512",
        "roundup_power2_divisions:4",
        "garbage_collection_threshold:0.8",
        "garbage_collection_threshold:0.6,max_split_size_mb:128",
        "expandable_segments:True,garbage_collection_threshold:0.8",
};

/* The recording's, where its command began with one that is still there; else that of PATH. Who
 * wrote the recording chose that name: what somebody else could have put there is not run. The
 * caller frees it. */
static struct gm_error *python_of(const struct gm_log *log, char **ret_python)
{
	const char *source = gm_log_source(log);
	size_t length = strcspn(source, " ");
	char *first = strndup(source, length);
	const char *name = first ? strrchr(first, '/') : NULL;
	struct gm_error *error = NULL;
	if (!first || !name || strncmp(name + 1, "python", 6) != 0 || access(first, X_OK) != 0) {
		free(first);
		first = strdup("python3");
	} else if (!gm_path_is_trusted(first)) {
		error = gm_error_create(GM_USAGE,
		        "replay: the recording names the interpreter %s, which another user could "
		        "have put there: name one with --python",
		        first);
		free(gm_take(first));
	}
	if (!error && !first)
		error = &gm_error_no_memory;
	if (!error)
		*ret_python = first;
	return error;
}

static struct gm_error *find_device(const struct gm_model *model, int wanted, size_t *ret_index)
{
	*ret_index = wanted < 0 ? gm_model_main_device(model)
	                        : gm_model_accelerator(model, (uint64_t)wanted);
	if (*ret_index != SIZE_MAX)
		return NULL;
	if (wanted < 0)
		return gm_error_create(GM_TARGET, "replay: the recording has no event of a device");
	return gm_error_create(
	        GM_USAGE, "replay: --device %d: the recording has no event of it", wanted);
}

struct reporting {
	const struct gm_replay_options *options;
	size_t count;
};

static void report(void *data, size_t done)
{
	const struct reporting *reporting = data;
	reporting->options->progress(reporting->options->data, done, reporting->count);
}

static void judge(struct gm_replay *replay)
{
	replay->best = SIZE_MAX;
	for (size_t i = 0; i < replay->count; i++) {
		const struct gm_replay_result *one = &replay->results[i];
		const struct gm_replay_result *best =
		        replay->best == SIZE_MAX ? NULL : &replay->results[replay->best];
		if (one->outcome != GM_REPLAY_COMPLETE)
			continue;
		replay->none_refused |= one->got == replay->requests.refused;
		if (!best || one->got > best->got ||
		        (one->got == best->got && one->peak_reserved < best->peak_reserved))
			replay->best = i;
	}
}

static struct gm_error *run(
        const struct gm_log *log, const struct gm_replay_options *options, struct gm_replay *replay)
{
	_cleanup_free_ char *python = options->python ? strdup(options->python) : NULL;
	const bool named = options->count > 0;
	struct reporting reporting = {options, 0};
	if (!options->python)
		gm_try(python_of(log, &python));
	if (!python)
		return &gm_error_no_memory;
	replay->count = named ? options->count : sizeof(usual) / sizeof(usual[0]);
	memcpy(replay->settings, named ? options->settings : usual,
	        replay->count * sizeof(*replay->settings));
	reporting.count = replay->count;
	if (options->progress)
		report(&reporting, 0);
	const struct gm_replay_run asked = {.python = python,
	        .profile = replay->profile.name,
	        .settings = replay->settings,
	        .count = replay->count,
	        .progress = options->progress ? report : NULL,
	        .data = &reporting};
	return gm_replay_run(&replay->requests, &asked, replay->results, replay->torch);
}

struct gm_error *gm_ask_replay(struct gm_context *context, const struct gm_replay_options *options,
        struct gm_replay *ret_replay)
{
	struct gm_model *model;
	size_t device;
	gm_try(gm_context_model(context, &model));
	gm_try(find_device(model, options->device, &device));
	memset(ret_replay, 0, sizeof(*ret_replay));
	gm_try(gm_replay_requests_create(model, device, &ret_replay->requests));
	const struct gm_log *log = gm_model_log(model);
	ret_replay->path = gm_log_path(log);
	ret_replay->device = gm_model_device(model, device)->index;
	struct gm_error *error = gm_replay_choose_profile(
	        &ret_replay->requests, options->profile, &ret_replay->profile);
	if (!error)
		error = run(log, options, ret_replay);
	if (error)
		gm_replay_deinit(ret_replay);
	else
		judge(ret_replay);
	return error;
}

void gm_replay_deinit(struct gm_replay *replay)
{
	gm_replay_requests_deinit(&replay->requests);
}
