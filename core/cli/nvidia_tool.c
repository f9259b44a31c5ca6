#include "cli/nvidia_tool.h"

#include <stdlib.h>
#include <string.h>

static const struct tool {
	const char *name, *program;
	const char *variable; /* that it sets for what it runs; seen of CUDA 12.4's and 13.0's */
} tools[] = {
        {"Nsight Compute", "ncu", "NV_COMPUTE_PROFILER_PERFWORKS_DIR"},
        {"Nsight Systems", "nsys", "NSYS_PROFILING_SESSION_ID"},
        {"Compute Sanitizer", "compute-sanitizer", "NV_SANITIZER_INJECTION_TRANSPORT_TYPE"},
};

const char *gm_nvidia_tool(const char *program)
{
	const char *slash = strrchr(program, '/'), *base = slash ? slash + 1 : program;
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (strcmp(base, tools[i].program) == 0 || getenv(tools[i].variable))
			return tools[i].name;
	return NULL;
}
