/* References on their way to a visitor: inside of the cpython room. */
#ifndef GM_CPYTHON_EMIT_H
#define GM_CPYTHON_EMIT_H

#include "cpython/python.h"

struct gm_visit {
	struct gm_python *python;
	gm_python_visit visit;
	void *context;
	bool names;   /* keys are to be read for their names */
	bool stopped; /* the visitor has had enough */
};

/* One reference; nothing for a target of 0. False: the visitor has had enough. */
bool gm_py_emit(struct gm_visit *visit, uint64_t target, enum gm_edge_kind kind, const char *name,
        int64_t index);
bool gm_py_emit_field(struct gm_visit *visit, uint64_t object, int32_t offset,
        enum gm_edge_kind kind, const char *name);
/* The same for a slot of a frame, where it has a reference that is counted. */
bool gm_py_emit_slot(struct gm_visit *visit, uint64_t frame, int32_t offset, enum gm_edge_kind kind,
        const char *name);
bool gm_py_emit_slots(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first);
bool gm_py_emit_array(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first);

#endif
