/*
 * The log's writer. Records are collected in memory and written to the file as complete chunks in
 * one write: first interned records, then the events that refer to them, so that any prefix of
 * complete chunks is consistent.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/whole_file.h"
#include "log/format.h"
#include "log/intern.h"
#include "log/pack.h"

enum {
	FLUSH_BYTES = 1 << 20, /* of pending interned records */
	PACK_LEAST = 256,      /* bytes of a payload that is worth packing */
	FLUSH_SECONDS = 1,     /* a crash loses no more than this, as long as there are events */
	RECORD_MAX =
	        10 *
	        (8 + 4 * GM_LOG_LOOPS_MAX), /* bytes of the longest record other than a stack */
};

/* Interned records, in the order in which they must be written: later ones refer to earlier ones.
 * */
enum table {
	STRINGS,
	CODES,
	FRAMES,
	PYTHON_STACKS,
	MODULES,
	NATIVE_STACKS,
	EVIDENCE,
	SYMBOLS,
	GAPS,
	COUNTERS,
	ITERATIONS,
	MARKS,
	TENSORS,
	AMPS,
	NAMES,
	COLLECTIVES,
	SETTINGS,
	TABLE_COUNT,
};

static const uint16_t table_chunks[TABLE_COUNT] = {
        GM_CHUNK_STRINGS,
        GM_CHUNK_CODES,
        GM_CHUNK_FRAMES,
        GM_CHUNK_PYTHON_STACKS,
        GM_CHUNK_MODULES,
        GM_CHUNK_NATIVE_STACKS,
        GM_CHUNK_EVIDENCE,
        GM_CHUNK_SYMBOLS,
        GM_CHUNK_GAPS,
        GM_CHUNK_COUNTERS,
        GM_CHUNK_ITERATIONS,
        GM_CHUNK_MARKS,
        GM_CHUNK_TENSORS,
        GM_CHUNK_AMP,
        GM_CHUNK_NAMES,
        GM_CHUNK_COLLECTIVES,
        GM_CHUNK_SETTINGS,
};

struct gm_log_writer {
	int fd;
	char *path;
	uint64_t file_size; /* complete chunks */
	struct gm_intern tables[TABLE_COUNT];
	GM_ARRAY(uint8_t) events;
	struct gm_event state;
	uint32_t pending_events;
	uint64_t event_count;
	time_t last_flush;
	GM_ARRAY(uint8_t) scratch; /* a record in progress */
	GM_ARRAY(uint8_t) out;     /* chunks in progress */
	struct gm_packer *packer;  /* NULL: chunks are not packed */
	struct gm_error *error;    /* the first one; nothing after it is in the file */
};

static void fail(struct gm_log_writer *writer, struct gm_error *error)
{
	if (writer->error)
		gm_error_destroy(error);
	else
		writer->error = error;
}

/* Returns the remembered error again; the writer keeps its own copy. */
static struct gm_error *remembered(const struct gm_log_writer *writer)
{
	if (!writer->error || writer->error == &gm_error_no_memory)
		return writer->error;
	return gm_error_create(writer->error->status, "%s", writer->error->message);
}

static void write_out(struct gm_log_writer *writer)
{
	if (writer->error)
		writer->out.count = 0;
	if (writer->out.count == 0)
		return;
	if (gm_write_all(writer->fd, writer->out.items, writer->out.count)) {
		writer->file_size += writer->out.count;
	} else {
		fail(writer, gm_error_os(GM_TARGET, errno,
		                     "%s: cannot write the log: free space or choose another file",
		                     writer->path));
		/* As far as possible: a reader can handle a truncated chunk too. */
		if (ftruncate(writer->fd, (off_t)writer->file_size) != 0)
			errno = 0;
	}
	writer->out.count = 0;
}

static void put_chunk(struct gm_log_writer *writer, uint16_t type, const uint8_t *bytes,
        size_t size, uint32_t count)
{
	const uint8_t *packed = NULL;
	if (writer->error) /* it is dropped */
		return;
	if (writer->packer && type == GM_CHUNK_EVENTS && size >= PACK_LEAST)
		packed = gm_packer_pack(writer->packer, bytes, size, &size);
	bytes = packed ? packed : bytes;
	if (!gm_array_reserve(&writer->out, GM_CHUNK_HEADER_SIZE + size)) {
		fail(writer, &gm_error_no_memory);
		return;
	}
	const struct gm_chunk_header header = {
	        .type = type,
	        .flags = packed ? GM_CHUNK_PACKED : 0,
	        .length = (uint32_t)size,
	        .count = count,
	        .crc = gm_log_crc(bytes, size),
	};
	gm_chunk_header_encode(&header, writer->out.items + writer->out.count);
	writer->out.count += GM_CHUNK_HEADER_SIZE;
	if (size)
		memcpy(writer->out.items + writer->out.count, bytes, size);
	writer->out.count += size;
}

/* The records interned since the last flush, in chunks of at most GM_CHUNK_MAX bytes. */
static void put_table(struct gm_log_writer *writer, enum table table)
{
	struct gm_intern *intern = &writer->tables[table];
	while (intern->flushed_count < intern->count) {
		size_t first = intern->flushed_count, last = first;
		size_t start = intern->flushed_size;
		while (last < intern->count && intern->ends[last] - start <= GM_CHUNK_MAX)
			last++;
		size_t end = intern->ends[last - 1];
		put_chunk(writer, table_chunks[table], intern->bytes + start, end - start,
		        (uint32_t)(last - first));
		intern->flushed_count = last;
		intern->flushed_size = end;
	}
}

static time_t now_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

static void flush(struct gm_log_writer *writer)
{
	writer->last_flush = now_seconds();
	for (enum table table = 0; table < TABLE_COUNT; table++)
		put_table(writer, table);
	if (writer->pending_events) {
		put_chunk(writer, GM_CHUNK_EVENTS, writer->events.items, writer->events.count,
		        writer->pending_events);
		writer->pending_events = 0;
		writer->events.count = 0;
		gm_event_state_reset(&writer->state);
	}
	write_out(writer);
}

static void put_meta(struct gm_log_writer *writer, const char *source)
{
	size_t length = source ? strnlen(source, GM_LOG_STRING_MAX - 1) : 0;
	if (!gm_array_reserve(&writer->scratch, length + 16)) {
		fail(writer, &gm_error_no_memory);
		return;
	}
	uint8_t *at = gm_put_varint(writer->scratch.items, length);
	if (length)
		memcpy(at, source, length);
	put_chunk(writer, GM_CHUNK_META, writer->scratch.items,
	        (size_t)(at - writer->scratch.items) + length, 1);
}

static void writer_destroy(struct gm_log_writer *writer)
{
	for (enum table table = 0; table < TABLE_COUNT; table++)
		gm_intern_deinit(&writer->tables[table]);
	if (writer->fd >= 0)
		close(writer->fd);
	gm_packer_destroy(writer->packer);
	gm_array_deinit(&writer->events);
	gm_array_deinit(&writer->scratch);
	gm_array_deinit(&writer->out);
	gm_error_destroy(writer->error);
	free(writer->path);
	free(writer);
}

struct gm_error *gm_log_writer_create(const char *path, const struct gm_log_writer_options *options,
        struct gm_log_writer **ret_writer)
{
	struct gm_log_writer *writer = calloc(1, sizeof(*writer));
	if (!writer)
		return &gm_error_no_memory;
	writer->path = strdup(path);
	writer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!writer->path || writer->fd < 0) {
		struct gm_error *error = writer->path ? gm_error_os(GM_TARGET, errno,
		                                                "%s: cannot create the log: choose "
		                                                "another file or directory",
		                                                path)
		                                      : &gm_error_no_memory;
		writer_destroy(writer);
		return error;
	}
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	struct gm_log_header header = {
	        .major = GM_LOG_MAJOR,
	        .minor = GM_LOG_MINOR,
	        .pid = options ? options->pid : 0,
	        .start_ns = options && options->start_ns ? options->start_ns : now_ns,
	};
	if (getrandom(&header.id, sizeof(header.id), GRND_NONBLOCK) != (ssize_t)sizeof(header.id))
		header.id = now_ns;
	gm_event_state_reset(&writer->state);
	bool packs = options && options->packed;
	if ((packs && !(writer->packer = gm_packer_create())) ||
	        !gm_array_reserve(&writer->out, GM_LOG_HEADER_SIZE) ||
	        !gm_array_reserve(
	                &writer->events, GM_CHUNK_EVENTS_MAX * (size_t)GM_LOG_EVENT_BYTES_MAX)) {
		fail(writer, &gm_error_no_memory);
	} else {
		gm_log_header_encode(&header, writer->out.items);
		writer->out.count = GM_LOG_HEADER_SIZE;
		put_meta(writer, options ? options->source : NULL);
		flush(writer);
	}
	struct gm_error *error = remembered(writer);
	if (error) {
		writer_destroy(writer);
		return error;
	}
	*ret_writer = writer;
	return NULL;
}

struct gm_error *gm_log_writer_flush(struct gm_log_writer *writer)
{
	flush(writer);
	return remembered(writer);
}

bool gm_log_writer_failed(const struct gm_log_writer *writer)
{
	return writer->error != NULL;
}

struct gm_error *gm_log_writer_close(struct gm_log_writer *writer)
{
	if (!writer)
		return NULL;
	flush(writer);
	uint8_t count[10];
	put_chunk(writer, GM_CHUNK_END, count,
	        (size_t)(gm_put_varint(count, writer->event_count) - count), 1);
	write_out(writer);
	struct gm_error *error = remembered(writer);
	int fd = writer->fd;
	writer->fd = -1;
	if (close(fd) != 0 && !error)
		error = gm_error_os(GM_TARGET, errno, "%s: cannot write the log", writer->path);
	writer_destroy(writer);
	return error;
}

/* Interns the record in scratch that ends at `end`. */
static uint32_t intern(struct gm_log_writer *writer, enum table table, const uint8_t *end)
{
	struct gm_intern *pending = &writer->tables[table];
	if (writer->error) /* the program may go on for long: nothing more is kept */
		return 0;
	uint32_t id = gm_intern_add(
	        pending, writer->scratch.items, (size_t)(end - writer->scratch.items));
	if (!id)
		fail(writer, &gm_error_no_memory);
	else if (pending->size - pending->flushed_size > FLUSH_BYTES)
		flush(writer);
	return id;
}

/* Space for a record of at most `size` bytes; NULL: out of memory. */
static uint8_t *record(struct gm_log_writer *writer, size_t size)
{
	writer->scratch.count = 0;
	if (gm_array_reserve(&writer->scratch, size))
		return writer->scratch.items;
	fail(writer, &gm_error_no_memory);
	return NULL;
}

uint32_t gm_log_writer_string(struct gm_log_writer *writer, const char *string)
{
	if (!string || !string[0])
		return 0;
	size_t length = strnlen(string, GM_LOG_STRING_MAX);
	uint8_t *at = record(writer, length + 10);
	if (!at)
		return 0;
	at = gm_put_varint(at, length);
	memcpy(at, string, length);
	return intern(writer, STRINGS, at + length);
}

uint32_t gm_log_writer_code(struct gm_log_writer *writer, const struct gm_log_code *code)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return 0;
	uint32_t loops = code->loop_count < GM_LOG_LOOPS_MAX ? code->loop_count : GM_LOG_LOOPS_MAX;
	at = gm_put_varint(at, code->file);
	at = gm_put_varint(at, code->name);
	at = gm_put_varint(at, code->first_line);
	at = gm_put_varint(at, loops);
	for (uint32_t i = 0; i < loops; i++) {
		at = gm_put_varint(at, code->loops[i].start);
		at = gm_put_varint(at, code->loops[i].end);
		at = gm_put_varint(at, code->loops[i].line);
		at = gm_put_varint(at, code->loops[i].line_end);
	}
	return intern(writer, CODES, at);
}

uint32_t gm_log_writer_frame(struct gm_log_writer *writer, const struct gm_log_frame *frame)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return 0;
	at = gm_put_varint(at, frame->code);
	at = gm_put_varint(at, frame->lasti);
	at = gm_put_varint(at, frame->line);
	at = gm_put_varint(at, frame->op);
	at = gm_put_varint(at, frame->op_name);
	return intern(writer, FRAMES, at);
}

uint32_t gm_log_writer_python_stack(
        struct gm_log_writer *writer, const uint32_t *frames, size_t count)
{
	if (count == 0)
		return 0;
	count = count < GM_LOG_STACK_MAX ? count : GM_LOG_STACK_MAX;
	uint8_t *at = record(writer, 10 + 5 * count);
	if (!at)
		return 0;
	at = gm_put_varint(at, count);
	for (size_t i = 0; i < count; i++)
		at = gm_put_varint(at, frames[i]);
	return intern(writer, PYTHON_STACKS, at);
}

uint32_t gm_log_writer_module(struct gm_log_writer *writer, const struct gm_log_module *module)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return 0;
	uint32_t size = module->build_id_size < sizeof(module->build_id) ? module->build_id_size
	                                                                 : sizeof(module->build_id);
	at = gm_put_varint(at, module->path);
	at = gm_put_varint(at, module->start);
	at = gm_put_varint(at, module->end);
	at = gm_put_varint(at, module->bias);
	at = gm_put_varint(at, size);
	memcpy(at, module->build_id, size);
	return intern(writer, MODULES, at + size);
}

uint32_t gm_log_writer_native_stack(
        struct gm_log_writer *writer, const uint64_t *addresses, size_t count)
{
	if (count == 0)
		return 0;
	count = count < GM_LOG_STACK_MAX ? count : GM_LOG_STACK_MAX;
	uint8_t *at = record(writer, 10 + 10 * count);
	if (!at)
		return 0;
	at = gm_put_varint(at, count);
	uint64_t before = 0;
	for (size_t i = 0; i < count; i++) {
		at = gm_put_varint(at, gm_zigzag((int64_t)(addresses[i] - before)));
		before = addresses[i];
	}
	return intern(writer, NATIVE_STACKS, at);
}

uint32_t gm_log_writer_evidence(
        struct gm_log_writer *writer, const struct gm_log_evidence *evidence)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return 0;
	at = gm_put_varint(at, evidence->kind);
	at = gm_put_varint(at, evidence->code);
	at = gm_put_varint(at, evidence->line);
	at = gm_put_varint(at, evidence->name);
	return intern(writer, EVIDENCE, at);
}

uint32_t gm_log_writer_tensor(struct gm_log_writer *writer, const struct gm_log_tensor *tensor)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at || tensor->dimensions > GM_LOG_DIMENSIONS_MAX)
		return 0;
	at = gm_put_varint(at, tensor->type);
	at = gm_put_varint(at, tensor->dimensions);
	at = gm_put_varint(at, tensor->strides != NULL);
	for (uint32_t i = 0; i < tensor->dimensions; i++)
		at = gm_put_varint(at, gm_zigzag(tensor->sizes[i]));
	for (uint32_t i = 0; tensor->strides && i < tensor->dimensions; i++)
		at = gm_put_varint(at, gm_zigzag(tensor->strides[i]));
	return intern(writer, TENSORS, at);
}

void gm_log_writer_symbol(struct gm_log_writer *writer, uint64_t address, uint32_t function,
        uint32_t file, uint32_t line)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return;
	at = gm_put_varint(at, address);
	at = gm_put_varint(at, function);
	at = gm_put_varint(at, file);
	at = gm_put_varint(at, line);
	intern(writer, SYMBOLS, at);
}

void gm_log_writer_gap(struct gm_log_writer *writer, const char *reason)
{
	uint32_t string = gm_log_writer_string(writer, reason);
	uint8_t *at = record(writer, RECORD_MAX);
	if (string && at)
		intern(writer, GAPS, gm_put_varint(at, string));
}

void gm_log_writer_counter(struct gm_log_writer *writer, const char *name, uint64_t value)
{
	uint32_t string = gm_log_writer_string(writer, name);
	uint8_t *at = record(writer, RECORD_MAX);
	if (!string || !at)
		return;
	at = gm_put_varint(at, string);
	/* A counter may return to an earlier value: its position in the file makes each record
	 * distinct. */
	at = gm_put_varint(at, writer->tables[COUNTERS].count);
	at = gm_put_varint(at, value);
	intern(writer, COUNTERS, at);
}

void gm_log_writer_setting(struct gm_log_writer *writer, const char *name, const char *value)
{
	uint32_t name_string = gm_log_writer_string(writer, name);
	uint32_t value_string = gm_log_writer_string(writer, value);
	uint8_t *at = record(writer, RECORD_MAX);
	if (!name_string || !at)
		return;
	at = gm_put_varint(at, writer->tables[SETTINGS].count); /* each is distinct */
	at = gm_put_varint(at, name_string);
	at = gm_put_varint(at, value_string);
	intern(writer, SETTINGS, at);
}

void gm_log_writer_iteration(struct gm_log_writer *writer, const struct gm_log_iteration *iteration)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return;
	at = gm_put_varint(at, iteration->event);
	at = gm_put_varint(at, iteration->code);
	at = gm_put_varint(at, iteration->loop);
	at = gm_put_varint(at, iteration->position);
	intern(writer, ITERATIONS, at);
}

void gm_log_writer_mark(struct gm_log_writer *writer, const struct gm_log_mark *mark)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return;
	at = gm_put_varint(at, mark->event);
	at = gm_put_varint(at, writer->tables[MARKS].count); /* each is distinct */
	at = gm_put_varint(at, mark->thread);
	at = gm_put_varint(at, mark->kind);
	at = gm_put_varint(at, mark->name);
	intern(writer, MARKS, at);
}

void gm_log_writer_amp(struct gm_log_writer *writer, const struct gm_log_amp *amp)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at || amp->count > GM_LOG_AMP_VALUES)
		return;
	at = gm_put_varint(at, amp->event);
	at = gm_put_varint(at, writer->tables[AMPS].count); /* each is distinct */
	at = gm_put_varint(at, writer->tables[MARKS].count);
	at = gm_put_varint(at, amp->thread);
	at = gm_put_varint(at, amp->kind);
	at = gm_put_varint(at, amp->python_stack);
	at = gm_put_varint(at, amp->number);
	at = gm_put_varint(at, amp->count);
	for (uint32_t i = 0; i < amp->count; i++) {
		uint64_t bits;
		memcpy(&bits, &amp->values[i], sizeof(bits));
		at = gm_put_varint(at, bits);
	}
	intern(writer, AMPS, at);
}

void gm_log_writer_collective(
        struct gm_log_writer *writer, const struct gm_log_collective *collective)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return;
	at = gm_put_varint(at, writer->tables[COLLECTIVES].count); /* each is distinct */
	at = gm_put_varint(at, collective->time_ns);
	at = gm_put_varint(at, collective->thread);
	at = gm_put_varint(at, collective->kind);
	at = gm_put_varint(at, collective->python_stack);
	at = gm_put_varint(at, collective->borrowed);
	at = gm_put_varint(at, collective->group);
	at = gm_put_varint(at, collective->ranks);
	at = gm_put_varint(at, (uint32_t)(collective->rank + 1)); /* 0: none */
	at = gm_put_varint(at, (uint32_t)(collective->peer + 1));
	at = gm_put_varint(at, (uint32_t)(collective->dtype + 1));
	at = gm_put_varint(at, gm_zigzag(collective->device));
	at = gm_put_varint(at, collective->count);
	at = gm_put_varint(at, collective->send);
	at = gm_put_varint(at, collective->receive);
	at = gm_put_varint(at, collective->send_bytes);
	at = gm_put_varint(at, collective->receive_bytes);
	intern(writer, COLLECTIVES, at);
}

void gm_log_writer_name(struct gm_log_writer *writer, const struct gm_log_name *name)
{
	uint8_t *at = record(writer, RECORD_MAX);
	if (!at)
		return;
	at = gm_put_varint(at, name->event);
	at = gm_put_varint(at, name->kind);
	at = gm_put_varint(at, name->device_type);
	at = gm_put_varint(at, gm_zigzag(name->device));
	at = gm_put_varint(at, name->address);
	at = gm_put_varint(at, name->offset);
	at = gm_put_varint(at, name->size);
	at = gm_put_varint(at, name->name);
	intern(writer, NAMES, at);
}

uint64_t gm_log_writer_event(struct gm_log_writer *writer, const struct gm_event *event)
{
	/* The buffer has space for a complete chunk of the longest events since its creation. */
	uint8_t *at = writer->events.items + writer->events.count;
	uint8_t *end = gm_event_encode(&writer->state, event, at);
	writer->events.count += (size_t)(end - at);
	writer->pending_events++;
	if (writer->pending_events == GM_CHUNK_EVENTS_MAX ||
	        now_seconds() > writer->last_flush + FLUSH_SECONDS)
		flush(writer);
	return writer->event_count++;
}
