/*
 * Record: turns a debugger's breakpoint stops into events of the log.
 *
 * The debugger (gdb/, Python) owns breakpoints and the running of the target; this room says where
 * they go and, at each stop, reads registers, stacks and Block records from the image and appends
 * an event. It decides nothing about how answers look.
 *
 * This room may include base, image, symbols, cpython, torch, log's writer and the model's step
 * detector (model/steps.h, which is fed with single events and reads no log); of sim only the
 * header of its account, which is a format and no code.
 *
 * The order and meaning of events are PyTorch's own (its memory history): see docs/recording.md.
 */
#ifndef GM_RECORD_RECORD_H
#define GM_RECORD_RECORD_H

#include "cpython/cpython.h"
#include "image/image.h"
#include "log/log.h"
#include "symbols/symbols.h"
#include "torch/torch.h"

struct gm_recorder;

/* What a breakpoint stands on; numbers are shared with gdb/. */
enum gm_record_probe {
	GM_PROBE_REPORT = 1,  /* c10::reportMemoryUsageToProfiler: CUDA block alloc and free */
	GM_PROBE_OOM,         /* c10::reportOutOfMemoryToProfiler */
	GM_PROBE_CPU_NEW,     /* c10::ProfiledCPUMemoryReporter::New */
	GM_PROBE_CPU_DELETE,  /* c10::ProfiledCPUMemoryReporter::Delete */
	GM_PROBE_CUDA_MALLOC, /* cudaMalloc, at its entry */
	GM_PROBE_CUDA_MALLOC_RETURN, /* at the address a cudaMalloc returns to */
	GM_PROBE_CUDA_FREE,          /* cudaFree, at its entry */
	GM_PROBE_OTHER_ALLOCATOR, /* where another allocator than the caching one comes into use */
	GM_PROBE_LIBRARIES,       /* the dynamic linker's _dl_debug_state: libraries came or went */
	GM_PROBE_EMPTY,           /* at::detail::empty_generic: a tensor is made */
	GM_PROBE_EMPTY_STRIDED,   /* at::detail::empty_strided_generic */
	GM_PROBE_RESIZE, /* at::native::resize_bytes_cuda, resize_bytes_cpu: of a storage */
	GM_PROBE_EXIT,   /* _exit: the last moment at which the process can be read */
	GM_PROBE_COUNT,
};

struct gm_probe_site {
	enum gm_record_probe probe;
	uint64_t address;
	const char *name; /* what a user calls it: "c10::reportMemoryUsageToProfiler" */
};

struct gm_recorder_options {
	bool cuda, cpu; /* which devices' tensors */
	bool python_stacks, native_stacks;
	uint32_t max_frames; /* per stack; 0: 256 */
	const char *log_path;
	const char *source; /* command line, for `info` */
};

/* What the debugger does after a stop. */
enum gm_verdict {
	GM_CONTINUE = 0,
	GM_STOP = 1, /* a `step` or `until` condition is met: tell the user */
	GM_NEW_PROBES =
	        2,      /* bit: ask gm_recorder_probes() again, then go on (or stop, with bit 0) */
	GM_REFUSED = 4, /* bit: nothing can be recorded here: gm_recorder_refusal() says why */
	GM_NEW_LIBRARIES =
	        8,        /* bit: libraries came; the debugger may want symbols of the user's own */
	GM_OOM_SEEN = 16, /* bit: a device has run out of memory; it is recorded */
};

/* Conditions for GM_STOP; 0 everywhere: never stop. */
struct gm_stop_condition {
	size_t size;
	uint64_t events;  /* stop after so many further events */
	uint32_t step;    /* stop at the first event of this pass of the training loop (from 1) */
	const char *line; /* NULL; later issues */
};

struct gm_error *gm_recorder_create(
        const struct gm_recorder_options *options, pid_t pid, struct gm_recorder **ret_recorder);
/* Flushes the log, names the addresses it holds, closes everything. Works when the target is
 * gone. */
struct gm_error *gm_recorder_close(struct gm_recorder *recorder);

/* Libraries may have come: look again. Returns which probes there are now; the array is the
 * recorder's. */
struct gm_error *gm_recorder_probes(
        struct gm_recorder *recorder, const struct gm_probe_site **ret_sites, size_t *ret_count);

/* One breakpoint stop of `thread` at `address`. Hot path. `registers` may be NULL: then they are
 * read by ptrace. An error means this stop could not be recorded (a gap is noted); recording goes
 * on. */
struct gm_error *gm_recorder_hit(struct gm_recorder *recorder, uint64_t address, pid_t thread,
        const struct gm_registers *registers, int *ret_verdict);

/*
 * Does the instruction at a site in the debugger's place, after a stop of `thread` there that the
 * debugger does not show: the debugger need not step over its breakpoint then, but must read the
 * thread's registers again. False: nothing was changed (another instruction than those known, or we
 * are not the tracer).
 */
bool gm_recorder_advance(struct gm_recorder *recorder, uint64_t address, pid_t thread);

/* Why recording was refused (an allocator that is not the caching one), or NULL. */
const char *gm_recorder_refusal(const struct gm_recorder *recorder);

void gm_recorder_stop_when(struct gm_recorder *recorder, const struct gm_stop_condition *condition);
/*
 * Stop at each event for which a condition holds (model/condition.h, of events), or at the first
 * one only. `id` is the debugger's, not 0. GM_USAGE: the condition cannot be read, or there are too
 * many.
 */
struct gm_error *gm_recorder_watch(
        struct gm_recorder *recorder, uint32_t id, const char *condition, bool once);
void gm_recorder_unwatch(struct gm_recorder *recorder, uint32_t id);
uint64_t gm_recorder_watch_hits(const struct gm_recorder *recorder, uint32_t id);
/* The condition that held at the latest stop, and the event; 0: none did. */
uint32_t gm_recorder_stopped_by(const struct gm_recorder *recorder, uint64_t *ret_event);
/* Names the addresses seen so far, reads the simulated device's counters, writes all to the file:
 * what a question needs at a stop. */
struct gm_error *gm_recorder_flush(struct gm_recorder *recorder);
uint32_t gm_recorder_step(const struct gm_recorder *recorder); /* of the latest event; 0: none */
uint64_t gm_recorder_event_count(const struct gm_recorder *recorder);

/* What a one-line summary says; sizes in bytes, over all devices of a kind. */
struct gm_recorder_summary {
	uint64_t events, gaps;
	uint64_t cuda_allocated, cuda_peak; /* as the allocator reports them, summed over devices */
	uint64_t cpu_allocated, cpu_peak;   /* of what was seen */
	uint32_t python_unread;             /* events without a Python stack although Python runs */
	bool torch_seen;                    /* libc10.so has been there */
};
void gm_recorder_summarise(
        const struct gm_recorder *recorder, struct gm_recorder_summary *ret_summary);

#endif
