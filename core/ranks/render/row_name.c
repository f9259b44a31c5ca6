#include "ranks/render/row_name.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ask/timeline.h"
#include "base/cleanup.h"
#include "render/json.h"
#include "render/say.h"

const char *gm_row_figure(const struct gm_rank_row *row)
{
	static const char *const names[] = {
	        [GM_FIGURE_PEAK] = "peak",
	        [GM_FIGURE_END] = "end",
	        [GM_FIGURE_BYTES] = "bytes",
	        [GM_FIGURE_BOUND] = "bounded",
	        [GM_FIGURE_CALLS] = "calls",
	        [GM_FIGURE_MOVED] = "moved",
	};
	return names[row->more];
}

static const char *calls_kind(const struct gm_rank_row *row)
{
	const char *name = gm_collective_kind_name(gm_calls_of(row->key).kind);
	return name ? name : "unknown";
}

char *gm_row_name(const struct gm_job *job, enum gm_section section, const struct gm_rank_row *row)
{
	const struct gm_calls_name calls = gm_calls_of(row->key);
	switch (section) {
	case GM_SECTION_PHASES:
		return gm_say("%s", gm_phase_name(row->key));
	case GM_SECTION_LEAKS:
		return gm_say("%s", gm_job_string(job, row->key));
	case GM_SECTION_TIMELINE:
		return gm_say("%s", gm_shape_name(row->key));
	case GM_SECTION_COLLECTIVES:
		if (!calls.ranks)
			return gm_say("%s in %s", calls_kind(row), gm_phase_name(calls.phase));
		return gm_say("%s in %s, among %" PRIu32 " ranks", calls_kind(row),
		        gm_phase_name(calls.phase), calls.ranks);
	default:
		return gm_say("%" PRIu32, row->key);
	}
}

void gm_set_row_name(json_t *value, const struct gm_job *job, enum gm_section section,
        const struct gm_rank_row *row)
{
	const struct gm_calls_name calls = gm_calls_of(row->key);
	switch (section) {
	case GM_SECTION_PHASES:
		json_object_set_new(value, "phase", json_string(gm_phase_name(row->key)));
		break;
	case GM_SECTION_LEAKS:
		json_object_set_new(value, "site", gm_json_string(gm_job_string(job, row->key)));
		break;
	case GM_SECTION_TIMELINE:
		json_object_set_new(value, "kind", json_string(gm_shape_name(row->key)));
		break;
	case GM_SECTION_COLLECTIVES:
		json_object_set_new(value, "kind", json_string(calls_kind(row)));
		json_object_set_new(value, "phase", json_string(gm_phase_name(calls.phase)));
		json_object_set_new(
		        value, "ranks", calls.ranks ? json_integer(calls.ranks) : json_null());
		break;
	default:
		json_object_set_new(value, "step", json_integer(row->key));
	}
}
