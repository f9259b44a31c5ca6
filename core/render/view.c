#include "render/view.h"

#include <inttypes.h>

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"

struct gm_error *gm_render_view_text(const struct gm_view_written *written, FILE *out)
{
	char size[GM_SIZE_TEXT], events[GM_SIZE_GROUPED], blocks[GM_SIZE_GROUPED];
	gm_put(out, "%s: %s event%s and %s block%s in a %s of %s", written->path,
	        gm_text_grouped(written->events, events), gm_text_s(written->events),
	        gm_text_grouped(written->blocks, blocks), gm_text_s(written->blocks),
	        written->picture ? "picture" : "page", gm_text_size(written->bytes, size));
	if (written->compared)
		gm_put(out, ", compared with %s", written->compared);
	fputc('\n', out);
	return NULL;
}

struct gm_error *gm_render_view_json(const struct gm_view_written *written, FILE *out)
{
	json_t *value = json_pack("{s:o, s:I, s:I, s:I, s:I}", "path",
	        gm_json_string(written->path), "bytes", (json_int_t)written->bytes, "events",
	        (json_int_t)written->events, "blocks", (json_int_t)written->blocks, "devices",
	        (json_int_t)written->devices);
	if (written->picture)
		json_object_set_new(value, "columns", json_integer((json_int_t)written->columns));
	if (written->compared)
		json_object_set_new(value, "compared", gm_json_string(written->compared));
	return gm_json_write(value, true, out);
}
