/* The options that all commands of the shell have, before COMMAND or among its own options. */
#ifndef GM_CLI_GENERAL_OPTIONS_H
#define GM_CLI_GENERAL_OPTIONS_H

#include <stdbool.h>

struct gm_general_options {
	bool quiet;    /* no notes, no progress */
	bool no_pager; /* the answer goes to the terminal as it is */
};

/* Takes them out of argv[1..], of which *argc words remain. Behind COMMAND they are taken only
 * where they cannot be another program's. */
struct gm_general_options gm_general_options_take(int *argc, char **argv);

#endif
