#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gm_error gm_error_no_memory = {
        .status = GM_INTERNAL,
        .os_error = 0,
        .message = (char *)"out of memory: the analysis itself ran out of host memory: free some "
                           "and ask again",
};

__attribute__((format(printf, 3, 0))) static struct gm_error *error_vcreate(
        enum gm_status status, int os_error, const char *format, va_list args)
{
	struct gm_error *error = malloc(sizeof(*error));
	if (!error)
		return &gm_error_no_memory;
	*error = (struct gm_error){.status = status, .os_error = os_error};
	if (vasprintf(&error->message, format, args) < 0) {
		free(error);
		return &gm_error_no_memory;
	}
	return error;
}

struct gm_error *gm_error_create(enum gm_status status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	struct gm_error *error = error_vcreate(status, 0, format, args);
	va_end(args);
	return error;
}

/* Replaces the message by a formatted one; keeps the old one without memory. */
static void error_replace(struct gm_error *error, const char *left, const char *right)
{
	char *message;
	if (asprintf(&message, "%s: %s", left, right) < 0)
		return;
	free(error->message);
	error->message = message;
}

/* If a disk or a limit is the reason, adds what to do. */
static const char *meaning(int os_error)
{
	switch (os_error) {
	case ENOSPC:
		return "No space left on device: free some there, or name another place";
	case EDQUOT:
		return "Disk quota exceeded: free some of your files there, or name another place";
	case EFBIG:
		return "File too large: `ulimit -f` allows no larger one: raise it";
	default:
		return strerror(os_error);
	}
}

struct gm_error *gm_error_os(enum gm_status status, int os_error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	struct gm_error *error = error_vcreate(status, os_error, format, args);
	va_end(args);
	if (error != &gm_error_no_memory)
		error_replace(error, error->message, meaning(os_error));
	return error;
}

struct gm_error *gm_error_in_file(struct gm_error *error, const char *path)
{
	if (error && error != &gm_error_no_memory && path && !error->path)
		error->path = strdup(path);
	return error;
}

struct gm_error *gm_error_at_offset(struct gm_error *error, const char *path, uint64_t offset)
{
	if (error != &gm_error_no_memory && !error->has_offset) {
		error->has_offset = true;
		error->offset = offset;
	}
	gm_error_in_file(error, path);
	return error;
}

struct gm_error *gm_error_at_address(struct gm_error *error, const char *path, uint64_t address)
{
	if (error != &gm_error_no_memory && !error->has_address) {
		error->has_address = true;
		error->address = address;
	}
	gm_error_in_file(error, path);
	return error;
}

struct gm_error *gm_error_prefix(struct gm_error *error, const char *format, ...)
{
	if (!error || error == &gm_error_no_memory)
		return error;
	char *context;
	va_list args;
	va_start(args, format);
	int length = vasprintf(&context, format, args);
	va_end(args);
	if (length < 0)
		return error;
	error_replace(error, context, error->message);
	free(context);
	return error;
}

void gm_error_destroy(struct gm_error *error)
{
	if (!error || error == &gm_error_no_memory)
		return;
	free(error->message);
	free(error->path);
	free(error);
}
