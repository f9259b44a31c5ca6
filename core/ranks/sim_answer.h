/* What the ranks of a simulated job need: their highest peak, which ranks have it, whether it
 * fits, and on how many ranks that rests. */
#ifndef GM_RANKS_SIM_ANSWER_H
#define GM_RANKS_SIM_ANSWER_H

#include "ranks/sim_folder.h"
#include "ranks/sim_plan.h"

/* Ranks first, first + step ... last. */
struct gm_sim_span {
	uint32_t first, last, step;
};

struct gm_sim_spans {
	GM_ARRAY(struct gm_sim_span) list;
};

/* Ranks that are equal. */
struct gm_sim_group {
	struct gm_sim_result result; /* of the first of them that was run */
	uint32_t run, inferred;      /* how many */
	struct gm_sim_spans spans;
};

enum gm_sim_fit {
	GM_SIM_FITS,
	GM_SIM_DOES_NOT_FIT,  /* a rank ran out of memory */
	GM_SIM_FIT_NOT_KNOWN, /* a rank failed otherwise or is not known, or none used the device */
};

struct gm_sim_answer {
	const struct gm_sim_job *job;
	GM_ARRAY(struct gm_sim_group) groups; /* the one with the highest peak first */
	uint32_t run, inferred, unknown;      /* ranks; run: in earlier runs of the command too */
	uint32_t earlier;                     /* of `run`: in earlier ones */
	uint32_t checked; /* of `run`: had been inferred, and were as inferred */
	struct gm_sim_spans unknown_spans;
	bool failed; /* a rank did, for another reason than memory */
	bool used;   /* a rank allocated memory of a device, or tried to */
	enum gm_sim_fit fit;
	uint64_t total; /* bytes of the device; 0: not known */
	double seconds; /* that the ranks took together, in this run */
	double elapsed; /* since the command began */
	unsigned processes, machines;
};

/* By the ranks' results and what the plan infers. The caller sets the last three members. */
struct gm_error *gm_sim_answer(const struct gm_sim_job *job, const struct gm_rank_plan *plan,
        const struct gm_sim_results *results, struct gm_sim_answer *ret_answer);
void gm_sim_answer_deinit(struct gm_sim_answer *answer);

#endif
