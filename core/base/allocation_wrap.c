/* The allocating functions that the linker puts in place of the C library's (`--wrap`): see
 * allocation.h. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocation.h"

/* The C library's function and ours, under the linker's names. */
#define REPLACE(type, name, ...)         \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static void *noted(void *memory)
{
	if (!memory)
		gm_allocation_note_failure();
	return memory;
}

/* For functions that can also fail for other reasons. */
static void note_errno(bool failed)
{
	if (failed && errno == ENOMEM)
		gm_allocation_note_failure();
}

REPLACE(void *, malloc, size_t size)
{
	void *memory = __real_malloc(size);
	return size ? noted(memory) : memory;
}

REPLACE(void *, calloc, size_t count, size_t size)
{
	void *memory = __real_calloc(count, size);
	return count && size ? noted(memory) : memory;
}

REPLACE(void *, realloc, void *old, size_t size)
{
	void *memory = __real_realloc(old, size);
	return size ? noted(memory) : memory;
}

REPLACE(void *, aligned_alloc, size_t alignment, size_t size)
{
	return noted(__real_aligned_alloc(alignment, size));
}

REPLACE(char *, strdup, const char *text)
{
	return noted(__real_strdup(text));
}

REPLACE(char *, strndup, const char *text, size_t length)
{
	return noted(__real_strndup(text, length));
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list arguments)
        __attribute__((format(printf, 2, 0)));
REPLACE(int, vasprintf, char **ret_text, const char *format, va_list arguments)
{
	int length = __real_vasprintf(ret_text, format, arguments);
	if (length < 0) {
		*ret_text = NULL; /* which the C library leaves undefined */
		gm_allocation_note_failure();
	}
	return length;
}

int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));
REPLACE(int, asprintf, char **ret_text, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = __wrap_vasprintf(ret_text, format, arguments);
	va_end(arguments);
	return length;
}

/* A line without memory looks like the end of the file, as for getline(). */
REPLACE(ssize_t, __getdelim, char **line, size_t *size, int delimiter, FILE *file)
{
	errno = 0;
	ssize_t length = __real___getdelim(line, size, delimiter, file);
	note_errno(length < 0);
	return length;
}

REPLACE(FILE *, fopen, const char *path, const char *mode)
{
	FILE *file = __real_fopen(path, mode);
	note_errno(!file);
	return file;
}

REPLACE(FILE *, fmemopen, void *buffer, size_t size, const char *mode)
{
	FILE *file = __real_fmemopen(buffer, size, mode);
	note_errno(!file);
	return file;
}

/* A stream into memory. The C library's own does not report that it could not grow: text is missing
 * in the middle. */
struct text {
	char **text;
	size_t *size;
	size_t capacity;
};

static ssize_t write_text(void *cookie, const char *bytes, size_t count)
{
	struct text *text = cookie;
	size_t size = *text->size, capacity = text->capacity;
	while (capacity <= size + count)
		capacity *= 2;
	char *grown =
	        capacity > text->capacity ? __wrap_realloc(*text->text, capacity) : *text->text;
	if (!grown)
		return 0;
	memcpy(grown + size, bytes, count);
	grown[size + count] = 0;
	*text->text = grown;
	*text->size = size + count;
	text->capacity = capacity;
	return (ssize_t)count;
}

static int close_text(void *cookie)
{
	free(cookie);
	return 0;
}

FILE *__wrap_open_memstream(char **ret_text, size_t *ret_size);

FILE *__wrap_open_memstream(char **ret_text, size_t *ret_size)
{
	enum { FIRST = 256 };
	struct text *text = __wrap_malloc(sizeof(*text));
	char *first = __wrap_calloc(FIRST, 1);
	FILE *file =
	        text && first
	                ? fopencookie(text, "w",
	                          (cookie_io_functions_t){.write = write_text, .close = close_text})
	                : NULL;
	if (!file) {
		gm_allocation_note_failure();
		free(first);
		free(text);
		return NULL;
	}
	*text = (struct text){ret_text, ret_size, FIRST};
	*ret_text = first;
	*ret_size = 0;
	return file;
}

REPLACE(DIR *, opendir, const char *path)
{
	DIR *folder = __real_opendir(path);
	note_errno(!folder);
	return folder;
}

REPLACE(DIR *, fdopendir, int fd)
{
	DIR *folder = __real_fdopendir(fd);
	note_errno(!folder);
	return folder;
}

REPLACE(char *, realpath, const char *path, char *resolved)
{
	char *found = __real_realpath(path, resolved);
	note_errno(!found);
	return found;
}
