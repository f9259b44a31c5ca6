#include "ranks/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ranks/codec.h"
#include "ranks/gather.h"

/* What a process sends begins with this; another version's summaries are not understood. */
#define FORMAT "gpumem ranks 1, gpumem " GPUMEM_VERSION

enum { FILES_MOST = 1 << 24 };

void gm_job_deinit(struct gm_job *job)
{
	for (size_t i = 0; i < job->files.count; i++)
		gm_rank_summary_deinit(&job->files.items[i]);
	gm_array_deinit(&job->files);
	gm_array_deinit(&job->missing);
	gm_strings_deinit(&job->strings);
}

static struct gm_error *read_all(
        const struct gm_world *world, const struct gm_rank_paths *paths, struct gm_job *job)
{
	for (size_t i = 0; i < paths->items.count; i++) {
		struct gm_rank_summary summary;
		gm_try(gm_rank_summarise(
		        paths->items.items[i], world->host, &job->strings, &summary));
		if (!gm_array_push(&job->files, summary)) {
			gm_rank_summary_deinit(&summary);
			return &gm_error_no_memory;
		}
	}
	return NULL;
}

static void code_job(struct gm_codec *codec, struct gm_job *job)
{
	uint32_t format = codec->writing ? gm_strings_add(codec->strings, FORMAT) : 0;
	if (codec->writing && !format)
		codec->bad = codec->no_memory = true;
	gm_code_strings(codec);
	gm_code_string(codec, &format);
	if (strcmp(gm_strings_at(codec->strings, format), FORMAT) != 0)
		codec->bad = true;
	gm_code_array(codec, &job->files, FILES_MOST, gm_code_summary);
}

/* --- in process 0 ----------------------------------------------------------------------------- */

static struct gm_error *take(void *context, unsigned from, const uint8_t *bytes, size_t size)
{
	struct gm_job *job = context, received = {0};
	struct gm_codec codec;
	if (from != 0)
		job->moved_bytes += size;
	gm_codec_read(&codec, bytes, size, &job->strings);
	code_job(&codec, &received);
	struct gm_error *error = NULL;
	if (codec.no_memory || !gm_array_reserve(&job->files, received.files.count))
		error = &gm_error_no_memory;
	else if (codec.bad)
		error = gm_error_create(GM_INTERNAL,
		        "process %u: its summaries cannot be read: are all processes of gpumem %s?",
		        from, GPUMEM_VERSION);
	for (size_t i = 0; i < received.files.count; i++) {
		if (error)
			gm_rank_summary_deinit(&received.files.items[i]);
		else
			job->files.items[job->files.count++] = received.files.items[i];
	}
	gm_array_deinit(&received.files);
	gm_codec_deinit(&codec);
	return error;
}

struct gm_error *gm_job_read(
        struct gm_world *world, const struct gm_rank_paths *paths, struct gm_job *ret_job)
{
	struct gm_job own = {0}, job = {.processes = world->size, .machines = world->node_count};
	struct gm_codec codec = {0};
	struct gm_error *error = read_all(world, paths, &own);
	if (!error) {
		gm_codec_write(&codec, &own.strings);
		code_job(&codec, &own);
		if (codec.bad)
			error = &gm_error_no_memory;
	}
	gm_job_deinit(&own);
	if (!error)
		error = gm_world_gather(world, codec.out.items, codec.out.count, take, &job);
	gm_codec_deinit(&codec);
	if (error)
		gm_job_deinit(&job);
	else
		*ret_job = job;
	return error;
}
