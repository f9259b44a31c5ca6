/* Lines of the source files that a program or a recording names. */
#ifndef GM_RENDER_SOURCE_LINE_H
#define GM_RENDER_SOURCE_LINE_H

#include <stdbool.h>
#include <stdint.h>

enum { GM_SOURCE_LINE = 200 };
/* A line of a source file without the blanks around it; false: there is none. Somebody else names
 * the file, so that it may be anything. */
bool gm_source_line(const char *path, uint32_t number, char line[GM_SOURCE_LINE]);

#endif
