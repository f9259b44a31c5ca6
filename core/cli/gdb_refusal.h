/* Why the kernel will not let gdb do what it is about to be told, of which gdb itself says
 * "Operation not permitted". */
#ifndef GM_CLI_GDB_REFUSAL_H
#define GM_CLI_GDB_REFUSAL_H

#include <stdbool.h>

/* Of gdb's own arguments, words[1] to words[count - 1], and whether a program was named to start.
 * NULL: nothing is known to stand in its way. Caller frees. */
char *gm_gdb_refusal(char *const *words, int count, bool starts);

#endif
