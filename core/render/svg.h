/* What an SVG picture is written of: numbers, and text in which no name is markup. */
#ifndef GM_RENDER_SVG_H
#define GM_RENDER_SVG_H

#include <stddef.h>
#include <stdio.h>

/* A coordinate or a length, in hundredths at most, with a point whatever the locale says. */
void gm_svg_number(double number, FILE *out);
/* Ours and a number: " x=\"12.5\"". */
void gm_svg_set(const char *name, double number, FILE *out);
/* Text of an element or an attribute, as printf would make it: what would act is shown as an escape
 * (base/visible.h), what would be markup as an entity. Behind `most` characters it ends in "…".
 * Returns how many characters were written. */
size_t gm_svg_text(size_t most, FILE *out, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#endif
