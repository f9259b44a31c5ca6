/*
 * Text for people: sizes, aligned columns, colours. This room (render) turns result structs into text and
 * JSON; it asks nothing and decides nothing.
 */
#ifndef GM_RENDER_TEXT_H
#define GM_RENDER_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ask/place.h"
#include "model/model.h"

struct gm_style {
	int columns; /* 0: nothing is cut */
	bool colors;
};

enum { GM_SIZE_TEXT = 24 };
/* "1.00 GiB", "512 B"; as PyTorch's out-of-memory errors have it. Returns `buffer`. */
const char *gm_text_size(uint64_t bytes, char buffer[GM_SIZE_TEXT]);
/* "1,000,341,504" */
const char *gm_text_grouped(uint64_t number, char buffer[GM_SIZE_TEXT + 8]);
/* "cuda:0", "cpu" */
const char *gm_text_device(uint8_t type, int16_t index, char buffer[GM_SIZE_TEXT]);

/* A table: rows of cells, right- or left-aligned by column; the last column is cut to the terminal. */
struct gm_table;
struct gm_table *gm_table_create(const char *const *heads, const char *alignment /* "rl..." */);
/* One printf-formatted cell, row by row. */
void gm_table_cell(struct gm_table *table, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* Writes and frees the table. False: memory ran out on the way. */
bool gm_table_finish(struct gm_table *table, const struct gm_style *style, FILE *out);

#endif
