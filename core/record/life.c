/* The life of a recorder: opening, queries, and the end. */
#include <stdlib.h>

#include "record/recorder.h"
#include "record/blocks.h"
#include "record/existing.h"
#include "record/naming.h"
#include "record/probes.h"
#include "record/readers.h"
#include "record/record.h"
#include "record/segments.h"
#include "record/steps.h"
#include "record/watch.h"

static void destroy(struct gm_recorder *recorder)
{
	if (!recorder)
		return;
	struct gm_frame_id *frame, *next_frame;
	HASH_ITER(hh, recorder->frame_ids, frame, next_frame)
	{
		HASH_DEL(recorder->frame_ids, frame);
		free(frame);
	}
	struct gm_code_id *code, *next_code;
	HASH_ITER(hh, recorder->code_ids, code, next_code)
	{
		HASH_DEL(recorder->code_ids, code);
		free(code->loops);
		free(code);
	}
	struct gm_thread_kind *thread, *next_thread;
	HASH_ITER(hh, recorder->threads, thread, next_thread)
	{
		HASH_DEL(recorder->threads, thread);
		free(thread);
	}
	struct gm_native_address *native, *next_native;
	HASH_ITER(hh, recorder->native, native, next_native)
	{
		HASH_DEL(recorder->native, native);
		free(native->function);
		free(native);
	}
	gm_array_deinit(&recorder->unnamed);
	gm_array_deinit(&recorder->notes);
	gm_array_deinit(&recorder->tensors);
	gm_record_forget_blocks(recorder);
	gm_record_forget_segments(recorder);
	gm_record_steps_end(recorder);
	gm_watches_deinit(&recorder->watches);
	gm_torch_close(recorder->torch);
	gm_python_close(recorder->python);
	gm_symbols_destroy(recorder->symbols);
	gm_image_close(recorder->image);
	free(recorder->refusal);
	free(recorder);
}

/* A process that has torch loaded already: recording starts from its state. */
static struct gm_error *begin_late(struct gm_recorder *recorder)
{
	if (!gm_symbols_find_module(recorder->symbols, "libc10.so"))
		return NULL;
	gm_record_open_readers(recorder);
	gm_record_check_allocator(recorder);
	if (recorder->refusal)
		return gm_error_create(GM_TARGET, "%s", recorder->refusal);
	gm_record_existing(recorder);
	return NULL;
}

static struct gm_error *create(
        struct gm_recorder *recorder, const struct gm_recorder_options *options, pid_t pid)
{
	gm_try(gm_image_open_pid(pid, &recorder->image));
	gm_try(gm_symbols_create(recorder->image, &recorder->symbols));
	struct gm_log_writer_options log = {.source = options->source, .pid = (uint64_t)pid};
	gm_try(gm_log_writer_create(options->log_path, &log, &recorder->writer));
	gm_try(gm_record_find_probes(recorder));
	for (size_t i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		recorder->counters[i].known = true; /* nothing was allocated before the start */
	if (!gm_record_steps_begin(recorder))
		return &gm_error_no_memory;
	return begin_late(recorder);
}

struct gm_error *gm_recorder_create(
        const struct gm_recorder_options *options, pid_t pid, struct gm_recorder **ret_recorder)
{
	struct gm_recorder *recorder = calloc(1, sizeof(*recorder));
	if (!recorder)
		return &gm_error_no_memory;
	recorder->pid = pid;
	recorder->cuda = options->cuda;
	recorder->cpu = options->cpu;
	recorder->python_stacks = options->python_stacks;
	recorder->native_stacks = options->native_stacks;
	recorder->max_frames = options->max_frames ? options->max_frames : GM_RECORD_FRAMES_DEFAULT;
	if (recorder->max_frames > GM_RECORD_FRAMES_MAX)
		recorder->max_frames = GM_RECORD_FRAMES_MAX;
	struct gm_error *error = create(recorder, options, pid);
	if (error) {
		if (recorder->writer)
			gm_error_destroy(gm_log_writer_close(recorder->writer));
		destroy(recorder);
		return error;
	}
	*ret_recorder = recorder;
	return NULL;
}

struct gm_error *gm_recorder_probes(
        struct gm_recorder *recorder, const struct gm_probe_site **ret_sites, size_t *ret_count)
{
	*ret_sites = recorder->sites;
	*ret_count = recorder->site_count;
	return NULL;
}

struct gm_error *gm_recorder_flush(struct gm_recorder *recorder)
{
	gm_record_release_all_held(recorder);
	gm_record_names(recorder);
	gm_record_counters(recorder);
	return gm_log_writer_flush(recorder->writer);
}

struct gm_error *gm_recorder_close(struct gm_recorder *recorder)
{
	if (!recorder)
		return NULL;
	struct gm_error *error = gm_recorder_flush(recorder);
	struct gm_error *close_error = gm_log_writer_close(recorder->writer);
	destroy(recorder);
	if (!error)
		return close_error;
	gm_error_destroy(close_error);
	return error;
}

void gm_recorder_stop_when(struct gm_recorder *recorder, const struct gm_stop_condition *condition)
{
	recorder->stop_due = false;
	recorder->stop_after = condition->events ? recorder->event_count + condition->events : 0;
	recorder->stop_step = condition->step;
}

uint32_t gm_recorder_step(const struct gm_recorder *recorder)
{
	return recorder->last_step;
}

uint64_t gm_recorder_event_count(const struct gm_recorder *recorder)
{
	return recorder->event_count;
}

void gm_recorder_summarise(
        const struct gm_recorder *recorder, struct gm_recorder_summary *ret_summary)
{
	uint64_t allocated = 0;
	for (size_t i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		allocated += recorder->counters[i].allocated;
	*ret_summary = (struct gm_recorder_summary){
	        .events = recorder->event_count,
	        .gaps = recorder->gap_count,
	        .cuda_allocated = allocated,
	        .cuda_peak = recorder->cuda_peak,
	        .cpu_allocated = recorder->cpu_allocated,
	        .cpu_peak = recorder->cpu_peak,
	        .python_unread = recorder->python_unread,
	        .torch_seen = gm_symbols_find_module(recorder->symbols, "libc10.so") != NULL,
	};
}
