/* The command line of a process, as one line for a message. */
#ifndef GM_ASK_COMMAND_LINE_H
#define GM_ASK_COMMAND_LINE_H

#include <stddef.h>

/* The words of /proc/PID/cmdline with a space between them, at most `most` bytes of them; a control
 * character is a space. "": the process has none, or has ended. NULL: no memory. The caller frees
 * it. */
char *gm_command_line(int pid, size_t most);

#endif
