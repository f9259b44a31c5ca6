#include "view/sources.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"

/* For a recording by a stranger, which may name any file. */
enum { FILES_MOST = 1024, FILE_MOST = 4 << 20, LINE_MOST = 1024 };

struct source {
	char *path, *text;        /* text NULL: it cannot be read, or has changed */
	GM_ARRAY(uint32_t) lines; /* the beginning of each line, and last the end of the text */
};

struct gm_view_sources {
	uint64_t until_ns;
	GM_ARRAY(struct source) files;
	struct gm_map by_path; /* from a path's hash to its number, from 1 */
	char line[LINE_MOST];
};

struct gm_error *gm_view_sources_create(uint64_t until_ns, struct gm_view_sources **ret_sources)
{
	struct gm_view_sources *sources = calloc(1, sizeof(*sources));
	if (!sources)
		return &gm_error_no_memory;
	sources->until_ns = until_ns;
	*ret_sources = sources;
	return NULL;
}

void gm_view_sources_destroy(struct gm_view_sources *sources)
{
	if (!sources)
		return;
	for (size_t i = 0; i < sources->files.count; i++) {
		free(sources->files.items[i].path);
		free(sources->files.items[i].text);
		gm_array_deinit(&sources->files.items[i].lines);
	}
	gm_array_deinit(&sources->files);
	gm_map_deinit(&sources->by_path);
	free(sources);
}

static uint64_t changed_ns(const struct stat *status)
{
	return (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;
}

static char *read_whole(int fd, size_t size)
{
	char *text = malloc(size + 1);
	size_t got = 0;
	while (text && got < size) {
		ssize_t some = read(fd, text + got, size - got);
		if (some <= 0) {
			free(text);
			return NULL;
		}
		got += (size_t)some;
	}
	if (text)
		text[size] = 0;
	return text;
}

static void read_source(const struct gm_view_sources *sources, struct source *source)
{
	struct stat status;
	_cleanup_close_ int fd = -1;
	if (!gm_text_ends_with(source->path, ".py"))
		return;
	fd = open(source->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	        status.st_size > FILE_MOST || changed_ns(&status) > sources->until_ns)
		return;
	size_t size = (size_t)status.st_size;
	source->text = read_whole(fd, size);
	bool memory = source->text && gm_array_push(&source->lines, 0);
	for (size_t i = 0; memory && i < size; i++)
		if (source->text[i] == '\n' && i + 1 < size)
			memory = gm_array_push(&source->lines, (uint32_t)i + 1);
	if (!memory || !gm_array_push(&source->lines, (uint32_t)size))
		free(gm_take(source->text));
}

/* NULL: it is not read. */
static const struct source *find(struct gm_view_sources *sources, const char *path)
{
	uint64_t hash = gm_hash_bytes(path, strlen(path), 0) | 1;
	const uint64_t *known = gm_map_find(&sources->by_path, hash);
	if (known) {
		const struct source *source = &sources->files.items[*known - 1];
		return strcmp(source->path, path) == 0 ? source : NULL;
	}
	if (sources->files.count >= FILES_MOST)
		return NULL;
	bool new;
	struct source source = {.path = strdup(path)};
	uint64_t *number = source.path ? gm_map_put(&sources->by_path, hash, &new) : NULL;
	if (!number) {
		free(source.path);
		return NULL;
	}
	read_source(sources, &source);
	if (!gm_array_push(&sources->files, source)) {
		free(source.path);
		free(source.text);
		gm_array_deinit(&source.lines);
		gm_map_deinit(&sources->by_path);
		return NULL;
	}
	*number = sources->files.count;
	return &sources->files.items[sources->files.count - 1];
}

const char *gm_view_source(struct gm_view_sources *sources, const char *path, uint32_t line)
{
	const struct source *source = find(sources, path);
	if (!source || !source->text || line == 0 || line >= source->lines.count)
		return NULL;
	const char *from = source->text + source->lines.items[line - 1];
	const char *end = source->text + source->lines.items[line];
	while (from < end && isspace((unsigned char)*from))
		from++;
	while (end > from && isspace((unsigned char)end[-1]))
		end--;
	size_t length = (size_t)(end - from) < LINE_MOST ? (size_t)(end - from) : LINE_MOST - 1;
	if (length == 0 || memchr(from, 0, length))
		return NULL;
	memcpy(sources->line, from, length);
	sources->line[length] = 0;
	return sources->line;
}
