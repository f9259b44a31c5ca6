/* The plot of a picture: areas, the reserved line, scales, steps, phases and marks. */
#ifndef GM_RENDER_PICTURE_PLOT_H
#define GM_RENDER_PICTURE_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "ask/recording/picture.h"

/* In pixels, as are all lengths here. */
enum {
	GM_PICTURE_WIDTH = 1200,
	GM_PICTURE_LEFT = 84,
	GM_PICTURE_AREA_WIDTH = 1100,
	GM_PICTURE_AREA_HEIGHT = 380,
	GM_PICTURE_STEPS_HEIGHT = 20,  /* the numbers of the steps, above the area */
	GM_PICTURE_EVENTS_HEIGHT = 34, /* phases and the numbers of the events, below it */
	GM_PICTURE_CHARACTER = 7,      /* at most, of a text of 12 pixels */
};

/* Sums from the bottom of the plot up: what stays, then what comes and goes. */
extern const int gm_picture_order[GM_BUCKET_SUMS];
/* "optimizer state"; of the last sum "from before the recording". Colours are those of the page. */
const char *gm_picture_words(int sum);
const char *gm_picture_colour(int sum);
const char *gm_picture_phase_colour(enum gm_phase phase);

struct gm_picture_plot {
	const struct gm_picture *picture;
	FILE *out;
	double top;                  /* y of the area's upper edge */
	uint64_t bytes;              /* that it stands for */
	bool phases[GM_PHASE_COUNT]; /* that were drawn */
};

/* The picture has columns. */
void gm_picture_draw(struct gm_picture_plot *plot);

#endif
