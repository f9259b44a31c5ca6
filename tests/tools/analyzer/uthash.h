/*
 * What clang's analyzer is to know of uthash (tests/tools/static_analysis.py): a table is somewhere
 * else, finding gives back any element or none, and an element that is taken out is in no table any
 * more. Of the real macros it cannot tell the last: it would take each element that is freed for
 * one that is still linked.
 */
#ifndef GM_ANALYZER_UTHASH_H
#define GM_ANALYZER_UTHASH_H

#include_next <uthash.h>

void *gm_analyzer_element(const void *head, const void *key);
void gm_analyzer_add(void *head, void *element);
void gm_analyzer_remove(void *head);
unsigned gm_analyzer_count(const void *head);

#undef HASH_FIND
#undef HASH_ADD
#undef HASH_ADD_KEYPTR
#undef HASH_DELETE
#undef HASH_ITER
#undef HASH_CLEAR
#undef HASH_CNT
#undef HASH_SRT
#define HASH_FIND(hh, head, key, size, out) ((out) = gm_analyzer_element(head, key))
#define HASH_ADD(hh, head, field, size, add) gm_analyzer_add(&(head), add)
#define HASH_ADD_KEYPTR(hh, head, key, size, add) gm_analyzer_add(&(head), add)
#define HASH_DELETE(hh, head, element) gm_analyzer_remove(&(head))
#define HASH_ITER(hh, head, element, next)                 \
	for ((element) = (head), (next) = NULL; (element); \
	        (element) = gm_analyzer_element(head, next))
#define HASH_CLEAR(hh, head) gm_analyzer_remove(&(head))
#define HASH_CNT(hh, head) gm_analyzer_count(head)
#define HASH_SRT(hh, head, compare) gm_analyzer_remove(&(head))

#endif
