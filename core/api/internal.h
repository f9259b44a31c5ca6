/*
 * Inside of the api room: the functions of gpumem.h that questions are asked by, over the commands
 * of cli. It analyses nothing.
 *
 * An answer is the command's own: its arguments are put together here as a shell would give them,
 * so the library and the shell command cannot differ.
 */
#ifndef GM_API_INTERNAL_H
#define GM_API_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"
#include "base/error.h"
#include "gpumem.h"

/* The arguments of a command. */
struct gm_api_words {
	GM_ARRAY(char *) items; /* owned */
	bool failed;            /* no memory for one of them */
};

void gm_api_words_deinit(struct gm_api_words *words);
void gm_api_words_add(struct gm_api_words *words, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* A name of a file, which must not be read as an option. */
void gm_api_words_add_path(struct gm_api_words *words, const char *path);

/* Hands an error to the caller, or destroys it where the caller does not want it; returns its
 * status. NULL: GPUMEM_OK. */
int gm_api_fail(struct gm_error *error, gpumem_error **ret_error);

/*
 * Copies a struct of options, which begins with its size, to one of `size` bytes; NULL: all 0.
 * GM_USAGE: its size cannot be one, or it has options set that this library does not know.
 */
struct gm_error *gm_api_take_options(const void *given, void *own, size_t size);
/* The reverse, for results: as many bytes as the caller has, and `size` says how many they were. */
struct gm_error *gm_api_give_result(const void *own, size_t size, void *given);

#endif
