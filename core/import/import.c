#include "import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "import/snapshot_read.h"
#include "log/log.h"

enum { SPACE_MAX = 100 }; /* bytes of white space before JSON */

bool gm_import_is_snapshot(const char *path)
{
	/* O_NONBLOCK: opening a FIFO by mistake must not block. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	unsigned char first;
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	for (off_t at = 0; pread(fd, &first, 1, at) == 1 && at < SPACE_MAX; at++)
		if (!strchr(" \n\r\t", first) || !first)
			return first == 0x80 || first == '{' || first == '['; /* a log: 0x89 */
	return false;
}

/* When the first event of its traces was, else when the file was written; ns since the Unix epoch,
 * 0: not known. */
static uint64_t start_of(const struct gm_snapshot *snapshot, const char *path)
{
	uint64_t first_us = 0;
	struct stat status;
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		const struct gm_trace_device *device = &snapshot->devices.items[i];
		uint64_t time_us =
		        device->count ? snapshot->pickle.entries.items[device->first].time_us : 0;
		if (time_us && (!first_us || time_us < first_us))
			first_us = time_us;
	}
	if (first_us)
		return first_us * 1000;
	if (stat(path, &status) != 0 || status.st_mtim.tv_sec < 0)
		return 0;
	return (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
}

static struct gm_error *import(const char *path, bool plainly, const char *memory,
        struct gm_snapshot *snapshot, struct gm_snapshot_events **ret_events)
{
	gm_try(gm_snapshot_read(snapshot, path, plainly));
	const struct gm_log_writer_options options = {
	        .source = "a PyTorch snapshot", .start_ns = start_of(snapshot, path)};
	struct gm_log_writer *writer;
	gm_try(gm_log_writer_create(memory, &options, &writer));
	struct gm_snapshot_events *events = NULL;
	struct gm_error *error = gm_snapshot_write(snapshot, writer, &events);
	struct gm_error *closing = gm_log_writer_close(writer);
	if (!error && !closing) {
		*ret_events = events;
		return NULL;
	}
	gm_snapshot_events_destroy(events);
	if (!error)
		return closing;
	gm_error_destroy(closing);
	return error;
}

static struct gm_error *import_snapshot(const char *path, bool plainly, struct gm_log **ret_log)
{
	_cleanup_close_ int fd = memfd_create("gpumem-snapshot", MFD_CLOEXEC);
	if (fd < 0)
		return gm_error_os(
		        GM_INTERNAL, errno, "%s: not enough memory for its events", path);
	char memory[40];
	snprintf(memory, sizeof(memory), "/proc/self/fd/%d", fd);
	struct gm_snapshot snapshot;
	struct gm_snapshot_events *events;
	struct gm_error *error = import(path, plainly, memory, &snapshot, &events);
	gm_snapshot_deinit(&snapshot);
	return error ? error : gm_snapshot_events_log(events, memory, path, ret_log);
}

struct gm_error *gm_import_snapshot(const char *path, struct gm_log **ret_log)
{
	return import_snapshot(path, false, ret_log);
}

struct gm_error *gm_import_snapshot_plainly(const char *path, struct gm_log **ret_log)
{
	return import_snapshot(path, true, ret_log);
}
