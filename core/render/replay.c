#include "render/replay.h"

#include <inttypes.h>
#include <string.h>

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"

static const char *setting_name(const char *setting)
{
	return *setting ? setting : "(defaults)";
}

static int name_width(const struct gm_replay *replay)
{
	int width = 10;
	for (size_t i = 0; i < replay->count; i++) {
		int length = (int)strlen(setting_name(replay->settings[i]));
		width = length > width ? length : width;
	}
	return width < 60 ? width : 60;
}

static const char *difference(uint64_t peak, uint64_t run, char text[GM_SIZE_TEXT + 1])
{
	if (peak == run)
		return "same";
	text[0] = peak > run ? '+' : '-';
	gm_text_size(peak > run ? peak - run : run - peak, text + 1);
	return text;
}

static void put_row(const struct gm_replay_requests *requests,
        const struct gm_replay_result *result, const char *setting, int width, FILE *out)
{
	char reserved[GM_SIZE_TEXT], changed[GM_SIZE_TEXT + 1], unusable[GM_SIZE_TEXT],
	        size[GM_SIZE_TEXT];
	gm_put(out, "%-*s", width, setting_name(setting));
	if (result->outcome == GM_REPLAY_NO_SETTING) {
		gm_put(out, "  not a setting of this PyTorch: %s\n", result->why);
		return;
	}
	gm_put(out, "  %13s  %12s  %13s  %7" PRIu64, gm_text_size(result->peak_reserved, reserved),
	        difference(result->peak_reserved, requests->peak_reserved, changed),
	        gm_text_size(result->peak_unusable, unusable), result->retries);
	if (result->outcome == GM_REPLAY_OUT_OF_MEMORY)
		gm_put(out, "  out of memory at #%u: %s", result->event,
		        gm_text_size(result->size, size));
	else if (requests->refused)
		gm_put(out, "  %zu of %zu refused requests succeed", result->got,
		        requests->refused);
	gm_put(out, "\n");
}

/* What the replays are to be trusted with: does one of them do as the run did? */
static void put_reproduced(const struct gm_replay *replay, FILE *out)
{
	const struct gm_replay_requests *requests = &replay->requests;
	const struct gm_replay_result *results = replay->results;
	char closest[GM_SIZE_TEXT];
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < replay->count; i++) {
		if (results[i].outcome != GM_REPLAY_COMPLETE)
			continue;
		uint64_t peak = results[i].peak_reserved, run = requests->peak_reserved;
		uint64_t off = peak > run ? peak - run : run - peak;
		if (off == 0) {
			gm_put(out, "The run's own peak is reproduced to the byte with %s.\n",
			        setting_name(replay->settings[i]));
			return;
		}
		least = off < least ? off : least;
	}
	bool defaults = false;
	for (size_t i = 0; i < replay->count; i++)
		defaults |= !*replay->settings[i];
	if (least == UINT64_MAX)
		return;
	if (!defaults)
		gm_put(out, "To check the replay, add the run's own setting (--alloc-conf=): the "
		            "replay must have the run's peak.\n");
	else
		gm_put(out,
		        "No setting here reproduces the run's own peak (the nearest is %s off). "
		        "The run had another setting, another PyTorch, %sor memory in private "
		        "pools, which a recording does not show.\n",
		        gm_text_size(least, closest),
		        requests->total ? "" : "a device with another amount of memory, ");
}

void gm_render_replay_text(const struct gm_replay *replay, FILE *out)
{
	const struct gm_replay_requests *requests = &replay->requests;
	char reserved[GM_SIZE_TEXT], allocated[GM_SIZE_TEXT], total[GM_SIZE_TEXT],
	        changed[GM_SIZE_TEXT];
	int width = name_width(replay);
	gm_put(out,
	        "%s: cuda:%d, %zu allocations; peak reserved %s, peak allocated %s\n"
	        "replayed by PyTorch %s on a simulated device of %s (--sim=%s)\n",
	        replay->path, replay->device, requests->allocations,
	        gm_text_size(requests->peak_reserved, reserved),
	        gm_text_size(requests->peak_allocated, allocated), replay->torch,
	        gm_text_size(replay->profile.total, total), replay->profile.name);
	gm_put(out, "%-*s  %13s  %12s  %13s  %7s\n", width, "SETTING", "PEAK RESERVED", "CHANGE",
	        "PEAK UNUSABLE", "RETRIES");
	for (size_t i = 0; i < replay->count; i++)
		put_row(requests, &replay->results[i], replay->settings[i], width, out);
	put_reproduced(replay, out);
	const struct gm_replay_result *best =
	        replay->best == SIZE_MAX ? NULL : &replay->results[replay->best];
	if (!best)
		gm_put(out, "The run does not fit with any of these settings.\n");
	else if (best->peak_reserved < requests->peak_reserved || best->got)
		gm_put(out, "Lowest: %s, %s%s%s.\n", setting_name(replay->settings[replay->best]),
		        gm_text_size(best->peak_reserved, reserved),
		        best->peak_reserved < requests->peak_reserved ? ", less by " : "",
		        best->peak_reserved < requests->peak_reserved
		                ? gm_text_size(
		                          requests->peak_reserved - best->peak_reserved, changed)
		                : "");
	else
		gm_put(out, "None of these settings lowers the peak.\n");
	if (!requests->total)
		gm_put(out, "The recording does not contain the size of its device's memory: give "
		            "it with --sim.\n");
	if (requests->earlier)
		gm_put(out,
		        "%zu blocks were allocated before the recording began: their places in the "
		        "segments are not known.\n",
		        requests->earlier);
}

static json_t *result_json(const struct gm_replay_result *result, const char *setting)
{
	static const char *const outcomes[] = {
	        [GM_REPLAY_COMPLETE] = "complete",
	        [GM_REPLAY_OUT_OF_MEMORY] = "out_of_memory",
	        [GM_REPLAY_NO_SETTING] = "unknown_setting",
	};
	bool ran = result->outcome != GM_REPLAY_NO_SETTING,
	     ended = result->outcome == GM_REPLAY_OUT_OF_MEMORY;
	json_t *value = json_pack("{s:o,s:s,s:o}", "setting", gm_json_string(setting), "outcome",
	        outcomes[result->outcome], "error",
	        ran ? json_null() : gm_json_string(result->why));
	const struct {
		const char *name;
		uint64_t value;
		bool known;
	} numbers[] = {
	        {"peak_reserved", result->peak_reserved, ran},
	        {"peak_allocated", result->peak_allocated, ran},
	        {"peak_unusable", result->peak_unusable, ran},
	        {"retries", result->retries, ran},
	        {"refused_that_succeed", result->got, ran},
	        {"out_of_memory_event", result->event, ended},
	        {"out_of_memory_size", result->size, ended},
	        {"out_of_memory_reserved", result->reserved, ended},
	};
	for (size_t i = 0; value && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(value, numbers[i].name,
		        numbers[i].known ? json_integer((json_int_t)numbers[i].value)
		                         : json_null());
	if (value)
		json_object_set_new(
		        value, "seconds", ran ? json_real(result->seconds) : json_null());
	return value;
}

struct gm_error *gm_render_replay_json(const struct gm_replay *replay, FILE *out)
{
	const struct gm_replay_requests *requests = &replay->requests;
	json_t *list = json_array();
	for (size_t i = 0; list && i < replay->count; i++)
		json_array_append_new(list, result_json(&replay->results[i], replay->settings[i]));
	json_t *whole = json_pack("{s:o,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:I,s:o,s:o}", "file",
	        gm_json_string(replay->path), "device", replay->device, "allocations",
	        (json_int_t)requests->allocations, "allocated_before",
	        (json_int_t)requests->earlier, "unknown_frees", (json_int_t)requests->unknown,
	        "refused", (json_int_t)requests->refused, "peak_reserved",
	        (json_int_t)requests->peak_reserved, "peak_allocated",
	        (json_int_t)requests->peak_allocated, "torch", gm_json_string(replay->torch),
	        "profile", gm_json_string(replay->profile.name), "total",
	        (json_int_t)replay->profile.total, "lowest",
	        replay->best != SIZE_MAX ? json_integer((json_int_t)replay->best) : json_null(),
	        "settings", list);
	return gm_json_write(whole, false, out);
}
