#include "ranks/siblings.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ranks/numbers.h"

/* The paths of the files, sorted, so that those of a folder can be found. */
struct paths {
	const char **items;
	size_t count;
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has(const struct paths *paths, const char *path)
{
	return bsearch(&path, paths->items, paths->count, sizeof(const char *), compare_paths);
}

static bool is_sibling(const struct paths *paths, char *path)
{
	size_t stem = gm_path_stem(path);
	if (!path[stem] || has(paths, path))
		return false;
	path[stem] = '\0';
	bool found = has(paths, path);
	path[stem] = '.';
	return found;
}

/* `folder_length` bytes of `like` are its folder, with the slash; 0: it is the current one. */
static struct gm_error *look_in(
        struct gm_job *job, const struct paths *paths, const char *like, size_t folder_length)
{
	struct gm_error *error = NULL;
	_cleanup_free_ char *folder = strndup(like, folder_length);
	if (!folder)
		return &gm_error_no_memory;
	DIR *open = opendir(*folder ? folder : ".");
	for (struct dirent *entry; open && !error && (entry = readdir(open));) {
		char *path;
		if (asprintf(&path, "%s%s", folder, entry->d_name) < 0) {
			error = &gm_error_no_memory;
			break;
		}
		if (is_sibling(paths, path)) {
			const char *last = gm_job_string(job, job->sibling);
			if (!job->siblings++ || strcmp(path, last) < 0)
				job->sibling = gm_strings_add(&job->strings, path);
			if (!job->sibling)
				error = &gm_error_no_memory;
		}
		free(path);
	}
	if (open)
		closedir(open);
	return error;
}

static size_t folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash + 1 - path) : 0;
}

struct gm_error *gm_job_find_siblings(struct gm_job *job)
{
	size_t count = job->files.count;
	_cleanup_free_ const char **items = calloc(count + 1, sizeof(const char *));
	if (!items)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		items[i] = gm_job_string(job, job->files.items[i].path);
	if (count)
		qsort(items, count, sizeof(const char *), compare_paths);
	const struct paths paths = {items, count};
	/* A subfolder may come between the files of a folder: that looks twice. */
	for (size_t i = 0; i < count; i++) {
		size_t length = folder_of(items[i]);
		bool seen = false;
		for (size_t j = i; j-- > 0 && !seen;) {
			if (strncmp(items[j], items[i], length) != 0)
				break;
			seen = folder_of(items[j]) == length;
		}
		if (!seen)
			gm_try(look_in(job, &paths, items[i], length));
	}
	return NULL;
}
