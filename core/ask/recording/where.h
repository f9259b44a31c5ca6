/* A condition (model/condition.h) over the blocks of a recording. */
#ifndef GM_ASK_WHERE_H
#define GM_ASK_WHERE_H

#include "model/condition.h"
#include "model/categories.h"
#include "model/model.h"

struct gm_where_block {
	const struct gm_model *model;
	const struct gm_categories *categories;
	uint32_t block; /* index */
};

/* subject: a struct gm_where_block. Unknown: what the recording does not have, and where no
 * allocation was recorded. */
enum gm_truth gm_where_judge(const void *subject, const struct gm_clause *clause);

#endif
