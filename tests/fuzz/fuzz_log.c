/*
 * Any bytes as a log file: it is opened or refused, and everything in it can be looked at. Odd
 * inputs are taken as a file's bytes; even ones as chunks, which get a true header and checksum, as
 * hardly any random bytes would pass those.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "log/format.h"
#include "log/log.h"
#include "look_at_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each event of a log that is read as it is needed: there, or refused with a reason. */
static void look_lazily(const struct gm_log *log, const struct gm_log *whole)
{
	uint64_t count = gm_log_event_count(log);
	if (whole && count != gm_log_event_count(whole))
		abort();
	for (uint64_t i = 0; i < count; i++) {
		const struct gm_event *event = gm_log_event_at(log, i);
		struct gm_error *error = event ? NULL : gm_log_event_error(log, i);
		if (!event && (!error || whole))
			abort();
		gm_error_destroy(error);
		if (!whole)
			continue;
		struct gm_event other;
		gm_log_event(whole, i, &other);
		if (event->action != other.action || event->address != other.address ||
		        event->size != other.size)
			abort();
	}
}

static void put(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		abort();
}

/* Each chunk of the input: type, count, two bytes of length, payload. */
static void put_chunks(int fd, const uint8_t *data, size_t size)
{
	uint8_t header[GM_LOG_HEADER_SIZE];
	gm_log_header_encode(
	        &(struct gm_log_header){.major = GM_LOG_MAJOR, .id = 1, .pid = 1}, header);
	put(fd, header, sizeof(header));
	while (size >= 4) {
		size_t length = data[2] | (size_t)data[3] << 8;
		if (length > size - 4)
			length = size - 4;
		struct gm_chunk_header chunk = {
		        .type = data[0] % (GM_CHUNK_TYPE_COUNT + 1),
		        .count = data[1],
		        .length = (uint32_t)length,
		        .crc = gm_log_crc(data + 4, length),
		};
		uint8_t bytes[GM_CHUNK_HEADER_SIZE];
		gm_chunk_header_encode(&chunk, bytes);
		put(fd, bytes, sizeof(bytes));
		put(fd, data + 4, length);
		data += 4 + length;
		size -= 4 + length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("log", 0);
	if (fd < 0)
		abort();
	if (size && data[0] % 2 == 0)
		put_chunks(fd, data + 1, size - 1);
	else
		put(fd, data, size);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct gm_log *log = NULL, *lazy;
	gm_error_destroy(gm_log_open(path, &log));
	if (log)
		look_at_all(log);
	struct gm_error *error = gm_log_open_lazily(path, path, &lazy);
	if (!error) {
		look_lazily(lazy, log);
		gm_log_close(lazy);
	} else if (log) {
		abort(); /* it is less strict */
	}
	gm_error_destroy(error);
	gm_log_close(log);
	return 0;
}
