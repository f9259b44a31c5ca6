/* What of a process or core doctor looks at. */
#ifndef GM_ASK_DOCTOR_PROCESS_H
#define GM_ASK_DOCTOR_PROCESS_H

#include "ask/target/doctor_checks.h"

struct gm_error *gm_doctor_process(struct gm_context *context, struct gm_doctor *doctor);

#endif
