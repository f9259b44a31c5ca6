/*
 * What blocks refer to by number: texts, stacks and sites. A stack or a text gets its number when a
 * block first needs it, and stands in the page once. Number 0 is none.
 */
#ifndef GM_VIEW_TABLES_H
#define GM_VIEW_TABLES_H

#include "ask/recording/driven.h"
#include "model/model.h"
#include "view/column.h"

struct gm_view_sources;
struct gm_view_tables;

/* sources: of the lines of frames, the caller's; NULL: the page has none. */
struct gm_error *gm_view_tables_create(const struct gm_model *model,
        struct gm_view_sources *sources, struct gm_view_tables **ret_tables);
void gm_view_tables_destroy(struct gm_view_tables *tables);

/* Numbers; where there is no memory they are 0, and gm_view_tables_write() reports it. */
uint32_t gm_view_text(struct gm_view_tables *tables, const char *text);
/* Of a Python stack of the log. */
uint32_t gm_view_stack(struct gm_view_tables *tables, uint32_t python);
/* The text by which `blocks --by line` names the place of a block's allocation; gm_view_driven()
 * says into which lines' calls it goes. NULL: into none. */
void gm_view_descend(struct gm_view_tables *tables, const struct gm_driven *driven);
uint32_t gm_view_site(struct gm_view_tables *tables, const struct gm_block *block);
/* PyTorch's operator of a native stack. */
uint32_t gm_view_operator(struct gm_view_tables *tables, uint32_t native);
/* The class of the autograd node whose backward a native stack is in. */
uint32_t gm_view_node(struct gm_view_tables *tables, uint32_t native);
/* The collectives that a native stack is in, by their names in C++, with spaces between them. */
uint32_t gm_view_collective(struct gm_view_tables *tables, uint32_t native);
/* "(5000, 50000) float32" */
uint32_t gm_view_tensor(struct gm_view_tables *tables, uint32_t tensor);

/* The columns `texts`, `tensors`, `frame.*`, `stacks` and `stacks.told`; nothing may be asked of
 * the tables after it. */
struct gm_error *gm_view_tables_write(
        struct gm_view_tables *tables, struct gm_view_columns *columns);

#endif
