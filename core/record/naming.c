/*
 * Data that make a log readable later: the loaded libraries, and the names of the native addresses
 * in its stacks. Names are looked up in batches, when the log is flushed for a reader. Only the
 * files are needed, so it works when the process has ended.
 */
#include "record/naming.h"

#include <stddef.h>
#include <string.h>

#include "record/recorder.h"
#include "record/gap.h"
#include "sim/account.h"

void gm_record_modules(struct gm_recorder *recorder)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(recorder->symbols, &count);
	for (; recorder->modules_written < count; recorder->modules_written++) {
		const struct gm_module *module = &modules[recorder->modules_written];
		struct gm_log_module record = {
		        .path = gm_log_writer_string(recorder->writer, module->path),
		        .start = module->start,
		        .end = module->end,
		        .bias = module->bias,
		        .build_id_size = module->build_id_size,
		};
		memcpy(record.build_id, module->build_id, sizeof(record.build_id));
		gm_log_writer_module(recorder->writer, &record);
	}
}

void gm_record_see_addresses(struct gm_recorder *recorder, const uint64_t *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct gm_native_address *known;
		HASH_FIND(hh, recorder->native, &addresses[i], sizeof(addresses[i]), known);
		if (known)
			continue;
		known = malloc(sizeof(*known));
		if (!known)
			return;
		*known = (struct gm_native_address){.address = addresses[i], .is_return = i > 0};
		HASH_ADD(hh, recorder->native, address, sizeof(known->address), known);
		if (!gm_array_push(&recorder->unnamed, known))
			return;
	}
}

static struct gm_native_address *find(const struct gm_recorder *recorder, uint64_t address)
{
	struct gm_native_address *known;
	HASH_FIND(hh, recorder->native, &address, sizeof(address), known);
	return known;
}

/* The functions of the addresses that were not looked up yet. */
static void name_functions(
        struct gm_recorder *recorder, const uint64_t *addresses, size_t count, bool is_return)
{
	_cleanup_free_ uint64_t *asked = calloc(count + 1, sizeof(*asked));
	_cleanup_free_ struct gm_symbol *symbols = calloc(count + 1, sizeof(*symbols));
	size_t some = 0;
	for (size_t i = 0; asked && symbols && i < count; i++) {
		const struct gm_native_address *known = find(recorder, addresses[i]);
		if (known && !known->function && known->is_return == is_return)
			asked[some++] = addresses[i];
	}
	if (some == 0)
		return;
	_cleanup_error_ struct gm_error *error =
	        gm_symbols_name_functions(recorder->symbols, asked, some, is_return, symbols);
	for (size_t i = 0; i < some && !error; i++) {
		struct gm_native_address *known = find(recorder, asked[i]);
		if (!known->function)
			known->function = strdup(symbols[i].function ? symbols[i].function : "");
	}
}

const char *gm_record_function(
        struct gm_recorder *recorder, uint64_t address, const uint64_t *addresses, size_t count)
{
	const struct gm_native_address *known = find(recorder, address);
	if (known && !known->function) {
		name_functions(recorder, addresses, count, false);
		name_functions(recorder, addresses, count, true);
	}
	return known && known->function ? known->function : "";
}

static void name_batch(struct gm_recorder *recorder, bool is_return)
{
	size_t count = 0;
	_cleanup_free_ uint64_t *addresses =
	        calloc(recorder->unnamed.count + 1, sizeof(*addresses));
	_cleanup_free_ struct gm_symbol *symbols =
	        calloc(recorder->unnamed.count + 1, sizeof(*symbols));
	if (!addresses || !symbols)
		return;
	for (size_t i = 0; i < recorder->unnamed.count; i++)
		if (recorder->unnamed.items[i]->is_return == is_return)
			addresses[count++] = recorder->unnamed.items[i]->address;
	if (count == 0)
		return;
	_cleanup_error_ struct gm_error *error =
	        gm_symbols_name(recorder->symbols, addresses, count, is_return, symbols);
	if (error) {
		gm_record_gap(recorder, "native frames have no names: %s", error->message);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (!symbols[i].function)
			continue;
		uint32_t function = gm_log_writer_string(recorder->writer, symbols[i].function);
		uint32_t file = gm_log_writer_string(recorder->writer, symbols[i].file);
		gm_log_writer_symbol(
		        recorder->writer, addresses[i], function, file, symbols[i].line);
	}
}

void gm_record_names(struct gm_recorder *recorder)
{
	name_batch(recorder, false);
	name_batch(recorder, true);
	recorder->unnamed.count = 0;
}

/* The simulated CUDA device's counters for the run, if there is one: read each time, and the last
 * value counts. */
void gm_record_counters(struct gm_recorder *recorder)
{
	uint64_t address;
	struct gm_sim_account account;
	const size_t head = offsetof(struct gm_sim_account, device);
	if (!recorder->runtime || !gm_symbols_lookup(recorder->symbols, recorder->runtime,
	                                  GM_SIM_ACCOUNT_SYMBOL, &address, NULL))
		return;
	gm_image_invalidate(recorder->image);
	if (!gm_image_try_read(recorder->image, address, &account, head) ||
	        account.magic != GM_SIM_ACCOUNT_MAGIC || account.bytes < head)
		return;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
	        {"sim.devices", account.devices},
	        {"sim.kernels_launched", account.launches},
	        {"sim.kernels_not_computed", account.not_computed},
	        {"sim.library_calls_not_computed", account.library_not_computed},
	        {"sim.calls_not_simulated", account.not_simulated},
	        {"sim.bytes_read_back", account.read_back},
	};
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		gm_log_writer_counter(recorder->writer, counters[i].name, counters[i].value);
}
