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
#include "sim/cuda/stream_state.h"
#include "sim/kernels/captured.h"
#include "sim/kernels/plan.h"

#define EXEC UINT64_C(0x0063657865677347)

struct CUgraphExec_st {
	uint64_t magic;
	struct gm_sim_part *part;
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
	/* Nodes that clear a new block do not exist for CUDA. The graph may be one that is being
	 * captured. */
	size_t real = 0;
	gm_sim_capture_lock(true);
	for (size_t i = 0; i < graph->count; i++) {
		if (graph->nodes[i].what == GM_SIM_NODE_FRESH)
			continue;
		if (nodes && real < *count)
			nodes[real] = (cudaGraphNode_t)(void *)&graph->nodes[i];
		real++;
	}
	gm_sim_capture_lock(false);
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
	struct gm_sim_part *part = gm_sim_part_make(graph);
	if (!exec || !part) {
		free(exec);
		gm_sim_part_free(part);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	*exec = (struct CUgraphExec_st){EXEC, part};
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
	gm_sim_part_free(exec->part);
	free(exec);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	return exec && exec->magic == EXEC ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

static int replay(struct gm_sim_part *part)
{
	for (size_t i = 0; i < part->count; i++) {
		struct gm_sim_node *node = &part->nodes[i];
		int code = cudaSuccess;
		switch (node->what) {
		case GM_SIM_NODE_COPY:
			code = cudaMemcpy(
			        node->to, node->from, node->size, (enum cudaMemcpyKind)node->value);
			break;
		case GM_SIM_NODE_FILL:
			code = gm_sim_fill(node->to, node->value, node->unit, node->size);
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
		case GM_SIM_NODE_GRAPH:
			code = replay(node->part);
			break;
		}
		if (code != cudaSuccess)
			return code;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	int code = gm_sim_stream_check(stream);
	if (code != cudaSuccess)
		return (cudaError_t)code;
	if (!exec || exec->magic != EXEC)
		return gm_sim_error(cudaErrorInvalidValue);
	/* In a capture it is a node with the graph in it, which may be destroyed meanwhile. */
	struct gm_sim_node node = {
	        .what = GM_SIM_NODE_GRAPH, .part = gm_sim_part_again(exec->part)};
	if (gm_sim_captured(stream, &node))
		return cudaSuccess;
	gm_sim_stream_finish(stream);
	code = replay(node.part);
	gm_sim_part_free(node.part);
	return (cudaError_t)code;
}
