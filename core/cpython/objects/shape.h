/* Where a type's objects have references. */
#ifndef GM_CPYTHON_SHAPE_H
#define GM_CPYTHON_SHAPE_H

#include "cpython/python.h"

/* Works out `fields` and `atom` of a type; false: no memory. */
bool gm_py_shape(struct gm_type *type, const struct gm_python_layout *layout);
/* How many pointers an object has from type->items on; `count` is ob_size or what `counted_at`
 * says. */
uint64_t gm_py_item_count(const struct gm_type *type, uint64_t count);

#endif
