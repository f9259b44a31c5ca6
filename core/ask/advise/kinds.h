/* The measures of `advise` by kind. */
#ifndef GM_ASK_ADVISE_KINDS_H
#define GM_ASK_ADVISE_KINDS_H

enum gm_measure {
	GM_MEASURE_RELEASE,     /* one variable, before the next iteration */
	GM_MEASURE_RELEASE_ALL, /* all of them: the iteration becomes a function */
	GM_MEASURE_HELD,        /* what is kept for longer than a step */
	GM_MEASURE_HELD_ALL,
	GM_MEASURE_ZERO_GRAD, /* right behind the optimizer's step */
	GM_MEASURE_SET_TO_NONE,
	GM_MEASURE_FOR_LOOP,
	GM_MEASURE_FUSED,
	GM_MEASURE_STATES_8BIT,
	GM_MEASURE_OFFLOAD_OPTIMIZER,
	GM_MEASURE_OFFLOAD_ACTIVATIONS,
	GM_MEASURE_OFFLOAD_PARAMETERS, /* gradients and optimizer state too */
	GM_MEASURE_SMALLER_BATCH,
	GM_MEASURE_ACCUMULATE,
	GM_MEASURE_CHECKPOINT, /* a class of modules */
	GM_MEASURE_CHUNKED_LOSS,
	GM_MEASURE_ATTENTION, /* that keeps no scores */
	GM_MEASURE_AUTOCAST,
	GM_MEASURE_ZERO1,
	GM_MEASURE_ZERO2,
	GM_MEASURE_ZERO3,
	GM_MEASURE_TENSOR_PARALLEL,
	GM_MEASURE_PIPELINE_PARALLEL,
	GM_MEASURE_COUNT,
};
/* "release_variable" */
const char *gm_measure_name(enum gm_measure measure);

/* What a measure costs beside the work of changing the program. */
enum gm_measure_cost {
	GM_COST_NOTHING,
	GM_COST_TIME,      /* the results stay the same */
	GM_COST_NUMBERS,   /* results differ: precision, or another batch */
	GM_COST_TRANSFERS, /* between the device and the host's memory */
	GM_COST_DEVICES,   /* it takes several */
	GM_COST_COUNT,
};
const char *gm_measure_cost_name(enum gm_measure_cost cost);

#endif
