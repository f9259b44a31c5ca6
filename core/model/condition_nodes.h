/* Inside of the model room: a condition, parsed. */
#ifndef GM_MODEL_CONDITION_NODES_H
#define GM_MODEL_CONDITION_NODES_H

#include "base/array.h"
#include "model/condition.h"

/* Of NOT only the left one is used. Nodes refer to earlier ones. */
struct gm_condition_node {
	enum gm_node_kind kind;
	size_t left, right;
	struct gm_clause clause;
};

struct gm_condition {
	GM_ARRAY(struct gm_condition_node) nodes;
	size_t root;
};

static inline bool gm_fact_is_number(enum gm_fact fact)
{
	return fact <= GM_FACT_RESERVED;
}

#endif
