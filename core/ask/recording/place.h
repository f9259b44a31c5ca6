/* Places: what a recorded stack says to a person. The site is the innermost frame of the user's own
 * code. */
#ifndef GM_ASK_PLACE_H
#define GM_ASK_PLACE_H

#include "cpython/cpython.h" /* enum gm_op */
#include "log/log.h"
#include "model/model.h"

/* One Python frame with its names; strings are the log's. */
struct gm_frame_place {
	uint32_t code; /* id, 0: no frame */
	uint32_t lasti;
	const char *file, *function;
	uint32_t line;
	enum gm_op op;
	const char *op_name; /* NULL: none */
};

/* Frame `index` of a stack, innermost 0. False: there is none. */
bool gm_place_frame(
        const struct gm_log *log, uint32_t stack, size_t index, struct gm_frame_place *ret_place);
/* The innermost frame that is the user's own, else the innermost. False: the stack is empty. */
bool gm_place_site(const struct gm_log *log, uint32_t stack, struct gm_frame_place *ret_place);
/* The innermost frame of an installed package other than PyTorch, if it is called by the program's
 * own; else the site. */
bool gm_place_in_package(
        const struct gm_log *log, uint32_t stack, struct gm_frame_place *ret_place);
/* The site for the forward stack of the autograd node whose backward the event is of; false: it is
 * not known. */
bool gm_place_forward(
        const struct gm_model *model, uint32_t event, struct gm_forward_frame *ret_frame);
/* The last part of a path. */
const char *gm_place_base_name(const char *path);

/* A native address: function (NULL: no name), object (file name of its module, NULL), file and
 * line. */
struct gm_native_place {
	const char *function, *object, *file;
	uint32_t line;
};
void gm_place_native(const struct gm_log *log, uint64_t address, struct gm_native_place *ret_place);
/* For an event without Python, whose memory is a library's own: the innermost function of that
 * library. */
bool gm_place_native_site(
        const struct gm_log *log, const struct gm_event *event, struct gm_native_place *ret_place);

#endif
