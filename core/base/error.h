/*
 * Errors: how every function of gpumem that can fail reports it.
 *
 * A function that can fail returns `struct gm_error *`; NULL is success. The error carries the exit
 * status that the shell command ends with, and a message in the form WHAT: WHY: WHAT TO DO (without
 * the leading "gpumem: ", which the session adds). Out of memory is a static object, so reporting
 * it needs no memory. The caller owns what it gets and destroys it with gm_error_destroy().
 *
 * This room (base) knows nothing of GPUs, target processes or gpumem's file formats; everything may
 * include it.
 */
#ifndef GM_BASE_ERROR_H
#define GM_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit statuses of the shell command; also what a question returns to the gdb plugin. */
enum gm_status {
	GM_OK = 0,       /* answered */
	GM_NEGATIVE = 1, /* a negative answer, if the question can have one */
	GM_USAGE = 2,    /* wrong usage */
	GM_CORRUPT = 3,  /* unreadable or corrupt input: the message names file, offset, reason */
	GM_TARGET = 4,   /* the target (process, core) cannot be read or lacks the data */
	GM_INTERNAL = 5, /* an error of gpumem itself, or out of memory */
};

struct gm_error {
	enum gm_status status;
	int os_error; /* errno if a system call failed, else 0 */
	char *message;
	/* The data of the message, for programs. */
	char *path; /* the file that the error concerns; NULL: none */
	bool has_offset, has_address;
	uint64_t offset;  /* in that file, in bytes */
	uint64_t address; /* in the process or core that was read */
};

/* The one error that is never allocated and never freed. */
extern struct gm_error gm_error_no_memory;

/* A new error with a printf-formatted message; &gm_error_no_memory if there is no memory. */
struct gm_error *gm_error_create(enum gm_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* The same, for a failed system call: ": " and strerror(os_error) are appended. */
struct gm_error *gm_error_os(enum gm_status status, int os_error, const char *format, ...)
        __attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));

/*
 * Add data to a new error, and return it. `path` may be NULL. If there is no memory for the path,
 * the error stays without it. Data that is already set is not replaced, because it was set closest
 * to the cause.
 */
struct gm_error *gm_error_in_file(struct gm_error *error /* NULL: then NULL */, const char *path);
struct gm_error *gm_error_at_offset(struct gm_error *error, const char *path, uint64_t offset)
        __attribute__((nonnull(1), returns_nonnull, warn_unused_result));
struct gm_error *gm_error_at_address(struct gm_error *error, const char *path, uint64_t address)
        __attribute__((nonnull(1), returns_nonnull, warn_unused_result));

/* Puts "CONTEXT: " before the message of `error` (which may be NULL: then NULL) and returns it. */
struct gm_error *gm_error_prefix(struct gm_error *error, const char *format, ...)
        __attribute__((format(printf, 2, 3), warn_unused_result));

/* Frees an error; NULL and the static error are allowed. */
void gm_error_destroy(struct gm_error *error);

#endif
