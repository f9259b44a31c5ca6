#include "ranks/job.h"

#include <stdlib.h>

#include "ranks/codec.h"

static void free_message(struct gm_job_message *message)
{
	if (!message)
		return;
	free(message->bytes);
	gm_array_deinit(&message->numbers.of);
	free(message);
}

void gm_job_deinit(struct gm_job *job)
{
	for (size_t i = 0; i < job->files.count; i++)
		gm_rank_summary_deinit(&job->files.items[i]);
	for (size_t i = 0; i < job->foreign.count; i++) {
		free(job->foreign.items[i].format);
		free(job->foreign.items[i].host);
	}
	for (size_t i = 0; i < job->messages.count; i++)
		free_message(job->messages.items[i]);
	gm_array_deinit(&job->files);
	gm_array_deinit(&job->missing);
	gm_array_deinit(&job->older);
	gm_array_deinit(&job->parts);
	gm_array_deinit(&job->foreign);
	gm_array_deinit(&job->messages);
	gm_strings_deinit(&job->strings);
}
