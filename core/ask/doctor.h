/*
 * The question `doctor`: what of this machine and of the process (or core) was detected, and what
 * therefore works. It never fails because something is missing: that is its answer.
 */
#ifndef GM_ASK_DOCTOR_H
#define GM_ASK_DOCTOR_H

#include "ask/context.h"
#include "ask/target/doctor_checks.h"

/* About the machine, and about the context's process or core if there is one. GM_TARGET: no such
 * process; GM_CORRUPT, GM_TARGET: no such core, or no core at all. */
struct gm_error *gm_ask_doctor(struct gm_context *context, struct gm_doctor *ret_doctor);
void gm_doctor_deinit(struct gm_doctor *doctor);

#endif
