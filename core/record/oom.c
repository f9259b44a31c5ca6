/*
 * An out-of-memory error, as the allocator reports it just before raising it:
 * c10::reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device). The
 * size is the block's, rounded. The device's own figures are added, because no event has them: its
 * total memory, and how much of it was free.
 */
#include "record/oom.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "record/recorder.h"
#include "record/blocks.h"
#include "record/event.h"
#include "record/segments.h"
#include "sim/account.h"

static void count(struct gm_recorder *recorder, const char *what, uint64_t number,
        const char *which, uint64_t value)
{
	char name[64];
	snprintf(name, sizeof(name), "%s.%" PRIu64 ".%s", what, number, which);
	gm_log_writer_counter(recorder->writer, name, value);
}

/* Free memory is known only for a simulated device: a real one answers only the program itself. */
static void device_figures(struct gm_recorder *recorder, int device, uint64_t event)
{
	struct gm_allocator_device own;
	struct gm_sim_account account;
	uint64_t address;
	if (recorder->torch) {
		_cleanup_error_ struct gm_error *error =
		        gm_torch_allocator_device(recorder->torch, device, &own);
		if (!error && own.total != GM_NOT_KNOWN)
			count(recorder, "device", (uint64_t)device, "total", own.total);
	}
	if (device < 0 || device >= GM_SIM_DEVICES_MAX || !recorder->runtime ||
	        !gm_symbols_lookup(recorder->symbols, recorder->runtime, GM_SIM_ACCOUNT_SYMBOL,
	                &address, NULL) ||
	        !gm_image_try_read(recorder->image, address, &account, sizeof(account)) ||
	        account.magic != GM_SIM_ACCOUNT_MAGIC || account.bytes < sizeof(account))
		return;
	const struct gm_sim_device_account *one = &account.device[device];
	uint64_t taken = one->context + one->used;
	count(recorder, "device", (uint64_t)device, "total", one->total);
	count(recorder, "oom", event, "free", taken < one->total ? one->total - taken : 0);
}

bool gm_record_oom(struct gm_recorder *recorder, struct gm_moment *moment)
{
	const uint64_t *registers = moment->registers.value;
	/* Device is two int8_t, type and index, in one register */
	int8_t type = (int8_t)registers[GM_RCX], device = (int8_t)(registers[GM_RCX] >> 8);
	bool cuda = type == GM_DEVICE_CUDA;
	if ((cuda && !recorder->cuda) || (type == GM_DEVICE_CPU && !recorder->cpu))
		return false;
	gm_record_release_held(recorder, moment->thread, NULL);
	gm_record_completions(recorder, moment);
	struct gm_event event =
	        gm_record_new_event(recorder, moment, GM_OOM, (uint8_t)type, device);
	event.size = event.requested = registers[GM_RDI];
	if (cuda) {
		event.allocated = registers[GM_RSI];
		event.reserved = registers[GM_RDX];
	}
	uint64_t number = gm_record_event(recorder, &event);
	if (cuda)
		device_figures(recorder, device, number);
	return cuda;
}
