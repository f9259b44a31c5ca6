/*
 * Memory outside PyTorch's allocator: what NCCL, cuBLAS and others get from CUDA, and pinned host
 * memory. In the log these are blocks of separate devices ("beside PyTorch", "pinned"), so that
 * PyTorch's sums do not contain them; in a program without PyTorch they are blocks of the device.
 * With backend:cudaMallocAsync PyTorch's own requests come this way too: those of libc10_cuda.so
 * are the device's blocks, and those of other libraries are beside PyTorch (cuBLAS takes 64 MiB of
 * an H100 for each handle).
 * Each block has the library that requested it: the innermost one of the native stack that is not
 * CUDA's own.
 */
#include <stdio.h>
#include <string.h>

#include "spool/internal.h"
#include "torch/allocator.h"

enum { CUDA = 1, DEPTH = 256 };

struct external_block {
	uint64_t address, size;
	uint64_t stream;
	int16_t device;
	uint8_t device_type;
	uint32_t owner;
	UT_hash_handle hh;
};

struct range {
	uint64_t start, end;
	uint32_t name; /* string of the log; 0: CUDA's own */
};

struct gm_spool_external {
	struct gm_spool_tables *tables;
	struct gm_log_writer *log;
	struct external_block *blocks;
	GM_ARRAY(struct range) modules;
	uint32_t modules_seen; /* ids */
	uint32_t c10_cuda;     /* string of the log: "libc10_cuda.so"; 0: not loaded */
	bool c10_cuda_takes;   /* it has requested memory itself */
	uint64_t allocated[3][GM_TORCH_DEVICES_MAX];
	uint64_t on_devices, peak; /* of a program without PyTorch */
};

struct gm_spool_external *gm_spool_external_create(
        struct gm_spool_tables *tables, struct gm_log_writer *log)
{
	struct gm_spool_external *external = calloc(1, sizeof(*external));
	if (external) {
		external->tables = tables;
		external->log = log;
	}
	return external;
}

void gm_spool_external_destroy(struct gm_spool_external *external)
{
	if (!external)
		return;
	struct external_block *block, *next;
	HASH_ITER(hh, external->blocks, block, next)
	{
		HASH_DEL(external->blocks, block);
		free(block);
	}
	gm_array_deinit(&external->modules);
	free(external);
}

/* --- the requesting library ------------------------------------------------------------------- */

static bool is_cudas(const char *name)
{
	static const char *const own[] = {"libcudart", "libcuda.so", "libcupti", "libgpumem-sim",
	        "libgpumem-agent", "libnvidia-"};
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (strncmp(name, own[i], strlen(own[i])) == 0)
			return true;
	return false;
}

static void read_modules(struct gm_spool_external *external)
{
	struct gm_spool_tables *tables = external->tables;
	unsigned kind = GM_AGENT_MODULE - GM_AGENT_CODE;
	for (uint32_t id = external->modules_seen; id < tables->counts[kind]; id++) {
		struct gm_bytes payload = tables->payloads[kind][id];
		if (!payload.at)
			continue;
		struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
		struct range range = {.start = gm_get_varint(&in), .end = gm_get_varint(&in)};
		gm_get_varint(&in);
		uint64_t length = gm_get_varint(&in);
		if (in.bad || length > (uint64_t)(in.end - in.at) || length > 8192)
			continue;
		_cleanup_free_ char *path = strndup((const char *)in.at, (size_t)length);
		const char *slash = path ? strrchr(path, '/') : NULL;
		const char *name = slash ? slash + 1 : path;
		if (name && !is_cudas(name))
			range.name = gm_log_writer_string(external->log, name);
		if (range.name >= 1 << 24)
			range.name = 0;
		if (range.name && strcmp(name, "libc10_cuda.so") == 0)
			external->c10_cuda = range.name;
		gm_array_push(&external->modules, range);
	}
	external->modules_seen = tables->counts[kind];
}

static const struct range *module_of(const struct gm_spool_external *external, uint64_t address)
{
	for (size_t i = 0; i < external->modules.count; i++)
		if (address >= external->modules.items[i].start &&
		        address < external->modules.items[i].end)
			return &external->modules.items[i];
	return NULL;
}

static uint32_t owner_of(struct gm_spool_external *external, uint32_t native)
{
	read_modules(external);
	uint64_t addresses[DEPTH];
	size_t count = gm_spool_native_addresses(external->tables, native, addresses, DEPTH);
	for (size_t i = 0; i < count; i++) {
		const struct range *module = module_of(external, addresses[i]);
		if (module && module->name)
			return module->name;
	}
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint8_t type_of(
        struct gm_spool_external *external, const struct gm_spool_event *from, uint32_t owner)
{
	if (from->source == GM_AGENT_HOST)
		return GM_LOG_DEVICE_PINNED;
	if (owner && owner == external->c10_cuda)
		external->c10_cuda_takes = true;
	bool beside = external->tables->has_c10 ||
	              (external->c10_cuda_takes && owner && owner != external->c10_cuda);
	return beside ? GM_LOG_DEVICE_EXTERNAL : CUDA;
}

static uint64_t *counter(struct gm_spool_external *external, uint8_t type, int16_t device)
{
	unsigned kind = type == CUDA ? 0 : type == GM_LOG_DEVICE_EXTERNAL ? 1 : 2;
	return &external->allocated[kind][device];
}

static void release(
        struct gm_spool_external *external, struct external_block *block, struct gm_event *event)
{
	uint64_t *allocated = counter(external, block->device_type, block->device);
	*allocated -= block->size;
	if (block->device_type == CUDA)
		external->on_devices -= block->size;
	event->device_type = block->device_type;
	event->device = block->device;
	event->size = event->requested = block->size;
	event->stream = block->stream;
	event->owner = block->owner;
	event->allocated = *allocated;
	event->action = GM_FREE_REQUESTED;
	gm_log_writer_event(external->log, event);
	event->action = GM_FREE_COMPLETED;
	gm_log_writer_event(external->log, event);
	HASH_DEL(external->blocks, block);
	free(block);
}

uint64_t gm_spool_external_peak(const struct gm_spool_external *external)
{
	return external->peak;
}

unsigned gm_spool_external_event(struct gm_spool_external *external,
        const struct gm_spool_event *from, const struct gm_event *given)
{
	struct gm_event event = *given;
	struct external_block *block;
	HASH_FIND(hh, external->blocks, &from->address, sizeof(from->address), block);
	bool frees = from->action == GM_AGENT_SEGMENT_FREE ||
	             from->action == GM_AGENT_SEGMENT_UNMAP ||
	             from->action == GM_AGENT_FREE_REQUESTED;
	if (frees) {
		if (block)
			release(external, block, &event);
		return block ? 2 : 0;
	}
	if (from->action != GM_AGENT_SEGMENT_ALLOC && from->action != GM_AGENT_SEGMENT_MAP &&
	        from->action != GM_AGENT_ALLOC)
		return 0;
	unsigned written = 0;
	if (block) { /* its release was not recorded */
		release(external, block, &event);
		event = *given;
		written += 2;
	}
	event.action = GM_ALLOC;
	event.owner = owner_of(external, from->native);
	event.device_type = type_of(external, from, event.owner);
	if (event.device_type == GM_LOG_DEVICE_PINNED)
		event.device = 0;
	event.requested = event.size;
	uint64_t *allocated = counter(external, event.device_type, event.device);
	*allocated += event.size;
	event.allocated = *allocated;
	if (event.device_type == CUDA)
		external->on_devices += event.size;
	if (external->on_devices > external->peak)
		external->peak = external->on_devices;
	gm_log_writer_event(external->log, &event);
	block = calloc(1, sizeof(*block));
	if (block) {
		*block = (struct external_block){.address = event.address,
		        .size = event.size,
		        .stream = event.stream,
		        .device = event.device,
		        .device_type = event.device_type,
		        .owner = event.owner};
		HASH_ADD(hh, external->blocks, address, sizeof(block->address), block);
	}
	return written + 1;
}
