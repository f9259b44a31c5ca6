/*
 * The agent's stacks without the agent: a library that a test loads into an interpreter (ctypes) or
 * preloads. What stacks/ writes is kept in memory; probe_take() gives the calling thread's stacks
 * as text, beside what backtrace(3) says.
 */
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/stacks/stacks.h"
#include "agent/gap.h"
#include "agent/put.h"
#include "agent/state.h"

#define EXPORT __attribute__((visibility("default")))

enum { IDS_MAX = 1 << 20, RETURN_MAX = 1 << 20 };

struct record {
	uint8_t *bytes;
	size_t size;
};

static struct record *records[GM_AGENT_RECORD_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t written_bytes, written_count, passes, gaps;
static char last_pass[128], last_gap[512];

/* --- what the agent gives to stacks/ --- */

bool gm_agent_put(enum gm_agent_record kind, uint32_t id, const void *bytes, size_t count)
{
	pthread_mutex_lock(&lock);
	written_bytes += count;
	written_count++;
	if (kind == GM_AGENT_ITERATION) {
		char *at = last_pass;
		passes++;
		*at = 0;
		for (size_t i = 0; i < count && i < 32; i++)
			at += sprintf(at, "%02x", ((const uint8_t *)bytes)[i]);
	} else if (id && id < IDS_MAX) { /* gaps and marks have none */
		if (!records[kind])
			records[kind] = calloc(IDS_MAX, sizeof(struct record));
		struct record *record = &records[kind][id];
		if (record->bytes)
			abort(); /* an id is written once */
		record->bytes = malloc(count + 1);
		memcpy(record->bytes, bytes, count);
		record->size = count;
	}
	pthread_mutex_unlock(&lock);
	return true;
}

void gm_agent_gap(const char *text)
{
	gaps++;
	snprintf(last_gap, sizeof(last_gap), "%s", text);
}

uint32_t gm_agent_pid(void)
{
	return (uint32_t)getpid();
}

uint32_t gm_agent_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

void gm_agent_thread_changed(void)
{
}

bool gm_agent_has_begun(void)
{
	return true;
}

/* --- reading what was written --- */

static uint64_t number(const uint8_t **at)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static const char *string(const uint8_t **at, int *ret_size)
{
	*ret_size = (int)number(at);
	const char *text = (const char *)*at;
	*at += *ret_size;
	return text;
}

static const uint8_t *record_of(enum gm_agent_record kind, uint32_t id)
{
	const uint8_t *bytes;

	pthread_mutex_lock(&lock);
	bytes = records[kind] && id < IDS_MAX ? records[kind][id].bytes : NULL;
	pthread_mutex_unlock(&lock);
	if (!bytes)
		abort(); /* written before it is used */
	return bytes;
}

static char *put_code(char *out, uint32_t id)
{
	const uint8_t *at = record_of(GM_AGENT_CODE, id);
	int file_size, name_size;
	unsigned line = (unsigned)number(&at);

	number(&at);
	const char *file = string(&at, &file_size);
	const char *name = string(&at, &name_size);
	return out + sprintf(out, "%.*s\t%.*s\t%u", file_size, file, name_size, name, line);
}

/* The fields after "\t": file, name, first line, offset; innermost first. */
static char *put_python(char *out, const char *end, uint32_t id)
{
	while (id && end - out > 16384) {
		const uint8_t *at = record_of(GM_AGENT_PYTHON_STACK, id);
		id = (uint32_t)number(&at);
		uint32_t code = (uint32_t)number(&at);
		out = put_code(out, code);
		out += sprintf(out, "\t%u\n", (unsigned)number(&at));
	}
	return out;
}

static char *put_native(char *out, const char *end, uint32_t id)
{
	while (id && end - out > 64) {
		const uint8_t *at = record_of(GM_AGENT_NATIVE_STACK, id);
		id = (uint32_t)number(&at);
		out += sprintf(out, "%llx\n", (unsigned long long)number(&at));
	}
	return out;
}

/* --- for tests --- */

EXPORT int probe_start(int python, int native)
{
	struct gm_stacks_options options = {python, native, 0};

	for (size_t kind = 0; kind < GM_AGENT_RECORD_COUNT; kind++) {
		for (size_t i = 0; records[kind] && i < IDS_MAX; i++) {
			free(records[kind][i].bytes);
			records[kind][i] = (struct record){0};
		}
	}
	written_bytes = written_count = passes = gaps = 0;
	last_gap[0] = 0;
	return gm_stacks_start(&options);
}

/* "python\n" frames "native\n" addresses "backtrace\n" addresses "flags N evidence ...\n". */
EXPORT __attribute__((noinline)) const char *probe_take(int freed)
{
	static __thread char *text;
	struct gm_agent_registers at = gm_agent_caller();
	struct gm_agent_stacks stacks;
	void *expected[4096];
	char *out, *end;
	int count;

	if (!text)
		text = malloc(RETURN_MAX);
	out = text;
	end = text + RETURN_MAX;
	gm_stacks_take(&at, freed, &stacks);
	out += sprintf(out, "python\n");
	out = put_python(out, end - RETURN_MAX / 2, stacks.python);
	out += sprintf(out, "native\n");
	out = put_native(out, end - RETURN_MAX / 4, stacks.native);
	out += sprintf(out, "backtrace\n");
	count = backtrace(expected, 4096);
	for (int i = 1; i < count && end - out > 1024; i++) /* the first is in here */
		out += sprintf(out, "%llx\n", (unsigned long long)(uintptr_t)expected[i]);
	out += sprintf(out, "flags\n%u\n", stacks.flags);
	if (stacks.evidence) {
		const uint8_t *bytes = record_of(GM_AGENT_EVIDENCE, stacks.evidence);
		unsigned kind = (unsigned)number(&bytes);
		out += sprintf(out, "evidence\n%u\t", kind);
		out = put_code(out, (uint32_t)number(&bytes));
		unsigned offset = (unsigned)number(&bytes);
		out += sprintf(out, "\t%u\t%d\n", offset, (int)number(&bytes) - 1);
	}
	return text;
}

/* Nanoseconds that one taking costs, the last of `count`. */
EXPORT __attribute__((noinline)) double probe_time(long count)
{
	struct gm_agent_registers at = gm_agent_caller();
	struct gm_agent_stacks stacks;
	struct timespec begin, end;

	gm_stacks_take(&at, false, &stacks);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (long i = 0; i < count; i++)
		gm_stacks_take(&at, false, &stacks);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
	       (double)count;
}

EXPORT size_t probe_written(void)
{
	return written_count;
}

EXPORT size_t probe_bytes(void)
{
	return written_bytes;
}

EXPORT size_t probe_passes(void)
{
	return passes;
}

EXPORT const char *probe_last_pass(void)
{
	return last_pass;
}

EXPORT const char *probe_gap(void)
{
	return last_gap;
}
