/* Waiting until a process is stopped. Internal to core/learn. */
#ifndef GM_LEARN_STILL_H
#define GM_LEARN_STILL_H

#include <stdbool.h>
#include <sys/types.h>

/* Waits until no thread of the process runs, nor could run; at most `most_ms`. false: one still
 * does, or the process is gone. */
bool gm_wait_still(pid_t pid, int most_ms);

#endif
