/*
 * The CUDA caching allocator's Block records.
 *
 * One Block describes a part of a segment, used or free; the blocks of a segment form a list by
 * prev and next. All of them are reached from the allocator object: for each device a table of
 * active blocks, two pools with two sets each (free, and not mapped), and the private pools of CUDA
 * graphs and MemPools. The target may be running or its memory damaged: every record is checked,
 * and every walk has a bound.
 */
#include "torch/internal.h"
#include "torch/readers.h"
#include "torch/torch.h"

#include <stdio.h>

enum {
	MAX_BLOCK = 256,
	MAX_BLOCKS = 1 << 23,
	MAX_NODES = 4 * MAX_BLOCKS, /* of the trees of all pools; a damaged one may have cycles */
	MAX_REMEMBERED = 1 << 20,
	MAX_STREAMS = 1 << 12,
	STACK_WORDS = 256, /* maximum distance from the report to the frame that holds the Block */
	REGISTERS = 16,
};

static bool is_block_or_none(uint64_t address)
{
	return address == 0 || gm_is_object_address(address);
}

/*
 * While a CUDA graph is captured or a MemPool is in use, the allocator postpones a free of a block
 * that other streams used: no event is recorded for it yet, and the block keeps the set of its
 * streams (needs_events_deferred_until_no_capture). At other times the free empties that set.
 */
static int32_t streams_put_off(const struct gm_torch_layout *layout, const unsigned char *object)
{
	uint64_t streams =
	        gm_word(object, layout->block.stream_uses + layout->allocator.hash.count);
	return streams < MAX_STREAMS ? (int32_t)streams : 0;
}

bool gm_torch_block(struct gm_torch *torch, uint64_t record, struct gm_block_record *ret_block)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char object[MAX_BLOCK];
	if (!gm_is_object_address(record) ||
	        !gm_image_try_read(torch->image, record, object, layout->block.size_of))
		return false;
	struct gm_block_record block = {
	        .record = record,
	        .address = gm_word(object, layout->block.address),
	        .size = gm_word(object, layout->block.size),
	        .requested = gm_word(object, layout->block.requested),
	        .stream = gm_word(object, layout->block.stream),
	        .device = (int8_t)object[layout->block.device],
	        .event_count = (int32_t)gm_half(object, layout->block.event_count),
	        .pool = gm_word(object, layout->block.pool),
	        .previous = gm_word(object, layout->block.previous),
	        .next = gm_word(object, layout->block.next),
	};
	unsigned char allocated = object[layout->block.allocated];
	unsigned char mapped = object[layout->block.mapped];
	if (allocated > 1 || mapped > 1 || block.device < 0 || block.event_count < 0 ||
	        block.size == 0 || block.size % GM_TORCH_BLOCK_STEP != 0 ||
	        block.size >= UINT64_C(1) << 47 || block.requested >= UINT64_C(1) << 47 ||
	        block.address == 0 || block.address % GM_TORCH_BLOCK_STEP != 0 ||
	        !gm_is_object_address(block.pool) || !is_block_or_none(block.previous) ||
	        !is_block_or_none(block.next))
		return false;
	if (!allocated && block.event_count == 0)
		block.event_count = streams_put_off(layout, object);
	/* Only a block in use has a requested size. When the allocator splits a block, the free
	 * remainder keeps the old value, which may be larger than the block (alloc_found_block,
	 * try_merge_blocks). */
	if (!allocated && block.event_count == 0)
		block.requested = 0;
	else if (block.requested > block.size)
		return false;
	block.allocated = allocated;
	block.mapped = mapped;
	block.expandable =
	        layout->block.expandable && gm_word(object, layout->block.expandable) != 0;
	*ret_block = block;
	return true;
}

/* --- at the allocator's report ---------------------------------------------------------------- */

/* Exact if the block was just allocated; a released block may have merged with its free neighbours.
 * */
static bool describes(struct gm_torch *torch, uint64_t record, uint64_t address, uint64_t size,
        struct gm_block_record *block)
{
	if (!gm_torch_block(torch, record, block))
		return false;
	if (block->address == address && block->size == size)
		return true;
	return !block->allocated && block->address <= address &&
	       address - block->address <= block->size &&
	       size <= block->size - (address - block->address);
}

/* A place is a register (0..15) or, from REGISTERS on, a stack word; words before STACK_WORDS are
 * below the frame pointer, the others above the stack pointer. */
static bool place_read(struct gm_torch *torch, const struct gm_registers *registers, int place,
        uint64_t *ret_value)
{
	if (place < REGISTERS) {
		*ret_value = registers->value[place];
		return true;
	}
	place -= REGISTERS;
	uint64_t address = place < STACK_WORDS
	                           ? registers->value[GM_RBP] - 8 * (uint64_t)(place + 1)
	                           : registers->value[GM_RSP] + 8 * (uint64_t)(place - STACK_WORDS);
	return (address & 7) == 0 && gm_image_try_u64(torch->image, address, ret_value);
}

static bool is_remembered_place(struct gm_torch *torch, uint64_t return_address, int **ret_place)
{
	for (size_t i = 0; i < sizeof(torch->report_places) / sizeof(torch->report_places[0]);
	        i++) {
		if (torch->report_places[i].return_address == return_address) {
			*ret_place = &torch->report_places[i].place;
			return true;
		}
	}
	return false;
}

static void remember_place(struct gm_torch *torch, uint64_t return_address, int place)
{
	size_t count = sizeof(torch->report_places) / sizeof(torch->report_places[0]);
	torch->report_places[torch->report_next % count].return_address = return_address;
	torch->report_places[torch->report_next % count].place = place;
	torch->report_next++;
}

static void remember_record(struct gm_torch *torch, uint64_t address, uint64_t record)
{
	if (torch->block_records.count >= MAX_REMEMBERED)
		gm_map_deinit(&torch->block_records);
	uint64_t *slot = gm_map_put(&torch->block_records, address, NULL);
	if (slot)
		*slot = record;
}

bool gm_torch_block_at_report(struct gm_torch *torch, const struct gm_registers *registers,
        uint64_t address, uint64_t size, struct gm_block_record *ret_block)
{
	struct gm_block_record block;
	uint64_t value, return_address = 0;
	(void)gm_image_try_u64(torch->image, registers->value[GM_RSP], &return_address);

	int *known_place;
	if (return_address && is_remembered_place(torch, return_address, &known_place) &&
	        place_read(torch, registers, *known_place, &value) &&
	        describes(torch, value, address, size, &block))
		goto found;
	uint64_t *known = gm_map_find(&torch->block_records, address);
	if (known && describes(torch, *known, address, size, &block)) {
		*ret_block = block;
		return true;
	}
	for (int place = 0; place < REGISTERS + 2 * STACK_WORDS; place++) {
		if (!place_read(torch, registers, place, &value) || value == address ||
		        !describes(torch, value, address, size, &block))
			continue;
		if (return_address)
			remember_place(torch, return_address, place);
		goto found;
	}
	return false;
found:
	remember_record(torch, address, block.record);
	*ret_block = block;
	return true;
}

/* --- all blocks ------------------------------------------------------------------------------- */

struct walk {
	struct gm_torch *torch;
	struct gm_map seen; /* blocks, and private pools */
	GM_ARRAY(struct gm_block_record) blocks;
	uint32_t nodes; /* of trees, read so far */
	bool no_memory;
};

static void add_block(struct walk *walk, uint64_t record)
{
	struct gm_block_record block;
	if (record == 0 || walk->blocks.count >= MAX_BLOCKS)
		return;
	bool is_new;
	if (!gm_map_put(&walk->seen, record, &is_new)) {
		walk->no_memory = true;
		return;
	}
	if (!is_new || !gm_torch_block(walk->torch, record, &block))
		return;
	if (!gm_array_push(&walk->blocks, block))
		walk->no_memory = true;
}

/* std::set<Block*, …>: a red-black tree below a header node. */
static void add_set(struct walk *walk, uint64_t set)
{
	const struct gm_torch_layout *layout = walk->torch->layout;
	struct gm_image *image = walk->torch->image;
	uint64_t count, root;
	if (!gm_image_try_u64(image, set + layout->allocator.set_count, &count) ||
	        !gm_image_try_u64(image, set + layout->allocator.set_header + 8u, &root) ||
	        count == 0 || count > MAX_BLOCKS)
		return;
	GM_ARRAY(uint64_t) stack = {0};
	if (root && !gm_array_push(&stack, root))
		walk->no_memory = true;
	while (stack.count > 0 && count > 0 && walk->nodes++ < MAX_NODES) {
		uint64_t words[5],
		        node = stack.items[--stack.count]; /* color, parent, left, right, value */
		if (!gm_is_object_address(node) ||
		        !gm_image_try_read(image, node, words, sizeof(words)))
			continue;
		count--;
		add_block(walk, words[layout->allocator.set_node_value / 8]);
		if ((words[2] && !gm_array_push(&stack, words[2])) ||
		        (words[3] && !gm_array_push(&stack, words[3]))) {
			walk->no_memory = true;
			break;
		}
	}
	gm_array_deinit(&stack);
}

static void add_pool(struct walk *walk, uint64_t pool)
{
	add_set(walk, pool + walk->torch->layout->allocator.pool_blocks);
	add_set(walk, pool + walk->torch->layout->allocator.pool_unmapped);
}

static void add_private_pool(struct walk *walk, uint64_t pool)
{
	bool is_new;
	if (!gm_is_object_address(pool))
		return;
	if (!gm_map_put(&walk->seen, pool, &is_new))
		walk->no_memory = true;
	else if (!is_new)
		return;
	add_pool(walk, pool + walk->torch->layout->allocator.private_large);
	add_pool(walk, pool + walk->torch->layout->allocator.private_small);
}

/* Calls `add` with the word at `value` of each full entry of a ska::flat_hash_* table. */
static void add_table(struct walk *walk, uint64_t table, size_t entry_size, size_t value,
        void (*add)(struct walk *, uint64_t))
{
	const struct gm_flat_hash_layout *hash = &walk->torch->layout->allocator.hash;
	unsigned char head[32], entry[64];
	if (!gm_image_try_read(walk->torch->image, table, head, sizeof(head)))
		return;
	uint64_t entries = gm_word(head, hash->entries);
	uint64_t count = gm_word(head, hash->slots_minus_one);
	int8_t lookups = (int8_t)head[hash->lookups];
	if (!gm_is_object_address(entries) || count > MAX_BLOCKS * 4u || lookups < 0 ||
	        entry_size > sizeof(entry))
		return;
	count += (uint64_t)lookups;
	for (uint64_t i = 0; i < count; i++) {
		if (!gm_image_try_read(
		            walk->torch->image, entries + i * entry_size, entry, entry_size))
			return;
		if ((int8_t)entry[0] >= 0)
			add(walk, gm_word(entry, value));
	}
}

static void add_device(struct walk *walk, uint64_t device)
{
	const struct gm_torch_layout *layout = walk->torch->layout;
	add_table(walk, device + layout->allocator.active, layout->allocator.active_entry_size,
	        layout->allocator.active_entry_block, add_block);
	add_pool(walk, device + layout->allocator.large);
	add_pool(walk, device + layout->allocator.small);
	add_table(walk, device + layout->allocator.graph_pools, layout->allocator.graph_entry_size,
	        layout->allocator.graph_entry_pool, add_private_pool);
}

struct gm_error *gm_torch_device_allocators(
        struct gm_torch *torch, uint64_t *ret_devices, size_t *ret_count)
{
	const char *kind = gm_torch_allocator_kind(torch);
	if (strcmp(kind, "none") == 0)
		return gm_error_create(GM_TARGET, "no CUDA memory: the process has not initialised "
		                                  "CUDA in PyTorch: ask again after "
		                                  "its first CUDA tensor");
	if (strcmp(kind, "native") != 0)
		return gm_error_create(GM_TARGET,
		        "the allocator is %s, not PyTorch's caching one: its blocks are not known: "
		        "unset backend in PYTORCH_CUDA_ALLOC_CONF, or remove the pluggable "
		        "allocator",
		        kind);
	uint64_t object = gm_torch_allocator_object(torch), bounds[2];
	if (!gm_image_try_read(torch->image, object + torch->layout->allocator.devices, bounds,
	            sizeof(bounds)) ||
	        bounds[1] < bounds[0] || (bounds[1] - bounds[0]) / 8 > GM_TORCH_DEVICES_MAX ||
	        !gm_image_try_read(torch->image, bounds[0], ret_devices, bounds[1] - bounds[0]))
		return gm_error_create(GM_TARGET,
		        "PyTorch's allocator object at 0x%jx does not look like that of %s: gpumem "
		        "cannot read its blocks: record from the program's start instead",
		        (uintmax_t)object, torch->version);
	*ret_count = (bounds[1] - bounds[0]) / 8;
	return NULL;
}

struct gm_error *gm_torch_blocks(
        struct gm_torch *torch, struct gm_block_record **ret_blocks, size_t *ret_count)
{
	uint64_t devices[GM_TORCH_DEVICES_MAX + 1];
	size_t device_count = 0;
	gm_try(gm_torch_device_allocators(torch, devices, &device_count));
	struct walk walk = {.torch = torch};
	for (size_t i = 0; i < device_count; i++)
		if (gm_is_object_address(devices[i]))
			add_device(&walk, devices[i]);
	/* the neighbours of each, until there are no new ones */
	for (size_t i = 0; i < walk.blocks.count; i++) {
		struct gm_block_record block = walk.blocks.items[i];
		add_block(&walk, block.previous);
		add_block(&walk, block.next);
	}
	gm_map_deinit(&walk.seen);
	if (walk.no_memory) {
		gm_array_deinit(&walk.blocks);
		return &gm_error_no_memory;
	}
	*ret_blocks = walk.blocks.items;
	*ret_count = walk.blocks.count;
	return NULL;
}

struct gm_error *gm_torch_allocator_bytes(
        struct gm_torch *torch, int device, struct gm_allocator_bytes *ret_bytes)
{
	uint64_t devices[GM_TORCH_DEVICES_MAX + 1];
	size_t count = 0;
	gm_try(gm_torch_device_allocators(torch, devices, &count));
	const struct gm_torch_layout *layout = torch->layout;
	struct {
		uint32_t offset;
		uint64_t value;
	} fields[] = {
	        {layout->allocator.stats_allocated, 0},
	        {layout->allocator.stats_reserved, 0},
	        {layout->allocator.stats_active, 0},
	        {layout->allocator.stats_requested, 0},
	};
	for (size_t i = 0; i < 4; i++)
		if (device < 0 || (size_t)device >= count ||
		        !gm_image_try_u64(
		                torch->image, devices[device] + fields[i].offset, &fields[i].value))
			return gm_error_create(GM_TARGET,
			        "device %d: PyTorch's allocator has no such device (it has %zu): "
			        "check the "
			        "number",
			        device, count);
	*ret_bytes = (struct gm_allocator_bytes){.allocated = fields[0].value,
	        .reserved = fields[1].value,
	        .active = fields[2].value,
	        .requested = fields[3].value};
	return NULL;
}
