#include "ranks/files.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/text.h"

/* What opening a file costs, in bytes that are read meanwhile. */
enum { FILE_COST = 32 << 10 };

struct found {
	char *path; /* owned */
	uint64_t size;
	unsigned reader; /* which of those who share the files */
};

struct found_files {
	GM_ARRAY(struct found) all;
};

void gm_rank_paths_deinit(struct gm_rank_paths *paths)
{
	for (size_t i = 0; i < paths->items.count; i++)
		free(paths->items.items[i]);
	gm_array_deinit(&paths->items);
}

static void found_deinit(struct found_files *files)
{
	for (size_t i = 0; i < files->all.count; i++)
		free(files->all.items[i].path);
	gm_array_deinit(&files->all);
}

/* --- looking for them ------------------------------------------------------------------------- */

static bool add(struct found_files *files, const char *path)
{
	struct stat status;
	struct found file = {.path = strdup(path)};
	if (gm_text_ends_with(path, GM_KEPT_SUFFIX)) {
		free(file.path);
		return true;
	}
	if (file.path && stat(path, &status) == 0)
		file.size = (uint64_t)status.st_size;
	if (file.path && gm_array_push(&files->all, file))
		return true;
	free(file.path);
	return false;
}

static struct gm_error *expand(const char *pattern, struct found_files *files, size_t *ret_found)
{
	glob_t matches = {0};
	errno = 0;
	int result = glob(pattern, GLOB_NOSORT, NULL, &matches);
	/* A folder that it had no memory to open has no match. */
	bool fits = result != GLOB_NOSPACE && (result == 0 || errno != ENOMEM);
	*ret_found = result == 0 ? matches.gl_pathc : 0;
	for (size_t i = 0; fits && i < *ret_found; i++)
		fits = add(files, matches.gl_pathv[i]);
	globfree(&matches);
	return fits ? NULL : &gm_error_no_memory;
}

static struct gm_error *look_for(const char *pattern, struct found_files *files)
{
	struct stat status;
	size_t found = 0;
	/* A name with brackets that is there is itself. */
	if (lstat(pattern, &status) == 0)
		return add(files, pattern) ? NULL : &gm_error_no_memory;
	if (strpbrk(pattern, "*?["))
		return expand(pattern, files, &found);
	/* A prefix, as PyTorch's Flight Recorder has it: the rank follows. */
	_cleanup_free_ char *prefixed = NULL;
	if (asprintf(&prefixed, "%s[0-9]*", pattern) < 0) {
		prefixed = NULL;
		return &gm_error_no_memory;
	}
	gm_try(expand(prefixed, files, &found));
	/* What is not there is reported as such. */
	return found || add(files, pattern) ? NULL : &gm_error_no_memory;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

static int compare_sizes(const void *a, const void *b)
{
	const struct found *left = a, *right = b;
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return strcmp(left->path, right->path);
}

/* Two patterns may mean one file. */
static void drop_doubles(struct found_files *files)
{
	size_t kept = 0;
	if (files->all.count)
		qsort(files->all.items, files->all.count, sizeof(*files->all.items), compare_paths);
	for (size_t i = 0; i < files->all.count; i++) {
		if (kept && compare_paths(&files->all.items[kept - 1], &files->all.items[i]) == 0)
			free(files->all.items[i].path);
		else
			files->all.items[kept++] = files->all.items[i];
	}
	files->all.count = kept;
}

/* The largest first, each to whom has least so far. */
static struct gm_error *deal(struct found_files *files, unsigned readers)
{
	_cleanup_free_ uint64_t *loads = calloc(readers, sizeof(*loads));
	if (!loads)
		return &gm_error_no_memory;
	if (files->all.count)
		qsort(files->all.items, files->all.count, sizeof(*files->all.items), compare_sizes);
	for (size_t i = 0; i < files->all.count; i++) {
		unsigned least = 0;
		for (unsigned reader = 1; reader < readers; reader++)
			if (loads[reader] < loads[least])
				least = reader;
		files->all.items[i].reader = least;
		loads[least] += files->all.items[i].size + FILE_COST;
	}
	return NULL;
}

/* --- giving them out -------------------------------------------------------------------------- */

/* One after another, each with its 0. */
static struct gm_error *pack(
        const struct found_files *files, unsigned reader, char **ret_bytes, size_t *ret_size)
{
	size_t size = 0;
	for (size_t i = 0; i < files->all.count; i++)
		if (files->all.items[i].reader == reader)
			size += strlen(files->all.items[i].path) + 1;
	char *bytes = malloc(size + 1), *at = bytes;
	if (!bytes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < files->all.count; i++)
		if (files->all.items[i].reader == reader)
			at = stpcpy(at, files->all.items[i].path) + 1;
	*ret_bytes = bytes;
	*ret_size = size;
	return NULL;
}

static struct gm_error *unpack(const char *bytes, size_t size, struct gm_rank_paths *paths)
{
	for (size_t at = 0; at < size; at += strlen(bytes + at) + 1) {
		char *path = strdup(bytes + at);
		if (!path || !gm_array_push(&paths->items, path)) {
			free(path);
			return &gm_error_no_memory;
		}
	}
	return NULL;
}

static struct gm_error *give_out(struct gm_world *world, const struct found_files *files,
        bool local, struct gm_rank_paths *paths)
{
	unsigned readers = local ? world->neighbour_count : world->size;
	for (unsigned i = 0; i < readers; i++) {
		_cleanup_free_ char *bytes = NULL;
		size_t size = 0;
		unsigned to = local ? world->neighbours[i] : i;
		gm_try(pack(files, i, &bytes, &size));
		if (to == world->rank)
			gm_try(unpack(bytes, size, paths));
		else
			gm_try(gm_world_send(world, to, bytes, size));
	}
	return NULL;
}

static struct gm_error *find(struct gm_world *world, const char *const *patterns, size_t count,
        bool local, struct gm_rank_paths *paths)
{
	struct found_files files = {0};
	struct gm_error *error = NULL;
	for (size_t i = 0; i < count && !error; i++)
		error = look_for(patterns[i], &files);
	if (!error) {
		drop_doubles(&files);
		error = deal(&files, local ? world->neighbour_count : world->size);
	}
	if (!error)
		error = give_out(world, &files, local, paths);
	found_deinit(&files);
	return error;
}

struct gm_error *gm_rank_files(struct gm_world *world, const char *const *patterns, size_t count,
        bool local, struct gm_rank_paths *ret_paths)
{
	struct gm_rank_paths paths = {0};
	struct gm_error *error;
	unsigned giver = local ? world->neighbours[0] : 0, from;
	if (giver == world->rank) {
		error = find(world, patterns, count, local, &paths);
	} else {
		_cleanup_free_ uint8_t *bytes = NULL;
		size_t size = 0;
		error = gm_world_receive(world, (int)giver, &from, &bytes, &size);
		if (!error && size && bytes[size - 1] != '\0')
			error = gm_error_create(GM_INTERNAL, "a list of files is not whole");
		if (!error)
			error = unpack((const char *)bytes, size, &paths);
	}
	if (error)
		gm_rank_paths_deinit(&paths);
	else
		*ret_paths = paths;
	return error;
}
