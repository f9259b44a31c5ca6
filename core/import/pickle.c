#include "import/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct gm_error *gm_pickle_refuse(
        const struct gm_pickle *pickle, uint64_t offset, const char *format, ...)
{
	char *reason = NULL;
	va_list args;
	va_start(args, format);
	int length = vasprintf(&reason, format, args);
	va_end(args);
	if (length < 0)
		return &gm_error_no_memory;
	struct gm_error *error = gm_error_at_offset(
	        gm_error_create(GM_CORRUPT, "%s: cannot be read as a snapshot: at byte %llu: %s",
	                pickle->path, (unsigned long long)offset, reason),
	        pickle->path, offset);
	free(reason);
	return error;
}

struct gm_error *gm_pickle_wrong(const struct gm_pickle *pickle, const char *reason)
{
	return gm_pickle_refuse(pickle, pickle->op_at, "%s", reason);
}

void gm_pickle_deinit(struct gm_pickle *pickle)
{
	if (pickle->fd >= 0)
		close(pickle->fd);
	free(pickle->buffer);
	gm_array_deinit(&pickle->stack);
	gm_array_deinit(&pickle->marks);
	gm_array_deinit(&pickle->memo);
	gm_array_deinit(&pickle->memo_large);
	gm_array_deinit(&pickle->arena);
	gm_array_deinit(&pickle->objects);
	gm_array_deinit(&pickle->wides);
	gm_array_deinit(&pickle->entries);
	gm_array_deinit(&pickle->frames);
	gm_array_deinit(&pickle->metadata);
	gm_array_deinit(&pickle->raw_stacks);
	gm_array_deinit(&pickle->stack_frames);
	gm_array_deinit(&pickle->keys);
	gm_array_deinit(&pickle->actions);
	gm_intern_deinit(&pickle->raw);
	gm_intern_deinit(&pickle->strings);
	gm_intern_deinit(&pickle->streams);
	free(pickle->schemas);
}
