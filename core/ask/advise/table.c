#include "ask/advise/table.h"

const struct gm_measure_row gm_measure_rows[] = {
        {GM_MEASURE_RELEASE, false, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS,
                gm_measure_find_variables, gm_measure_variable},
        {GM_MEASURE_RELEASE_ALL, false, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS,
                gm_measure_find_all_variables, gm_measure_variable},
        {GM_MEASURE_HELD, false, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS,
                gm_measure_find_held, gm_measure_held},
        {GM_MEASURE_HELD_ALL, false, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS,
                gm_measure_find_all_held, gm_measure_held},
        {GM_MEASURE_ZERO_GRAD, true, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS, NULL,
                gm_measure_zero_grad},
        {GM_MEASURE_SET_TO_NONE, true, GM_COST_NOTHING, GM_NEED_STEPS | GM_NEED_STACKS, NULL,
                gm_measure_set_to_none},
        {GM_MEASURE_FOR_LOOP, false, GM_COST_TIME, GM_NEED_STACKS, NULL, gm_measure_for_loop},
        {GM_MEASURE_FUSED, true, GM_COST_NOTHING, GM_NEED_STACKS, NULL, gm_measure_fused},
        {GM_MEASURE_STATES_8BIT, false, GM_COST_NUMBERS, GM_NEED_STACKS, NULL,
                gm_measure_states_8bit},
        {GM_MEASURE_OFFLOAD_OPTIMIZER, false, GM_COST_TRANSFERS, GM_NEED_STACKS, NULL,
                gm_measure_offload_optimizer},
        {GM_MEASURE_SMALLER_BATCH, false, GM_COST_NUMBERS, GM_NEED_STEPS | GM_NEED_STACKS, NULL,
                gm_measure_smaller_batch},
        {GM_MEASURE_ACCUMULATE, false, GM_COST_TIME, GM_NEED_STEPS | GM_NEED_STACKS, NULL,
                gm_measure_accumulate},
};
_Static_assert(
        sizeof(gm_measure_rows) / sizeof(*gm_measure_rows) == GM_MEASURE_COUNT, "a row each");
