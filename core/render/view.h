/* view: which page or picture was written, and what is in it. */
#ifndef GM_RENDER_VIEW_H
#define GM_RENDER_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct gm_view_written {
	const char *path;
	uint64_t bytes;
	uint64_t events, blocks, devices; /* that are in it: of a page all of the recording */
	bool picture;                     /* else a page */
	uint64_t columns;                 /* of a picture */
	const char *compared;             /* the other recording of a page, NULL: none */
};

struct gm_error *gm_render_view_text(const struct gm_view_written *written, FILE *out);
struct gm_error *gm_render_view_json(const struct gm_view_written *written, FILE *out);

#endif
