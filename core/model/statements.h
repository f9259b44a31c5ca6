/*
 * Statements: sites that are one operator called by one statement of the program. The native stacks
 * of two such sites can differ in the interpreter's frames: CPython rewrites the bytecode of what
 * runs often (PEP 659), so a later call leaves the interpreter at another place than the first ones
 * did. Internal to core/model.
 */
#ifndef GM_MODEL_STATEMENTS_H
#define GM_MODEL_STATEMENTS_H

#include "base/array.h"
#include "base/map.h"
#include "model/sites.h"

struct gm_model;

struct gm_statements {
	const struct gm_model *model;
	GM_ARRAY(uint64_t) operators; /* by native stack: hash of its operators' names, 0: unread */
	struct gm_map first;          /* from hash of a statement to its first site */
};

void gm_statements_deinit(struct gm_statements *statements);
/* The first site that was asked for of the statement of `site`; `site` itself where its stacks do
 * not tell. Without memory the answer may be `site` too. */
uint32_t gm_statement_of(struct gm_statements *statements, uint32_t site);

#endif
