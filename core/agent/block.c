/*
 * The caching allocator's Block of an allocation. It has the requested size, the stream, and
 * whether a free waits for a stream.
 *
 * When the allocator reports a block, the function that reports holds the Block's address in a
 * register or on its stack, always in the same place for a given return address. The place is
 * searched once, and its content is checked at every event. Words of a stack may be anything, for
 * example addresses that were unmapped since. So the kernel copies the memory that they point to;
 * it is read directly only after the place has held a Block many times in a row.
 */
#include "agent/block.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "torch/allocator.h"
#include "agent/stacks/stacks.h"
#include "agent/event.h"
#include "agent/gap.h"
#include "agent/stacks/memory.h"
#include "torch/layouts.h"

enum {
	LAYOUTS_MAX = 8,
	STACK_WORDS = 256, /* words above the stack pointer that may be the Block's address */
	PLACES = 16,
	REGISTERS = 6,
	RECORD_BYTES = 21 * 8, /* words of a Block that are examined */
	SURE = 32, /* Blocks that a place must have held before its word is used as an address
	              without a check */
	MISSES_MAX = 256, /* searches without success; after these, only every so many-th event
	                     begins one */
	PAGE = 4096,
	PAGE_SETS = 1024, /* a power of two */
	PAGE_WAYS = 8,
	TABLE_FIRST = 1024, /* entries of a device's table; powers of two */
	TABLE_LAST = 1 << 24,
	PENDING_MAX = 4096,
};

/* Live blocks by address: open addressing, no tombstones. Used under the allocator's lock for the
 * device. */
struct entry {
	uint64_t address; /* 0: free */
	uint64_t record;
};
struct pending {
	uint64_t address, size, record;
};
struct device_blocks {
	_Atomic uint32_t busy; /* for safety; a table that is in use is skipped */
	struct entry *entries;
	size_t size, count;
	struct pending *waiting;
	size_t waiting_count;
};

static struct device_blocks devices[GM_TORCH_DEVICES_MAX];
/* The different Block layouts of core/torch's tables, newest first; and the layout that was found
 * in this program. */
static const struct gm_torch_block *layouts[LAYOUTS_MAX];
static size_t layout_count;
static const struct gm_torch_block *_Atomic layout;
static struct {
	_Atomic uint64_t return_address;
	_Atomic int place;
	_Atomic unsigned held; /* Blocks in a row */
} places[PLACES];
static _Atomic unsigned misses; /* searches in a row */
static _Atomic unsigned next_place;
static _Alignas(64) _Atomic uint64_t known_pages[PAGE_SETS][PAGE_WAYS];

/* --- memory that may be unmapped -------------------------------------------------------------- */

/* Each set of pages is a cache line: few programs have so many blocks that their pages evict each
 * other. */
static bool page_is_known(uint64_t address)
{
	uint64_t page = address / PAGE;
	_Atomic uint64_t *set =
	        known_pages[page * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (PAGE_SETS - 1)];
	for (unsigned i = 0; i < PAGE_WAYS; i++)
		if (atomic_load_explicit(&set[i], memory_order_relaxed) == page)
			return true;
	if (!gm_can_read(page * PAGE))
		return false;
	/* newest first: usually that is the only one. An entry that another thread adds meanwhile
	 * may be lost. */
	for (unsigned i = PAGE_WAYS - 1; i > 0; i--)
		atomic_store_explicit(&set[i],
		        atomic_load_explicit(&set[i - 1], memory_order_relaxed),
		        memory_order_relaxed);
	atomic_store_explicit(&set[0], page, memory_order_relaxed);
	return true;
}

/* ---- records --------------------------------------------------------------------------------- */

struct copy {
	uint8_t bytes[RECORD_BYTES];
};

static uint64_t word(const uint8_t *bytes, unsigned offset)
{
	uint64_t value;
	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

/* The record at `record`: its own address if it is certainly one, otherwise a copy. NULL: not a
 * record, or not mapped. */
static const uint8_t *look(uint64_t record, bool sure, struct copy *copy)
{
	uint64_t last = record + RECORD_BYTES - 1;
	if (record < 0x10000 || (record & 7) != 0 || record >= UINT64_C(1) << 47)
		return NULL;
	if (!sure)
		return gm_read_checked(record, copy, sizeof(*copy)) ? copy->bytes : NULL;
	bool known = page_is_known(record) && (record / PAGE == last / PAGE || page_is_known(last));
	return known ? (const uint8_t *)record : NULL;
}

static bool describes(
        const struct gm_torch_block *block, const uint8_t *bytes, uint64_t address, uint64_t size)
{
	return bytes && word(bytes, block->address) == address &&
	       word(bytes, block->size) == size && word(bytes, block->requested) <= size &&
	       (word(bytes, block->allocated) & 0xff) == 1;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void find_layouts(void)
{
	const struct gm_torch_layout *row;
	size_t count = 0;
	for (size_t i = 0; (row = gm_torch_layout_at(i)) && count < LAYOUTS_MAX; i++)
		if (count == 0 || memcmp(layouts[count - 1], &row->block, sizeof(row->block)) != 0)
			layouts[count++] = &row->block;
	layout_count = count;
}

void gm_agent_blocks_begin(void)
{
	find_layouts();
	for (int i = 0; i < GM_TORCH_DEVICES_MAX; i++) {
		struct device_blocks *device = &devices[i];
		if (device->entries)
			munmap(device->entries, device->size * sizeof(struct entry));
		if (device->waiting)
			munmap(device->waiting, PENDING_MAX * sizeof(struct pending));
		memset(device, 0, sizeof(*device));
	}
}

static void *map_zeros(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static size_t home(const struct device_blocks *device, uint64_t address)
{
	return ((address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (device->size - 1);
}

static size_t find(const struct device_blocks *device, uint64_t address)
{
	size_t at = home(device, address);
	while (device->entries[at].address && device->entries[at].address != address)
		at = (at + 1) & (device->size - 1);
	return at;
}

static bool grow(struct device_blocks *device)
{
	struct device_blocks old = *device;
	if (old.size == TABLE_LAST)
		return false;
	device->size = old.size ? old.size * 2 : TABLE_FIRST;
	device->entries = map_zeros(device->size * sizeof(struct entry));
	if (!device->entries) {
		device->entries = old.entries;
		device->size = old.size;
		return false;
	}
	for (size_t i = 0; old.entries && i < old.size; i++)
		if (old.entries[i].address)
			device->entries[find(device, old.entries[i].address)] = old.entries[i];
	if (old.entries)
		munmap(old.entries, old.size * sizeof(struct entry));
	return true;
}

static void keep(struct device_blocks *device, uint64_t address, uint64_t record)
{
	if ((!device->entries || device->count + 1 > device->size / 2) && !grow(device) &&
	        (!device->entries || device->count + 1 > device->size / 4 * 3)) {
		gm_agent_gap("too many blocks are alive: some frees that wait for a stream are "
		             "reported early");
		return;
	}
	struct entry *entry = &device->entries[find(device, address)];
	device->count += entry->address == 0;
	*entry = (struct entry){address, record};
}

/* Removes an entry. Entries that were displaced by it move up. 0: there is none. */
static uint64_t take(struct device_blocks *device, uint64_t address)
{
	if (!device->entries)
		return 0;
	size_t hole = find(device, address), mask = device->size - 1;
	if (!device->entries[hole].address)
		return 0;
	uint64_t record = device->entries[hole].record;
	for (size_t at = (hole + 1) & mask; device->entries[at].address; at = (at + 1) & mask) {
		size_t wanted = home(device, device->entries[at].address);
		if (((at - wanted) & mask) >= ((at - hole) & mask)) {
			device->entries[hole] = device->entries[at];
			hole = at;
		}
	}
	device->entries[hole].address = 0;
	device->count--;
	return record;
}

static struct device_blocks *open_device(int index)
{
	uint32_t free_now = 0;
	if (index < 0 || index >= GM_TORCH_DEVICES_MAX ||
	        !atomic_compare_exchange_strong_explicit(&devices[index].busy, &free_now, 1,
	                memory_order_acquire, memory_order_relaxed))
		return NULL;
	return &devices[index];
}

static void close_device(struct device_blocks *device)
{
	atomic_store_explicit(&device->busy, 0, memory_order_release);
}

/* --- the place of the Block's address --------------------------------------------------------- */

static uint64_t at_place(const struct gm_agent_registers *at, int place)
{
	const uint64_t registers[REGISTERS] = {
	        at->rbx, at->rbp, at->r12, at->r13, at->r14, at->r15};
	return place < REGISTERS ? registers[place]
	                         : gm_load(at->rsp + 8 * (uint64_t)(place - REGISTERS));
}

/* Here it is the stack pointer's own value. */
static bool can_read_place(const struct gm_agent_registers *at, int place)
{
	uint64_t address = at->rsp + 8 * (uint64_t)(place - REGISTERS);
	return place < REGISTERS || address / PAGE == at->rsp / PAGE || gm_can_read(address);
}

static void remember(uint64_t return_address, int place)
{
	unsigned slot = atomic_fetch_add(&next_place, 1) % PLACES;
	atomic_store(&places[slot].return_address, 0);
	atomic_store(&places[slot].place, place);
	atomic_store(&places[slot].held, 0);
	atomic_store(&places[slot].return_address, return_address);
}

/* The Block and its content; NULL if none was found. */
struct found {
	uint64_t record;
	const uint8_t *bytes;
	struct copy copy;
};

static bool describes_any(struct found *found, uint64_t address, uint64_t size)
{
	const struct gm_torch_block *known = atomic_load(&layout);
	for (size_t i = 0; found->bytes && i < layout_count; i++) {
		if ((known && known != layouts[i]) ||
		        !describes(layouts[i], found->bytes, address, size))
			continue;
		atomic_store(&layout, layouts[i]);
		return true;
	}
	return false;
}

static bool search(
        const struct gm_agent_registers *at, uint64_t address, uint64_t size, struct found *found)
{
	unsigned before = atomic_load_explicit(&misses, memory_order_relaxed);
	atomic_store_explicit(&misses, before + 1, memory_order_relaxed);
	if (before >= MISSES_MAX && before % MISSES_MAX != 0)
		return false;
	uint64_t last = address;
	for (int place = 0; place < REGISTERS + STACK_WORDS; place++) {
		if (!can_read_place(at, place))
			return false;
		found->record = at_place(at, place);
		if (found->record == address || found->record == last)
			continue;
		last = found->record;
		found->bytes = look(found->record, false, &found->copy);
		if (!describes_any(found, address, size))
			continue;
		remember(at->rip, place);
		atomic_store_explicit(&misses, 0, memory_order_relaxed);
		return true;
	}
	return false;
}

static bool remembered(
        const struct gm_agent_registers *at, uint64_t address, uint64_t size, struct found *found)
{
	const struct gm_torch_block *known = atomic_load_explicit(&layout, memory_order_relaxed);
	for (int i = 0; known && i < PLACES; i++) {
		if (atomic_load_explicit(&places[i].return_address, memory_order_relaxed) !=
		        at->rip)
			continue;
		int place = atomic_load_explicit(&places[i].place, memory_order_relaxed);
		unsigned held = atomic_load_explicit(&places[i].held, memory_order_relaxed);
		if (!can_read_place(at, place))
			return false;
		found->record = at_place(at, place);
		found->bytes = look(found->record, held >= SURE, &found->copy);
		if (!describes(known, found->bytes, address, size)) {
			atomic_store_explicit(&places[i].held, 0, memory_order_relaxed);
			return false;
		}
		if (held < SURE)
			atomic_store_explicit(&places[i].held, held + 1, memory_order_relaxed);
		return true;
	}
	return false;
}

/* --- queries of the hooks --------------------------------------------------------------------- */

bool gm_agent_block_new(int index, uint64_t address, uint64_t size,
        const struct gm_agent_registers *at, struct gm_agent_block *ret)
{
	struct found found;
	if (!remembered(at, address, size, &found) && !search(at, address, size, &found)) {
		gm_agent_gap("the allocator's record of a block was not found: requested sizes, "
		             "streams and "
		             "deferred frees are missing for such blocks");
		return false;
	}
	const struct gm_torch_block *known = atomic_load_explicit(&layout, memory_order_relaxed);
	ret->requested = word(found.bytes, known->requested);
	ret->stream = word(found.bytes, known->stream);
	struct device_blocks *device = open_device(index);
	if (device) {
		keep(device, address, found.record);
		close_device(device);
	}
	return true;
}

/* A record that belongs to another block by now, or to none, does not wait any more. */
static bool waits(uint64_t record, uint64_t address, bool sure)
{
	const struct gm_torch_block *known = atomic_load_explicit(&layout, memory_order_relaxed);
	struct copy copy;
	const uint8_t *bytes = known ? look(record, sure, &copy) : NULL;
	return bytes && word(bytes, known->address) == address &&
	       (word(bytes, known->allocated) & 0xff) == 0 &&
	       (int32_t)word(bytes, known->event_count) > 0;
}

bool gm_agent_block_free(int index, uint64_t address, uint64_t size)
{
	struct device_blocks *device = open_device(index);
	if (!device)
		return false;
	uint64_t record = take(device, address);
	bool deferred = record && waits(record, address, true);
	if (deferred) {
		if (!device->waiting)
			device->waiting = map_zeros(PENDING_MAX * sizeof(struct pending));
		if (device->waiting && device->waiting_count < PENDING_MAX)
			device->waiting[device->waiting_count++] =
			        (struct pending){address, size, record};
		else
			deferred = false;
	}
	close_device(device);
	return deferred;
}

bool gm_agent_blocks_wait(int index)
{
	return index >= 0 && index < GM_TORCH_DEVICES_MAX && devices[index].waiting_count > 0;
}

bool gm_agent_block_completed(int index, uint64_t *ret_address, uint64_t *ret_size)
{
	struct device_blocks *device = open_device(index);
	bool found = false;
	for (size_t i = 0; device && i < device->waiting_count && !found; i++) {
		struct pending block = device->waiting[i];
		if (waits(block.record, block.address, false))
			continue;
		memmove(&device->waiting[i], &device->waiting[i + 1],
		        (device->waiting_count - i - 1) * sizeof(block));
		device->waiting_count--;
		*ret_address = block.address;
		*ret_size = block.size;
		found = true;
	}
	if (device)
		close_device(device);
	return found;
}

void gm_agent_completions(int16_t device, const struct gm_agent_registers *at)
{
	struct gm_agent_event event = {
	        .action = GM_AGENT_FREE_COMPLETED,
	        .device_type = 1 /* c10::DeviceType */,
	        .device = device,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .at = at,
	};
	while (gm_agent_block_completed(device, &event.address, &event.size))
		gm_agent_event(&event);
}
