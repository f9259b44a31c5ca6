#include "ask/doctor.h"
#include "ask/context.h"
#include "ask/target/doctor_machine.h"
#include "ask/target/doctor_process.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

void gm_doctor_deinit(struct gm_doctor *doctor)
{
	gm_doctor_checks_deinit(&doctor->machine);
	gm_doctor_checks_deinit(&doctor->process);
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
