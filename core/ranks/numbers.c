#include "ranks/numbers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { NUMBERS_MOST = 32, MISSING_MOST = 1000 };

/* The numbers in a path, from its end, as the file's own name tells more than its folders. */
struct numbers {
	uint32_t values[NUMBERS_MOST];
	unsigned count;
};

static void read_numbers(const char *path, struct numbers *ret_numbers)
{
	ret_numbers->count = 0;
	size_t end = strlen(path);
	while (end && ret_numbers->count < NUMBERS_MOST) {
		while (end && !isdigit((unsigned char)path[end - 1]))
			end--;
		size_t begin = end;
		while (begin && isdigit((unsigned char)path[begin - 1]))
			begin--;
		if (begin < end) {
			unsigned long value = strtoul(path + begin, NULL, 10);
			ret_numbers->values[ret_numbers->count++] =
			        value < GM_RANK_NONE ? (uint32_t)value : GM_RANK_NONE;
		}
		end = begin;
	}
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	return (left > right) - (left < right);
}

/* Can these be ranks: all different, and not much higher than their number? */
static bool are_ranks(uint32_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_u32);
	for (size_t i = 1; i < count; i++)
		if (values[i] == values[i - 1])
			return false;
	return values[count - 1] < 2 * count + 8;
}

static struct gm_error *number_by_names(struct gm_job *job)
{
	size_t count = job->files.count;
	_cleanup_free_ struct numbers *numbers = calloc(count, sizeof(*numbers));
	_cleanup_free_ uint32_t *values = calloc(count, sizeof(*values));
	if (!numbers || !values)
		return &gm_error_no_memory;
	if (count < 2)
		return NULL; /* no name to differ from */
	unsigned common = NUMBERS_MOST;
	for (size_t i = 0; i < count; i++) {
		const char *path = gm_strings_at(&job->strings, job->files.items[i].path);
		read_numbers(path, &numbers[i]);
		if (numbers[i].count < common)
			common = numbers[i].count;
	}
	for (unsigned at = 0; at < common; at++) {
		for (size_t i = 0; i < count; i++)
			values[i] = numbers[i].values[at];
		if (!are_ranks(values, count))
			continue;
		for (size_t i = 0; i < count; i++)
			job->files.items[i].numbers[GM_JOB_RANK] = numbers[i].values[at];
		job->known = GM_RANK_BY_NAME;
		return NULL;
	}
	return NULL;
}

/* Were all recorded, but for those that cannot be read? */
static bool are_recorded(const struct gm_job *job)
{
	bool any = false;
	for (size_t i = 0; i < job->files.count; i++) {
		const struct gm_rank_summary *file = &job->files.items[i];
		if (gm_rank_of(file) != GM_RANK_NONE)
			any = true;
		else if (file->state == GM_RANK_READ)
			return false;
	}
	return any;
}

static struct gm_error *note_missing(struct gm_job *job, uint32_t rank)
{
	if (job->missing_count++ >= MISSING_MOST)
		return NULL;
	return gm_array_push(&job->missing, rank) ? NULL : &gm_error_no_memory;
}

/* Where the number of ranks is not recorded, the highest file counts as the last rank. Names that
 * count from 1 are left alone. */
static struct gm_error *find_missing(struct gm_job *job)
{
	uint32_t next = 0;
	if (!job->files.count || job->known == GM_RANK_NOT_KNOWN)
		return NULL;
	if (job->known == GM_RANK_BY_NAME && !job->world && gm_rank_of(&job->files.items[0]) == 1)
		next = 1;
	for (size_t i = 0; i < job->files.count; i++) {
		uint32_t rank = gm_rank_of(&job->files.items[i]);
		if (rank == GM_RANK_NONE)
			return NULL;
		for (; next < rank; next++)
			gm_try(note_missing(job, next));
		next = rank + 1;
	}
	for (; next < job->world; next++)
		gm_try(note_missing(job, next));
	return NULL;
}

static int compare_files(const void *a, const void *b, void *strings)
{
	const struct gm_rank_summary *left = a, *right = b;
	if (gm_rank_of(left) != gm_rank_of(right))
		return gm_rank_of(left) < gm_rank_of(right) ? -1 : 1;
	return strcmp(gm_strings_at(strings, left->path), gm_strings_at(strings, right->path));
}

/* Machines that see one folder have each read all of it. */
static int compare_doubles(const void *a, const void *b)
{
	const struct gm_rank_summary *left = a, *right = b;
	const uint64_t lefts[] = {
	        left->path, left->size, left->modified_ns, left->pid, left->start_ns, left->host};
	const uint64_t rights[] = {right->path, right->size, right->modified_ns, right->pid,
	        right->start_ns, right->host};
	for (size_t i = 0; i < sizeof(lefts) / sizeof(*lefts); i++)
		if (lefts[i] != rights[i])
			return lefts[i] < rights[i] ? -1 : 1;
	return 0;
}

static void drop_doubles(struct gm_job *job)
{
	size_t kept = 0;
	qsort(job->files.items, job->files.count, sizeof(*job->files.items), compare_doubles);
	for (size_t i = 0; i < job->files.count; i++) {
		struct gm_rank_summary *file = &job->files.items[i], *last = file;
		if (kept)
			last = &job->files.items[kept - 1];
		if (last != file && last->path == file->path && last->size == file->size &&
		        last->modified_ns == file->modified_ns && last->pid == file->pid &&
		        last->start_ns == file->start_ns && last->host != file->host) {
			gm_rank_summary_deinit(file);
			job->doubles++;
			continue;
		}
		job->files.items[kept++] = *file;
	}
	job->files.count = kept;
}

struct gm_error *gm_job_number(struct gm_job *job)
{
	if (!job->files.count)
		return NULL;
	drop_doubles(job);
	for (size_t i = 0; i < job->files.count; i++) {
		uint32_t world = job->files.items[i].numbers[GM_JOB_WORLD];
		/* More than any cluster has is no number of ranks. */
		if (world != GM_RANK_NONE && world > job->world && world <= 1 << 24)
			job->world = world;
	}
	if (are_recorded(job))
		job->known = GM_RANK_RECORDED;
	else
		gm_try(number_by_names(job));
	qsort_r(job->files.items, job->files.count, sizeof(*job->files.items), compare_files,
	        &job->strings);
	return find_missing(job);
}
