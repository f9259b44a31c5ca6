/*
 * The log's reader. Opening reads the chunks once, checks each, and stores interned records. Events
 * stay in the file and are decoded in chunks when they are needed, so that ten million of them cost
 * a few bytes each in memory. The file is read, not mapped: a log that is truncated while it is
 * open must not kill gdb.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "log/format.h"
#include "log/pack.h"
#include "log/tables.h"

/* The position of a chunk of events. */
struct event_chunk {
	uint64_t first;  /* number of its first event */
	uint64_t offset; /* of its payload in the file */
	uint32_t length, count;
	bool packed;
};

enum {
	CACHE_SLOTS = 8,
	GIVEN_BATCH =
	        256, /* events that are copied at once: few enough for the first-level cache */
};

/* Consecutive events, decoded. Several small chunks share a slot. */
struct cache_slot {
	uint64_t first, count;
	uint64_t used;           /* time of the last use, to choose the slot to replace */
	bool read_on;            /* it was loaded directly after the events before its own */
	struct gm_event *events; /* GM_CHUNK_EVENTS_MAX of them, or NULL */
};

struct cache {
	struct cache_slot slots[CACHE_SLOTS];
	struct cache_slot *latest; /* that was asked for, NULL: none */
	uint64_t clock;
	uint8_t *bytes; /* the payload of the current chunk */
	size_t capacity;
	struct gm_unpacked unpacked; /* the same, if it is packed */
};

struct gm_log {
	char *path;
	char *source;
	int fd;
	struct gm_log_header header;
	uint64_t offset; /* the end of the last complete chunk */
	uint64_t size;   /* of the file at the last look */
	bool closed;
	bool lazy; /* chunks of events are checked when they are read */
	struct gm_tables tables;
	GM_ARRAY(struct event_chunk) chunks;
	uint64_t event_count;
	struct gm_log_events
	        given;       /* if they are in another place; get NULL: they are in the file */
	struct cache *cache; /* separate, because reading an event does not change the log */
};

static struct gm_error *damaged(const struct gm_log *log, uint64_t offset, const char *reason)
{
	return gm_error_at_offset(gm_error_create(GM_CORRUPT,
	                                  "%s: damaged at byte %" PRIu64
	                                  ": %s: record again, or restore the file from a copy",
	                                  log->path, offset, reason),
	        log->path, offset);
}

static struct gm_error *damaged_chunk(
        const struct gm_log *log, uint64_t offset, unsigned type, const char *reason)
{
	char text[160];
	snprintf(text, sizeof(text), "a chunk of %s: %s", gm_chunk_type_name(type), reason);
	return damaged(log, offset, text);
}

/* Reads up to `size` bytes; fewer at the end of the file. -1: errno. */
static ssize_t read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	size_t done = 0;
	while (done < size) {
		ssize_t got =
		        pread(fd, (uint8_t *)bytes + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static bool cache_reserve(struct cache *cache, size_t size)
{
	return gm_array_grow((void **)&cache->bytes, &cache->capacity, 0, size, 1);
}

static uint32_t greatest_id(size_t count)
{
	return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* Decodes the events of a chunk into `events` (NULL: only checks them). Returns what is wrong with
 * it, or NULL. */
static const char *decode_events(
        const struct gm_log *log, struct gm_cursor *cursor, uint32_t count, struct gm_event *events)
{
	const struct gm_event most = {
	        .python_stack = greatest_id(log->tables.python_stacks.count),
	        .native_stack = greatest_id(log->tables.native_stacks.count),
	        .evidence = greatest_id(log->tables.evidence.count),
	        .tensor = greatest_id(log->tables.tensors.count),
	};
	return gm_events_decode(cursor, count, &most, events);
}

/* Adds a chunk to the index, and checks its content unless that is left until it is read. */
static const char *read_events(struct gm_log *log, const struct gm_chunk_header *header,
        struct gm_cursor *cursor, uint64_t offset, bool *ret_no_memory)
{
	if (header->count > GM_CHUNK_EVENTS_MAX)
		return "a chunk has too many events";
	/* an event takes at least two bytes, so the count is bounded by the size */
	bool packed = header->flags & GM_CHUNK_PACKED;
	uint64_t most = log->lazy && packed ? (uint64_t)header->length * GM_PACK_MOST
	                                    : (uint64_t)(cursor->end - cursor->at);
	if (header->count > most / 2)
		return "an event is malformed";
	const char *reason =
	        log->lazy && header->count ? NULL : decode_events(log, cursor, header->count, NULL);
	if (reason || header->count == 0)
		return reason;
	const struct event_chunk chunk = {
	        .first = log->event_count,
	        .offset = offset,
	        .length = header->length,
	        .count = header->count,
	        .packed = packed,
	};
	if (!gm_array_push(&log->chunks, chunk)) {
		*ret_no_memory = true;
		return NULL;
	}
	log->event_count += header->count;
	return NULL;
}

static const char *read_meta(struct gm_log *log, struct gm_cursor *cursor, bool *ret_no_memory)
{
	uint64_t length = gm_get_varint(cursor);
	if (cursor->bad || length > (uint64_t)(cursor->end - cursor->at) || log->source)
		return "its description is malformed";
	log->source = strndup((const char *)cursor->at, length);
	*ret_no_memory = !log->source;
	return NULL;
}

static struct gm_error *read_chunk(struct gm_log *log, const struct gm_chunk_header *header,
        const uint8_t *payload, uint64_t offset)
{
	if (gm_log_crc(payload, header->length) != header->crc)
		return damaged(log, offset, "the checksum of a chunk does not match");
	size_t length = header->length;
	bool no_memory = false;
	const char *reason = NULL;
	if (header->flags & GM_CHUNK_PACKED && header->type != GM_CHUNK_EVENTS)
		reason = "the packed payload does not contain events";
	else if (header->flags & GM_CHUNK_PACKED && (!log->lazy || !header->count)) {
		reason = gm_unpack(payload, length, &log->cache->unpacked, &no_memory);
		payload = log->cache->unpacked.bytes;
		length = log->cache->unpacked.size;
	}
	if (reason)
		return no_memory ? &gm_error_no_memory : damaged(log, offset, reason);
	struct gm_cursor cursor = {payload, payload + length, false};
	switch (header->type) {
	case GM_CHUNK_META:
		reason = read_meta(log, &cursor, &no_memory);
		break;
	case GM_CHUNK_EVENTS:
		reason = read_events(
		        log, header, &cursor, offset + GM_CHUNK_HEADER_SIZE, &no_memory);
		break;
	case GM_CHUNK_END:
		log->closed = true;
		break;
	default:
		reason = gm_tables_read(&log->tables, header, &cursor, &no_memory);
	}
	if (no_memory)
		return &gm_error_no_memory;
	return reason ? damaged_chunk(log, offset, header->type, reason) : NULL;
}

/* Reads chunks from log->offset to the last complete one. */
static struct gm_error *read_chunks(struct gm_log *log)
{
	struct stat status;
	if (fstat(log->fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot read the log", log->path);
	log->size = (uint64_t)status.st_size;
	if (log->size < log->offset)
		return damaged(log, log->size, "the file has become shorter than it was");
	while (log->size - log->offset >= GM_CHUNK_HEADER_SIZE) {
		uint8_t bytes[GM_CHUNK_HEADER_SIZE];
		ssize_t got = read_at(log->fd, bytes, sizeof(bytes), log->offset);
		if (got < 0)
			return gm_error_os(GM_CORRUPT, errno, "%s: cannot read at byte %" PRIu64,
			        log->path, log->offset);
		if (got < (ssize_t)sizeof(bytes))
			break;
		struct gm_chunk_header header;
		const char *reason = gm_chunk_header_decode(bytes, &header);
		if (reason)
			return damaged(log, log->offset, reason);
		if (log->size - log->offset - GM_CHUNK_HEADER_SIZE < header.length)
			break;
		if (!cache_reserve(log->cache, header.length + 1))
			return &gm_error_no_memory;
		got = read_at(log->fd, log->cache->bytes, header.length,
		        log->offset + GM_CHUNK_HEADER_SIZE);
		if (got < 0)
			return gm_error_os(GM_CORRUPT, errno, "%s: cannot read at byte %" PRIu64,
			        log->path, log->offset);
		if (got < (ssize_t)header.length)
			break;
		gm_try(read_chunk(log, &header, log->cache->bytes, log->offset));
		log->offset += GM_CHUNK_HEADER_SIZE + header.length;
	}
	return gm_tables_sort(&log->tables) ? NULL : &gm_error_no_memory;
}

static struct gm_error *no_log(const char *path, const char *reason)
{
	return gm_error_at_offset(gm_error_create(GM_CORRUPT,
	                                  "%s: not a gpumem recording: %s: name a file that "
	                                  "`gpumem run` or `gpumem record` wrote",
	                                  path, reason),
	        path, 0);
}

static struct gm_error *read_header(struct gm_log *log)
{
	uint8_t bytes[GM_LOG_HEADER_SIZE];
	ssize_t got = read_at(log->fd, bytes, sizeof(bytes), 0);
	if (got < 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot read the log", log->path);
	if (got == 0)
		return no_log(log->path, "it is empty");
	if (memcmp(bytes, GM_LOG_MAGIC, got < 8 ? (size_t)got : 8) != 0)
		return no_log(log->path, "it does not begin like one");
	if (got < (ssize_t)sizeof(bytes)) {
		char reason[80];
		snprintf(reason, sizeof(reason),
		        "the file is truncated inside its header, after %zd of %d bytes", got,
		        GM_LOG_HEADER_SIZE);
		return damaged(log, (uint64_t)got, reason);
	}
	const char *reason = gm_log_header_decode(bytes, &log->header);
	log->tables.loops_have_lines = log->header.major == 3 && log->header.minor >= 6;
	if (reason && strcmp(reason, "newer") == 0)
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: format %u.%u is newer than this gpumem, which reads up to %d: "
		                "open it with a newer gpumem",
		                log->path, log->header.major, log->header.minor, GM_LOG_MAJOR),
		        log->path);
	return reason ? damaged(log, 0, reason) : NULL;
}

static struct gm_error *open_log(const char *path, const char *name,
        const struct gm_log_events *events, bool lazy, struct gm_log **ret_log)
{
	struct gm_log *log = calloc(1, sizeof(*log));
	if (!log) {
		if (events->destroy)
			events->destroy(events->context);
		return &gm_error_no_memory;
	}
	log->given = *events;
	log->event_count = events->count;
	log->lazy = lazy;
	/* O_NONBLOCK: opening a FIFO by mistake must not block. */
	log->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct gm_error *error = NULL;
	struct stat status;
	if (log->fd < 0 || fstat(log->fd, &status) != 0) {
		int os_error = errno;
		error = gm_error_in_file(gm_error_create(GM_CORRUPT,
		                                 "%s: cannot be opened: %s: check the name; a "
		                                 "recording is written by "
		                                 "`gpumem run`, a snapshot by "
		                                 "torch.cuda.memory._dump_snapshot",
		                                 path, strerror(os_error)),
		        path);
		if (error != &gm_error_no_memory)
			error->os_error = os_error;
	} else if (!S_ISREG(status.st_mode))
		error = no_log(path, "it is not a regular file");
	else if (!(log->path = strdup(name)) || !(log->cache = calloc(1, sizeof(*log->cache))))
		error = &gm_error_no_memory;
	if (!error)
		error = read_header(log);
	if (!error) {
		log->offset = GM_LOG_HEADER_SIZE;
		error = read_chunks(log);
	}
	if (error) {
		gm_log_close(log);
		return error;
	}
	*ret_log = log;
	return NULL;
}

struct gm_error *gm_log_open(const char *path, struct gm_log **ret_log)
{
	return gm_log_open_named(path, path, ret_log);
}

static const struct gm_log_events in_file = {0};

struct gm_error *gm_log_open_named(const char *path, const char *name, struct gm_log **ret_log)
{
	return open_log(path, name, &in_file, false, ret_log);
}

struct gm_error *gm_log_open_lazily(const char *path, const char *name, struct gm_log **ret_log)
{
	return open_log(path, name, &in_file, true, ret_log);
}

struct gm_error *gm_log_open_with(const char *path, const char *name,
        const struct gm_log_events *events, struct gm_log **ret_log)
{
	return open_log(path, name, events, false, ret_log);
}

void gm_log_close(struct gm_log *log)
{
	if (!log)
		return;
	if (log->fd >= 0)
		close(log->fd);
	if (log->given.destroy)
		log->given.destroy(log->given.context);
	if (log->cache) {
		for (size_t i = 0; i < CACHE_SLOTS; i++)
			free(log->cache->slots[i].events);
		free(log->cache->bytes);
		gm_unpacked_deinit(&log->cache->unpacked);
		free(log->cache);
	}
	gm_tables_deinit(&log->tables);
	gm_array_deinit(&log->chunks);
	free(log->source);
	free(log->path);
	free(log);
}

struct gm_error *gm_log_refresh(struct gm_log *log)
{
	/* The same file may contain another recording by now, with another id. */
	uint8_t bytes[GM_LOG_HEADER_SIZE];
	struct gm_log_header header;
	if (read_at(log->fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
	        gm_log_header_decode(bytes, &header) || header.id != log->header.id)
		return damaged(log, 0, "the file was written again since it was opened");
	return read_chunks(log);
}

const char *gm_log_path(const struct gm_log *log)
{
	return log->path;
}

const char *gm_log_source(const struct gm_log *log)
{
	return log->source ? log->source : "";
}

uint64_t gm_log_pid(const struct gm_log *log)
{
	return log->header.pid;
}

uint64_t gm_log_start_ns(const struct gm_log *log)
{
	return log->header.start_ns;
}

bool gm_log_closed(const struct gm_log *log)
{
	return log->closed;
}

bool gm_log_truncated(const struct gm_log *log, uint64_t *ret_offset)
{
	if (ret_offset)
		*ret_offset = log->offset;
	return log->offset < log->size;
}

uint64_t gm_log_event_count(const struct gm_log *log)
{
	return log->event_count;
}

/* The index of the chunk with event `number`, which exists. */
static size_t find_chunk(const struct gm_log *log, uint64_t number)
{
	return gm_partition_point(
	               log->chunks.count, middle, log->chunks.items[middle].first <= number) -
	       1;
}

/* Decodes one chunk into `events` (NULL: only checks it). Returns what is wrong, or NULL: the file
 * may have changed meanwhile. */
static const char *load_chunk(
        const struct gm_log *log, const struct event_chunk *chunk, struct gm_event *events)
{
	struct cache *cache = log->cache;
	if (!cache_reserve(cache, chunk->length + 1))
		return "not enough memory to read it";
	if (read_at(log->fd, cache->bytes, chunk->length, chunk->offset) != (ssize_t)chunk->length)
		return "it cannot be read any more";
	const uint8_t *bytes = cache->bytes;
	size_t length = chunk->length;
	if (chunk->packed) {
		bool no_memory = false;
		const char *reason = gm_unpack(bytes, length, &cache->unpacked, &no_memory);
		if (reason)
			return no_memory ? "not enough memory to read it" : reason;
		bytes = cache->unpacked.bytes;
		length = cache->unpacked.size;
	}
	struct gm_cursor cursor = {bytes, bytes + length, false};
	return decode_events(log, &cursor, chunk->count, events);
}

/* Events in another place, from some number on: they are in the first slot. */
static struct cache_slot *load_given(const struct gm_log *log, uint64_t number)
{
	struct cache_slot *slot = &log->cache->slots[0];
	uint64_t left = log->event_count - number;
	if (!slot->events && !(slot->events = malloc(GIVEN_BATCH * sizeof(*slot->events))))
		return NULL;
	slot->first = number;
	slot->count = left < GIVEN_BATCH ? left : GIVEN_BATCH;
	log->given.get(log->given.context, number, (size_t)slot->count, slot->events);
	return slot;
}

static struct cache_slot *load(const struct gm_log *log, uint64_t number)
{
	if (log->given.get)
		return load_given(log, number);
	struct cache *cache = log->cache;
	struct cache_slot *slot = cache->latest;
	/* A reader that goes from one chunk to the next will not return: one slot stays in the
	 * processor's cache. */
	if (!slot || slot->first + slot->count != number || !slot->read_on) {
		bool reads_on = slot && slot->first + slot->count == number;
		slot = &cache->slots[0];
		for (size_t i = 1; i < CACHE_SLOTS; i++)
			if (cache->slots[i].used < slot->used)
				slot = &cache->slots[i];
		slot->read_on = reads_on;
	}
	if (!slot->events)
		slot->events = malloc(GM_CHUNK_EVENTS_MAX * sizeof(*slot->events));
	slot->count = 0;
	if (!slot->events)
		return NULL;
	size_t index = find_chunk(log, number);
	slot->first = log->chunks.items[index].first;
	for (size_t i = index; i < log->chunks.count; i++) {
		const struct event_chunk *chunk = &log->chunks.items[i];
		if (slot->count + chunk->count > GM_CHUNK_EVENTS_MAX ||
		        load_chunk(log, chunk, slot->events + slot->count))
			break;
		slot->count += chunk->count;
	}
	return slot->count ? slot : NULL;
}

/* The slot with an event; NULL: there is none, or it cannot be read. */
static struct cache_slot *slot_with(const struct gm_log *log, uint64_t number)
{
	struct cache *cache = log->cache;
	struct cache_slot *slot = cache->latest;
	if (slot && number - slot->first < slot->count)
		return slot;
	if (number >= log->event_count)
		return NULL;
	slot = NULL;
	for (size_t i = 0; i < CACHE_SLOTS && !slot; i++) {
		struct cache_slot *candidate = &cache->slots[i];
		if (number - candidate->first < candidate->count)
			slot = candidate;
	}
	if (!slot)
		slot = load(log, number);
	cache->latest = slot;
	if (slot)
		slot->used = ++cache->clock;
	return slot;
}

void gm_log_event(const struct gm_log *log, uint64_t number, struct gm_event *ret_event)
{
	if (number < log->event_count && log->given.get) {
		log->given.get(log->given.context, number, 1, ret_event);
		return;
	}
	const struct cache_slot *slot = slot_with(log, number);
	*ret_event = slot ? slot->events[number - slot->first] : (struct gm_event){0};
}

const struct gm_event *gm_log_events(const struct gm_log *log, uint64_t number, size_t *ret_count)
{
	const struct cache_slot *slot = slot_with(log, number);
	*ret_count = slot ? (size_t)(slot->first + slot->count - number) : 0;
	return slot ? slot->events + (number - slot->first) : NULL;
}

const struct gm_event *gm_log_event_at(const struct gm_log *log, uint64_t number)
{
	const struct cache_slot *slot = slot_with(log, number);
	return slot ? &slot->events[number - slot->first] : NULL;
}

struct gm_error *gm_log_event_error(const struct gm_log *log, uint64_t number)
{
	if (number >= log->event_count || log->given.get)
		return NULL;
	const struct event_chunk *chunk = &log->chunks.items[find_chunk(log, number)];
	const char *reason = load_chunk(log, chunk, NULL);
	return reason ? damaged_chunk(
	                        log, chunk->offset - GM_CHUNK_HEADER_SIZE, GM_CHUNK_EVENTS, reason)
	              : NULL;
}

const char *gm_log_string(const struct gm_log *log, uint32_t id)
{
	return gm_tables_string(&log->tables, id);
}

bool gm_log_code(const struct gm_log *log, uint32_t id, struct gm_log_code *ret_code)
{
	if (id == 0 || id > log->tables.codes.count)
		return false;
	const struct gm_log_code_entry *code = &log->tables.codes.items[id - 1];
	*ret_code = (struct gm_log_code){
	        .file = code->file,
	        .name = code->name,
	        .first_line = code->first_line,
	        .loop_count = code->loop_count,
	        .loops = code->loop_count ? log->tables.loops.items + code->loops : NULL,
	};
	return true;
}

bool gm_log_frame(const struct gm_log *log, uint32_t id, struct gm_log_frame *ret_frame)
{
	if (id == 0 || id > log->tables.frames.count)
		return false;
	*ret_frame = log->tables.frames.items[id - 1];
	return true;
}

const uint32_t *gm_log_python_stack(const struct gm_log *log, uint32_t id, size_t *ret_count)
{
	*ret_count = 0;
	if (id == 0 || id > log->tables.python_stacks.count)
		return NULL;
	const struct gm_span *span = &log->tables.python_stacks.items[id - 1];
	*ret_count = span->count;
	return span->count ? log->tables.stack_frames.items + span->start : NULL;
}

const uint64_t *gm_log_native_stack(const struct gm_log *log, uint32_t id, size_t *ret_count)
{
	*ret_count = 0;
	if (id == 0 || id > log->tables.native_stacks.count)
		return NULL;
	const struct gm_span *span = &log->tables.native_stacks.items[id - 1];
	*ret_count = span->count;
	return span->count ? log->tables.addresses.items + span->start : NULL;
}

bool gm_log_evidence(const struct gm_log *log, uint32_t id, struct gm_log_evidence *ret_evidence)
{
	if (id == 0 || id > log->tables.evidence.count)
		return false;
	*ret_evidence = log->tables.evidence.items[id - 1];
	return true;
}

bool gm_log_tensor(const struct gm_log *log, uint32_t id, struct gm_log_tensor *ret_tensor)
{
	if (id == 0 || id > log->tables.tensors.count)
		return false;
	const struct gm_tensor_entry *entry = &log->tables.tensors.items[id - 1];
	const int64_t *sizes = log->tables.extents.items + entry->extents;
	*ret_tensor = (struct gm_log_tensor){
	        .type = entry->type,
	        .dimensions = entry->dimensions,
	        .sizes = sizes,
	        .strides = entry->strided ? sizes + entry->dimensions : NULL,
	};
	return true;
}

bool gm_log_has_tensors(const struct gm_log *log)
{
	return log->tables.tensors.count > 0;
}

size_t gm_log_module_count(const struct gm_log *log)
{
	return log->tables.modules.count;
}

bool gm_log_module(const struct gm_log *log, uint32_t id, struct gm_log_module *ret_module)
{
	if (id == 0 || id > log->tables.modules.count)
		return false;
	*ret_module = log->tables.modules.items[id - 1];
	return true;
}

uint32_t gm_log_module_at(const struct gm_log *log, uint64_t address)
{
	const uint32_t *ids = log->tables.modules_by_start.items;
	size_t low = gm_partition_point(log->tables.modules_by_start.count, middle,
	        log->tables.modules.items[ids[middle] - 1].start <= address);
	if (low == 0)
		return 0;
	uint32_t id = log->tables.modules_by_start.items[low - 1];
	return address < log->tables.modules.items[id - 1].end ? id : 0;
}

bool gm_log_symbol(const struct gm_log *log, uint64_t address, uint32_t *ret_function,
        uint32_t *ret_file, uint32_t *ret_line)
{
	size_t low = gm_partition_point(log->tables.symbols.count, middle,
	        log->tables.symbols.items[middle].address < address);
	if (low == log->tables.symbols.count || log->tables.symbols.items[low].address != address)
		return false;
	*ret_function = log->tables.symbols.items[low].function;
	*ret_file = log->tables.symbols.items[low].file;
	*ret_line = log->tables.symbols.items[low].line;
	return true;
}

size_t gm_log_gap_count(const struct gm_log *log)
{
	return log->tables.gaps.count;
}

const char *gm_log_gap(const struct gm_log *log, size_t index)
{
	return index < log->tables.gaps.count ? gm_log_string(log, log->tables.gaps.items[index])
	                                      : "";
}

size_t gm_log_mark_count(const struct gm_log *log)
{
	return log->tables.marks.count;
}

void gm_log_mark(const struct gm_log *log, size_t index, struct gm_log_mark *ret_mark)
{
	*ret_mark = index < log->tables.marks.count ? log->tables.marks.items[index]
	                                            : (struct gm_log_mark){0};
}

size_t gm_log_amp_count(const struct gm_log *log)
{
	return log->tables.amps.count;
}

void gm_log_amp(const struct gm_log *log, size_t index, struct gm_log_amp *ret_amp)
{
	*ret_amp = index < log->tables.amps.count ? log->tables.amps.items[index]
	                                          : (struct gm_log_amp){0};
}

size_t gm_log_collective_count(const struct gm_log *log)
{
	return log->tables.collectives.count;
}

void gm_log_collective(
        const struct gm_log *log, size_t index, struct gm_log_collective *ret_collective)
{
	*ret_collective = index < log->tables.collectives.count
	                          ? log->tables.collectives.items[index]
	                          : (struct gm_log_collective){0};
}

size_t gm_log_name_count(const struct gm_log *log)
{
	return log->tables.names.count;
}

void gm_log_name(const struct gm_log *log, size_t index, struct gm_log_name *ret_name)
{
	*ret_name = index < log->tables.names.count ? log->tables.names.items[index]
	                                            : (struct gm_log_name){0};
}

size_t gm_log_iteration_count(const struct gm_log *log)
{
	return log->tables.iterations.count;
}

void gm_log_iteration(
        const struct gm_log *log, size_t index, struct gm_log_iteration *ret_iteration)
{
	*ret_iteration = index < log->tables.iterations.count ? log->tables.iterations.items[index]
	                                                      : (struct gm_log_iteration){0};
}

size_t gm_log_setting_count(const struct gm_log *log)
{
	return log->tables.settings.count;
}

void gm_log_setting_at(
        const struct gm_log *log, size_t index, const char **ret_name, const char **ret_value)
{
	const struct gm_setting_entry none = {0};
	const struct gm_setting_entry *setting =
	        index < log->tables.settings.count ? &log->tables.settings.items[index] : &none;
	*ret_name = gm_log_string(log, setting->name);
	*ret_value = gm_log_string(log, setting->value);
}

const char *gm_log_setting(const struct gm_log *log, const char *name)
{
	for (size_t i = 0; i < log->tables.settings.count; i++)
		if (strcmp(gm_log_string(log, log->tables.settings.items[i].name), name) == 0)
			return gm_log_string(log, log->tables.settings.items[i].value);
	return NULL;
}

bool gm_log_counter(const struct gm_log *log, const char *name, uint64_t *ret_value)
{
	return gm_tables_counter(&log->tables, name, ret_value);
}

bool gm_log_device_total(const struct gm_log *log, int device, uint64_t *ret_bytes)
{
	char name[64];
	snprintf(name, sizeof(name), "device.%d.total", device);
	return gm_log_counter(log, name, ret_bytes);
}
