/* What `gpumem run` is told of a recording: checked, and put into the program's environment. */
#ifndef GM_CLI_RUN_SETTINGS_H
#define GM_CLI_RUN_SETTINGS_H

#include "cli/run_record.h"

/* Checks it all, the file that is there already too. *ret_out: its name as the program's processes
 * will see it, wherever they go; the caller frees it. */
struct gm_error *gm_run_settings_prepare(const struct gm_run_record *record, char **ret_out);
/* In the process that becomes the program. `list`: the file in which its processes enlist. */
struct gm_error *gm_run_settings_set(
        const struct gm_run_record *record, const char *out, const char *list, char **variables);

#endif
