/*
 * The memory of one device as PyTorch's allocator has divided it at one moment: segments, and their
 * parts, which are used, waiting for a stream, or free. It comes from the allocator's structs in a
 * live process or a core dump (the current state), or from a recording (the state after an event).
 *
 * It is the basis of questions about fragmentation (segments, oom) and about a process without a
 * recording (info, blocks).
 */
#ifndef GM_ASK_MEMORY_H
#define GM_ASK_MEMORY_H

#include "ask/context.h"
#include "ask/target/device.h"
#include "ask/target/pause.h"
#include "model/model.h"
#include "torch/torch.h"

enum gm_segment_part_state {
	GM_SEGMENT_PART_USED,
	GM_SEGMENT_PART_PENDING, /* released, waiting for a stream */
	GM_SEGMENT_PART_FREE,
	GM_SEGMENT_PART_UNMAPPED, /* address space of an expandable segment, without memory */
};

struct gm_segment_part {
	uint64_t address, size;
	uint64_t requested; /* 0: unknown, or free */
	uint32_t block;     /* of the model; GM_NO_BLOCK: none, or there is no recording */
	uint8_t state;      /* enum gm_segment_part_state */
};

enum gm_pool_kind { GM_POOL_UNKNOWN, GM_POOL_SMALL, GM_POOL_LARGE };

struct gm_memory_segment {
	uint64_t address;
	uint64_t size; /* that has memory: without what is unmapped */
	uint64_t span; /* of addresses */
	uint64_t stream;
	uint8_t pool;    /* enum gm_pool_kind */
	bool is_private; /* of a CUDA graph or MemPool */
	bool expandable;
	uint64_t used, pending, free, largest_hole;
	size_t holes;
	size_t first, count; /* parts, by address */
};

struct gm_memory {
	uint8_t device_type;
	int16_t device;
	struct gm_memory_segment *segments; /* by address */
	size_t segment_count;
	struct gm_segment_part *parts;
	size_t part_count;
	uint64_t allocated, pending, free, requested, reserved; /* sums over all parts */
	uint64_t largest_hole;
	size_t blocks, holes;
	/* once what waits for a stream is free as well: of wholly free segments, and the largest
	 * part */
	uint64_t waited_whole, waited_largest;
	/* of wholly free segments, which empty_cache() releases; of private pools' holes */
	uint64_t whole_free, private_free;
	/* The allocator's own account of now; NULL: a recording told. */
	const struct gm_allocator_device *allocator;
	struct gm_allocator_device own; /* what `allocator` points to */
	/* The device, where it can be determined (device.h). GM_NOT_KNOWN */
	uint64_t total, device_free;
	struct gm_device_facts there; /* total 0: not asked, or nothing is known */
	struct gm_pause pause;        /* of a process */
	uint32_t event;               /* the moment is after this one; GM_NO_EVENT: now */
	const struct gm_model *model;
	size_t model_device;
};

/*
 * What the moment of an out-of-memory error tells of a recording, in which no pool is named:
 * PyTorch has released every wholly free segment that it may. One that is there still is kept for
 * a private pool; or a private pool was in use, and then the others' are not released. Either way
 * the request could not have it.
 */
void gm_memory_is_at_oom(struct gm_memory *memory);
void gm_memory_deinit(struct gm_memory *memory);

/*
 * Whether the blocks add up to the figures that the allocator keeps itself, allocated and reserved.
 * True of a recording, which has no such figures. Where it is false an answer about the memory is
 * incomplete and must report it.
 */
bool gm_memory_agrees(const struct gm_memory *memory);

#endif
