/* Whether a file of the user's may be replaced. */
#ifndef GM_CLI_REPLACE_H
#define GM_CLI_REPLACE_H

#include <stdbool.h>

#include "ask/context.h"

/* On a terminal the user is asked, unless `path` names no regular file with contents. NULL: it may
 * be written; GM_NEGATIVE: the user said no. Scripts are not asked: there it is replaced. */
struct gm_error *gm_replace_ask(const struct gm_context *context, const char *path);

#endif
