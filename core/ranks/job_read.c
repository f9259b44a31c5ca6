#include "ranks/job_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ranks/analysis.h"
#include "ranks/codec.h"
#include "ranks/gather.h"
#include "ranks/keep.h"

enum { FILES_MOST = 1 << 24 };

/* --- in each process -------------------------------------------------------------------------- */

static struct gm_error *read_one(const char *path, const char *host,
        const struct gm_job_options *options, struct gm_strings *strings,
        struct gm_rank_summary *ret_summary)
{
	unsigned others = 0;
	if (options->keep &&
	        gm_kept_read(path, host, options->sections, strings, ret_summary, &others))
		return NULL;
	gm_try(gm_rank_summarise(path, host, options->sections | others, strings, ret_summary));
	if (options->keep)
		gm_kept_write(path, strings, ret_summary);
	return NULL;
}

static struct gm_error *read_all(const struct gm_world *world, const struct gm_rank_paths *paths,
        const struct gm_job_options *options, struct gm_job *job)
{
	struct gm_error *error = NULL;
	for (size_t i = 0; i < paths->items.count && !error; i++) {
		struct gm_rank_summary summary = {0}, moved = {0};
		struct gm_strings strings = {0};
		error = read_one(paths->items.items[i], world->host, options, &strings, &summary);
		if (!error && (!gm_summary_move(&summary, &strings, &job->strings, &moved) ||
		                      !gm_array_push(&job->files, moved)))
			error = &gm_error_no_memory;
		if (error)
			gm_rank_summary_deinit(&moved);
		gm_rank_summary_deinit(&summary);
		gm_strings_deinit(&strings);
	}
	return error;
}

/* What any version of gpumem can read of a message. */
struct head {
	char *format, *host;
	uint64_t files;
};

static void code_head(struct gm_codec *codec, struct head *head)
{
	gm_code_text(codec, &head->format);
	gm_code_text(codec, &head->host);
	gm_code_u64(codec, &head->files);
}

static struct gm_error *pack(struct gm_world *world, struct gm_job *job, struct gm_codec *codec)
{
	struct head head = {(char *)gm_ranks_analysis(), world->host, job->files.count};
	gm_codec_write(codec, &job->strings);
	code_head(codec, &head);
	gm_code_strings(codec, NULL);
	gm_code_array(codec, &job->files, FILES_MOST, gm_code_summary);
	return codec->bad ? &gm_error_no_memory : NULL;
}

/* --- in process 0 ----------------------------------------------------------------------------- */

static struct gm_error *add_foreign(struct gm_job *job, unsigned from, struct head *head)
{
	const struct gm_job_foreign foreign = {from, head->format, head->host, head->files};
	if (!gm_array_push(&job->foreign, foreign))
		return &gm_error_no_memory;
	*head = (struct head){0};
	return NULL;
}

static struct gm_error *unpack(
        struct gm_job *job, unsigned from, struct gm_codec *codec, struct gm_job_message *message)
{
	struct gm_job received = {0};
	gm_code_strings(codec, &message->numbers);
	gm_code_array(codec, &received.files, FILES_MOST, gm_code_summary);
	struct gm_error *error = NULL;
	if (codec->no_memory || !gm_array_reserve(&job->files, received.files.count))
		error = &gm_error_no_memory;
	else if (codec->bad)
		error = gm_error_create(
		        GM_INTERNAL, "process %u: its summaries cannot be read", from);
	for (size_t i = 0; i < received.files.count && !error; i++) {
		received.files.items[i].strings = &message->numbers;
		job->files.items[job->files.count++] = received.files.items[i];
	}
	gm_array_deinit(&received.files);
	return error;
}

static struct gm_error *take(void *context, unsigned from, uint8_t **bytes, size_t size)
{
	struct gm_job *job = context;
	struct gm_codec codec;
	struct head head = {0};
	struct gm_job_message *message = calloc(1, sizeof(*message));
	if (!message || !gm_array_push(&job->messages, message)) {
		free(message);
		return &gm_error_no_memory;
	}
	message->bytes = gm_take(*bytes);
	if (from != 0)
		job->moved_bytes += size;
	gm_codec_read(&codec, message->bytes, size, &job->strings);
	code_head(&codec, &head);
	struct gm_error *error;
	if (codec.no_memory)
		error = &gm_error_no_memory;
	else if (codec.bad)
		error = gm_error_create(
		        GM_INTERNAL, "process %u: its summaries cannot be read", from);
	else if (strcmp(head.format, gm_ranks_analysis()) != 0)
		error = add_foreign(job, from, &head);
	else
		error = unpack(job, from, &codec, message);
	free(head.format);
	free(head.host);
	gm_codec_deinit(&codec);
	return error;
}

struct gm_error *gm_job_read(struct gm_world *world, const struct gm_rank_paths *paths,
        const struct gm_job_options *options, struct gm_job *ret_job)
{
	struct gm_job own = {0}, job = {.processes = world->size, .machines = world->node_count};
	struct gm_codec codec = {0};
	struct gm_error *error = read_all(world, paths, options, &own);
	if (!error)
		error = pack(world, &own, &codec);
	gm_job_deinit(&own);
	uint8_t *bytes = gm_take(codec.out.items);
	size_t size = codec.out.count;
	gm_codec_deinit(&codec);
	if (!error)
		error = gm_world_gather(world, &bytes, size, take, &job);
	free(bytes);
	if (error)
		gm_job_deinit(&job);
	else
		*ret_job = job;
	return error;
}
