#include "render/at.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "model/state.h"
#include "render/answers.h"
#include "render/blocks.h"
#include "render/json.h"

static struct gm_usage usage_of(const struct gm_blocks *blocks)
{
	return gm_model_usage_after(blocks->model, blocks->device, blocks->event);
}

struct gm_error *gm_render_at_text(
        const struct gm_blocks *blocks, const struct gm_style *style, FILE *out)
{
	const struct gm_model_device *device = gm_model_device(blocks->model, blocks->device);
	struct gm_usage usage = usage_of(blocks);
	char name[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_try(gm_render_events_text(
	        blocks->model, blocks->event, blocks->event, false, style, out));
	gm_put(out, "%s: %s reserved (%s bytes) after it\n",
	        gm_text_device(device->type, device->index, name),
	        gm_text_size(usage.reserved, reserved), gm_text_grouped(usage.reserved, exact));
	return gm_render_blocks_text(blocks, false, style, out);
}

struct gm_error *gm_render_at_json(const struct gm_blocks *blocks, FILE *out)
{
	struct gm_usage usage = usage_of(blocks);
	json_t *value = gm_json_blocks(blocks, true);
	json_object_set_new(value, "reserved", json_integer((json_int_t)usage.reserved));
	json_object_set_new(value, "active", json_integer((json_int_t)usage.active));
	json_object_set_new(value, "at", gm_json_event(blocks->model, blocks->event));
	return gm_json_write(value, true, out);
}
