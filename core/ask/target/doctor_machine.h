/* What of the machine doctor looks at. */
#ifndef GM_ASK_DOCTOR_MACHINE_H
#define GM_ASK_DOCTOR_MACHINE_H

#include "ask/target/doctor_checks.h"

struct gm_error *gm_doctor_machine(struct gm_context *context, struct gm_doctor *doctor);

#endif
