/*
 * The question `oom`: why did PyTorch run out of memory? Of a process or a core dump in which it
 * did, with nothing recorded; of a recording or snapshot with an oom event; of a pasted message
 * (oom_text.h).
 */
#ifndef GM_ASK_OOM_H
#define GM_ASK_OOM_H

#include "ask/context.h"
#include "ask/oom/oom_answer.h"

/* `device`: the index of the device whose error is asked about; -1: any. GM_NEGATIVE with a
 * sentence: no error is there, nor was one counted. */
struct gm_error *gm_ask_oom_target(struct gm_context *context, int device, struct gm_oom *ret_oom);
/* has_event: the oom event of that number; else the last one. `device`: of the accelerator with
 * this index; -1: of any. GM_NEGATIVE with a sentence: there is none. GM_USAGE: `event` is not one.
 */
struct gm_error *gm_ask_oom_event(struct gm_context *context, int device, bool has_event,
        uint64_t event, struct gm_oom *ret_oom);
void gm_oom_deinit(struct gm_oom *oom);

/* The frame to name first: the innermost one outside libraries, else the innermost; NULL: there are
 * no frames. Belongs to `oom`. */
const struct gm_oom_place *gm_oom_site(const struct gm_oom *oom);

#endif
