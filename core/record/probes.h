/* Where breakpoints are put. Internal to core/record. */
#ifndef GM_RECORD_PROBES_H
#define GM_RECORD_PROBES_H

#include "record/recorder.h"

struct gm_error *gm_record_find_probes(struct gm_recorder *recorder);
bool gm_record_add_site(struct gm_recorder *recorder, enum gm_record_probe probe, uint64_t address,
        const char *name); /* true: it is new */

#endif
