#include "ranks/answer.h"

#include <stdlib.h>

#include "base/cleanup.h"

void gm_ranks_answer_deinit(struct gm_ranks_answer *answer)
{
	gm_compare_deinit(&answer->compare);
	free(gm_take(answer->files));
}

struct gm_error *gm_ranks_answer(struct gm_job *job, struct gm_ranks_answer *ret_answer)
{
	static const struct gm_compare_options options = {.by = GM_BY_NONE};
	_cleanup_free_ struct gm_compared_one *ones = calloc(job->files.count + 1, sizeof(*ones));
	_cleanup_free_ size_t *files = calloc(job->files.count + 1, sizeof(*files));
	size_t count = 0;
	if (!ones || !files)
		return &gm_error_no_memory;
	for (size_t i = 0; i < job->files.count; i++) {
		struct gm_rank_summary *file = &job->files.items[i];
		if (file->state != GM_RANK_READ)
			continue;
		ones[count] = file->compared;
		ones[count].file.path = gm_strings_at(&job->strings, file->path);
		file->compared.file.steps = NULL;
		file->compared.file.step_count = 0;
		files[count++] = i;
	}
	struct gm_error *error =
	        gm_compare_join(ones, count, &options, &job->strings, &ret_answer->compare);
	if (!error)
		ret_answer->files = gm_take(files);
	return error;
}
