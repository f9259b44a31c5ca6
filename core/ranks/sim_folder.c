#include "ranks/sim_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/whole_file.h"
#include "ranks/sim_environment.h"
#include "render/json.h"

enum { RESULT_MOST = 1 << 16, JOB_MOST = 1 << 22 }; /* bytes of a file */

char *gm_sim_folder_path(const struct gm_sim_job *job, uint32_t rank, const char *suffix)
{
	char *path;
	return asprintf(&path, "%s/rank.%" PRIu32 ".%s", job->folder, rank, suffix) < 0 ? NULL
	                                                                                : path;
}

static struct gm_error *write_file(const char *path, const char *text)
{
	struct gm_whole_file file;
	gm_try(gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &file));
	if (gm_write_all(file.fd, text, strlen(text)))
		return gm_whole_file_finish(&file);
	int code = errno;
	gm_whole_file_close(&file);
	return gm_error_os(GM_TARGET, code, "%s: cannot be written", path);
}

/* The caller frees *ret_text, which is NULL where there is no such file. */
static struct gm_error *read_file(const char *path, size_t most, char **ret_text, size_t *ret_size)
{
	_cleanup_fclose_ FILE *file = gm_regular_file_stream(path);
	*ret_text = NULL;
	if (!file && errno == ENOENT)
		return NULL;
	if (!file)
		return gm_error_create(
		        GM_CORRUPT, "%s: cannot be read: %s", path, gm_regular_file_why(errno));
	_cleanup_free_ char *text = malloc(most + 1);
	if (!text)
		return &gm_error_no_memory;
	*ret_size = fread(text, 1, most + 1, file);
	if (*ret_size > most)
		return gm_error_create(GM_CORRUPT, "%s: longer than such a file can be", path);
	*ret_text = gm_take(text);
	return NULL;
}

/* --- the job ---------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
	return text ? gm_json_string(text) : json_null();
}

/* Files that the command names, as train.py: changed ones make it another job. */
static json_t *files_of(const struct gm_sim_job *job)
{
	json_t *files = json_array();
	for (char **word = job->program; *word; word++) {
		struct stat about;
		char changed[64];
		if (stat(*word, &about) != 0 || !S_ISREG(about.st_mode))
			continue;
		snprintf(changed, sizeof(changed), "%jd.%09ld", (intmax_t)about.st_mtim.tv_sec,
		        about.st_mtim.tv_nsec);
		json_array_append_new(
		        files, json_pack("{s:o, s:I, s:s}", "path", gm_json_string(*word), "size",
		                       (json_int_t)about.st_size, "modified", changed));
	}
	return files;
}

static json_t *describe(const struct gm_sim_job *job)
{
	json_t *value = json_object(), *program = json_array();
	char folder[4096];
	for (char **word = job->program; *word; word++)
		json_array_append_new(program, gm_json_string(*word));
	json_object_set_new(value, "program", program);
	json_object_set_new(value, "current_folder",
	        gm_json_string(getcwd(folder, sizeof(folder)) ? folder : ""));
	json_object_set_new(value, "files", files_of(job));
	json_object_set_new(value, "world", json_integer(job->world));
	json_object_set_new(value, "sim", gm_json_string(job->profile ? job->profile : ""));
	json_object_set_new(value, "compute_below", text_or_null(job->compute_below));
	json_object_set_new(value, "overflow_at", text_or_null(job->overflow_at));
	json_object_set_new(value, "environment", gm_sim_environment_describe(job->program[0]));
	json_object_set_new(value, "gpumem", json_string(GPUMEM_VERSION));
	return value;
}

struct gm_error *gm_sim_folder_make(const struct gm_sim_job *job)
{
	if (mkdir(job->folder, 0777) != 0 && errno != EEXIST)
		return gm_error_os(GM_USAGE, errno, "-o %s: cannot be created", job->folder);
	if (access(job->folder, W_OK | X_OK) != 0)
		return gm_error_os(GM_USAGE, errno, "-o %s: cannot be written", job->folder);
	return NULL;
}

static struct gm_error *other_environment(
        const struct gm_sim_job *job, const json_t *before, const json_t *now)
{
	const json_t *old = json_object_get(before, "environment");
	_cleanup_free_ char *names =
	        gm_sim_environment_different(old, json_object_get(now, "environment"));
	return gm_error_create(GM_USAGE,
	        "-o %s: the environment differs from that of the ranks there: %s: set it as it was "
	        "(`env -u NAME` for one that was not set), or name another folder with -o",
	        job->folder, json_is_object(old) && names ? names : "theirs is not known");
}

static struct gm_error *compare(const struct gm_sim_job *job, const char *text, size_t size)
{
	json_error_t why;
	json_t *before = json_loadb(text, size, 0, &why), *now = describe(job), *value;
	const char *key, *different = NULL;
	if (!before || !json_is_object(before)) {
		json_decref(before);
		json_decref(now);
		return gm_error_create(GM_CORRUPT,
		        "%s/job.json: offset %d: not a description of a job: %s: remove the folder "
		        "or name another with -o",
		        job->folder, why.position, why.text);
	}
	json_object_foreach(now, key, value)
	{
		if (!different && !json_equal(value, json_object_get(before, key)))
			different = key;
	}
	struct gm_error *error = NULL;
	if (different && strcmp(different, "environment") == 0)
		error = other_environment(job, before, now);
	else if (different)
		error = gm_error_create(GM_USAGE,
		        "-o %s: it has the ranks of another job: its `%s` is not the same "
		        "(job.json): name another folder, or remove this one",
		        job->folder, different);
	json_decref(before);
	json_decref(now);
	return error;
}

#define LOCK_NAME "job.lock"
/* What a command leaves that was killed before it had written job.json. */
#define PART_PREFIX ".job.json."

/* A folder without job.json is only taken if it is empty: what lies there is not ours. The names
 * are read first, as another process of ours may be about to write job.json. */
static struct gm_error *refuse_others(const struct gm_sim_job *job, const char *path)
{
	_cleanup_free_ char *found = NULL;
	DIR *folder = opendir(job->folder);
	if (!folder)
		return gm_error_os(GM_USAGE, errno, "-o %s: cannot be read", job->folder);
	for (struct dirent *entry; !found && (entry = readdir(folder));) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		        strcmp(name, LOCK_NAME) != 0 &&
		        strncmp(name, PART_PREFIX, strlen(PART_PREFIX)) != 0 &&
		        !(found = strdup(name)))
			break;
	}
	closedir(folder);
	if (!found || access(path, F_OK) == 0)
		return NULL;
	return gm_error_create(GM_USAGE,
	        "-o %s: it has files, such as %s, and no job.json of `gpumem-ranks sim`: name "
	        "another folder with -o, a new or an empty one",
	        job->folder, found);
}

struct gm_error *gm_sim_folder_lock(const struct gm_sim_job *job, int *ret_fd, bool *ret_locked)
{
	_cleanup_free_ char *lock = NULL, *path = NULL;
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (asprintf(&lock, "%s/" LOCK_NAME, job->folder) < 0) {
		lock = NULL;
		return &gm_error_no_memory;
	}
	if (asprintf(&path, "%s/job.json", job->folder) < 0) {
		path = NULL;
		return &gm_error_no_memory;
	}
	gm_try(refuse_others(job, path));
	*ret_fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
	if (*ret_fd < 0)
		return gm_error_os(GM_TARGET, errno, "%s: cannot be written", lock);
	*ret_locked = fcntl(*ret_fd, F_OFD_SETLK, &all) == 0;
	if (*ret_locked || (errno != EAGAIN && errno != EACCES))
		return NULL; /* the file system has no locks, as some network ones */
	return gm_error_create(GM_USAGE,
	        "-o %s: another `gpumem-ranks sim` is at work there: wait for its end, or name "
	        "another folder with -o",
	        job->folder);
}

struct gm_error *gm_sim_folder_begin(const struct gm_sim_job *job)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	size_t size = 0;
	if (asprintf(&path, "%s/job.json", job->folder) < 0) {
		path = NULL;
		return &gm_error_no_memory;
	}
	gm_try(read_file(path, JOB_MOST, &text, &size));
	if (text)
		return compare(job, text, size);
	gm_try(gm_json_text(describe(job), JSON_INDENT(1), &text));
	return write_file(path, text);
}

/* --- results ---------------------------------------------------------------------------------- */

struct gm_error *gm_sim_folder_write(
        const struct gm_sim_job *job, const struct gm_sim_result *result)
{
	_cleanup_free_ char *path = gm_sim_folder_path(job, result->rank, "json"), *text = NULL;
	if (!path)
		return &gm_error_no_memory;
	gm_try(gm_sim_result_text(result, &text));
	return write_file(path, text);
}

static struct gm_error *find(const char *pattern, glob_t *ret_list)
{
	int failed = glob(pattern, GLOB_NOSORT, NULL, ret_list);
	if (failed == GLOB_NOSPACE)
		return &gm_error_no_memory;
	if (failed && failed != GLOB_NOMATCH)
		return gm_error_create(GM_TARGET, "%s: the folder cannot be read", pattern);
	return NULL;
}

/* The folder may have characters that mean something in a pattern. NULL: no memory. */
static char *pattern_in(const struct gm_sim_job *job, const char *names)
{
	char *text = malloc(2 * strlen(job->folder) + strlen(names) + 2), *at = text;
	for (const char *from = job->folder; text && *from; from++) {
		if (strchr("*?[]\\", *from))
			*at++ = '\\';
		*at++ = *from;
	}
	if (text)
		sprintf(at, "/%s", names);
	return text;
}

static bool to_be_run_again(const struct gm_sim_job *job, const struct gm_sim_result *result)
{
	bool has_more_time = !job->timeout || job->timeout > result->seconds;
	return (job->again && result->outcome != GM_SIM_RAN) ||
	       (result->outcome == GM_SIM_TIMED_OUT && has_more_time);
}

static struct gm_error *read_result(
        const struct gm_sim_job *job, const char *path, struct gm_sim_results *results)
{
	struct gm_sim_result result;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	_cleanup_error_ struct gm_error *error = read_file(path, RESULT_MOST, &text, &size);
	if (!error && text)
		error = gm_sim_result_read(path, text, size, &result);
	_cleanup_free_ char *own =
	        error || !text ? NULL : gm_sim_folder_path(job, result.rank, "json");
	if (error == &gm_error_no_memory)
		return gm_take(error);
	/* one that is damaged or has another's name is run again */
	if (own && strcmp(own, path) == 0 && result.rank < job->world &&
	        gm_sim_outcome_counts(result.outcome)) {
		if (to_be_run_again(job, &result))
			unlink(path); /* also where this command does not come to it */
		else if (!gm_array_push(&results->items, result))
			return &gm_error_no_memory;
	}
	return NULL;
}

struct gm_error *gm_sim_folder_read(
        const struct gm_sim_job *job, struct gm_sim_results *ret_results)
{
	_cleanup_free_ char *pattern = pattern_in(job, "rank.*.json");
	glob_t list = {0};
	*ret_results = (struct gm_sim_results){0};
	if (!pattern)
		return &gm_error_no_memory;
	struct gm_error *error = find(pattern, &list);
	for (size_t i = 0; i < list.gl_pathc && !error; i++)
		error = read_result(job, list.gl_pathv[i], ret_results);
	globfree(&list);
	if (error)
		gm_array_deinit(&ret_results->items);
	return error;
}

void gm_sim_paths_deinit(struct gm_sim_paths *paths)
{
	for (size_t i = 0; i < paths->items.count; i++)
		free(paths->items.items[i]);
	gm_array_deinit(&paths->items);
}

/* By what follows "rank.N.gpumem": nothing, or ".PID". */
static bool is_recording(const char *rest)
{
	return !*rest || (*rest == '.' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]);
}

struct gm_error *gm_sim_folder_recordings(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_paths *ret_paths)
{
	char names[64];
	snprintf(names, sizeof(names), "rank.%" PRIu32 ".gpumem*", rank);
	_cleanup_free_ char *pattern = pattern_in(job, names);
	glob_t list = {0};
	*ret_paths = (struct gm_sim_paths){0};
	if (!pattern)
		return &gm_error_no_memory;
	struct gm_error *error = find(pattern, &list);
	size_t own = strlen(job->folder) + strlen(names); /* the "/" for the pattern's "*" */
	for (size_t i = 0; i < list.gl_pathc && !error; i++) {
		if (!is_recording(list.gl_pathv[i] + own))
			continue;
		char *path = strdup(list.gl_pathv[i]);
		if (!path || !gm_array_push(&ret_paths->items, path)) {
			free(path);
			error = &gm_error_no_memory;
		}
	}
	globfree(&list);
	if (error)
		gm_sim_paths_deinit(ret_paths);
	return error;
}
