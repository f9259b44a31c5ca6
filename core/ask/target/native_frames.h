/*
 * Frames: what a debugger needs to show native frames of libraries whose symbols it has not read:
 * the registers of a frame's caller, and the names of functions.
 *
 * One step at a time and one thread's registers after another, as debuggers ask for it. Whole
 * stacks are gm_symbols_unwind()'s.
 */
#ifndef GM_ASK_NATIVE_FRAMES_H
#define GM_ASK_NATIVE_FRAMES_H

#include "ask/context.h"
#include "image/image.h"

enum gm_frame_position {
	GM_FRAME_UNKNOWN = -1, /* the debugger cannot tell */
	GM_FRAME_CALLER = 0,   /* its address is a return address, or it was interrupted */
	GM_FRAME_INNERMOST = 1,
};

/* False: no call frame information covers the frame, or it is the outermost one. */
bool gm_frame_caller(struct gm_context *context, const struct gm_registers *registers,
        enum gm_frame_position place, struct gm_registers *ret_registers);

/*
 * The names of the functions at many addresses, as a debugger prints them; NULL: none is known. For
 * a caller's frame pass an address within the call, not the return address. The strings are the
 * context's, until its target changes.
 */
struct gm_error *gm_frame_functions(struct gm_context *context, const uint64_t *addresses,
        size_t count, const char **ret_names);

/* Whether a file defines the function of a breakpoint, as a user names it. */
bool gm_frame_file_defines(const char *path, const char *function);

#endif
