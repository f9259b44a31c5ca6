/*
 * Learning: finds the layouts of a PyTorch that is in no table (docs/learning.md).
 *
 * The same Python is started as a probe (core/learn/torch/probe.py) on the simulated device. It
 * finds the offset of each field, and passes a row together with PyTorch's own data about its live
 * objects. While the probe is stopped, this room opens it like any process, with that row, and
 * compares the results of gpumem's readers. A row with any difference is rejected.
 *
 * This room may include base, image, symbols, cpython, torch, holders and sim/launch.h. It keeps no
 * rows and prints nothing.
 */
#ifndef GM_LEARN_LEARN_H
#define GM_LEARN_LEARN_H

#include "learn/options.h"
#include "torch/learned.h"

struct gm_learn_result {
	struct gm_torch_learned learned;
	double seconds;
	char *missing; /* a line "NAME WHY" for each field left out; owned */
};
void gm_learn_result_deinit(struct gm_learn_result *result);

/* GM_TARGET: the probe did not come to an end, or its row is not proved: says which and what to
 * do. */
struct gm_error *gm_learn_torch(
        const struct gm_learn_options *options, struct gm_learn_result *ret_result);

/*
 * The same for a process that runs: its interpreter, its folder of packages and its library paths.
 * GM_TARGET: it is another user's, it sees other files than we do, or its program is not a Python:
 * nothing of it is started. Also where PyTorch on disk is not what the process has loaded.
 */
struct gm_error *gm_learn_of_process(int pid, const struct gm_torch_builds *builds,
        const char *c10_path, struct gm_learn_result *ret_result);

#endif
