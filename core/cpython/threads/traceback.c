/* Where an exception was raised: its traceback, as lines. */
#include <string.h>

#include "cpython/python.h"

/* PyTracebackObject, Include/cpython/traceback.h, 3.9 to 3.13: tb_next, tb_frame, int tb_lasti, int
 * tb_lineno */
enum { TB_LASTI_AFTER_FRAME = 8, TB_LINENO_AFTER_FRAME = 12 };

struct wanted {
	const char *name;
	uint64_t target;
};

static bool take(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct wanted *wanted = context;
	if (!name || strcmp(name, wanted->name) != 0)
		return true;
	wanted->target = target;
	return false;
}

static uint64_t field(struct gm_python *python, uint64_t object, const char *name)
{
	struct wanted wanted = {.name = name};
	gm_python_references(python, object, take, &wanted);
	return wanted.target;
}

static bool read_place(
        struct gm_python *python, uint64_t traceback, struct gm_python_frame *ret_frame)
{
	int32_t at = python->layout.traceback_frame;
	int32_t position[2]; /* tb_lasti, tb_lineno */
	uint64_t frame = gm_py_field(python, traceback, at);
	uint64_t code = frame ? field(python, frame, "f_code") : 0;
	struct gm_code_entry *entry = code ? gm_py_code_at(python, code) : NULL;
	if (!entry ||
	        !gm_image_try_read(python->image, traceback + (uint64_t)at + TB_LASTI_AFTER_FRAME,
	                position, sizeof(position)))
		return false;
	*ret_frame = (struct gm_python_frame){
	        .code = &entry->code, .lasti = position[0] < 0 ? 0 : (uint32_t)position[0]};
	/* from 3.12 on the line is computed when it is needed: -1 until then */
	ret_frame->line =
	        position[1] > 0 ? (uint32_t)position[1] : gm_py_line_at(entry, ret_frame->lasti);
	return true;
}

size_t gm_python_traceback(struct gm_python *python, uint64_t exception,
        struct gm_python_frame *ret_frames, size_t max)
{
	size_t count = 0;
	uint64_t traceback = field(python, exception, "__traceback__");
	for (int i = 0; traceback && i < GM_MAX_FRAMES_WALKED; i++) {
		struct gm_python_frame frame;
		if (read_place(python, traceback, &frame)) {
			if (count == max) /* the innermost ones are the important ones */
				memmove(ret_frames, ret_frames + 1, --count * sizeof(*ret_frames));
			ret_frames[count++] = frame;
		}
		traceback = field(python, traceback, "tb_next");
	}
	for (size_t i = 0; i < count / 2; i++) {
		struct gm_python_frame swapped = ret_frames[i];
		ret_frames[i] = ret_frames[count - 1 - i];
		ret_frames[count - 1 - i] = swapped;
	}
	return count;
}

bool gm_python_exception_text(
        struct gm_python *python, uint64_t exception, size_t max, char **ret_text)
{
	uint64_t args = field(python, exception, "args"), first;
	return args && gm_py_tuple(python, args, &first, 1) == 1 &&
	       gm_python_str(python, first, max, ret_text);
}

bool gm_python_code_frame(
        struct gm_python *python, uint64_t code, uint32_t lasti, struct gm_python_frame *ret_frame)
{
	struct gm_code_entry *entry = gm_py_code_at(python, code);
	if (!entry)
		return false;
	*ret_frame = (struct gm_python_frame){
	        .code = &entry->code, .lasti = lasti, .line = gm_py_line_at(entry, lasti)};
	return true;
}
