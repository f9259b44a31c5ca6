#include "render/fit.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"

static const struct gm_fit_run *run_of(const struct gm_fit *fit, int64_t value)
{
	for (unsigned i = 0; i < fit->count; i++)
		if (fit->runs[i].value == value)
			return &fit->runs[i];
	return NULL;
}

void gm_render_fit_text(const struct gm_fit *fit, const struct gm_fit_view *view, FILE *out)
{
	char total[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT];
	const char *name = view->name + 1;
	int length = (int)strlen(view->name) - 2;
	const char *device = view->device;
	gm_text_size(view->total, total);
	if (!fit->any) {
		gm_put(out, "\nNot even %.*s = %" PRId64 " fits %s (%s).\n", length, name,
		        fit->from, device, total);
		return;
	}
	const struct gm_fit_run *best = run_of(fit, fit->largest);
	gm_put(out, "\n%.*s = %" PRId64 " is the largest that fits %s (%s): it takes %s.\n", length,
	        name, fit->largest, device, total,
	        gm_text_size(best ? best->peak_reserved : 0, reserved));
	if (fit->largest == fit->to)
		gm_put(out, "It is the upper end of the range: more may fit.\n");
	else
		gm_put(out,
		        "%u runs. gpumem assumes that if a value fits, every smaller value fits.\n",
		        fit->count);
}

struct gm_error *gm_render_fit_json(
        const struct gm_fit *fit, const struct gm_fit_view *view, FILE *out)
{
	json_t *runs = json_array();
	for (unsigned i = 0; runs && i < fit->count; i++) {
		const struct gm_fit_run *run = &fit->runs[i];
		json_array_append_new(
		        runs, json_pack("{s:I,s:b,s:I,s:I,s:f}", "value", (json_int_t)run->value,
		                      "fits", run->fits, "peak_reserved",
		                      (json_int_t)run->peak_reserved, "peak_allocated",
		                      (json_int_t)run->peak_allocated, "seconds", run->seconds));
	}
	const char *name = view->name;
	json_t *whole = runs ? json_pack("{s:s%,s:I,s:I,s:s,s:I,s:o,s:o,s:s}", "name", name + 1,
	                               strlen(name) - 2, "from", (json_int_t)fit->from, "to",
	                               (json_int_t)fit->to, "profile", view->device, "total",
	                               (json_int_t)view->total, "largest",
	                               fit->any ? json_integer(fit->largest) : json_null(), "runs",
	                               runs, "assumes", "monotonic")
	                     : NULL;
	return gm_json_write(whole, false, out);
}
