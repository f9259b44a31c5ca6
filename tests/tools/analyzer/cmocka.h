/* What clang's analyzer is to know of cmocka (tests/tools/static_analysis.py): a test that failed
 * or is skipped goes no further. */
#ifndef GM_ANALYZER_CMOCKA_H
#define GM_ANALYZER_CMOCKA_H

#include_next <cmocka.h>

void _fail(const char *const file, const int line) __attribute__((noreturn));
void _skip(const char *const file, const int line) __attribute__((noreturn));

#endif
