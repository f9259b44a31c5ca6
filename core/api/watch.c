/* Conditions at which a recorded program stops. */
#include "api/recorder.h"
#include "model/condition.h"

int gpumem_recorder_watch(
        gpumem_recorder *recorder, uint32_t id, const char *condition, int once, char **ret_err)
{
	*ret_err = NULL;
	return gm_api_give_error(
	        gm_recorder_watch(recorder->recorder, id, condition, once != 0), ret_err);
}

void gpumem_recorder_unwatch(gpumem_recorder *recorder, uint32_t id)
{
	gm_recorder_unwatch(recorder->recorder, id);
}

uint64_t gpumem_recorder_watch_hits(gpumem_recorder *recorder, uint32_t id)
{
	return gm_recorder_watch_hits(recorder->recorder, id);
}

uint32_t gpumem_recorder_stopped_by(gpumem_recorder *recorder, uint64_t *ret_event)
{
	return gm_recorder_stopped_by(recorder->recorder, ret_event);
}

static int check(const char *condition, enum gm_subject subject, uint32_t step, uint64_t event,
        size_t *ret_column, char **ret_err)
{
	struct gm_condition *parsed = NULL;
	*ret_err = NULL;
	struct gm_error *error = gm_condition_parse(condition, subject, ret_column, &parsed);
	if (error)
		return gm_api_give_error(error, ret_err);
	bool hopeless = gm_condition_is_hopeless(parsed, step, event);
	gm_condition_destroy(parsed);
	return hopeless ? GPUMEM_NEGATIVE : GPUMEM_OK;
}

int gpumem_condition_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err)
{
	return check(condition, GM_OF_EVENTS, step, event, ret_column, ret_err);
}

int gpumem_walk_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err)
{
	return check(condition, GM_OF_AGENT_EVENTS, step, event, ret_column, ret_err);
}
