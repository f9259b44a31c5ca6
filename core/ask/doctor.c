#include "ask/doctor.h"
#include "ask/context.h"
#include "ask/target/doctor_machine.h"
#include "ask/target/doctor_process.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

static void checks_deinit(struct gm_doctor_checks *checks)
{
	for (size_t i = 0; i < checks->count; i++) {
		free(checks->items[i].value);
		free(checks->items[i].advice);
	}
	gm_array_deinit(checks);
}

void gm_doctor_deinit(struct gm_doctor *doctor)
{
	checks_deinit(&doctor->machine);
	checks_deinit(&doctor->process);
	for (size_t i = 0; i < doctor->command_count; i++)
		free(doctor->commands[i].reason);
	free(doctor->commands);
	free(doctor->command);
	free(doctor->core);
	*doctor = (struct gm_doctor){0};
}

struct gm_error *gm_ask_doctor(struct gm_context *context, struct gm_doctor *ret_doctor)
{
	struct gm_doctor doctor = {.pid = context->pid};
	struct gm_error *error = gm_doctor_machine(context, &doctor);
	if (!error && gm_context_has_target(context))
		error = gm_doctor_process(context, &doctor);
	if (error) {
		gm_doctor_deinit(&doctor);
		return error;
	}
	*ret_doctor = doctor;
	return NULL;
}
