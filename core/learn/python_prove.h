/* The proof that gpumem's readers see with a row what a CPython says. */
#ifndef GM_LEARN_PYTHON_PROVE_H
#define GM_LEARN_PYTHON_PROVE_H

#include "cpython/cpython.h"
#include "cpython/versions/learned.h"

/* Does the process that said `text` of itself read so with this row? GM_TARGET: the first thing
 * that differs. */
struct gm_error *gm_learn_python_prove(const char *text, struct gm_image *image,
        struct gm_symbols *symbols, const struct gm_python_tables *tables);

#endif
