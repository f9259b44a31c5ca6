/*
 * One breakpoint stop: which probe it is, which event it becomes, and what the debugger does next.
 * This is the hot path of recording at breakpoints.
 */
#include "base/cleanup.h"
#include "record/recorder.h"
#include "record/blocks.h"
#include "record/event.h"
#include "record/gap.h"
#include "record/oom.h"
#include "record/probes.h"
#include "record/readers.h"
#include "record/record.h"
#include "record/resized.h"
#include "record/runtime.h"
#include "record/tensors.h"

enum { R_CONSISTENT = 0 };

enum { FLUSH_EVERY = 64 };

static const struct gm_probe_site *site_at(const struct gm_recorder *recorder, uint64_t address)
{
	for (size_t i = 0; i < recorder->site_count; i++)
		if (recorder->sites[i].address == address)
			return &recorder->sites[i];
	return NULL;
}

static struct gm_error *libraries_changed(struct gm_recorder *recorder, int *ret_verdict)
{
	uint32_t state;
	if (recorder->link_state &&
	        gm_image_try_u32(recorder->image, recorder->link_state, &state) &&
	        state != R_CONSISTENT)
		return NULL;
	size_t sites = recorder->site_count;
	gm_try(gm_record_find_probes(recorder));
	*ret_verdict |= GM_NEW_LIBRARIES | (recorder->site_count > sites ? GM_NEW_PROBES : 0);
	return NULL;
}

static void record(struct gm_recorder *recorder, enum gm_record_probe probe,
        struct gm_moment *moment, int *ret_verdict)
{
	gm_record_open_readers(recorder);
	switch (probe) {
	case GM_PROBE_REPORT:
		gm_record_report(recorder, moment);
		break;
	case GM_PROBE_OOM:
		if (gm_record_oom(recorder, moment))
			*ret_verdict |= GM_OOM_SEEN;
		break;
	case GM_PROBE_CPU_NEW:
		gm_record_cpu_new(recorder, moment);
		break;
	case GM_PROBE_CPU_DELETE:
		gm_record_cpu_delete(recorder, moment);
		break;
	case GM_PROBE_CUDA_MALLOC:
		if (gm_record_cuda_malloc(recorder, moment))
			*ret_verdict |= GM_NEW_PROBES;
		break;
	case GM_PROBE_CUDA_MALLOC_RETURN:
		gm_record_cuda_malloc_return(recorder, moment);
		break;
	case GM_PROBE_CUDA_FREE:
		gm_record_cuda_free(recorder, moment);
		break;
	case GM_PROBE_OTHER_ALLOCATOR:
		gm_record_check_allocator(recorder);
		break;
	case GM_PROBE_EMPTY:
	case GM_PROBE_EMPTY_STRIDED:
	case GM_PROBE_RESIZE:
	case GM_PROBE_LIBRARIES:
	case GM_PROBE_EXIT:
	case GM_PROBE_COUNT:
		break;
	}
}

struct gm_error *gm_recorder_hit(struct gm_recorder *recorder, uint64_t address, pid_t thread,
        const struct gm_registers *registers, int *ret_verdict)
{
	const struct gm_probe_site *site = site_at(recorder, address);
	*ret_verdict = GM_CONTINUE;
	if (!site)
		return NULL; /* a breakpoint that still exists after its library was unloaded */
	gm_image_invalidate(recorder->image);
	if (site->probe == GM_PROBE_LIBRARIES)
		return libraries_changed(recorder, ret_verdict);
	if (site->probe == GM_PROBE_EXIT)
		return gm_recorder_flush(recorder);

	struct gm_moment moment = {.thread = thread};
	if (registers) {
		moment.registers = *registers;
	} else {
		struct gm_error *error =
		        gm_image_registers(recorder->image, thread, &moment.registers);
		if (error) {
			gm_record_gap(recorder, "an event was lost: %s", error->message);
			return error;
		}
	}
	/* The debugger may not have corrected the program counter yet. */
	moment.registers.value[GM_RIP] = address;
	moment.time_ns = gm_record_now();
	if (site->probe == GM_PROBE_EMPTY || site->probe == GM_PROBE_EMPTY_STRIDED) {
		gm_record_note_tensor(recorder, &moment, site->probe == GM_PROBE_EMPTY_STRIDED);
		return NULL;
	}
	if (site->probe == GM_PROBE_RESIZE) {
		gm_record_open_readers(recorder);
		gm_record_note_resize(recorder, &moment);
		return NULL;
	}

	recorder->fed_count = recorder->fed_address_count = 0;
	recorder->watches.stopped_by = 0;
	bool refused = recorder->refusal != NULL;
	if (!refused)
		record(recorder, site->probe, &moment, ret_verdict);
	if (recorder->refusal && !refused)
		*ret_verdict |= GM_REFUSED;
	if (recorder->stop_due) {
		recorder->stop_due = false;
		*ret_verdict |= GM_STOP;
	}
	return NULL;
}
