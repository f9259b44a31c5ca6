/*
 * What the files that visit references share: inside of the cpython room.
 */
#ifndef GM_CPYTHON_REFERENCES_H
#define GM_CPYTHON_REFERENCES_H

#include "cpython/python.h"

struct gm_visit {
	struct gm_python *python;
	gm_python_visit visit;
	void *context;
	bool names;   /* keys are to be read for their names */
	bool stopped; /* the visitor has had enough */
};

bool gm_py_emit_field(struct gm_visit *visit, uint64_t object, int32_t offset,
        enum gm_edge_kind kind, const char *name);
/* The same of a slot of a frame, where it has a reference that is counted. */
bool gm_py_emit_slot(struct gm_visit *visit, uint64_t frame, int32_t offset, enum gm_edge_kind kind,
        const char *name);
bool gm_py_emit_slots(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first);
bool gm_py_emit_array(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first);
bool gm_py_visit_frame_object(struct gm_visit *visit, uint64_t object);
bool gm_py_visit_generator(struct gm_visit *visit, uint64_t object);
/* thread_start.c: the function that a thread was started with, and its arguments. `bytes`: of the
 * thread's state. */
void gm_py_visit_thread_record(struct gm_visit *visit, uint64_t state, const uint8_t *bytes);

/* shape.c: works out `fields` and `atom` of a type; false: no memory. */
bool gm_py_shape(struct gm_type *type, const struct gm_python_layout *layout);
/* references_small.c: the fields of GM_TYPE_FIELDS */
bool gm_py_add_small(struct gm_type *type, int version);
/* How many pointers an object has from type->items on; `count` is ob_size or what `counted_at`
 * says. */
uint64_t gm_py_item_count(const struct gm_type *type, uint64_t count);

#endif
