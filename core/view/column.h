/*
 * Writes one column after another into a page: numbers or bytes, compressed by deflate and in
 * base64, as an element of the page. Nothing is kept in memory but two buffers.
 */
#ifndef GM_VIEW_COLUMN_H
#define GM_VIEW_COLUMN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* How the numbers of a column are written; docs/view-format.md. */
enum gm_view_form {
	GM_VIEW_NUMBERS,     /* LEB128 */
	GM_VIEW_DIFFERENCES, /* to the number before, zigzag LEB128 */
	GM_VIEW_JSON,
};

struct gm_view_columns;

struct gm_error *gm_view_columns_create(FILE *out, struct gm_view_columns **ret_columns);
void gm_view_columns_destroy(struct gm_view_columns *columns);

/* `name` is ours: letters, digits and points. One column at a time. */
void gm_view_column_begin(
        struct gm_view_columns *columns, const char *name, enum gm_view_form form);
void gm_view_put(struct gm_view_columns *columns, uint64_t number);
void gm_view_put_bytes(struct gm_view_columns *columns, const void *bytes, size_t size);
void gm_view_column_end(struct gm_view_columns *columns);

#endif
