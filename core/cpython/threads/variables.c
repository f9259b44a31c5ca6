/* The variables of a frame, by name. */
#include <stdlib.h>

#include "cpython/python.h"

enum { OPTIMIZED = 1, CELL = 0x40, FREE = 0x80 }; /* CO_OPTIMIZED; kinds of local_kinds */

struct dict_visit {
	struct gm_python *python;
	gm_python_variable_visit visit;
	void *context;
};

static bool see_entry(void *context, uint64_t key, uint64_t value)
{
	struct dict_visit *visit = context;
	_cleanup_free_ char *name = NULL;
	if (!value || !gm_python_str(visit->python, key, GM_MAX_NAME_LENGTH, &name))
		return true;
	return visit->visit(visit->context, name, value);
}

void gm_python_variables(struct gm_python *python, const struct gm_python_frame *frame,
        gm_python_variable_visit visit, void *context)
{
	const struct gm_code *code = frame->code;
	struct dict_visit dict = {python, visit, context};
	if (!(gm_i32_at(gm_py_entry_of(code)->key, python->layout.code_flags) & OPTIMIZED)) {
		uint64_t names = gm_py_field(python, frame->address, python->layout.frame_locals);
		if (names)
			gm_py_dict_each(python, names, see_entry, &dict);
		return;
	}
	for (uint32_t i = 0; i < code->local_count; i++) {
		uint64_t value = gm_python_local(python, frame, i);
		/* A cell variable's slot holds a cell once its frame has begun. */
		const struct gm_type *type =
		        code->local_kinds[i] & (CELL | FREE) ? gm_py_type_of(python, value) : NULL;
		if (type && type->kind == GM_TYPE_CELL)
			value = gm_py_field(python, value, python->layout.cell_content);
		if (!visit(context, code->local_names[i], value))
			return;
	}
}
