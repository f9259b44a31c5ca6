/*
 * CUPTI. PyTorch's profiler asks for its version before it uses it. There is no hardware to trace
 * here, so the answer is that it is not initialized, and the profiler works without it. NVIDIA's
 * own CUPTI of CUDA 13.2 would ask the driver for tables that are not documented
 * (cuGetExportTable), and when that is refused it calls itself until the stack is full.
 */
#include <stdint.h>

enum { CUPTI_ERROR_NOT_INITIALIZED = 15 }; /* cupti_result.h */

int cuptiGetVersion(uint32_t *version);

__attribute__((visibility("default"))) int cuptiGetVersion(uint32_t *version)
{
	*version = 0;
	return CUPTI_ERROR_NOT_INITIALIZED;
}
