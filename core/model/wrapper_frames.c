#include "model/wrapper_frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/packages.h"
#include "base/text.h"
#include "model/internal.h"
#include "model/phase.h"

/* --- the owner of a file ---------------------------------------------------------------------- */

static bool is_torch(const char *package, size_t length)
{
	/* the packages in PyTorch's wheel, and its compiler */
	static const char *const names[] = {"torch", "torchgen", "functorch", "triton"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == length && memcmp(names[i], package, length) == 0)
			return true;
	return false;
}

enum gm_code_owner gm_code_owner(const char *file, const char **ret_package, size_t *ret_length)
{
	size_t length, rest;
	const char *package = gm_packages_part(file, strlen(file), &rest);
	length = package ? strcspn(package, "/") : 0;
	if (package && is_torch(package, length))
		return GM_CODE_TORCH;
	if (package) {
		*ret_package = package;
		*ret_length = length;
		return GM_CODE_PACKAGE;
	}
	if (gm_file_is_torch(file) || strstr(file, "/torchinductor_"))
		return GM_CODE_TORCH;
	return !file[0] || gm_file_is_library(file) ? GM_CODE_PYTHON : GM_CODE_OWN;
}

bool gm_frame_calls_module(const char *file, const char *function)
{
	const char *name = gm_plain_name(function);
	return (strcmp(name, "_call_impl") == 0 || strcmp(name, "_wrapped_call_impl") == 0) &&
	       gm_file_is_of_torch(file, "/torch/nn/modules/module.py");
}

bool gm_frame_is_operator_hook(const char *function)
{
	const char *name = gm_plain_name(function);
	return strcmp(name, "__torch_function__") == 0 || strcmp(name, "__torch_dispatch__") == 0;
}

/* --- frames of a stack ------------------------------------------------------------------------ */

struct frame {
	const char *file, *function;
};

static bool frame_at(const struct gm_log *log, uint32_t id, struct frame *ret_frame)
{
	struct gm_log_frame frame;
	struct gm_log_code code = {0};
	if (!gm_log_frame(log, id, &frame))
		return false;
	gm_log_code(log, frame.code, &code);
	ret_frame->file = gm_log_string(log, code.file);
	ret_frame->function = gm_log_string(log, code.name);
	return true;
}

/* "wrap.<locals>.forward", but not "make.<locals>.Net.forward" */
static bool is_local(const char *function)
{
	static const char mark[] = "<locals>";
	const char *name = gm_plain_name(function);
	size_t before = (size_t)(name - function);
	return before > sizeof(mark) - 1 &&
	       memcmp(name - sizeof(mark), mark, sizeof(mark) - 1) == 0;
}

/* Function.apply() of autograd calls a forward() too, which is not a module's. */
static bool is_of_autograd(const struct frame *caller)
{
	return strcmp(gm_plain_name(caller->function), "apply") == 0 &&
	       gm_file_is_of_torch(caller->file, "/torch/autograd/function.py");
}

static bool same_package(const char *left, const char *right)
{
	const char *one, *other;
	size_t length, other_length;
	return gm_code_owner(left, &one, &length) == GM_CODE_PACKAGE &&
	       gm_code_owner(right, &other, &other_length) == GM_CODE_PACKAGE &&
	       length == other_length && memcmp(one, other, length) == 0;
}

static bool is_of_package(const char *file)
{
	const char *package;
	size_t length;
	return gm_code_owner(file, &package, &length) == GM_CODE_PACKAGE;
}

/*
 * From the call inwards, up to the next module's call. With qualified names the first forward()
 * that is not a local function is the module's. Without them a wrapper of that name looks the same:
 * of a package's forward() and one of another package below it, the latter is used. (The program's
 * own forward() may call that of its base class.)
 */
size_t gm_module_forward(const struct gm_log *log, uint32_t stack, size_t call)
{
	size_t count, found = SIZE_MAX;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	struct frame frame, caller, first = {0};
	if (call >= count || !frame_at(log, frames[call], &caller))
		return SIZE_MAX;
	for (size_t i = call; i-- > 0; caller = frame) {
		if (!frame_at(log, frames[i], &frame) ||
		        gm_frame_calls_module(frame.file, frame.function))
			break; /* another module's call */
		if (strcmp(gm_plain_name(frame.function), "forward") != 0 ||
		        is_of_autograd(&caller))
			continue;
		bool qualified = strchr(frame.function, '.');
		if (qualified && !is_local(frame.function))
			return i;
		bool wraps = found != SIZE_MAX && !qualified && is_of_package(first.file) &&
		             !same_package(first.file, frame.file);
		if (found == SIZE_MAX || wraps) {
			found = i;
			first = frame;
		}
	}
	return found;
}

/* --- which packages work with modules --------------------------------------------------------- */

struct package {
	const char *name; /* in a string of the log */
	size_t length;
};

struct gm_wrapper_frames {
	const struct gm_log *log;
	GM_ARRAY(struct package) working;
};

static const struct package *find(
        const struct gm_wrapper_frames *wrapper_frames, const char *name, size_t length)
{
	for (size_t i = 0; i < wrapper_frames->working.count; i++) {
		const struct package *one = &wrapper_frames->working.items[i];
		if (one->length == length && memcmp(one->name, name, length) == 0)
			return one;
	}
	return NULL;
}

bool gm_wrapper_frames_works(const struct gm_wrapper_frames *wrapper_frames, const char *file)
{
	const char *name;
	size_t length;
	return gm_code_owner(file, &name, &length) == GM_CODE_PACKAGE &&
	       find(wrapper_frames, name, length);
}

static bool add(struct gm_wrapper_frames *wrapper_frames, const char *file)
{
	const char *name;
	size_t length;
	if (gm_code_owner(file, &name, &length) != GM_CODE_PACKAGE ||
	        find(wrapper_frames, name, length))
		return true;
	return gm_array_push(&wrapper_frames->working, ((struct package){name, length}));
}

/*
 * The caller of the outermost module of a stack, whose call begins at frame `at`: the next frame
 * outwards that is neither PyTorch's nor Python's. Within a model, a helper function that gets a
 * module as argument may call it too: such a call has no meaning for steps.
 */
static bool add_caller(
        struct gm_wrapper_frames *wrapper_frames, const uint32_t *frames, size_t count, size_t at)
{
	struct frame frame;
	const char *name;
	size_t length;
	for (size_t i = at + 1; i < count && frame_at(wrapper_frames->log, frames[i], &frame);
	        i++) {
		enum gm_code_owner owner = gm_code_owner(frame.file, &name, &length);
		if (owner == GM_CODE_OWN)
			return true;
		if (owner == GM_CODE_PACKAGE)
			return add(wrapper_frames, frame.file);
	}
	return true;
}

static bool add_stack(struct gm_wrapper_frames *wrapper_frames, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(wrapper_frames->log, stack, &count);
	size_t outermost = SIZE_MAX;
	struct frame frame;
	for (size_t i = 0; i < count; i++) {
		if (!frame_at(wrapper_frames->log, frames[i], &frame))
			return true;
		if (!gm_frame_calls_module(frame.file, frame.function))
			continue;
		outermost = i;
		size_t forward = gm_module_forward(wrapper_frames->log, stack, i);
		if (forward != SIZE_MAX && frame_at(wrapper_frames->log, frames[forward], &frame) &&
		        !is_local(frame.function) && !add(wrapper_frames, frame.file))
			return false;
	}
	return outermost == SIZE_MAX || add_caller(wrapper_frames, frames, count, outermost);
}

struct gm_error *gm_wrapper_frames_create(
        const struct gm_model *model, struct gm_wrapper_frames **ret_wrapper_frames)
{
	struct gm_wrapper_frames *wrapper_frames = calloc(1, sizeof(*wrapper_frames));
	if (!wrapper_frames)
		return &gm_error_no_memory;
	wrapper_frames->log = model->log;
	uint32_t last = 0;
	for (size_t i = 0; i < model->sites.items.count; i++) {
		uint32_t stack = model->sites.items.items[i].python_stack;
		if (!stack || stack == last)
			continue;
		last = stack;
		if (!add_stack(wrapper_frames, stack)) {
			gm_wrapper_frames_destroy(wrapper_frames);
			return &gm_error_no_memory;
		}
	}
	*ret_wrapper_frames = wrapper_frames;
	return NULL;
}

void gm_wrapper_frames_destroy(struct gm_wrapper_frames *wrapper_frames)
{
	if (!wrapper_frames)
		return;
	gm_array_deinit(&wrapper_frames->working);
	free(wrapper_frames);
}

size_t gm_wrapper_frames_site(const struct gm_wrapper_frames *wrapper_frames, uint32_t stack)
{
	size_t count, any = SIZE_MAX, works = SIZE_MAX, length;
	const uint32_t *frames = gm_log_python_stack(wrapper_frames->log, stack, &count);
	const char *name;
	struct frame frame;
	for (size_t i = 0; i < count && frame_at(wrapper_frames->log, frames[i], &frame); i++) {
		enum gm_code_owner owner = gm_code_owner(frame.file, &name, &length);
		if (gm_frame_is_operator_hook(frame.function)) {
			any = works = SIZE_MAX; /* an operator that a frame further out called */
			continue;
		}
		if (owner == GM_CODE_OWN)
			break;
		if (owner != GM_CODE_PACKAGE)
			continue;
		if (works == SIZE_MAX && find(wrapper_frames, name, length))
			works = i;
		if (any == SIZE_MAX)
			any = i;
	}
	return works == SIZE_MAX ? any : works;
}
