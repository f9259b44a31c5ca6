#include "log/format.h"

#include <endian.h>
#include <string.h>
#include <zlib.h>

const char *gm_device_type_name(uint8_t type)
{
	/* c10/core/DeviceType.h and DeviceTypeName() of torch 2.15; numbers are never reused */
	static const char *const names[] = {"cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep",
	        "hip", "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve",
	        "lazy", "ipu", "mtia", "privateuseone"};
	return type < sizeof(names) / sizeof(*names) ? names[type] : NULL;
}

const char *gm_action_name(enum gm_action action)
{
	static const char *const names[GM_ACTION_COUNT] = {
	        [GM_ALLOC] = "alloc",
	        [GM_FREE_REQUESTED] = "free_requested",
	        [GM_FREE_COMPLETED] = "free_completed",
	        [GM_SEGMENT_ALLOC] = "segment_alloc",
	        [GM_SEGMENT_FREE] = "segment_free",
	        [GM_SEGMENT_MAP] = "segment_map",
	        [GM_SEGMENT_UNMAP] = "segment_unmap",
	        [GM_OOM] = "oom",
	        [GM_SNAPSHOT] = "snapshot",
	        [GM_ANNOTATE] = "annotate",
	};
	return (unsigned)action < GM_ACTION_COUNT ? names[action] : NULL;
}

const char *gm_named_kind_name(unsigned kind)
{
	static const char *const names[GM_NAMED_COUNT] = {
	        [GM_NAMED_PARAMETER] = "parameter",
	        [GM_NAMED_BUFFER] = "buffer",
	        [GM_NAMED_GRADIENT] = "gradient",
	        [GM_NAMED_OPTIMIZER_STATE] = "optimizer_state",
	        [GM_NAMED_ATTRIBUTE] = "attribute",
	};
	return kind < GM_NAMED_COUNT ? names[kind] : NULL;
}

const char *gm_collective_kind_name(unsigned kind)
{
	static const char *const names[GM_COLLECTIVE_COUNT] = {
	        [GM_COLLECTIVE_ALL_REDUCE] = "all_reduce",
	        [GM_COLLECTIVE_REDUCE] = "reduce",
	        [GM_COLLECTIVE_BROADCAST] = "broadcast",
	        [GM_COLLECTIVE_ALL_GATHER] = "all_gather",
	        [GM_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
	        [GM_COLLECTIVE_ALL_TO_ALL] = "all_to_all",
	        [GM_COLLECTIVE_GATHER] = "gather",
	        [GM_COLLECTIVE_SCATTER] = "scatter",
	        [GM_COLLECTIVE_SEND] = "send",
	        [GM_COLLECTIVE_RECEIVE] = "receive",
	};
	return kind < GM_COLLECTIVE_COUNT ? names[kind] : NULL;
}

const char *gm_chunk_type_name(unsigned type)
{
	static const char *const names[GM_CHUNK_TYPE_COUNT] = {
	        [GM_CHUNK_META] = "description",
	        [GM_CHUNK_STRINGS] = "strings",
	        [GM_CHUNK_CODES] = "code objects",
	        [GM_CHUNK_FRAMES] = "frames",
	        [GM_CHUNK_PYTHON_STACKS] = "Python stacks",
	        [GM_CHUNK_MODULES] = "modules",
	        [GM_CHUNK_NATIVE_STACKS] = "native stacks",
	        [GM_CHUNK_EVIDENCE] = "evidence",
	        [GM_CHUNK_TENSORS] = "tensors",
	        [GM_CHUNK_AMP] = "amp",
	        [GM_CHUNK_NAMES] = "names",
	        [GM_CHUNK_COLLECTIVES] = "collectives",
	        [GM_CHUNK_SETTINGS] = "settings",
	        [GM_CHUNK_SYMBOLS] = "symbols",
	        [GM_CHUNK_GAPS] = "gaps",
	        [GM_CHUNK_ITERATIONS] = "passes",
	        [GM_CHUNK_MARKS] = "marks",
	        [GM_CHUNK_COUNTERS] = "counters",
	        [GM_CHUNK_EVENTS] = "events",
	        [GM_CHUNK_END] = "end",
	};
	return type < GM_CHUNK_TYPE_COUNT && names[type] ? names[type] : "unknown";
}

uint32_t gm_log_crc(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(0, bytes, size);
}

static void put_u16(uint8_t *at, uint16_t value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
}

static void put_u32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static void put_u64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

static uint16_t get_u16(const uint8_t *at)
{
	uint16_t value;
	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static uint32_t get_u32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t get_u64(const uint8_t *at)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

void gm_log_header_encode(const struct gm_log_header *header, uint8_t *ret_bytes)
{
	memset(ret_bytes, 0, GM_LOG_HEADER_SIZE);
	memcpy(ret_bytes, GM_LOG_MAGIC, 8);
	put_u16(ret_bytes + 8, header->major);
	put_u16(ret_bytes + 10, header->minor);
	put_u32(ret_bytes + 12, GM_LOG_HEADER_SIZE);
	put_u64(ret_bytes + 16, header->id);
	put_u64(ret_bytes + 24, header->pid);
	put_u64(ret_bytes + 32, header->start_ns);
	put_u32(ret_bytes + 60, gm_log_crc(ret_bytes, 60));
}

const char *gm_log_header_decode(const uint8_t *bytes, struct gm_log_header *ret_header)
{
	if (memcmp(bytes, GM_LOG_MAGIC, 8) != 0)
		return "it does not begin like a gpumem recording";
	*ret_header = (struct gm_log_header){
	        .major = get_u16(bytes + 8),
	        .minor = get_u16(bytes + 10),
	        .id = get_u64(bytes + 16),
	        .pid = get_u64(bytes + 24),
	        .start_ns = get_u64(bytes + 32),
	};
	/* Before the checksum, whose offset a newer version may have changed. */
	if (ret_header->major > GM_LOG_MAJOR)
		return "newer";
	if (get_u32(bytes + 60) != gm_log_crc(bytes, 60))
		return "the checksum of its header does not match";
	if (ret_header->major == 0 || get_u32(bytes + 12) != GM_LOG_HEADER_SIZE)
		return "its header does not have this format";
	return NULL;
}

void gm_chunk_header_encode(const struct gm_chunk_header *header, uint8_t *ret_bytes)
{
	put_u32(ret_bytes, GM_CHUNK_MAGIC);
	put_u16(ret_bytes + 4, header->type);
	put_u16(ret_bytes + 6, header->flags);
	put_u32(ret_bytes + 8, header->length);
	put_u32(ret_bytes + 12, header->count);
	put_u32(ret_bytes + 16, header->crc);
	put_u32(ret_bytes + 20, gm_log_crc(ret_bytes, 20));
}

const char *gm_chunk_header_decode(const uint8_t *bytes, struct gm_chunk_header *ret_header)
{
	if (get_u32(bytes) != GM_CHUNK_MAGIC)
		return "no chunk begins here";
	if (get_u32(bytes + 20) != gm_log_crc(bytes, 20))
		return "the checksum of a chunk's header does not match";
	*ret_header = (struct gm_chunk_header){
	        .type = get_u16(bytes + 4),
	        .flags = get_u16(bytes + 6),
	        .length = get_u32(bytes + 8),
	        .count = get_u32(bytes + 12),
	        .crc = get_u32(bytes + 16),
	};
	if (ret_header->flags & ~GM_CHUNK_PACKED)
		return "a chunk has flags that this gpumem does not know";
	if (ret_header->length > GM_CHUNK_MAX)
		return "a chunk is too long";
	return NULL;
}
