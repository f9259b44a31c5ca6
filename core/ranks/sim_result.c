#include "ranks/sim_result.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "render/json.h"

static const char *const outcomes[GM_SIM_OUTCOMES] = {
        [GM_SIM_RAN] = "ran",
        [GM_SIM_OUT_OF_MEMORY] = "out_of_memory",
        [GM_SIM_FAILED] = "failed",
        [GM_SIM_CRASHED] = "crashed",
        [GM_SIM_TIMED_OUT] = "timed_out",
        [GM_SIM_KILLED] = "killed",
        [GM_SIM_NOT_STARTED] = "not_started",
};

const char *gm_sim_outcome_name(enum gm_sim_outcome outcome)
{
	return outcomes[outcome];
}

uint64_t gm_sim_result_class(const struct gm_sim_result *result)
{
	const uint64_t parts[] = {result->outcome, result->status, result->digest, result->events,
	        result->peak_allocated, result->peak_reserved, result->ooms, result->requested};
	return gm_hash_bytes(parts, sizeof(parts), 0);
}

struct gm_error *gm_sim_result_text(const struct gm_sim_result *result, char **ret_text)
{
	char digest[24];
	json_t *value = json_object();
	snprintf(digest, sizeof(digest), "%016" PRIx64, result->digest);
	json_object_set_new(value, "rank", json_integer(result->rank));
	json_object_set_new(value, "outcome", json_string(outcomes[result->outcome]));
	json_object_set_new(value, "status", json_integer(result->status));
	json_object_set_new(value, "digest", json_string(digest));
	json_object_set_new(value, "events", json_integer((json_int_t)result->events));
	json_object_set_new(
	        value, "peak_allocated", json_integer((json_int_t)result->peak_allocated));
	json_object_set_new(
	        value, "peak_reserved", json_integer((json_int_t)result->peak_reserved));
	json_object_set_new(value, "ooms", json_integer((json_int_t)result->ooms));
	json_object_set_new(value, "requested", json_integer((json_int_t)result->requested));
	json_object_set_new(value, "device_total", json_integer((json_int_t)result->total));
	json_object_set_new(value, "seconds", json_real(result->seconds));
	json_object_set_new(value, "host", gm_json_string(result->host));
	json_object_set_new(value, "line", gm_json_string(result->line));
	return gm_json_text(value, JSON_INDENT(1), ret_text);
}

static bool get_number(const json_t *value, const char *name, uint64_t most, uint64_t *ret)
{
	const json_t *number = json_object_get(value, name);
	if (!json_is_integer(number) || json_integer_value(number) < 0 ||
	        (uint64_t)json_integer_value(number) > most)
		return false;
	*ret = (uint64_t)json_integer_value(number);
	return true;
}

/* Cut where it is longer: a character that was no UTF-8 is so, when it is written. */
static bool get_text(const json_t *value, const char *name, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(value, name));
	if (!text)
		return false;
	snprintf(ret, size, "%s", text);
	return true;
}

static bool get_digest(const json_t *value, uint64_t *ret)
{
	char text[24], *end;
	if (!get_text(value, "digest", text, sizeof(text)) || strlen(text) != 16)
		return false;
	*ret = strtoull(text, &end, 16);
	return *end == 0;
}

static bool get_outcome(const json_t *value, enum gm_sim_outcome *ret)
{
	const char *text = json_string_value(json_object_get(value, "outcome"));
	for (int i = 0; text && i < GM_SIM_OUTCOMES; i++)
		if (strcmp(text, outcomes[i]) == 0) {
			*ret = (enum gm_sim_outcome)i;
			return true;
		}
	return false;
}

struct gm_error *gm_sim_result_read(
        const char *name, const char *text, size_t size, struct gm_sim_result *ret_result)
{
	struct gm_sim_result result = {0};
	uint64_t rank = 0, status = 0;
	json_error_t why;
	json_t *value = json_loadb(text, size, 0, &why);
	if (!value)
		return gm_error_create(GM_CORRUPT, "%s: offset %d: not the result of a rank: %s",
		        name, why.position, why.text);
	const json_t *seconds = json_object_get(value, "seconds");
	bool good = get_number(value, "rank", UINT32_MAX - 1, &rank) &&
	            get_outcome(value, &result.outcome) &&
	            get_number(value, "status", 255, &status) &&
	            get_digest(value, &result.digest) &&
	            get_number(value, "events", INT64_MAX, &result.events) &&
	            get_number(value, "peak_allocated", INT64_MAX, &result.peak_allocated) &&
	            get_number(value, "peak_reserved", INT64_MAX, &result.peak_reserved) &&
	            get_number(value, "ooms", INT64_MAX, &result.ooms) &&
	            get_number(value, "requested", INT64_MAX, &result.requested) &&
	            get_number(value, "device_total", INT64_MAX, &result.total) &&
	            json_is_number(seconds) &&
	            get_text(value, "host", result.host, sizeof(result.host)) &&
	            get_text(value, "line", result.line, sizeof(result.line));
	result.seconds = json_number_value(seconds);
	json_decref(value);
	if (!good || !(result.seconds >= 0 && result.seconds < 1e9))
		return gm_error_create(
		        GM_CORRUPT, "%s: a field of the result is missing or wrong", name);
	result.rank = (uint32_t)rank;
	result.status = (uint32_t)status;
	*ret_result = result;
	return NULL;
}
