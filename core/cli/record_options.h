/* The values of the options of a recording, which `run` and `attach` share. */
#ifndef GM_CLI_RECORD_OPTIONS_H
#define GM_CLI_RECORD_OPTIONS_H

#include <stdint.h>

#include "base/error.h"

/* Each refuses a value that the agent does not know; NULL is fine: the option was not given. */
struct gm_error *gm_record_check_on_oom(const char *text);
struct gm_error *gm_record_check_devices(const char *list);
struct gm_error *gm_record_check_stacks(const char *list);
/* --keep, which --max-size must go with. */
struct gm_error *gm_record_check_keep(const char *text, bool has_max_size);
/* --max-size; *ret_bytes is 0 where it was not given. */
struct gm_error *gm_record_max_size(const char *text, uint64_t *ret_bytes);

#endif
