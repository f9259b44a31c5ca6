#include "model/provenance.h"
#include "base/packages.h"

#include <string.h>

#include "base/text.h"
#include "model/native_names.h"
#include "model/phase.h"

enum { FRAMES_MAX = 512 };

static uint32_t distributed(const char *file, const char *name)
{
	if (gm_file_is_in_torch(file, "/torch/distributed/fsdp/")) {
		if (strstr(name, "reduce"))
			return GM_FROM_REDUCE;
		if (strstr(name, "flat_param") || strstr(name, "flatten") ||
		        strstr(name, "init_sharded_param") || strstr(name, "shard_parameters"))
			return GM_FROM_SHARDING;
		if (strstr(name, "gather") || strstr(name, "unshard") ||
		        strstr(name, "alloc_storage") || strstr(name, "padded"))
			return GM_FROM_COLLECTIVE;
		return 0;
	}
	if (gm_file_is_collectives(file) ||
	        (gm_file_is_of_torch(file, "/torch/nn/parallel/distributed.py") &&
	                (strstr(name, "ddp_init_helper") || strstr(name, "_sync_") ||
	                        strcmp(name, "_pre_forward") == 0)) ||
	        gm_file_is_of_torch(file, "/torch/nn/parallel/comm.py") ||
	        gm_file_is_of_torch(file, "/torch/cuda/nccl.py"))
		return GM_FROM_COLLECTIVE;
	return 0;
}

/* Does a library put the weights of a checkpoint on the device here? transformers 5 does it in the
 * threads of a pool, whose stacks have no frame of the function that loads. */
static bool loads_weights(const char *file, const char *name)
{
	if (strstr(name, "from_pretrained") && gm_packages_other(file, strlen(file)))
		return true;
	if (gm_text_ends_with(file, "transformers/modeling_utils.py"))
		return strstr(name, "from_pretrained") || strstr(name, "_load_");
	if (gm_text_ends_with(file, "transformers/core_model_loading.py"))
		return true;
	return gm_text_ends_with(file, "accelerate/utils/modeling.py") &&
	       strcmp(name, "set_module_tensor_to_device") == 0;
}

static uint32_t of_frame(const char *file, const char *name)
{
	if (gm_file_is_of_torch(file, "/torch/nn/modules/module.py")) {
		if (strcmp(name, "convert") == 0 || strcmp(name, "<lambda>") == 0 ||
		        strcmp(name, "_apply") == 0)
			return GM_FROM_APPLY;
		if (strcmp(name, "register_buffer") == 0)
			return GM_FROM_BUFFER;
		if (strstr(name, "_call_impl"))
			return GM_FROM_MODULE_CALL;
		if (strstr(name, "load_state_dict") || strstr(name, "_load_from_state_dict"))
			return GM_FROM_LOADING;
		return 0;
	}
	if (gm_file_is_of_torch(file, "/torch/optim/swa_utils.py"))
		return strcmp(name, "__init__") == 0 ? GM_FROM_MODULE_INIT
		                                     : 0; /* a copy of a model */
	if (gm_file_is_in_torch(file, "/torch/optim/") && !strstr(file, "lr_scheduler"))
		return strcmp(name, "zero_grad") == 0 ? 0 : GM_FROM_OPTIMIZER;
	if (gm_file_is_keras_optimizer(file))
		return GM_FROM_OPTIMIZER;
	if (gm_file_is_in_torch(file, "/torch/nn/modules/") && strcmp(name, "__init__") == 0)
		return GM_FROM_MODULE_INIT;
	if (gm_file_is_of_torch(file, "/torch/nn/parameter.py"))
		return GM_FROM_MODULE_INIT;
	if (gm_file_is_in_torch(file, "/torch/distributed/") ||
	        gm_file_is_in_torch(file, "/torch/nn/parallel/"))
		return distributed(file, name);
	if (gm_file_is_of_torch(file, "/torch/cuda/nccl.py") ||
	        (strstr(file, "deepspeed/runtime/zero/") &&
	                (strstr(name, "gather") || strstr(name, "fetch_sub_module") ||
	                        strcmp(name, "setup_buckets") == 0)))
		return GM_FROM_COLLECTIVE;
	if (gm_file_is_in_torch(file, "/torch/utils/data/"))
		return GM_FROM_DATA_LOADER;
	if (gm_text_ends_with(file, "transformers/cache_utils.py"))
		return GM_FROM_CACHE;
	return loads_weights(file, name) ? GM_FROM_LOADING : 0;
}

uint32_t gm_provenance_python(const struct gm_log *log, uint32_t stack, uint32_t *ret_apply_line)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	uint32_t flags = 0;
	bool in_closure = false, applied = false;
	struct gm_step_frame inner = {0};
	*ret_apply_line = 0;
	for (size_t i = 0; i < count && i < FRAMES_MAX; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code = {0};
		if (!gm_log_frame(log, frames[i], &frame) || !gm_log_code(log, frame.code, &code))
			continue;
		const char *file = gm_log_string(log, code.file);
		const char *name = gm_plain_name(gm_log_string(log, code.name));
		uint32_t found = of_frame(file, name);
		const struct gm_step_frame now = {.file = file, .name = name};
		in_closure |= inner.file && gm_frame_leaves_optimizer(&inner, &now);
		inner = now;
		if (in_closure)
			found &= ~(uint32_t)GM_FROM_OPTIMIZER;
		/* The innermost _apply is the one that converts; those further out called it for a
		 * submodule. A recurrent network's own _apply makes one block of its weights, and
		 * does not show where the others are converted. */
		if (strcmp(name, "_apply") == 0 && !applied) {
			applied = true;
			if (found == GM_FROM_APPLY)
				*ret_apply_line = frame.line;
		}
		flags |= found;
	}
	return flags;
}

static uint32_t of_function(const char *name)
{
	if (strstr(name, "getCurrentCUDABlasHandle") || strstr(name, "BlasWorkspace") ||
	        strstr(name, "BlasLtWorkspace") || strstr(name, "getNewWorkspace") ||
	        strstr(name, "getUserDefinedWorkspace") || strstr(name, "CuDNNWorkspace") ||
	        strstr(name, "cudnn::Workspace"))
		return GM_FROM_WORKSPACE;
	if (strstr(name, "cuda::blas::") || strstr(name, "Blas") || strstr(name, "cublas") ||
	        strstr(name, "cudnn"))
		return GM_FROM_BLAS;
	if (strstr(name, "autocast::cached_cast"))
		return GM_FROM_AUTOCAST;
	if (strstr(name, "c10d::Reducer") || strstr(name, "c10d::ProcessGroup"))
		return GM_FROM_COLLECTIVE;
	return strncmp(name, "at::", 4) == 0 ? GM_FROM_ATEN : 0;
}

uint32_t gm_provenance_native(const struct gm_log *log, uint32_t stack)
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, stack, &count);
	uint32_t flags = 0;
	for (size_t i = 0; i < count && i < FRAMES_MAX; i++) {
		uint32_t function, file, line;
		if (gm_log_symbol(log, addresses[i], &function, &file, &line) && function)
			flags |= of_function(gm_log_string(log, function));
	}
	return flags;
}
