/* What parameters are called: "module.0.weight", as named_parameters() of the outermost module has
 * them, without wrapper modules. */
#ifndef GM_ASK_ZERO_NAMES_H
#define GM_ASK_ZERO_NAMES_H

#include "ask/zero/reading.h"
#include "base/map.h"

struct gm_zero_name {
	uint64_t module; /* that has it */
	char *name;      /* as what */
};

struct gm_zero_names {
	struct gm_map owners; /* a parameter or a module -> its name's number, from 1 */
	GM_ARRAY(struct gm_zero_name) entries;
};

/* Of the modules of the reading. False: no memory. */
bool gm_zero_names_find(struct gm_zero_reading *reading, struct gm_zero_names *names);
void gm_zero_names_deinit(struct gm_zero_names *names);
/* *ret_name: NULL where no module has it. False: no memory. The caller frees it. */
bool gm_zero_name_of(const struct gm_zero_names *names, uint64_t object, char **ret_name);

#endif
