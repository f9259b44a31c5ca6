/*
 * What the program said of itself, by NVTX or gpumem's own calls: where its steps begin, and which
 * ranges a thread is in. Where it said so, that wins over what stacks tell.
 */
#ifndef GM_MODEL_MARKS_H
#define GM_MODEL_MARKS_H

#include "model/sites.h"
#include "model/step_types.h"

struct gm_marks;

/* Takes in those marks of the log that are not in *marks yet (NULL: none are). False: no memory. */
bool gm_marks_read(struct gm_marks **marks, const struct gm_log *log);
void gm_marks_destroy(struct gm_marks *marks);

/* Does an Optimizer.step() begin at this mark, by PyTorch's own range around it? */
bool gm_marks_begins_optimizer_step(const struct gm_log *log, const struct gm_log_mark *mark);

/* The step of an event; `found`, where no step was marked. `marks` may be NULL. */
uint32_t gm_marks_step(const struct gm_marks *marks, uint64_t event, uint32_t found);
/* Were steps marked at all? */
bool gm_marks_has_steps(const struct gm_marks *marks);
/* The phase that the innermost open range names whose name is that of a phase; else `found`. */
enum gm_phase gm_marks_phase(const struct gm_marks *marks, uint64_t event,
        const struct gm_site *site, enum gm_phase found);
/* The open ranges of an event's thread, outermost first; of a thread without any those of the one
 * that has. */
size_t gm_marks_ranges(const struct gm_marks *marks, uint64_t event, const struct gm_site *site,
        const char **ret_names, size_t max);
/* What the program has attached to its thread's allocations
 * (torch.cuda.memory._set_memory_metadata); NULL: nothing. */
const char *gm_marks_metadata(const struct gm_marks *marks, uint64_t event, uint64_t thread);
/* Where the forward pass made the node whose backward the event is of, as in GM_MARK_FORWARD; NULL:
 * not known. */
const char *gm_marks_forward(const struct gm_marks *marks, uint64_t event, uint64_t thread);

#endif
