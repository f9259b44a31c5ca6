/* Inside of the api room: the handle of a recorder. */
#ifndef GM_API_RECORDER_H
#define GM_API_RECORDER_H

#include "gpumem.h"
#include "record/record.h"

struct gpumem_recorder {
	struct gm_recorder *recorder;
	const struct gm_probe_site *sites;
	size_t site_count;
};

/* An error's status; its message goes to *ret_err, which may stay NULL where there is no memory. */
int gm_api_give_error(struct gm_error *error, char **ret_err);

#endif
