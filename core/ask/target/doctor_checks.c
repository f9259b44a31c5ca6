#include "ask/target/doctor_checks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void check_deinit(struct gm_doctor_check *check)
{
	for (size_t i = 0; i < check->file_count; i++)
		free(check->files[i].path);
	free(check->files);
	free((char *)(uintptr_t)check->fact.text);
	free((char *)(uintptr_t)check->fact.of);
}

void gm_doctor_checks_deinit(struct gm_doctor_checks *checks)
{
	for (size_t i = 0; i < checks->count; i++)
		check_deinit(&checks->items[i]);
	gm_array_deinit(checks);
}

struct gm_error *gm_doctor_add(struct gm_doctor_checks *checks, const char *name,
        enum gm_doctor_state state, struct gm_doctor_fact fact)
{
	struct gm_doctor_check check = {.name = name, .state = state, .fact = fact};
	check.fact.text = fact.text ? strdup(fact.text) : NULL;
	check.fact.of = fact.of ? strdup(fact.of) : NULL;
	if ((fact.text && !check.fact.text) || (fact.of && !check.fact.of) ||
	        !gm_array_push(checks, check)) {
		check_deinit(&check);
		return &gm_error_no_memory;
	}
	return NULL;
}

struct gm_error *gm_doctor_command(
        struct gm_doctor *doctor, enum gm_doctor_subject subject, enum gm_doctor_reason reason)
{
	if (!gm_array_grow((void **)&doctor->commands, &doctor->command_capacity,
	            doctor->command_count, 1, sizeof(*doctor->commands)))
		return &gm_error_no_memory;
	doctor->commands[doctor->command_count++] = (struct gm_doctor_command){subject, reason};
	return NULL;
}
