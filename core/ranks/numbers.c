#include "ranks/numbers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "ranks/together.h"

enum { NUMBERS_MOST = 32, MISSING_MOST = 1000, RANKS_MOST = 1 << 20 };

size_t gm_path_stem(const char *path)
{
	static const char end[] = ".gpumem";
	const size_t length = strlen(path), end_length = sizeof(end) - 1;
	size_t stem = length;
	while (stem && isdigit((unsigned char)path[stem - 1]))
		stem--;
	if (stem == length || stem < 1 + end_length || path[stem - 1] != '.' ||
	        memcmp(path + stem - 1 - end_length, end, end_length) != 0)
		return length;
	return stem - 1;
}

/* The numbers in a path, from its end, as the file's own name tells more than its folders. */
struct numbers {
	uint32_t values[NUMBERS_MOST];
	unsigned count;
};

static void read_numbers(const char *path, struct numbers *ret_numbers)
{
	ret_numbers->count = 0;
	size_t end = gm_path_stem(path);
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

/* Can these be ranks: all different but for so many files FILE.PID, and not much higher than their
 * number? */
static bool are_ranks(uint32_t *values, size_t count, size_t doubles)
{
	size_t same = 0;
	qsort(values, count, sizeof(*values), compare_u32);
	for (size_t i = 1; i < count; i++)
		same += values[i] == values[i - 1];
	return same <= doubles && values[count - 1] < 2 * count + 8;
}

static void read_all_numbers(
        const struct gm_job *job, struct numbers *ret_numbers, size_t *ret_doubles)
{
	*ret_doubles = 0;
	for (size_t i = 0; i < job->files.count; i++) {
		const char *path = gm_strings_at(&job->strings, job->files.items[i].path);
		read_numbers(path, &ret_numbers[i]);
		*ret_doubles += path[gm_path_stem(path)] != '\0';
	}
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
	size_t doubles;
	read_all_numbers(job, numbers, &doubles);
	for (size_t i = 0; i < count; i++)
		if (numbers[i].count < common)
			common = numbers[i].count;
	for (unsigned at = 0; at < common; at++) {
		for (size_t i = 0; i < count; i++)
			values[i] = numbers[i].values[at];
		if (!are_ranks(values, count, doubles))
			continue;
		for (size_t i = 0; i < count; i++)
			job->files.items[i].numbers[GM_JOB_RANK] = numbers[i].values[at];
		job->known = GM_RANK_BY_NAME;
		return NULL;
	}
	return NULL;
}

static bool has_rank(const struct gm_job *job, uint32_t rank)
{
	for (size_t i = 0; i < job->files.count; i++)
		if (gm_rank_of(&job->files.items[i]) == rank)
			return true;
	return false;
}

/* Is the number at a place of the names the recorded rank, in each file that was read? */
static bool are_named(const struct gm_job *job, const struct numbers *numbers, unsigned at)
{
	for (size_t i = 0; i < job->files.count; i++) {
		uint32_t rank = gm_rank_of(&job->files.items[i]);
		if (rank != GM_RANK_NONE &&
		        (at >= numbers[i].count || numbers[i].values[at] != rank))
			return false;
	}
	return true;
}

/* What cannot be read has no recorded rank, but a name like that of the others. */
static struct gm_error *number_unreadable(struct gm_job *job)
{
	_cleanup_free_ struct numbers *numbers = calloc(job->files.count, sizeof(*numbers));
	unsigned at = 0;
	size_t doubles;
	if (!numbers)
		return &gm_error_no_memory;
	read_all_numbers(job, numbers, &doubles);
	while (at < NUMBERS_MOST && !are_named(job, numbers, at))
		at++;
	for (size_t i = 0; i < job->files.count; i++) {
		uint32_t *rank = &job->files.items[i].numbers[GM_JOB_RANK];
		if (*rank != GM_RANK_NONE || at >= numbers[i].count)
			continue;
		uint32_t named = numbers[i].values[at];
		if (named < (job->world ? job->world : RANKS_MOST) && !has_rank(job, named))
			*rank = named;
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
 * count from 1 are left alone. Files whose rank is not known may be those of the missing ranks:
 * they cannot be read. */
static struct gm_error *find_missing(struct gm_job *job)
{
	uint32_t next = 0;
	size_t unknown = 0;
	if (!job->files.count || job->known == GM_RANK_NOT_KNOWN)
		return NULL;
	if (job->known == GM_RANK_BY_NAME && !job->world && gm_rank_of(&job->files.items[0]) == 1)
		next = 1;
	for (size_t i = 0; i < job->files.count; i++) {
		uint32_t rank = gm_rank_of(&job->files.items[i]);
		if (rank == GM_RANK_NONE) {
			unknown++;
			continue;
		}
		for (; next < rank; next++)
			gm_try(note_missing(job, next));
		next = rank + 1;
	}
	for (; next < job->world; next++)
		gm_try(note_missing(job, next));
	if (unknown >= job->missing_count)
		job->missing_count = job->missing.count = 0;
	return NULL;
}

static int compare_files(const void *a, const void *b, void *strings)
{
	const struct gm_rank_summary *left = a, *right = b;
	if (gm_rank_of(left) != gm_rank_of(right))
		return gm_rank_of(left) < gm_rank_of(right) ? -1 : 1;
	return strcmp(gm_strings_at(strings, left->path), gm_strings_at(strings, right->path));
}

/* Machines that see one folder have each read all of it; one process reads no path twice. */
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
		        last->start_ns == file->start_ns) {
			gm_rank_summary_deinit(file);
			job->doubles++;
			continue;
		}
		job->files.items[kept++] = *file;
	}
	job->files.count = kept;
}

/* --- which job, and which start of it --------------------------------------------------------- */

/* The first word of a command line that ends in .py: the command of a rank may have other
 * arguments than that of the next. 0: there is none. */
static bool script_of(struct gm_strings *strings, const char *command, uint32_t *ret_script)
{
	*ret_script = 0;
	for (const char *at = command; at && *at;) {
		size_t length = strcspn(at, " ");
		if (length > 3 && memcmp(at + length - 3, ".py", 3) == 0) {
			_cleanup_free_ char *word = strndup(at, length);
			*ret_script = word ? gm_strings_add(strings, word) : 0;
			return *ret_script != 0;
		}
		at += length + (at[length] == ' ');
	}
	return true;
}

/* The number of a file's job in `parts`; SIZE_MAX: it has none recorded. */
static struct gm_error *part_of(
        struct gm_job *job, const struct gm_rank_summary *file, size_t *ret_part)
{
	uint32_t name = file->batch;
	*ret_part = SIZE_MAX;
	if (file->state != GM_RANK_READ)
		return NULL;
	if (!name && !script_of(&job->strings, gm_job_string(job, file->source), &name))
		return &gm_error_no_memory;
	if (!name)
		return NULL;
	for (size_t i = 0; i < job->parts.count && *ret_part == SIZE_MAX; i++)
		if (job->parts.items[i].name == name)
			*ret_part = i;
	if (*ret_part != SIZE_MAX)
		return NULL;
	*ret_part = job->parts.count;
	return gm_array_push(&job->parts, ((struct gm_job_part){name, 0})) ? NULL
	                                                                   : &gm_error_no_memory;
}

static struct gm_error *find_parts(struct gm_job *job)
{
	for (size_t i = 0; i < job->files.count; i++) {
		size_t part;
		gm_try(part_of(job, &job->files.items[i], &part));
		if (part != SIZE_MAX)
			job->parts.items[part].files++;
	}
	if (job->parts.count < 2)
		job->parts.count = 0;
	return NULL;
}

static bool is_newer(const struct gm_rank_summary *a, const struct gm_rank_summary *b)
{
	if ((a->state == GM_RANK_READ) != (b->state == GM_RANK_READ))
		return a->state == GM_RANK_READ;
	if (a->start_ns && b->start_ns && a->start_ns != b->start_ns)
		return a->start_ns > b->start_ns;
	return a->modified_ns > b->modified_ns;
}

/* The number of ranks of the newest start. More than any cluster has is no number of ranks; nor is
 * a rank one that its own job does not have. */
static void find_world(struct gm_job *job)
{
	const struct gm_rank_summary *newest = NULL;
	for (size_t i = 0; i < job->files.count; i++) {
		struct gm_rank_summary *file = &job->files.items[i];
		uint32_t *world = &file->numbers[GM_JOB_WORLD];
		uint32_t *rank = &file->numbers[GM_JOB_RANK];
		if (*world != GM_RANK_NONE && *world > RANKS_MOST)
			*world = GM_RANK_NONE;
		if (*rank != GM_RANK_NONE && (*rank >= RANKS_MOST || *rank >= *world))
			*rank = GM_RANK_NONE;
		if (*world != GM_RANK_NONE && *world && (!newest || is_newer(file, newest)))
			newest = file;
	}
	if (newest)
		job->world = newest->numbers[GM_JOB_WORLD];
}

static struct gm_error *note_older(
        struct gm_job *job, const struct gm_rank_summary *file, const struct gm_rank_summary *newer)
{
	uint32_t world = file->numbers[GM_JOB_WORLD];
	const struct gm_job_older older = {file->path, gm_rank_of(file), newer ? newer->path : 0,
	        world == GM_RANK_NONE ? 0 : world};
	return gm_array_push(&job->older, older) ? NULL : &gm_error_no_memory;
}

static bool is_of_other_start(const struct gm_job *job, const struct gm_rank_summary *file)
{
	uint32_t world = file->numbers[GM_JOB_WORLD];
	return job->world && world != GM_RANK_NONE && world != job->world;
}

/* Files are sorted by rank. The newest of each rank stays. */
static struct gm_error *drop_older(struct gm_job *job)
{
	struct gm_error *error = NULL;
	size_t kept = 0;
	for (size_t i = 0, next; i < job->files.count; i = next) {
		struct gm_rank_summary *files = job->files.items, newest;
		uint32_t rank = gm_rank_of(&files[i]);
		size_t best = SIZE_MAX;
		if (rank == GM_RANK_NONE) {
			files[kept++] = files[i];
			next = i + 1;
			continue;
		}
		for (next = i; next < job->files.count && gm_rank_of(&files[next]) == rank; next++)
			if (!is_of_other_start(job, &files[next]) &&
			        (best == SIZE_MAX || is_newer(&files[next], &files[best])))
				best = next;
		for (size_t j = i; j < next && !error; j++)
			if (j != best)
				error = note_older(
				        job, &files[j], best == SIZE_MAX ? NULL : &files[best]);
		if (best != SIZE_MAX)
			newest = files[best];
		for (size_t j = i; j < next; j++)
			if (j != best)
				gm_rank_summary_deinit(&files[j]);
		if (best != SIZE_MAX)
			files[kept++] = newest;
	}
	job->files.count = kept;
	return error;
}

static bool are_unique(const struct gm_job *job)
{
	for (size_t i = 1; i < job->files.count; i++)
		if (gm_rank_of(&job->files.items[i]) != GM_RANK_NONE &&
		        gm_rank_of(&job->files.items[i]) == gm_rank_of(&job->files.items[i - 1]))
			return false;
	return true;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct gm_error *compare_names(struct gm_job *job)
{
	_cleanup_free_ const char **names = calloc(job->files.count + 1, sizeof(const char *));
	if (!names)
		return &gm_error_no_memory;
	for (size_t i = 0; i < job->files.count; i++)
		names[i] = gm_place_base_name(gm_job_string(job, job->files.items[i].path));
	qsort(names, job->files.count, sizeof(const char *), compare_texts);
	for (size_t i = 1; i < job->files.count; i++)
		job->same_names |= strcmp(names[i - 1], names[i]) == 0;
	return NULL;
}

struct gm_error *gm_job_number(struct gm_job *job)
{
	if (!job->files.count)
		return NULL;
	drop_doubles(job);
	find_world(job);
	gm_try(find_parts(job));
	gm_try(compare_names(job));
	/* A job of one process says with its rank 0 nothing about several files. */
	bool of_one_job = !job->parts.count && job->world != 1;
	if (are_recorded(job)) {
		job->known = GM_RANK_RECORDED;
		if (of_one_job)
			gm_job_forget_together(job);
	}
	if (job->known == GM_RANK_RECORDED) {
		gm_try(number_unreadable(job));
	} else {
		gm_try(number_by_names(job));
		if (of_one_job && job->known == GM_RANK_BY_NAME)
			gm_job_forget_together(job);
	}
	qsort_r(job->files.items, job->files.count, sizeof(*job->files.items), compare_files,
	        &job->strings);
	if (job->known != GM_RANK_NOT_KNOWN && of_one_job)
		gm_try(drop_older(job));
	job->unique = are_unique(job);
	return job->unique && !job->parts.count ? find_missing(job) : NULL;
}
