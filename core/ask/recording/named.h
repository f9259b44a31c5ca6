/* Blocks of a recording by what a user knows of them: a line that allocated them, a variable that
 * kept them. */
#ifndef GM_ASK_NAMED_H
#define GM_ASK_NAMED_H

#include "base/error.h"
#include "model/model.h"

/*
 * text: FILE:LINE, a line in the stack of the allocation, what a tensor in the block was called
 * (`gpumem run --names`), or the name of a variable, an attribute or a local whose change or end
 * released blocks. Of all blocks that are meant the last one that
 * was released, else the last one; *ret_count: how many there are. GM_USAGE: none.
 */
struct gm_error *gm_block_by_name(
        const struct gm_model *model, const char *text, uint32_t *ret_block, size_t *ret_count);

#endif
