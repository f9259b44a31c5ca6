/*
 * Wrapper frames: they pass a call on and are not the place that a reader looks for. Whose code a
 * frame is, its file tells: the program's own, an installed package's, PyTorch's or Python's. Which
 * package is the model's, and which one only passes calls on, the recording tells: a package works
 * with modules if it defines the forward() of one, or calls the outermost one of a stack.
 */
#ifndef GM_MODEL_WRAPPER_FRAMES_H
#define GM_MODEL_WRAPPER_FRAMES_H

#include "model/model.h"

enum gm_code_owner {
	GM_CODE_OWN = 1, /* the program's own: of no installed package */
	GM_CODE_PYTHON,  /* Python's own library, or code without a file */
	GM_CODE_TORCH,   /* PyTorch, what comes with it, and the code that it generates */
	GM_CODE_PACKAGE, /* another installed package */
};

/* Whose a Python file is. A package's name is `*ret_length` bytes from `*ret_package` on, else they
 * are left as they were. */
enum gm_code_owner gm_code_owner(const char *file, const char **ret_package, size_t *ret_length);

/* Is the frame the one by which PyTorch calls a module (Module._call_impl,
 * Module._wrapped_call_impl)? */
bool gm_frame_calls_module(const char *file, const char *function);

/*
 * Is the frame one that PyTorch calls for an operator that other code called: the
 * __torch_function__ or __torch_dispatch__ of a tensor's subclass or of a mode? Every operator on
 * such tensors has the same line there.
 */
bool gm_frame_is_operator_hook(const char *function);

/*
 * The frame of a stack that is a module's own forward(), called by Module._call_impl at index
 * `call`: behind the wrappers of decorators and hooks. Innermost is 0. SIZE_MAX: none is on the
 * stack. A function that is local to another is a wrapper, where the recording has qualified names,
 * and taken where there is no other.
 */
size_t gm_module_forward(const struct gm_log *log, uint32_t stack, size_t call);

struct gm_wrapper_frames;

/* Goes through the stacks of all events; the model must outlive it, and may not grow meanwhile. */
struct gm_error *gm_wrapper_frames_create(
        const struct gm_model *model, struct gm_wrapper_frames **ret_wrapper_frames);
void gm_wrapper_frames_destroy(struct gm_wrapper_frames *wrapper_frames);
/* Does the package of a file work with modules? PyTorch's and Python's files are in none. */
bool gm_wrapper_frames_works(const struct gm_wrapper_frames *wrapper_frames, const char *file);
/*
 * The index of the frame that a stack is told by where the program's own line says too little:
 * below (called by) the innermost frame of the program's own, the innermost of a package that works
 * with modules, else the innermost of any package. Operator hooks, and what they call in packages,
 * are left out. SIZE_MAX: there is none, the program's own frame calls PyTorch itself.
 */
size_t gm_wrapper_frames_site(const struct gm_wrapper_frames *wrapper_frames, uint32_t stack);

#endif
