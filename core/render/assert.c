#include "render/assert.h"

#include <inttypes.h>

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"

static const char *const verdicts[] = {
        [GM_ASSERT_HOLDS] = "holds", [GM_ASSERT_FAILS] = "fails", [GM_ASSERT_UNKNOWN] = "unknown"};
static const char *const kinds[] = {[GM_ASSERT_PEAK] = "peak",
        [GM_ASSERT_GROWTH] = "growth",
        [GM_ASSERT_LEAKS] = "leaks",
        [GM_ASSERT_STEPS] = "steps-equal",
        [GM_ASSERT_OOM] = "no-oom"};
static const char *const reasons[] = {[GM_ASSERT_MEASURED] = NULL,
        [GM_ASSERT_INCOMPLETE] = "incomplete",
        [GM_ASSERT_NOT_CLOSED] = "not_closed",
        [GM_ASSERT_TOO_FEW_STEPS] = "too_few_steps",
        [GM_ASSERT_NO_EVENTS] = "no_events",
        [GM_ASSERT_NOT_EXAMINED] = "not_examined",
        [GM_ASSERT_NO_BASELINE] = "no_baseline"};

/* Some figures are shown although they do not decide. */
static bool is_measured(const struct gm_assert_check *check)
{
	return !check->reason || check->reason == GM_ASSERT_INCOMPLETE ||
	       check->reason == GM_ASSERT_NOT_CLOSED || check->reason == GM_ASSERT_NOT_EXAMINED;
}

/* The question that shows more, with the device if it does not show that by itself. */
static void put_question(const struct gm_assert_check *check, FILE *out)
{
	gm_put(out, "`gpumem %s", check->kind == GM_ASSERT_LEAKS ? "leaks" : "steps");
	if (check->aside)
		gm_put(out, " --device %d", check->device);
	fputc('`', out);
}

static void put_reason(const struct gm_assert_check *check, FILE *out)
{
	char size[GM_SIZE_TEXT];
	switch (check->reason) {
	case GM_ASSERT_MEASURED:
		if (!check->aside || check->verdict != GM_ASSERT_FAILS)
			break;
		fputs(" (", out);
		put_question(check, out);
		fputs(" shows more)", out);
		break;
	case GM_ASSERT_INCOMPLETE:
		gm_put(out,
		        "; but the recording is not complete (`gpumem info` says what is missing; "
		        "--allow-gaps accepts it)");
		break;
	case GM_ASSERT_NOT_CLOSED:
		gm_put(out, "; but the recording is not closed: it still runs, or the recorder was "
		            "killed (--allow-gaps accepts it)");
		break;
	case GM_ASSERT_TOO_FEW_STEPS:
		gm_put(out, "there are too few steps to tell");
		break;
	case GM_ASSERT_NO_EVENTS:
		gm_put(out, "the recording has no events of the device");
		break;
	case GM_ASSERT_NOT_EXAMINED:
		gm_put(out, "; but %s that were allocated after the steps are not examined (",
		        gm_text_size(check->not_examined, size));
		put_question(check, out);
		fputs(" shows more)", out);
		break;
	case GM_ASSERT_NO_BASELINE:
		gm_put(out, "the baseline has no events of the device, or is not complete");
		break;
	}
}

/* "less than 20.00 GiB", "at most 1.00 MiB", "nothing" */
static const char *limit_text(const struct gm_assert_limit *limit, char *buffer, size_t size)
{
	char bytes[GM_SIZE_TEXT];
	if (!limit->bytes && !limit->strict)
		return "nothing";
	snprintf(buffer, size, "%s %s", limit->strict ? "less than" : "at most",
	        gm_text_size(limit->bytes, bytes));
	return buffer;
}

static void put_figures(const struct gm_assert_check *check, FILE *out)
{
	char actual[GM_SIZE_TEXT], bytes[GM_SIZE_GROUPED], more[GM_SIZE_TEXT], buffer[48];
	const char *limit = limit_text(&check->limit, buffer, sizeof(buffer));
	gm_text_size(check->actual, actual);
	gm_text_grouped(check->actual, bytes);
	switch (check->kind) {
	case GM_ASSERT_PEAK:
		gm_put(out, "%s allocated (%s bytes), %s is allowed; reserved: %s", actual, bytes,
		        limit, gm_text_size(check->reserved, more));
		break;
	case GM_ASSERT_GROWTH:
		gm_put(out, "%s (%s bytes) more than the baseline's %s, %s is allowed", actual,
		        bytes, gm_text_size(check->baseline, more), limit);
		break;
	case GM_ASSERT_LEAKS:
		gm_put(out, "%" PRIu64 " line%s left %s behind (%s bytes), %s is allowed",
		        check->lines, gm_text_s(check->lines), actual, bytes, limit);
		break;
	case GM_ASSERT_STEPS:
		gm_put(out, "steps from the second on differ by %s (%s bytes)", actual, bytes);
		if (check->actual)
			gm_put(out, ", steps %" PRIu64 " and %" PRIu64 " most", check->from,
			        check->to);
		gm_put(out, "; %s is allowed", limit);
		break;
	case GM_ASSERT_OOM:
		gm_put(out, "%s out-of-memory error%s", bytes, gm_text_s(check->actual));
		break;
	case GM_ASSERT_KINDS:
		break;
	}
}

struct gm_error *gm_render_assert_text(
        const char *name, const struct gm_assert_answer *answer, FILE *out)
{
	if (name)
		gm_put(out, "%s\n", gm_text_path(name));
	for (size_t i = 0; i < answer->count; i++) {
		const struct gm_assert_check *check = &answer->items[i];
		char device[GM_SIZE_TEXT] = "";
		if (check->device >= 0)
			gm_text_device(check->device_type, (int16_t)check->device, device);
		gm_put(out, "  %-7s  %s%s%s: ", verdicts[check->verdict], kinds[check->kind],
		        *device ? " of " : "", device);
		if (is_measured(check))
			put_figures(check, out);
		put_reason(check, out);
		gm_put(out, "\n");
	}
	return NULL;
}

static json_t *check_json(const struct gm_assert_check *check)
{
	bool measured = is_measured(check);
	json_t *value = json_object();
	json_object_set_new(value, "check", json_string(kinds[check->kind]));
	json_object_set_new(value, "verdict", json_string(verdicts[check->verdict]));
	json_object_set_new(value, "reason",
	        reasons[check->reason] ? json_string(reasons[check->reason]) : json_null());
	json_object_set_new(
	        value, "device", check->device >= 0 ? json_integer(check->device) : json_null());
	json_object_set_new(
	        value, "actual", measured ? json_integer((json_int_t)check->actual) : json_null());
	json_object_set_new(value, "limit", json_integer((json_int_t)check->limit.bytes));
	json_object_set_new(value, "strict", json_boolean(check->limit.strict));
	if (check->kind == GM_ASSERT_PEAK && measured)
		json_object_set_new(value, "reserved", json_integer((json_int_t)check->reserved));
	if (check->kind == GM_ASSERT_GROWTH && measured)
		json_object_set_new(value, "baseline", json_integer((json_int_t)check->baseline));
	if (check->kind == GM_ASSERT_LEAKS && measured)
		json_object_set_new(value, "lines", json_integer((json_int_t)check->lines));
	if (check->kind == GM_ASSERT_LEAKS)
		json_object_set_new(
		        value, "not_examined", json_integer((json_int_t)check->not_examined));
	if (check->kind == GM_ASSERT_STEPS && measured && check->actual)
		json_object_set_new(value, "steps",
		        json_pack("[I, I]", (json_int_t)check->from, (json_int_t)check->to));
	return value;
}

struct gm_error *gm_render_assert_json(
        const char *const *names, const struct gm_assert_answer *answers, size_t count, FILE *out)
{
	json_t *files = json_array();
	bool holds = true;
	for (size_t i = 0; i < count; i++) {
		json_t *file = json_object(), *checks = json_array();
		for (size_t j = 0; j < answers[i].count; j++)
			json_array_append_new(checks, check_json(&answers[i].items[j]));
		json_object_set_new(
		        file, "file", names[i] ? gm_json_string(names[i]) : json_null());
		json_object_set_new(file, "complete", json_boolean(answers[i].complete));
		json_object_set_new(file, "holds", json_boolean(gm_assert_all_hold(&answers[i])));
		json_object_set_new(file, "checks", checks);
		json_array_append_new(files, file);
		holds &= gm_assert_all_hold(&answers[i]);
	}
	json_t *value = json_object();
	json_object_set_new(value, "holds", json_boolean(holds));
	json_object_set_new(value, "files", files);
	return gm_json_write(value, true, out);
}
