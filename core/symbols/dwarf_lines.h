/*
 * Line tables of one file, by libdwarf. Apart from lines.c because libdwarf's header and libdw's
 * define the same names.
 */
#ifndef GM_SYMBOLS_DWARF_LINES_H
#define GM_SYMBOLS_DWARF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_lines;

/* An address in the file, and what was found for it. */
struct gm_line_request {
	uint64_t address;
	const char *file; /* as the keeper kept it; NULL: unknown */
	uint32_t line;
};

/* Keeps a copy of a file's name; NULL: no memory. */
typedef const char *(*gm_keep_string)(void *context, const char *text);

/* NULL: no DWARF there that libdwarf can read, or no libdwarf on this machine. */
struct gm_lines *gm_lines_open(const char *path);
void gm_lines_close(struct gm_lines *lines);
/* Fills in what the line tables cover. `requests` are sorted by address. */
void gm_lines_find(struct gm_lines *lines, struct gm_line_request *requests, size_t count,
        gm_keep_string keep, void *context);
/* Is libdwarf to be had on this machine? */
bool gm_lines_available(void);

#endif
