/* What doctor finds, check by check. */
#ifndef GM_ASK_DOCTOR_CHECKS_H
#define GM_ASK_DOCTOR_CHECKS_H

#include "ask/context.h"

#include <stddef.h>

enum gm_doctor_state {
	GM_DOCTOR_OK,
	GM_DOCTOR_ABSENT,  /* not there, and not needed for everything */
	GM_DOCTOR_PROBLEM, /* something does not work because of it */
};

struct gm_doctor_check {
	const char *name; /* static, as the text and the JSON have it: "cuda-gdb" */
	enum gm_doctor_state state;
	char *value;  /* what was found; owned */
	char *advice; /* what to do, NULL: nothing; owned */
};

struct gm_doctor_checks {
	struct gm_doctor_check *items;
	size_t count, capacity;
};

/* Whether a command can answer, here and now. */
struct gm_doctor_command {
	const char *name; /* static */
	bool works;
	char *reason; /* why not, or under which condition; may be NULL; owned */
};

struct gm_doctor {
	struct gm_doctor_checks machine;
	int pid;       /* 0: no process was asked about, or a core of one */
	char *core;    /* path of the core asked about, NULL: none; owned */
	char *command; /* its command line; owned */
	struct gm_doctor_checks process;
	struct gm_doctor_command *commands; /* array of command_count */
	size_t command_count, command_capacity;
};

/* Appends a check; the texts are printf formats of their own: `value` with its arguments, `advice`
 * plain or NULL. */
struct gm_error *gm_doctor_add(struct gm_doctor_checks *checks, const char *name,
        enum gm_doctor_state state, const char *advice, const char *format, ...)
        __attribute__((format(printf, 5, 6), warn_unused_result));
struct gm_error *gm_doctor_command(struct gm_doctor *doctor, const char *name, const char *reason);

#endif
