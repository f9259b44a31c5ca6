/*
 * By what blocks were released, and what kept them until then, in the words of `why`, without the
 * step. What is said depends on few facts of the two events of a block: of blocks that agree in
 * them it is found and written once. A program has few such causes; where there are more than
 * GM_VIEW_CAUSES_MOST, those of the later blocks are left to `why`.
 */
#ifndef GM_VIEW_CAUSES_H
#define GM_VIEW_CAUSES_H

#include "model/model.h"
#include "view/column.h"
#include "view/tables.h"

enum { GM_VIEW_CAUSES_MOST = 1 << 16 };

struct gm_view_causes;

/* For the blocks of one device. */
struct gm_error *gm_view_causes_create(const struct gm_model *model, size_t device,
        struct gm_view_tables *tables, struct gm_view_causes **ret_causes);
void gm_view_causes_destroy(struct gm_view_causes *causes);

/* The cause of block `number` of the model, from 1; 0: it was not released, or is left to `why`. */
uint32_t gm_view_cause(struct gm_view_causes *causes, uint32_t number);
/* The columns `dN.cause.text` and `dN.cause.kept`: numbers of texts, 0: none. */
struct gm_error *gm_view_causes_write(
        const struct gm_view_causes *causes, size_t device, struct gm_view_columns *columns);

#endif
