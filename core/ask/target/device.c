#include "ask/target/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/nvml.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "sim/account.h"
#include "symbols/symbols.h"

/* --- other processes -------------------------------------------------------------------------- */

static bool is_of_this_machine(const struct gm_context *context)
{
	return context->pid > 0 && !context->core_path && !context->remote;
}

static void name_process(struct gm_device_process *process)
{
	char path[48];
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", process->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(process->name, sizeof(process->name), file))
		process->name[0] = 0;
	for (char *at = process->name; *at; at++)
		if ((unsigned char)*at < 0x20)
			*at = 0;
}

/* Sorted, largest first; everything beyond the last place is shown as one. */
static void add_other(struct gm_device_facts *facts, uint64_t pid, uint64_t bytes)
{
	struct gm_device_process *others = facts->others;
	size_t at = facts->other_count;
	if (bytes == 0)
		return;
	struct gm_device_process one = {.pid = pid, .bytes = bytes};
	if (at == GM_DEVICE_OTHERS_MAX + 1) {
		struct gm_device_process *rest = &others[GM_DEVICE_OTHERS_MAX];
		struct gm_device_process *last = &others[GM_DEVICE_OTHERS_MAX - 1];
		rest->pid = 0;
		if (bytes <= last->bytes) {
			rest->bytes += bytes;
			return;
		}
		rest->bytes += last->bytes;
		at = GM_DEVICE_OTHERS_MAX - 1;
	} else {
		facts->other_count++;
	}
	for (; at > 0 && others[at - 1].bytes < bytes; at--)
		others[at] = others[at - 1];
	others[at] = one;
}

/* --- a simulated device ----------------------------------------------------------------------- */

static bool read_account(struct gm_context *context, struct gm_sim_account *ret_account)
{
	struct gm_symbols *symbols;
	_cleanup_error_ struct gm_error *error = gm_context_symbols(context, &symbols);
	if (error)
		return false;
	const struct gm_module *module = gm_symbols_find_module(symbols, "libgpumem-sim");
	uint64_t address;
	if (!module)
		return false;
	/* several of our libraries may be loaded; one of them has the counters */
	if (!gm_symbols_lookup(symbols, module, GM_SIM_ACCOUNT_SYMBOL, &address, NULL) &&
	        !gm_symbols_lookup_any(symbols, GM_SIM_ACCOUNT_SYMBOL, &address, NULL))
		return false;
	/* the counters of an older library are fewer: the missing ones are 0 */
	enum { FIRST = offsetof(struct gm_sim_account, machine) };
	struct gm_sim_account account = {0};
	if (!gm_image_try_read(context->image, address, &account, FIRST) ||
	        account.magic != GM_SIM_ACCOUNT_MAGIC || account.bytes < FIRST)
		return false;
	if (account.bytes >= sizeof(account) &&
	        !gm_image_try_read(context->image, address, &account, sizeof(account)))
		return false;
	*ret_account = account;
	return true;
}

bool gm_device_is_simulated(struct gm_context *context)
{
	struct gm_sim_account account;
	return read_account(context, &account);
}

/* The memory of the run's other processes, from the page that they share. */
static void read_machine(struct gm_context *context, const struct gm_sim_account *account,
        int device, struct gm_device_facts *facts)
{
	uint32_t physical = account->physical[device];
	_cleanup_free_ struct gm_sim_machine *machine = malloc(sizeof(*machine));
	if (!account->machine || physical >= GM_SIM_DEVICES_MAX || !machine ||
	        !gm_image_try_read(context->image, account->machine, machine, sizeof(*machine)) ||
	        machine->magic != GM_SIM_MACHINE_MAGIC)
		return;
	uint64_t taken = 0;
	for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES; i++) {
		const struct gm_sim_machine_process *process = &machine->processes[i];
		uint64_t bytes = process->bytes[physical];
		if (!process->process || process->process == account->process ||
		        bytes > facts->total)
			continue;
		add_other(facts, process->process, bytes);
		taken += bytes;
	}
	facts->free = taken < facts->free ? facts->free - taken : 0;
}

static bool ask_account(struct gm_context *context, int device, struct gm_device_facts *facts)
{
	struct gm_sim_account account;
	if (!read_account(context, &account) || device < 0 || device >= GM_SIM_DEVICES_MAX ||
	        (uint32_t)device >= account.devices)
		return false;
	const struct gm_sim_device_account *one = &account.device[device];
	uint64_t taken = one->context + one->used + account.outside[device];
	facts->simulated = true;
	facts->total = one->total;
	facts->process = taken;
	facts->free = taken < one->total ? one->total - taken : 0;
	facts->not_computed = account.not_computed;
	read_machine(context, &account, device, facts);
	return true;
}

/* --- a real one ------------------------------------------------------------------------------- */

/*
 * In a container, the driver may report process numbers from outside of it. Then our process is not
 * among them, and it is not known which are the others.
 */
static void take_processes(
        const struct gm_nvml_device *device, uint64_t pid, struct gm_device_facts *facts)
{
	for (size_t i = 0; i < device->process_count; i++)
		if (device->processes[i].pid == pid)
			facts->process = device->processes[i].bytes;
	if (facts->process == GM_NOT_KNOWN)
		return;
	for (size_t i = 0; i < device->process_count; i++)
		if (device->processes[i].pid != pid && device->processes[i].bytes != GM_NOT_KNOWN)
			add_other(facts, device->processes[i].pid, device->processes[i].bytes);
}

static bool ask_driver(struct gm_context *context, const struct gm_allocator_device *allocator,
        struct gm_device_facts *facts)
{
	struct gm_nvml_device device;
	if (!is_of_this_machine(context) ||
	        !gm_nvml_ask(allocator && allocator->has_uuid ? allocator->uuid : NULL,
	                (uint64_t)context->pid, &device))
		return false;
	facts->total = device.total;
	facts->free = device.free;
	take_processes(&device, (uint64_t)context->pid, facts);
	return true;
}

bool gm_device_facts(struct gm_context *context, int device,
        const struct gm_allocator_device *allocator, struct gm_device_facts *ret_facts)
{
	struct gm_device_facts facts = {
	        .total = GM_NOT_KNOWN, .free = GM_NOT_KNOWN, .process = GM_NOT_KNOWN};
	if (!ask_account(context, device, &facts) && !ask_driver(context, allocator, &facts))
		return false;
	if (is_of_this_machine(context))
		for (size_t i = 0; i < facts.other_count; i++)
			name_process(&facts.others[i]);
	*ret_facts = facts;
	return true;
}
