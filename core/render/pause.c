#include "render/pause.h"

#include "base/put.h"
#include "ask/target/pause.h"

void gm_put_pause(const struct gm_pause *pause, FILE *out)
{
	static const char *const reasons[] = {
	        [GM_NOT_PAUSED] = "it was not paused (--no-pause)",
	        [GM_NOT_STOPPABLE] = "it could not be paused: another process traces it, or "
	                             "permission is missing",
	        [GM_INCONSISTENT] = "at each pause the allocator was in the middle of a change",
	};
	if (!gm_pause_is_still(pause))
		gm_put(out, "not complete: the process ran while it was read: %s\n",
		        reasons[pause->state]);
}

json_t *gm_json_pause(const struct gm_pause *pause)
{
	static const char *const states[] = {[GM_STILL] = "still",
	        [GM_PAUSED] = "paused",
	        [GM_NOT_PAUSED] = "not_paused",
	        [GM_NOT_STOPPABLE] = "not_stoppable",
	        [GM_INCONSISTENT] = "inconsistent"};
	return json_pack("{s:s, s:f, s:i, s:I}", "state", states[pause->state], "seconds",
	        pause->seconds, "tries", (int)pause->tries, "copied", (json_int_t)pause->copied);
}
