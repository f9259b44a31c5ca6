/*
 * For tests and measurements: stops a process as a debugger does and prints its threads' native
 * stacks.
 *
 *     native_stack PID [ROUNDS]
 *
 * One line a frame: "THREAD FUNCTION MODULE FILE:LINE". With ROUNDS, a last line tells what one
 * more unwinding of the main thread costs in nanoseconds, page cache forgotten each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "symbols/symbols.h"

enum { DEPTH = 256 };

static void check(struct gm_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "native_stack: %s\n", error->message);
	exit(1);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void print_thread(struct gm_image *image, struct gm_symbols *symbols, pid_t thread)
{
	uint64_t addresses[DEPTH];
	struct gm_symbol names[DEPTH];
	struct gm_registers registers;
	check(gm_image_registers(image, thread, &registers));
	size_t count = gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
	check(gm_symbols_name(symbols, addresses, count, true, names));
	for (size_t i = 0; i < count; i++)
		printf("%d %s %s %s:%u\n", thread,
		        names[i].linkage_name ? names[i].linkage_name : "?",
		        names[i].module ? names[i].module->name : "?",
		        names[i].file ? names[i].file : "?", names[i].line);
}

static void measure(struct gm_image *image, struct gm_symbols *symbols, pid_t thread, long rounds)
{
	uint64_t addresses[DEPTH];
	struct gm_symbol names[DEPTH];
	struct gm_registers registers;
	check(gm_image_registers(image, thread, &registers));
	size_t count = 0;
	double start = now();
	for (long i = 0; i < rounds; i++) {
		gm_image_invalidate(image);
		count = gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
	}
	double unwind = (now() - start) / (double)rounds;
	start = now();
	check(gm_symbols_name(symbols, addresses, count, true, names));
	printf("measured frames=%zu unwind_ns=%.0f name_ns=%.0f\n", count, unwind, now() - start);
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	pid_t *threads = NULL;
	size_t count = 0;
	check(gm_image_open_pid(pid, &image));
	double start = now();
	check(gm_symbols_create(image, &symbols));
	double created = now() - start;
	check(gm_image_threads(image, &threads, &count));
	for (size_t i = 0; i < count; i++) {
		if (ptrace(PTRACE_SEIZE, threads[i], NULL, NULL) != 0 ||
		        ptrace(PTRACE_INTERRUPT, threads[i], NULL, NULL) != 0 ||
		        waitpid(threads[i], NULL, __WALL) != threads[i])
			continue; /* it has ended meanwhile */
		print_thread(image, symbols, threads[i]);
	}
	if (argc > 2) {
		uint64_t address;
		size_t modules;
		gm_symbols_modules(symbols, &modules);
		start = now();
		gm_symbols_lookup_any(symbols,
		        "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", &address, NULL);
		double found = now() - start;
		start = now();
		gm_symbols_lookup_any(symbols, "no_such_symbol_anywhere", &address, NULL);
		printf("measured modules=%zu create_ns=%.0f lookup_ns=%.0f lookup_none_ns=%.0f\n",
		        modules, created, found, now() - start);
		measure(image, symbols, pid, atol(argv[2]));
	}
	free(threads);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	return 0;
}
