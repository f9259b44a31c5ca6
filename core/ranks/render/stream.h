/* An object of JSON, written member by member and item by item: an answer about a thousand ranks is
 * too large to be a value in memory. */
#ifndef GM_RANKS_RENDER_STREAM_H
#define GM_RANKS_RENDER_STREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct gm_json_stream {
	FILE *out;
	bool follows;           /* something precedes in the object or array */
	struct gm_error *error; /* the first; nothing is written after it */
};

void gm_stream_begin(struct gm_json_stream *stream, FILE *out);
/* A member of the object, or (name NULL) an item of the array. Releases the value. */
void gm_stream_put(struct gm_json_stream *stream, const char *name, json_t *value);
/* An array or object within; name NULL: as an item. */
void gm_stream_open(struct gm_json_stream *stream, const char *name, char bracket);
void gm_stream_close(struct gm_json_stream *stream, char bracket);
/* Returns the first error. */
struct gm_error *gm_stream_end(struct gm_json_stream *stream);

#endif
