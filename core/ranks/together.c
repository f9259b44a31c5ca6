/*
 * A rank that was started again has several files, one after the other, and the newest counts. The
 * processes that one task of a launcher forks (mp.spawn under Slurm) have the number of that task
 * too, but run at the same time: each is a rank of its own, with its own GPU, and none may be left
 * out.
 *
 * Times are those of the machines' clocks, which may differ by less than a job needs to start
 * again.
 */
#include "ranks/together.h"

#include <stdlib.h>

static int compare_starts(const void *a, const void *b)
{
	const struct gm_rank_summary *left = a, *right = b;
	const uint64_t lefts[] = {gm_rank_of(left), left->start_ns, left->pid, left->path};
	const uint64_t rights[] = {gm_rank_of(right), right->start_ns, right->pid, right->path};
	for (size_t i = 0; i < sizeof(lefts) / sizeof(*lefts); i++)
		if (lefts[i] != rights[i])
			return lefts[i] < rights[i] ? -1 : 1;
	return 0;
}

static bool has_times(const struct gm_rank_summary *file)
{
	return file->state == GM_RANK_READ && gm_rank_of(file) != GM_RANK_NONE && file->start_ns;
}

/* Of another process, which started before the earlier one had its last event? A copy of a
 * recording is of the same process, and two snapshots, which have no process id, may be. */
static bool run_together(const struct gm_rank_summary *earlier, const struct gm_rank_summary *later)
{
	bool same = earlier->pid == later->pid &&
	            (!earlier->pid || earlier->start_ns == later->start_ns);
	return gm_rank_of(earlier) == gm_rank_of(later) && !same &&
	       later->start_ns <= earlier->end_ns;
}

void gm_job_forget_together(struct gm_job *job)
{
	const struct gm_rank_summary *longest = NULL;
	size_t together = 0;
	qsort(job->files.items, job->files.count, sizeof(*job->files.items), compare_starts);
	for (size_t i = 0; i < job->files.count; i++) {
		const struct gm_rank_summary *file = &job->files.items[i];
		if (!has_times(file))
			continue;
		if (longest && run_together(longest, file)) {
			if (!together++)
				job->together_rank = gm_rank_of(file);
		}
		if (!longest || gm_rank_of(longest) != gm_rank_of(file) ||
		        file->end_ns > longest->end_ns)
			longest = file;
	}
	if (!together)
		return;
	job->together = together;
	job->known = GM_RANK_NOT_KNOWN;
	job->world = 0; /* it counts what the ranks count */
	for (size_t i = 0; i < job->files.count; i++)
		job->files.items[i].numbers[GM_JOB_RANK] = GM_RANK_NONE;
}
