/* Types with a few references at fixed places. */
#ifndef GM_CPYTHON_REFERENCES_SMALL_H
#define GM_CPYTHON_REFERENCES_SMALL_H

#include "cpython/python.h"

/* Their fields, of a type with GM_TYPE_FIELDS; false: no memory. */
bool gm_py_add_small(struct gm_type *type, int version);

#endif
