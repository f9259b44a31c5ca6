/* A picture of a recording as SVG, for reports: it needs no browser, no script and no font of its
 * own. Its size has a bound, whatever the recording. */
#ifndef GM_RENDER_PICTURE_H
#define GM_RENDER_PICTURE_H

#include <stdio.h>

#include "ask/recording/picture.h"

struct gm_error *gm_render_picture_svg(const struct gm_picture *picture, FILE *out);

#endif
