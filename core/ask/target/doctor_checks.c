#include "ask/target/doctor_checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct gm_error *gm_doctor_add(struct gm_doctor_checks *checks, const char *name,
        enum gm_doctor_state state, const char *advice, const char *format, ...)
{
	struct gm_doctor_check check = {.name = name, .state = state};
	va_list args;
	va_start(args, format);
	int length = vasprintf(&check.value, format, args);
	va_end(args);
	if (length < 0)
		return &gm_error_no_memory;
	if ((advice && !(check.advice = strdup(advice))) || !gm_array_push(checks, check)) {
		free(check.advice);
		free(check.value);
		return &gm_error_no_memory;
	}
	return NULL;
}

struct gm_error *gm_doctor_command(struct gm_doctor *doctor, const char *name, const char *reason)
{
	struct gm_doctor_command command = {.name = name, .works = !reason};
	if (reason && !(command.reason = strdup(reason)))
		return &gm_error_no_memory;
	if (!gm_array_grow((void **)&doctor->commands, &doctor->command_capacity,
	            doctor->command_count, 1, sizeof(command))) {
		free(command.reason);
		return &gm_error_no_memory;
	}
	doctor->commands[doctor->command_count++] = command;
	return NULL;
}
