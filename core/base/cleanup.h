/*
 * Scope guards: a variable's resource is released at the end of its scope. Prefer these to `goto`.
 */
#ifndef GM_BASE_CLEANUP_H
#define GM_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

static inline void gm_cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void gm_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void gm_cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void gm_cleanup_error(struct gm_error **error)
{
	gm_error_destroy(*error);
}

/* Also marked unused, because clang warns about a variable that is only released. */
#define _cleanup_(function) __attribute__((cleanup(function), unused))
#define _cleanup_free_ _cleanup_(gm_cleanup_free)
#define _cleanup_close_ _cleanup_(gm_cleanup_close)
#define _cleanup_fclose_ _cleanup_(gm_cleanup_fclose)
#define _cleanup_error_ _cleanup_(gm_cleanup_error)

/* Transfers the ownership from a guarded variable, which becomes NULL. */
#define gm_take(variable)                                    \
	__extension__({                                      \
		__typeof__(variable) gm_taken_ = (variable); \
		(variable) = NULL;                           \
		gm_taken_;                                   \
	})

/* Returns early with an error, if there is one. */
#define gm_try(expression)                                     \
	do {                                                   \
		struct gm_error *gm_try_error_ = (expression); \
		if (gm_try_error_)                             \
			return gm_try_error_;                  \
	} while (0)

#endif
