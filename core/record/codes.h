/* Code objects in the log. Internal to core/record. */
#ifndef GM_RECORD_CODES_H
#define GM_RECORD_CODES_H

#include "record/recorder.h"

/* What the log knows of a code object; NULL: no memory. */
struct gm_code_id *gm_record_code(struct gm_recorder *recorder, const struct gm_code *code);

#endif
