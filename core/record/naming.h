/* Names of what was seen. Internal to core/record. */
#ifndef GM_RECORD_NAMING_H
#define GM_RECORD_NAMING_H

#include "record/recorder.h"

void gm_record_modules(struct gm_recorder *recorder);
void gm_record_names(struct gm_recorder *recorder);
void gm_record_counters(struct gm_recorder *recorder);
void gm_record_see_addresses(struct gm_recorder *recorder, const uint64_t *addresses, size_t count);

/* The name of a function that was seen, "" where it has none. `address` is one of these `count`,
 * which are named at once. */
const char *gm_record_function(
        struct gm_recorder *recorder, uint64_t address, const uint64_t *addresses, size_t count);

#endif
