/* How the answer of `doctor` looks. */
#ifndef GM_RENDER_DOCTOR_H
#define GM_RENDER_DOCTOR_H

#include <stdio.h>

#include "ask/doctor.h"

void gm_render_doctor_text(const struct gm_doctor *doctor, FILE *out);
/* {"machine":[{"name":…,"state":"ok|absent|problem","value":…,"advice":…}],"process":null|{"pid":…,"command":…,
 * "checks":[…]},"commands":[{"name":…,"works":…,"reason":…}]} */
struct gm_error *gm_render_doctor_json(const struct gm_doctor *doctor, FILE *out);

#endif
