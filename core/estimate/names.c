/* Names of the settings on the command line, in JSON and in a config. */
#include <string.h>

#include "estimate/estimate.h"

static const char *const dtypes[] = {
        [GM_ESTIMATE_NO_DTYPE] = "none",
        [GM_ESTIMATE_FLOAT32] = "float32",
        [GM_ESTIMATE_BFLOAT16] = "bfloat16",
        [GM_ESTIMATE_FLOAT16] = "float16",
};

const char *gm_estimate_dtype_name(enum gm_estimate_dtype dtype)
{
	return dtypes[dtype];
}

enum gm_estimate_dtype gm_estimate_dtype_named(const char *name)
{
	for (size_t i = GM_ESTIMATE_FLOAT32; i < sizeof(dtypes) / sizeof(*dtypes); i++)
		if (strcmp(dtypes[i], name) == 0)
			return (enum gm_estimate_dtype)i;
	return GM_ESTIMATE_NO_DTYPE;
}

const char *gm_estimate_optimizer_name(enum gm_estimate_optimizer optimizer)
{
	static const char *const names[] = {
	        [GM_ESTIMATE_ADAMW] = "adamw",
	        [GM_ESTIMATE_ADAMW_FUSED] = "adamw-fused",
	        [GM_ESTIMATE_ADAMW_8BIT] = "adamw-8bit",
	        [GM_ESTIMATE_SGD] = "sgd",
	        [GM_ESTIMATE_SGD_MOMENTUM] = "sgd-momentum",
	        [GM_ESTIMATE_LION] = "lion",
	};
	return names[optimizer];
}
