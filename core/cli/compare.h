/* Questions of several FILEs, which are shown side by side. */
#ifndef GM_CLI_COMPARE_H
#define GM_CLI_COMPARE_H

#include "cli/arguments.h"
#include "render/diff.h"

/* "line", "stack", "phase", "category". */
struct gm_error *gm_parse_group_by(const char *text, enum gm_group_by *ret_by);

/* Answers for all of the arguments' FILEs; *ret_equal may be NULL. */
struct gm_error *gm_compare_files(const struct gm_context *context,
        const struct gm_arguments *arguments, const struct gm_compare_options *options,
        const struct gm_compare_view *view, FILE *out, bool *ret_equal);

#endif
