#include "agent/existing.h"
#include "agent/event.h"
#include "agent/gap.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "torch/allocator.h"

enum {
	CAPACITY = 1 << 20, /* reserves address space only; few are used */
	ASKED_MS = 2000, /* waiting times: until somebody begins to answer, and until the answer is
	                    complete */
	COMING_MS = 10000,
};

GM_AGENT_EXPORT extern struct gm_agent_existing gpumem_agent_existing;
struct gm_agent_existing gpumem_agent_existing;

static uint32_t state_now(void)
{
	return __atomic_load_n(&gpumem_agent_existing.state, __ATOMIC_ACQUIRE);
}

static bool wait_for_answer(void)
{
	for (int waited = 0;; waited++) {
		uint32_t state = state_now();
		if (state == GM_AGENT_EXISTING_GIVEN)
			return true;
		if (waited >= (state == GM_AGENT_EXISTING_COMING ? COMING_MS : ASKED_MS) &&
		        __atomic_compare_exchange_n(&gpumem_agent_existing.state, &state,
		                GM_AGENT_EXISTING_NONE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return false;
		const struct timespec pause = {.tv_nsec = 1000000};
		nanosleep(&pause, NULL);
	}
}

/* The total of what was reported so far. */
static struct {
	uint64_t allocated, reserved;
} counters[GM_TORCH_DEVICES_MAX];

static void record_entry(const struct gm_agent_existing_entry *entry)
{
	if (entry->device < 0 || entry->device >= GM_TORCH_DEVICES_MAX)
		return;
	if (entry->kind == GM_AGENT_EXISTING_SEGMENT)
		counters[entry->device].reserved += entry->size;
	else
		counters[entry->device].allocated += entry->size;
	struct gm_agent_event event = {
	        .action = entry->kind != GM_AGENT_EXISTING_SEGMENT ? GM_AGENT_ALLOC
	                  : entry->mapped                          ? GM_AGENT_SEGMENT_MAP
	                                                           : GM_AGENT_SEGMENT_ALLOC,
	        .device_type = 1,
	        .device = entry->device,
	        .preexisting = true,
	        .address = entry->address,
	        .size = entry->size,
	        .requested = entry->requested,
	        .stream = entry->stream,
	        .allocated = counters[entry->device].allocated,
	        .reserved = counters[entry->device].reserved,
	};
	gm_agent_event(&event);
	if (entry->kind != GM_AGENT_EXISTING_PENDING)
		return;
	counters[entry->device].allocated -= entry->size;
	event.action = GM_AGENT_FREE_REQUESTED;
	event.deferred = true;
	event.allocated = counters[entry->device].allocated;
	gm_agent_event(&event);
}

/* A debugger, which stops all threads while the recording begins, has stored the table before. */
static bool was_given(void)
{
	if (state_now() != GM_AGENT_EXISTING_GIVEN)
		return false;
	const struct gm_agent_existing_entry *table = (const void *)gpumem_agent_existing.table;
	for (uint32_t i = 0; i < gpumem_agent_existing.count; i++)
		record_entry(&table[i]);
	__atomic_store_n(&gpumem_agent_existing.state, GM_AGENT_EXISTING_NONE, __ATOMIC_RELEASE);
	return true;
}

void gm_agent_existing(void)
{
	memset(counters, 0, sizeof(counters));
	if (was_given())
		return;
	size_t bytes = CAPACITY * sizeof(struct gm_agent_existing_entry);
	struct gm_agent_existing_entry *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return;
	gpumem_agent_existing.count = 0;
	gpumem_agent_existing.table = (uint64_t)(uintptr_t)table;
	gpumem_agent_existing.capacity = CAPACITY;
	__atomic_store_n(&gpumem_agent_existing.state, GM_AGENT_EXISTING_ASKED, __ATOMIC_RELEASE);
	if (wait_for_answer()) {
		for (uint32_t i = 0; i < gpumem_agent_existing.count && i < CAPACITY; i++)
			record_entry(&table[i]);
	} else {
		gm_agent_gap("recording began late: earlier allocations are not in the recording");
	}
	__atomic_store_n(&gpumem_agent_existing.state, GM_AGENT_EXISTING_NONE, __ATOMIC_RELEASE);
	munmap(table, bytes);
}
