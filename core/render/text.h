/*
 * Text for people: sizes, aligned columns, colours. This room (render) turns result structs into
 * text and JSON; it asks nothing and decides nothing.
 */
#ifndef GM_RENDER_TEXT_H
#define GM_RENDER_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ask/recording/place.h"
#include "base/size.h"
#include "model/model.h"

struct gm_style {
	int columns; /* 0: nothing is cut */
	bool colors;
};

/* A path as people need it: within a package's folder, or relative to the current directory, where
 * it is in one of these. A part of `path`, which may go on after it ("/home/u/train.py:3 in
 * train"). */
const char *gm_text_path(const char *path);
/* "cuda:0", "cpu" */
const char *gm_text_device(uint8_t type, int16_t index, char buffer[GM_SIZE_TEXT]);

/* A table: rows of cells, right- or left-aligned by column (`r`, `l`). `R`, `L`: the column may be
 * left out where the terminal is too narrow. A text in the last column goes on below, at its
 * column. */
struct gm_table;
enum { GM_TABLE_COLUMNS = 16 }; /* at most */
struct gm_table *gm_table_create(const char *const *heads, const char *alignment /* "rl..." */);
/* One printf-formatted cell, row by row. */
void gm_table_cell(struct gm_table *table, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* Writes and frees the table. False: memory ran out on the way. */
bool gm_table_finish(struct gm_table *table, const struct gm_style *style, FILE *out);

#endif
