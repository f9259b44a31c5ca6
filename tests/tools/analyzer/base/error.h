/*
 * What clang's analyzer is to know of errors (tests/tools/static_analysis.py): one that was made is
 * never NULL. The header says so by an attribute, which the analyzer of clang 14 does not read.
 */
#ifndef GM_ANALYZER_ERROR_H
#define GM_ANALYZER_ERROR_H

#include_next <base/error.h>

static inline struct gm_error *gm_analyzer_made(struct gm_error *error)
{
	if (!error)
		__builtin_unreachable();
	return error;
}

#define gm_error_create(...) gm_analyzer_made(gm_error_create(__VA_ARGS__))
#define gm_error_os(...) gm_analyzer_made(gm_error_os(__VA_ARGS__))
#define gm_error_at_offset(...) gm_analyzer_made(gm_error_at_offset(__VA_ARGS__))
#define gm_error_at_address(...) gm_analyzer_made(gm_error_at_address(__VA_ARGS__))

#endif
