/*
 * CUDA graphs: operations on a capturing stream are stored instead of executed, and executed at
 * each replay. Copies and memsets copy bytes; kernels are counted, and computed if they would be
 * computed outside a graph.
 *
 * A capture spreads to streams that wait for one of its events (capture.c), and is invalidated by
 * calls that a GPU refuses during a capture. Graphs that a program builds by hand (cudaGraphAdd…)
 * are not simulated.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/graph_nodes.h"
#include "sim/kernels/captured.h"
#include "sim/kernels/plan.h"

#define EXEC UINT64_C(0x0063657865677347)

struct CUgraphExec_st {
	uint64_t magic;
	struct gm_sim_node *nodes;
	size_t count;
};

static bool valid(cudaGraph_t graph)
{
	return graph && graph->magic == GM_SIM_GRAPH;
}

GM_SIM_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	if (!valid(graph))
		return gm_sim_error(cudaErrorInvalidValue);
	gm_sim_graph_free(graph);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphGetNodes(
        cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	if (!valid(graph) || !count)
		return gm_sim_error(cudaErrorInvalidValue);
	/* Nodes that clear a new block do not exist for CUDA. */
	size_t real = 0;
	for (size_t i = 0; i < graph->count; i++) {
		if (graph->nodes[i].what == GM_SIM_NODE_FRESH)
			continue;
		if (nodes && real < *count)
			nodes[real] = (cudaGraphNode_t)(void *)&graph->nodes[i];
		real++;
	}
	for (size_t i = real; nodes && i < *count; i++)
		nodes[i] = NULL;
	if (!nodes || *count > real)
		*count = real;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphInstantiate(
        cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags)
{
	if (!ret || !valid(graph))
		return gm_sim_error(cudaErrorInvalidValue);
	cudaGraphExec_t exec = calloc(1, sizeof(*exec));
	struct gm_sim_node *nodes = calloc(graph->count + 1, sizeof(*nodes));
	if (!exec || !nodes) {
		free(exec);
		free(nodes);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	if (graph->count)
		memcpy(nodes, graph->nodes, graph->count * sizeof(*nodes));
	for (size_t i = 0; i < graph->count; i++)
		gm_sim_kept_again(nodes[i].kept);
	*exec = (struct CUgraphExec_st){EXEC, nodes, graph->count};
	*ret = exec;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphInstantiateWithFlags(
        cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiate(ret, graph, flags);
}

GM_SIM_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	if (!exec || exec->magic != EXEC)
		return gm_sim_error(cudaErrorInvalidValue);
	exec->magic = 0;
	for (size_t i = 0; i < exec->count; i++)
		gm_sim_kept_free(exec->nodes[i].kept);
	free(exec->nodes);
	free(exec);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	return exec && exec->magic == EXEC ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

GM_SIM_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	if (!exec || exec->magic != EXEC)
		return gm_sim_error(cudaErrorInvalidValue);
	gm_sim_stream_finish(stream);
	for (size_t i = 0; i < exec->count; i++) {
		struct gm_sim_node *node = &exec->nodes[i];
		int code = cudaSuccess;
		switch (node->what) {
		case GM_SIM_NODE_COPY:
			code = cudaMemcpy(
			        node->to, node->from, node->size, (enum cudaMemcpyKind)node->value);
			break;
		case GM_SIM_NODE_FILL:
			code = cudaMemset(node->to, node->value, node->size);
			break;
		case GM_SIM_NODE_KERNEL:
			gm_sim_kernel_count(node->kernel,
			        node->kept && gm_sim_kernel_compute(node->kernel->name,
			                              &node->kernel->plan,
			                              gm_sim_kept_launch(node->kept)));
			break;
		case GM_SIM_NODE_FRESH: {
			struct gm_sim_device *device = gm_sim_device_of(node->to);
			if (device && gm_sim_memory_holds(device, node->to, node->size))
				gm_sim_data_zero(device, node->to, node->size);
			break;
		}
		case GM_SIM_NODE_HOST:
			node->host(node->to);
			break;
		case GM_SIM_NODE_LIBRARY:
			GM_SIM_COUNT(gpumem_sim_account.library_not_computed, 1);
			break;
		}
		if (code != cudaSuccess)
			return (cudaError_t)code;
	}
	return cudaSuccess;
}
