#include "ranks/render/stream.h"

#include "base/put.h"
#include "render/json.h"

static void put_head(struct gm_json_stream *stream, const char *name)
{
	fputs(stream->follows ? "," : "", stream->out);
	if (name)
		gm_put(stream->out, "\"%s\": ", name); /* names are ours */
	stream->follows = true;
}

void gm_stream_begin(struct gm_json_stream *stream, FILE *out)
{
	*stream = (struct gm_json_stream){.out = out};
	fputs("{", out);
}

void gm_stream_put(struct gm_json_stream *stream, const char *name, json_t *value)
{
	if (stream->error) {
		json_decref(value);
		return;
	}
	put_head(stream, name);
	stream->error = gm_json_write_as(value, JSON_COMPACT | JSON_ENCODE_ANY, stream->out);
}

void gm_stream_open(struct gm_json_stream *stream, const char *name, char bracket)
{
	if (stream->error)
		return;
	put_head(stream, name);
	gm_put(stream->out, "%c\n", bracket);
	stream->follows = false;
}

void gm_stream_close(struct gm_json_stream *stream, char bracket)
{
	if (!stream->error)
		gm_put(stream->out, "%c\n", bracket);
	stream->follows = true;
}

struct gm_error *gm_stream_end(struct gm_json_stream *stream)
{
	if (!stream->error)
		fputs("}\n", stream->out);
	return stream->error;
}
