/* Of one file what `gpumem QUESTION FILE --json` says of it, in that answer's fields. */
#ifndef GM_RANKS_RENDER_FILE_JSON_H
#define GM_RANKS_RENDER_FILE_JSON_H

#include <jansson.h>

#include "ranks/answer.h"

/* section: the decoded struct of the answer's section; file: of the answer. */
json_t *gm_ranks_file_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        size_t file, const void *section);

#endif
