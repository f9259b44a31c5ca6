/* The answers of `frames` and `locals` as text and as JSON. */
#ifndef GM_RENDER_FRAMES_H
#define GM_RENDER_FRAMES_H

#include <jansson.h>
#include <stdio.h>

#include "ask/frames.h"
#include "ask/locals.h"

/* One frame and its source line: "   1  train.py:12 in train". */
void gm_put_python_frame(const struct gm_frames *frames, uint64_t number, FILE *out);
/* Whose frames they are; false: those of the thread that was asked about, nothing to say. */
bool gm_put_other_thread(const struct gm_frames *frames, FILE *out);
json_t *gm_json_python_frame(const struct gm_frames *frames, uint64_t number);

/* one: the number of the one frame to show; NULL: all. */
void gm_render_frames_text(const struct gm_frames *frames, const uint64_t *one, FILE *out);
struct gm_error *gm_render_frames_json(
        const struct gm_frames *frames, const uint64_t *one, FILE *out);
void gm_render_locals_text(const struct gm_locals *locals, FILE *out);
struct gm_error *gm_render_locals_json(const struct gm_locals *locals, FILE *out);

#endif
