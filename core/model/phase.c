#include "model/phase.h"

#include <string.h>

#include "base/packages.h"
#include "base/text.h"

const char *gm_phase_name(enum gm_phase phase)
{
	static const char *const names[GM_PHASE_COUNT] = {
	        [GM_PHASE_OTHER] = "other",
	        [GM_PHASE_INIT] = "init",
	        [GM_PHASE_DATA] = "data",
	        [GM_PHASE_FORWARD] = "forward",
	        [GM_PHASE_RECOMPUTE] = "recompute",
	        [GM_PHASE_BACKWARD] = "backward",
	        [GM_PHASE_OPTIMIZER] = "optimizer",
	        [GM_PHASE_ZERO_GRAD] = "zero_grad",
	        [GM_PHASE_EVALUATION] = "evaluation",
	        [GM_PHASE_PREFILL] = "prefill",
	        [GM_PHASE_DECODE] = "decode",
	};
	return (unsigned)phase < GM_PHASE_COUNT ? names[phase] : "other";
}

const char *gm_plain_name(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot ? dot + 1 : name;
}

/* The call of a module, or of code that torch.compile() made from one. */
static bool calls_module(const char *file, const char *name)
{
	if (gm_file_is_of_torch(file, "/torch/nn/modules/module.py"))
		return strstr(name, "_call_impl");
	return strstr(file, "torchinductor_") && strcmp(name, "call") == 0;
}

/* keras/src/optimizers/adam.py, and of the backend keras/src/backend/torch/optimizers/torch_adam.py
 * (Keras 3). */
bool gm_file_is_keras_optimizer(const char *file)
{
	size_t length;
	const char *part = gm_packages_part(file, strlen(file), &length);
	if (!part || strncmp(part, "keras/src/", 10) != 0)
		return false;
	part += 10;
	part += strncmp(part, "backend/torch/", 14) == 0 ? 14 : 0;
	return strncmp(part, "optimizers/", 11) == 0 && !strstr(part, "/schedules/");
}

unsigned gm_frame_landmark(const struct gm_step_frame *frame)
{
	const char *name = gm_plain_name(frame->name);
	if (strcmp(name, "_engine_run_backward") == 0 &&
	        gm_file_is_of_torch(frame->file, "/torch/autograd/graph.py"))
		return GM_LANDMARK_BACKWARD;
	if (strcmp(name, "backward") == 0 &&
	        (gm_file_is_of_torch(frame->file, "/torch/_tensor.py") ||
	                gm_file_is_of_torch(frame->file, "/torch/autograd/__init__.py")))
		return GM_LANDMARK_BACKWARD;
	if (gm_file_is_in_torch(frame->file, "/torch/optim/") &&
	        !strstr(frame->file, "lr_scheduler") && !strstr(frame->file, "swa_utils") &&
	        strcmp(name, "__init__") != 0 && strcmp(name, "zero_grad") != 0 &&
	        strcmp(name, "add_param_group") != 0)
		return GM_LANDMARK_OPTIMIZER;
	if (strcmp(name, "apply") == 0 && gm_file_is_keras_optimizer(frame->file))
		return GM_LANDMARK_OPTIMIZER;
	if (strcmp(name, "zero_grad") == 0)
		return GM_LANDMARK_ZERO_GRAD;
	return calls_module(frame->file, name) ? GM_LANDMARK_MODULE : 0;
}

bool gm_frame_constructs(const struct gm_step_frame *frame)
{
	return strcmp(gm_plain_name(frame->name), "__init__") == 0;
}

bool gm_frame_shuts(const struct gm_step_frame *frame)
{
	return gm_frame_constructs(frame) || strncmp(frame->file, "<frozen importlib", 17) == 0;
}

enum gm_phase gm_frame_phase(const struct gm_step_frame *frame)
{
	const char *name = gm_plain_name(frame->name);
	switch (gm_frame_landmark(frame)) {
	case GM_LANDMARK_BACKWARD:
		return GM_PHASE_BACKWARD;
	case GM_LANDMARK_OPTIMIZER:
		return GM_PHASE_OPTIMIZER;
	case GM_LANDMARK_ZERO_GRAD:
		return GM_PHASE_ZERO_GRAD;
	default:
		break;
	}
	if (gm_file_is_in_torch(frame->file, "/torch/utils/data/"))
		return GM_PHASE_DATA;
	if (calls_module(frame->file, name))
		return GM_PHASE_FORWARD;
	/* torch.compile: it runs the backward pass of its generated code */
	if (strcmp(name, "backward") == 0 && gm_file_is_torch(frame->file))
		return GM_PHASE_BACKWARD;
	return GM_PHASE_OTHER;
}

bool gm_frame_evaluates(const struct gm_step_frame *frame)
{
	return gm_file_is_of_torch(frame->file, "/torch/utils/_contextlib.py") &&
	       strcmp(gm_plain_name(frame->name), "decorate_context") == 0;
}

bool gm_frame_leaves_optimizer(const struct gm_step_frame *frame, const struct gm_step_frame *outer)
{
	/* torch wraps the step of users' own optimizers; torch.compile generates files */
	return gm_file_is_torch(outer->file) && !gm_file_is_torch(frame->file) &&
	       !strstr(frame->file, "torchinductor_") &&
	       strcmp(gm_plain_name(frame->name), "step") != 0;
}

enum gm_phase gm_phase_around(
        enum gm_phase proven, const struct gm_step_frame *frame, const struct gm_step_frame *outer)
{
	bool leaves =
	        proven == GM_PHASE_OPTIMIZER && outer && gm_frame_leaves_optimizer(frame, outer);
	return leaves ? GM_PHASE_OTHER : proven;
}

enum gm_phase gm_phase_within(enum gm_phase around, enum gm_phase own)
{
	/* A module that runs within the backward pass is run again, for a checkpoint. */
	if (own == GM_PHASE_FORWARD && around == GM_PHASE_BACKWARD)
		return GM_PHASE_RECOMPUTE;
	/* an optimizer in a hook of the backward pass, which a reentrant checkpoint runs */
	if (own == GM_PHASE_OPTIMIZER && around == GM_PHASE_BACKWARD)
		return own;
	if ((own && around == GM_PHASE_OTHER) || own == GM_PHASE_ZERO_GRAD)
		return own;
	return around;
}

bool gm_frame_generates(const struct gm_step_frame *frame)
{
	return strcmp(gm_plain_name(frame->name), "generate") == 0 &&
	       !gm_file_is_torch(frame->file);
}

bool gm_frame_leaves(const struct gm_step_frame *frame)
{
	const char *name = gm_plain_name(frame->name);
	return strcmp(name, "__exit__") == 0 || strcmp(name, "__aexit__") == 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), size = strlen(end);
	return length >= size && strcmp(text + length - size, end) == 0;
}

bool gm_frame_runs_tasks(const struct gm_step_frame *frame)
{
	return ends_with(frame->file, "/asyncio/base_events.py") ||
	       ends_with(frame->file, "/trio/_core/_run.py");
}

/* threading.py, 3.9 to 3.15 */
bool gm_frame_begins_thread(const struct gm_step_frame *frame)
{
	return ends_with(frame->file, "/threading.py") &&
	       strcmp(gm_plain_name(frame->name), "_bootstrap") == 0;
}
