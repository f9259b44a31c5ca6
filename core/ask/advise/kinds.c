#include "ask/advise/kinds.h"

const char *gm_measure_name(enum gm_measure measure)
{
	static const char *const names[GM_MEASURE_COUNT] = {
	        [GM_MEASURE_RELEASE] = "release_variable",
	        [GM_MEASURE_RELEASE_ALL] = "release_variables",
	        [GM_MEASURE_HELD] = "release_held",
	        [GM_MEASURE_HELD_ALL] = "release_all_held",
	        [GM_MEASURE_ZERO_GRAD] = "zero_grad_earlier",
	        [GM_MEASURE_SET_TO_NONE] = "set_to_none",
	        [GM_MEASURE_FOR_LOOP] = "for_loop_optimizer",
	        [GM_MEASURE_FUSED] = "fused_optimizer",
	        [GM_MEASURE_STATES_8BIT] = "states_8bit",
	        [GM_MEASURE_OFFLOAD_OPTIMIZER] = "offload_optimizer",
	        [GM_MEASURE_OFFLOAD_ACTIVATIONS] = "offload_activations",
	        [GM_MEASURE_OFFLOAD_PARAMETERS] = "offload_parameters",
	        [GM_MEASURE_SMALLER_BATCH] = "smaller_batch",
	        [GM_MEASURE_ACCUMULATE] = "accumulate",
	        [GM_MEASURE_CHECKPOINT] = "checkpoint",
	        [GM_MEASURE_CHUNKED_LOSS] = "chunked_loss",
	        [GM_MEASURE_ATTENTION] = "attention_without_scores",
	        [GM_MEASURE_AUTOCAST] = "autocast",
	        [GM_MEASURE_ZERO1] = "zero1",
	        [GM_MEASURE_ZERO2] = "zero2",
	        [GM_MEASURE_ZERO3] = "zero3",
	        [GM_MEASURE_TENSOR_PARALLEL] = "tensor_parallel",
	        [GM_MEASURE_PIPELINE_PARALLEL] = "pipeline_parallel",
	};
	return (unsigned)measure < GM_MEASURE_COUNT ? names[measure] : "unknown";
}

const char *gm_measure_cost_name(enum gm_measure_cost cost)
{
	static const char *const names[GM_COST_COUNT] = {
	        [GM_COST_NOTHING] = "nothing",
	        [GM_COST_TIME] = "time",
	        [GM_COST_NUMBERS] = "numbers",
	        [GM_COST_TRANSFERS] = "transfers",
	        [GM_COST_DEVICES] = "devices",
	};
	return (unsigned)cost < GM_COST_COUNT ? names[cost] : "unknown";
}
