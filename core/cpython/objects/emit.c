/* Reports references to a visitor: of a field, of a frame's slot, of an array. */
#include "cpython/objects/emit.h"

bool gm_py_emit(struct gm_visit *visit, uint64_t target, enum gm_edge_kind kind, const char *name,
        int64_t index)
{
	if (!target || visit->stopped)
		return !visit->stopped;
	if (!visit->visit(visit->context, target, kind, name, index))
		visit->stopped = true;
	return !visit->stopped;
}

bool gm_py_emit_field(struct gm_visit *visit, uint64_t object, int32_t offset,
        enum gm_edge_kind kind, const char *name)
{
	return gm_py_emit(visit, gm_py_field(visit->python, object, offset), kind, name, -1);
}

bool gm_py_emit_slot(struct gm_visit *visit, uint64_t frame, int32_t offset, enum gm_edge_kind kind,
        const char *name)
{
	uint64_t word = gm_py_field(visit->python, frame, offset);

	return gm_py_emit(visit, gm_stackref_counted(&visit->python->layout, word), kind, name, -1);
}

/* Visits `count` words from `address` on; `slots`: they are a frame's slots. */
static bool emit_words(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first, bool slots)
{
	const struct gm_python_layout *const layout = &visit->python->layout;
	enum { BATCH = 256 };
	uint64_t items[BATCH];

	for (uint64_t at = 0; at < count; at += BATCH) {
		uint64_t more = count - at < BATCH ? count - at : BATCH;
		if (!gm_image_try_read(
		            visit->python->image, address + 8 * at, items, (size_t)more * 8))
			return false;
		for (uint64_t i = 0; i < more; i++) {
			uint64_t item = slots ? gm_stackref_counted(layout, items[i]) : items[i];
			if (!gm_py_emit(visit, item, kind, NULL, first + (int64_t)(at + i)))
				return true;
		}
	}
	return true;
}

bool gm_py_emit_slots(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first)
{
	return emit_words(visit, address, count, kind, first, true);
}

bool gm_py_emit_array(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first)
{
	return emit_words(visit, address, count, kind, first, false);
}
