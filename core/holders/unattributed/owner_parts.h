/* The parts of the owner of a word of native memory. Internal to core/holders. */
#ifndef GM_HOLDERS_OWNER_PARTS_H
#define GM_HOLDERS_OWNER_PARTS_H

#include "holders/unattributed/owner_search.h"

/* Whose the word is that is in that chunk. */
void gm_owner_take_parts(
        const struct gm_owner_search *search, struct gm_owner_query *query, uint32_t number);
/* Static data: of the interpreter, where `module` is NULL. Caller releases; NULL: no memory.
 * `ret_sense` may be NULL. */
struct gm_native_owner *gm_owner_static(struct gm_holders *graph, const struct gm_module *module,
        uint64_t address, enum gm_word_evidence *ret_sense);
/*
 * What a word of static data is: 0, or GM_OWNER_WITHIN where it is far within a large variable, of
 * which nobody knows whether it refers to anything (an array, an object with members that are not
 * set). false: one of CPython's static lists of freed objects (up to 3.9: Objects/dictobject.c:
 * keys_free_list and others).
 */
bool gm_owner_static_place(struct gm_holders *graph, uint64_t address, uint32_t *ret_place);

#endif
