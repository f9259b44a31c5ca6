/* The public interface of the breakpoint recorder, which gdb's plugin calls by ctypes. */
#include <string.h>

#include "base/cleanup.h"
#include "api/recorder.h"
#include "render/recording.h"

_Static_assert((int)GPUMEM_STOP == (int)GM_STOP && (int)GPUMEM_NEW_SITES == (int)GM_NEW_PROBES &&
                       (int)GPUMEM_REFUSED == (int)GM_REFUSED &&
                       (int)GPUMEM_NEW_LIBRARIES == (int)GM_NEW_LIBRARIES,
        "verdicts are the same inside and outside");

int gm_api_give_error(struct gm_error *error, char **ret_err)
{
	if (!error)
		return GM_OK;
	int status = error->status;
	*ret_err = strdup(error->message);
	gm_error_destroy(error);
	return status;
}

static struct gm_error *parse_devices(const char *devices, struct gm_recorder_options *options)
{
	for (const char *cursor = devices; *cursor;) {
		size_t length = strcspn(cursor, ",");
		if (length == 4 && strncmp(cursor, "cuda", 4) == 0)
			options->cuda = true;
		else if (length == 3 && strncmp(cursor, "cpu", 3) == 0)
			options->cpu = true;
		else
			return gm_error_create(GM_USAGE,
			        "--devices %s: no such device '%.*s': use cuda, cpu or cuda,cpu",
			        devices, (int)length, cursor);
		cursor += length;
		cursor += *cursor == ',';
	}
	if (!options->cuda && !options->cpu)
		return gm_error_create(
		        GM_USAGE, "--devices: no device given: use cuda, cpu or cuda,cpu");
	return NULL;
}

static struct gm_error *create(int pid, const char *devices, const char *log_path,
        const char *source, gpumem_recorder **ret_recorder)
{
	struct gm_recorder_options options = {
	        .python_stacks = true,
	        .native_stacks = true,
	        .log_path = log_path,
	        .source = source,
	};
	gm_try(parse_devices(devices, &options));
	gpumem_recorder *recorder = calloc(1, sizeof(*recorder));
	if (!recorder)
		return &gm_error_no_memory;
	struct gm_error *error = gm_recorder_create(&options, pid, &recorder->recorder);
	if (!error)
		error = gm_recorder_probes(
		        recorder->recorder, &recorder->sites, &recorder->site_count);
	if (error) {
		if (recorder->recorder)
			gm_error_destroy(gm_recorder_close(recorder->recorder));
		free(recorder);
		return error;
	}
	*ret_recorder = recorder;
	return NULL;
}

int gpumem_recorder_create(int pid, const char *devices, const char *log_path, const char *source,
        gpumem_recorder **ret_recorder, char **ret_err)
{
	*ret_err = NULL;
	return gm_api_give_error(create(pid, devices, log_path, source, ret_recorder), ret_err);
}

int gpumem_recorder_close(gpumem_recorder *recorder, char **ret_err)
{
	*ret_err = NULL;
	if (!recorder)
		return GM_OK;
	struct gm_error *error = gm_recorder_close(recorder->recorder);
	free(recorder);
	return gm_api_give_error(error, ret_err);
}

int gpumem_recorder_refresh(gpumem_recorder *recorder, size_t *ret_count, char **ret_err)
{
	*ret_err = NULL;
	struct gm_error *error =
	        gm_recorder_probes(recorder->recorder, &recorder->sites, &recorder->site_count);
	if (error)
		return gm_api_give_error(error, ret_err);
	*ret_count = recorder->site_count;
	return GM_OK;
}

size_t gpumem_recorder_site_count(gpumem_recorder *recorder)
{
	return recorder->site_count;
}

uint64_t gpumem_recorder_site_address(gpumem_recorder *recorder, size_t index)
{
	return index < recorder->site_count ? recorder->sites[index].address : 0;
}

const char *gpumem_recorder_site_name(gpumem_recorder *recorder, size_t index)
{
	return index < recorder->site_count ? recorder->sites[index].name : NULL;
}

int gpumem_recorder_hit(
        gpumem_recorder *recorder, uint64_t address, int thread, const uint64_t *registers)
{
	struct gm_registers given;
	if (registers)
		memcpy(given.value, registers, sizeof(given.value));
	int verdict;
	struct gm_error *error = gm_recorder_hit(
	        recorder->recorder, address, thread, registers ? &given : NULL, &verdict);
	if (error) {
		gm_error_destroy(error);
		return -1;
	}
	return verdict;
}

int gpumem_recorder_advance(gpumem_recorder *recorder, uint64_t address, int thread)
{
	return gm_recorder_advance(recorder->recorder, address, thread);
}

void gpumem_recorder_stop_at(gpumem_recorder *recorder, uint64_t address, int thread,
        const uint64_t *registers, int advance, struct gpumem_stop_answer *answer)
{
	answer->advanced = 0;
	answer->verdict = gpumem_recorder_hit(recorder, address, thread, registers);
	if (advance && answer->verdict == GPUMEM_CONTINUE)
		answer->advanced = gpumem_recorder_advance(recorder, address, thread);
	answer->stops++;
}

const char *gpumem_recorder_refusal(gpumem_recorder *recorder)
{
	return gm_recorder_refusal(recorder->recorder);
}

void gpumem_recorder_stop_when(gpumem_recorder *recorder, uint64_t events, uint32_t step)
{
	struct gm_stop_condition condition = {.events = events, .step = step};
	gm_recorder_stop_when(recorder->recorder, &condition);
}

int gpumem_recorder_flush(gpumem_recorder *recorder, char **ret_err)
{
	*ret_err = NULL;
	return gm_api_give_error(gm_recorder_flush(recorder->recorder), ret_err);
}

uint32_t gpumem_recorder_step(gpumem_recorder *recorder)
{
	return gm_recorder_step(recorder->recorder);
}

uint64_t gpumem_recorder_event_count(gpumem_recorder *recorder)
{
	return gm_recorder_event_count(recorder->recorder);
}

char *gpumem_recorder_summary(gpumem_recorder *recorder)
{
	struct gm_recorder_summary summary;
	gm_recorder_summarise(recorder->recorder, &summary);
	return gm_render_recording(&(struct gm_recording_figures){
	        .events = summary.events,
	        .gaps = summary.gaps,
	        .cuda_peak = summary.cuda_peak,
	        .cpu_peak = summary.cpu_peak,
	        .torch_seen = summary.torch_seen,
	});
}
