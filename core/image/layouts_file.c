#include "image/layouts_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/whole_file.h"

/* --- text ------------------------------------------------------------------------------------- */

static struct gm_error *refuse(const char *path, unsigned line, const char *why)
{
	return gm_error_create(GM_CORRUPT,
	        "%s: line %u: %s: not a file of layouts as gpumem writes it: remove it and learn "
	        "again with `gpumem learn`",
	        path, line, why);
}

/* The last line is "end CRC" over everything before it. *ret_size: its size. */
static struct gm_error *check_whole(
        const char *path, const char *text, size_t size, size_t *ret_size)
{
	size_t begin = size > 0 && text[size - 1] == '\n' ? size - 1 : size;
	char last[16] = "", *end;
	unsigned lines = 0;
	unsigned long said;

	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	if (memchr(text, 0, size))
		return refuse(path, lines, "a byte that is not text");
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;
	if (begin == size || text[size - 1] != '\n' || size - begin != 13 ||
	        strncmp(text + begin, "end ", 4) != 0)
		return refuse(path, lines, "its end is missing: it is truncated");
	memcpy(last, text + begin + 4, 8);
	said = strtoul(last, &end, 16);
	if (*end || said != crc32(0, (const Bytef *)text, (uInt)begin))
		return refuse(path, lines, "the checksum does not match: it was edited or damaged");
	*ret_size = begin;
	return NULL;
}

struct gm_error *gm_layouts_parse(const char *path, const char *text, size_t size,
        const char *section, gm_layouts_line take, void *context, bool *ret_found)
{
	bool inside = false, found = false;
	unsigned number = 0;

	gm_try(check_whole(path, text, size, &size));
	for (size_t at = 0; at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = (size_t)(end - (text + at));
		char line[GM_LAYOUTS_LINE];
		number++;
		if (length >= sizeof(line))
			return refuse(path, number, "a line too long");
		memcpy(line, text + at, length);
		line[length] = 0;
		at += length + 1;
		if (number == 1) {
			if (strcmp(line, GM_LAYOUTS_HEAD) != 0)
				return refuse(path, number,
				        "another kind of file, or from a newer gpumem");
		} else if (line[0] == '[') {
			bool here = length > 2 && !strncmp(line + 1, section, length - 2) &&
			            strlen(section) == length - 2 && line[length - 1] == ']';
			if (here && found)
				return refuse(path, number, "a second section of this name");
			inside = here;
			found |= here;
		} else if (inside) {
			const char *why = take(context, line);
			if (why)
				return refuse(path, number, why);
		}
	}
	*ret_found = found;
	return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct gm_error *read_open(int fd, const char *path, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(GM_LAYOUTS_MOST + 1);
	size_t size = 0;

	if (!text)
		return &gm_error_no_memory;
	while (size <= GM_LAYOUTS_MOST) {
		ssize_t got = read(fd, text + size, GM_LAYOUTS_MOST + 1 - size);
		if (got < 0)
			return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", path);
		if (!got)
			break;
		size += (size_t)got;
	}
	if (size > GM_LAYOUTS_MOST)
		return gm_error_create(GM_CORRUPT,
		        "%s: not a file of layouts: it is too large: name one that `gpumem learn` "
		        "wrote",
		        path);
	*ret_text = gm_take(text);
	*ret_size = size;
	return NULL;
}

struct gm_error *gm_layouts_load(const char *path, char **ret_text, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", path);
	if (!S_ISREG(status.st_mode))
		return gm_error_create(GM_CORRUPT,
		        "%s: not a file of layouts: not a regular file: name one that `gpumem "
		        "learn` wrote",
		        path);
	return read_open(fd, path, ret_text, ret_size);
}

struct gm_error *gm_layouts_save(const char *path, const char *sections)
{
	_cleanup_free_ char *text = NULL;
	uLong sum = crc32(0, (const Bytef *)GM_LAYOUTS_HEAD "\n", sizeof(GM_LAYOUTS_HEAD));
	struct gm_whole_file file;
	int size;

	sum = crc32(sum, (const Bytef *)sections, (uInt)strlen(sections));
	size = asprintf(&text, GM_LAYOUTS_HEAD "\n%send %08lx\n", sections, sum);
	if (size < 0) {
		text = NULL;
		return &gm_error_no_memory;
	}
	gm_try(gm_whole_file_open(path, 0600, GM_WHOLE_FILE_ANY, &file));
	if (write(file.fd, text, (size_t)size) == size)
		return gm_whole_file_finish(&file);
	struct gm_error *error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", path);
	gm_whole_file_close(&file);
	return error;
}

/* --- the folder ------------------------------------------------------------------------------- */

/* "~/.cache/gpumem/layouts"; NULL if there is no home. */
static char *folder_path(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;

	if (cache && cache[0] == '/')
		return asprintf(&path, "%s/gpumem/layouts", cache) < 0 ? NULL : path;
	if (!home || home[0] != '/' || asprintf(&path, "%s/.cache/gpumem/layouts", home) < 0)
		return NULL;
	return path;
}

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	(void)mkdir(path, 0700);
}

/*
 * Whether the folder of HOME or XDG_CACHE_HOME may be used. Root must not use another user's
 * (`sudo` may keep HOME unchanged): a link of that user could redirect what root writes, and its
 * layouts would be trusted.
 */
static bool is_base_trusted(void)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *base = cache && cache[0] == '/' ? cache : getenv("HOME");
	struct stat status;

	return geteuid() != 0 || !base || stat(base, &status) != 0 || status.st_uid == 0;
}

static bool is_own(const struct stat *status)
{
	return status->st_uid == geteuid() && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

struct gm_error *gm_layouts_kept_path(const char *name, bool make, char **ret_path)
{
	_cleanup_free_ char *folder = folder_path();
	struct stat status;
	char *path;

	if (!folder)
		return gm_error_create(GM_TARGET,
		        "layouts: there is no folder to save them in: set HOME or XDG_CACHE_HOME");
	if (!is_base_trusted())
		return gm_error_create(GM_TARGET,
		        "layouts: %s is in another user's folder, where root saves none: set HOME "
		        "or XDG_CACHE_HOME",
		        folder);
	if (make)
		make_folders(folder);
	if (lstat(folder, &status) != 0)
		return gm_error_os(GM_TARGET, errno, "%s: layouts cannot be saved there", folder);
	if (!S_ISDIR(status.st_mode) || !is_own(&status))
		return gm_error_os(GM_TARGET, EPERM, "%s: layouts cannot be saved there", folder);
	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return &gm_error_no_memory;
	*ret_path = path;
	return NULL;
}

struct gm_error *gm_layouts_kept_load(
        const char *name, char **ret_path, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *path = NULL;
	struct stat status;

	*ret_text = NULL;
	struct gm_error *error = gm_layouts_kept_path(name, false, &path);
	if (error) {
		gm_error_destroy(error); /* nothing was ever stored */
		return NULL;
	}
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !is_own(&status))
		return NULL;
	gm_try(read_open(fd, path, ret_text, ret_size));
	*ret_path = gm_take(path);
	return NULL;
}

int gm_layouts_kept_lock(void)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_error_ struct gm_error *error = gm_layouts_kept_path(".lock", true, &path);
	if (error)
		return -1;
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* the process that has it ends within its own time limit */
	if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_set(const char *name, const char *but)
{
	const char *value = getenv(name);

	return value && value[0] && strcmp(value, "0") != 0 && (!but || strcmp(value, but) != 0);
}

bool gm_layouts_are_hidden(void)
{
	return is_set("GPUMEM_HIDE_ROWS", "torch");
}

bool gm_layouts_of_torch_are_hidden(void)
{
	return is_set("GPUMEM_HIDE_ROWS", NULL);
}
