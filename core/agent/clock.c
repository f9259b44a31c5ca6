/*
 * The time of an event. If the kernel itself keeps time by the processor's counter (its clock
 * source is "tsc": it has found that the counter is steady and the same on all processors), the
 * agent reads the counter too, and the kernel's clock once per millisecond and thread: half the
 * cost of clock_gettime(2). The error is the clock's adjustment within a millisecond, less than a
 * microsecond. Otherwise the agent calls clock_gettime() each time.
 */

#include "agent/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

enum { AGAIN_NS = 1000000, MEASURE_NS = 20000000 };
#define REMEASURE_NS UINT64_C(20000000000) /* the machine may have been suspended */

static bool usable;
static _Atomic uint64_t rate;  /* ns per tick, times 2^32; 0: not measured yet */
static _Atomic uint64_t again; /* ticks between two reads of the kernel's clock */

static _Thread_local struct {
	uint64_t ticks, ns;           /* the last look */
	uint64_t from_ticks, from_ns; /* when the measurement of the rate began, by the clock that
	                                 cannot be set */
} self;

static uint64_t ask(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void gm_agent_clock_begin(void)
{
	char source[16] = "";
	int fd = open(SOURCE, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t size = read(fd, source, sizeof(source) - 1);
		(void)size;
		close(fd);
	}
	usable = strcmp(source, "tsc\n") == 0;
}

bool gm_agent_clock_allowed(void)
{
	int how = PR_TSC_ENABLE;

	return prctl(PR_GET_TSC, &how) != 0 || how != PR_TSC_SIGSEGV;
}

static void measure(uint64_t ticks)
{
	uint64_t ns = ask(CLOCK_MONOTONIC), passed = ns - self.from_ns;
	double found;

	if (self.from_ns && passed >= MEASURE_NS && ticks > self.from_ticks) {
		found = (double)passed / (double)(ticks - self.from_ticks);
		if (found > 0.05 && found < 20) { /* 50 MHz to 20 GHz */
			atomic_store_explicit(
			        &rate, (uint64_t)(found * 4294967296.0), memory_order_relaxed);
			atomic_store_explicit(
			        &again, (uint64_t)(AGAIN_NS / found), memory_order_relaxed);
		}
	}
	if (!self.from_ns || passed >= REMEASURE_NS) {
		self.from_ns = ns;
		self.from_ticks = ticks;
	}
}

uint64_t gm_agent_now(void)
{
	uint64_t ticks, passed;

	if (!usable)
		return ask(CLOCK_REALTIME);
	ticks = __rdtsc();
	passed = ticks - self.ticks;
	if (__builtin_expect(passed < atomic_load_explicit(&again, memory_order_relaxed), 1))
		return self.ns + (passed * atomic_load_explicit(&rate, memory_order_relaxed) >> 32);
	measure(ticks);
	self.ns = ask(CLOCK_REALTIME);
	self.ticks = __rdtsc();
	return self.ns;
}
