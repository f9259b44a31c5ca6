#include "render/category.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const reasons[GM_REASON_COUNT] = {
        [GM_REASON_NO_RULE] = "its place of allocation and its lifetime match no rule",
        [GM_REASON_BEFORE_RECORD] = "it was allocated before the recording began",
        [GM_REASON_NO_STACK] = "its allocation has no stack",
        [GM_REASON_MOVED_PARAMETER] = "Module.to() or .cuda() moved it to the device",
        [GM_REASON_MOVED_BUFFER] =
                "Module.to() or .cuda() moved it to the device, with the module's buffers",
        [GM_REASON_MADE_BY_MODULE] = "a module's constructor made it and kept it",
        [GM_REASON_REGISTERED_BUFFER] = "it was made for register_buffer()",
        [GM_REASON_LOADED] = "it was loaded from a checkpoint into a module",
        [GM_REASON_SHARDED] = "FSDP keeps a module's parameters in it",
        [GM_REASON_TRAINED] = "it existed before the first step and stayed, and "
                              "gradients or optimizer state have its size",
        [GM_REASON_AUTOCAST_WEIGHT] =
                "autocast converted a parameter to half precision and keeps the copy",
        [GM_REASON_AMBIGUOUS] =
                "gradients of its size follow, but more blocks of that size existed before the "
                "first step than there are gradients",
        [GM_REASON_INFERRED_PARAMETER] =
                "inferred: it existed before the recording began and stayed, and gradients of its "
                "size follow",
        [GM_REASON_INFERRED_STATE] =
                "inferred: it existed before the recording began and stayed, and for each gradient "
                "of its size there are a parameter and as many more",
        [GM_REASON_INFERRED_GRADIENT] =
                "inferred: it existed before the recording began, and zero_grad() freed it",
        [GM_REASON_INFERRED_ACTIVATION] =
                "inferred: it existed before the recording began, and backward freed it",
        [GM_REASON_OPTIMIZER_KEEPS] = "the optimizer's step allocated it and kept it",
        [GM_REASON_OPTIMIZER_TEMPORARY] = "the optimizer's step allocated it and freed it",
        [GM_REASON_GRADIENT_KEPT] =
                "backward allocated it and kept it, and it is as large as a parameter",
        [GM_REASON_GRADIENT_REDUCED] = "a reduce-scatter in backward kept it",
        [GM_REASON_BACKWARD_TEMPORARY] =
                "backward allocated it and freed it: the gradient of an activation",
        [GM_REASON_BACKWARD_ADDED] =
                "backward allocated it and freed it, and it is as large as a parameter: a gradient "
                "that was added to an existing one, or that of an activation",
        [GM_REASON_BACKWARD_GATHERED] =
                "backward allocated it and freed it, and it is as large as a gathered weight: "
                "the gradient of that weight before it is reduced, or that of an activation",
        [GM_REASON_BACKWARD_CAST] =
                "backward allocated it and freed it, and it is as large as autocast's copy of a "
                "parameter: the gradient of that copy, or of an activation",
        [GM_REASON_FORWARD_KEPT] = "forward allocated it and kept it",
        [GM_REASON_FORWARD_TEMPORARY] = "forward allocated it and freed it",
        [GM_REASON_RECOMPUTED] = "a checkpoint computed it again in backward",
        [GM_REASON_DATA_INPUT] = "it was allocated in the step before forward began",
        [GM_REASON_EVALUATION_INPUT] =
                "it existed while the evaluated modules ran, and belongs to none of them",
        [GM_REASON_SIZED_AS_WEIGHTS] =
                "one statement allocated it with others, and their sizes are those of parameters: "
                "copies of weights or of gradients, or weights computed from them",
        [GM_REASON_DATA_LOADER] = "a DataLoader made it",
        [GM_REASON_WORKSPACE_NAMED] = "cuBLAS or cuDNN asked for it as workspace",
        [GM_REASON_WORKSPACE_SIZED] =
                "it has the size of a cuBLAS workspace, and stays from the first step on",
        [GM_REASON_WORKSPACE_AT_ONCE] =
                "it has the size of a cuBLAS workspace, and was freed before anything else "
                "happened",
        [GM_REASON_COLLECTIVE] = "torch.distributed moves data through it",
        [GM_REASON_CACHE] = "the model's key-value cache keeps it",
        [GM_REASON_SHORT_LIVED] = "it was freed where it was allocated",
};

char *gm_category_reason_text(enum gm_category_reason reason)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	fputs(reasons[reason], out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
