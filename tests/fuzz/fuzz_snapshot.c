/*
 * Any bytes as a snapshot: it is read or refused, and what it becomes is a log that can be made a
 * model of. What is learned from entries changes nothing: read opcode by opcode the file says the
 * same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "import/import.h"
#include "log/log.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, uint64_t number)
{
	fprintf(stderr, "%s differs: %llu\n", what, (unsigned long long)number);
	abort();
}

static void compare_logs(const struct gm_log *a, const struct gm_log *b)
{
	uint64_t count = gm_log_event_count(a);
	if (count != gm_log_event_count(b))
		fail("the number of events", count);
	for (uint64_t i = 0; i < count; i++) {
		struct gm_event one, other;
		size_t frames, others;
		gm_log_event(a, i, &one);
		gm_log_event(b, i, &other);
		if (memcmp(&one, &other, sizeof(one)) != 0)
			fail("event", i);
		const uint32_t *stack = gm_log_python_stack(a, one.python_stack, &frames);
		const uint32_t *same = gm_log_python_stack(b, other.python_stack, &others);
		if (frames != others ||
		        (frames && memcmp(stack, same, frames * sizeof(*same)) != 0))
			fail("the stack of event", i);
	}
	if (gm_log_mark_count(a) != gm_log_mark_count(b))
		fail("the number of marks", gm_log_mark_count(a));
	for (size_t i = 0; i < gm_log_mark_count(a); i++) {
		struct gm_log_mark mark, other;
		gm_log_mark(a, i, &mark);
		gm_log_mark(b, i, &other);
		if (memcmp(&mark, &other, sizeof(mark)) != 0)
			fail("mark", i);
	}
	if (gm_log_gap_count(a) != gm_log_gap_count(b))
		fail("the number of gaps", gm_log_gap_count(a));
}

/* A list of frames that has become a stack takes no frames any more: no pickler adds to one that
 * has been used. */
static bool is_late(const struct gm_error *error)
{
	return strstr(error->message, "appended to something that is not a list");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("snapshot", 0);
	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size))
		abort();
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct gm_log *log, *plain;
	struct gm_model *model;
	_cleanup_error_ struct gm_error *error = gm_import_snapshot(path, &log);
	_cleanup_error_ struct gm_error *plain_error = gm_import_snapshot_plainly(path, &plain);
	_cleanup_error_ struct gm_error *model_error = NULL;
	if (error && !is_late(error) &&
	        (!plain_error || strcmp(error->message, plain_error->message) != 0))
		fail(error->message, 0);
	if (!error && plain_error)
		fail(plain_error->message, 1);
	if (!error && !plain_error)
		compare_logs(log, plain);
	if (!plain_error)
		gm_log_close(plain);
	if (error)
		return 0;
	model_error = gm_model_create(log, &model);
	if (!model_error)
		gm_model_destroy(model);
	gm_log_close(log);
	return 0;
}
