/* Tools of NVIDIA that a recording must leave room for. */
#ifndef GM_CLI_NVIDIA_TOOL_H
#define GM_CLI_NVIDIA_TOOL_H

/*
 * The name of the profiler or checker that runs us, or that `program` is; NULL: none. CUDA loads
 * one library into a program (CUDA_INJECTION64_PATH), and CUPTI has one user: where such a tool is,
 * both are its. ncu even ends a program for which another library is named.
 */
const char *gm_nvidia_tool(const char *program);

#endif
