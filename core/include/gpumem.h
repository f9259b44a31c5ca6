/*
 * gpumem's public C interface. The shell command and the gdb plugin are built on it.
 * docs/library.md is its manual, with an example in C and one in Python; docs/schema/ has the
 * schema of each answer's JSON.
 *
 * Results. A function that can fail returns an enum gpumem_status. The values are the exit statuses
 * of the shell command. Out parameters come last, are called ret_…, and stay as they were where the
 * function fails.
 *
 * Ownership. A string that is handed out by `char **` belongs to the caller, who frees it with
 * gpumem_free(). A `const char *` belongs to the library; the comment says for how long it is
 * valid. Handles are opaque, and the functions that end them take NULL. What a function is given it
 * copies.
 *
 * Threads. A handle is used by one thread at a time. Different handles may be used by different
 * threads; questions of a process are answered one after another. A process that is asked about is
 * stopped while it is read (see gpumem_session_options).
 *
 * Units. Sizes are bytes, times are microseconds since 1970, both as in the JSON. Events count from
 * 0, steps from 1. Ranges of events include both ends.
 *
 * Structs. A struct of options and one of results begin with their size, which the caller sets to
 * sizeof. A later version of the library adds fields at their ends only. Options that the library
 * does not know have to be 0; of a result it fills what it knows and sets `size` to that. All of an
 * options struct may be 0, and the pointer to it NULL.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API __attribute__((visibility("default")))

enum gpumem_status {
	GPUMEM_OK = 0, /* answered */
	GPUMEM_NEGATIVE =
	        1, /* answered, and the answer is a negative one: leaks were found, runs differ */
	GPUMEM_USAGE = 2,    /* wrong arguments */
	GPUMEM_CORRUPT = 3,  /* a file cannot be read, or is damaged */
	GPUMEM_TARGET = 4,   /* the process or core cannot be read, or lacks what is asked */
	GPUMEM_INTERNAL = 5, /* the library's own fault, lack of memory included */
};

/* "0.1.0"; static. */
GPUMEM_API const char *gpumem_version(void);
/* The version of the JSON that this library writes: docs/schema/v1/. It changes where a field is
 * renamed or removed, which has not happened; fields are added without. */
GPUMEM_API int gpumem_json_version(void);
GPUMEM_API void gpumem_free(void *pointer);
/* A text as it is shown to people: controls, characters that turn the direction of text and bytes
 * that are no UTF-8 as escapes, the middle of a long one left out. What sessions hand out as text
 * is shown so already; strings in JSON are not. NULL: no memory. The caller frees it. */
GPUMEM_API char *gpumem_visible(const char *text, size_t length);

/* --- errors ----------------------------------------------------------------------------------- */

/*
 * Why a function failed. Where a function takes `gpumem_error **ret_error`, that may be NULL; else
 * the caller destroys what it gets. Strings are valid as long as the error.
 */
typedef struct gm_error gpumem_error;

GPUMEM_API void gpumem_error_destroy(gpumem_error *error);
GPUMEM_API int gpumem_error_status(const gpumem_error *error); /* enum gpumem_status */
/* What failed, why, and what to do, for people: "run.gpumem: damaged at byte 4096: …". */
GPUMEM_API const char *gpumem_error_message(const gpumem_error *error);
/* The facts, for programs. The file that it is about; NULL: none is known. */
GPUMEM_API const char *gpumem_error_path(const gpumem_error *error);
/* 1: *ret_offset is where in that file, in bytes. 0: not known, nothing is set. */
GPUMEM_API int gpumem_error_offset(const gpumem_error *error, uint64_t *ret_offset);
/* 1: *ret_address is where in the process or core memory could not be read. 0: not known, nothing
 * is set. */
GPUMEM_API int gpumem_error_address(const gpumem_error *error, uint64_t *ret_address);
/* errno of the system call that failed; 0: none did. */
GPUMEM_API int gpumem_error_errno(const gpumem_error *error);

/* --- sessions --------------------------------------------------------------------------------- */

/*
 * A session: what questions are about. One made by gpumem_session_open() asks as the shell command
 * does. One made by gpumem_session_create() is a debugger's: it says by the gpumem_session_set_…()
 * functions what it looks at.
 */
typedef struct gpumem_session gpumem_session;

/* Called now and then by what takes long, in the thread that asks. `what` is static; `all` is 0
 * where it is not known; `what` NULL: it is done. */
typedef void (*gpumem_progress_callback)(
        void *context, const char *what, uint64_t done, uint64_t all);

/*
 * recording and one of process and core may be there together: a question that both can answer is
 * asked of the recording; peak and leaks use both.
 *
 * A process is stopped for the fraction of a second in which its memory is copied, and goes on. It
 * is read again by each question. With `no_pause` it runs on, and the answer may mix moments.
 */
struct gpumem_session_options {
	size_t size;
	const char *recording; /* a recording of gpumem's, or a snapshot of PyTorch's; NULL: none */
	const char *core;      /* a core dump; NULL: none */
	int process;           /* its id; 0: none */
	int thread; /* kernel id of the thread whose variables are meant; 0: the main one */
	const char *sysroot; /* the folder that has the libraries of the process or core; NULL: / */
	const char *layouts; /* what `gpumem learn` wrote for its PyTorch; NULL: what is known */
	const char *loop; /* "FILE:LINE" of the loop whose iterations are the steps; NULL: as it is
	                     found */
	int no_pause, no_learn;            /* as --no-pause and --no-learn do */
	gpumem_progress_callback progress; /* NULL: none */
	void *progress_context;            /* the callback's */
};

/* Opens nothing yet: a file that is missing is an error of the first question. */
GPUMEM_API int gpumem_session_open(const struct gpumem_session_options *options,
        gpumem_session **ret_session, gpumem_error **ret_error);
GPUMEM_API void gpumem_session_destroy(gpumem_session *session);
/* What the last question of the session said beside its answer: lines, for people; NULL: nothing.
 * Valid until the next question. */
GPUMEM_API const char *gpumem_session_notes(const gpumem_session *session);

/* --- questions: JSON -------------------------------------------------------------------------- */

/*
 * Each answers what the shell command of that name does, `gpumem NAME … --json`, and by the same
 * code. *ret_json ends with a newline, is UTF-8, and holds one value; of events one a line.
 * GPUMEM_OK and GPUMEM_NEGATIVE are answers.
 */

/* Which moment of a recording is meant. */
enum gpumem_moment {
	GPUMEM_AT_END = 0, /* what is there now, or at the recording's end */
	GPUMEM_AT_PEAK,    /* where the allocated bytes first reached their greatest sum */
	GPUMEM_AT_EVENT,   /* after the event that `event` numbers */
};

GPUMEM_API int gpumem_info_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error);

struct gpumem_events_options {
	size_t size;
	uint64_t from;  /* the first event */
	uint64_t count; /* how many; 0: all from there on */
};
GPUMEM_API int gpumem_events_json(gpumem_session *session,
        const struct gpumem_events_options *options, char **ret_json, gpumem_error **ret_error);

/* `by`: "line", "stack", "phase", "category", "operator", "module", "label"; of a process or core
 * "category", "module", "shape". NULL: the question's own choice. */
struct gpumem_blocks_options {
	size_t size;
	const char *by;
	enum gpumem_moment moment;
	uint64_t event;   /* of GPUMEM_AT_EVENT */
	uint64_t history; /* the blocks that used this address, one after another; 0: not asked */
	int tree;         /* sums by the calls that led to the allocations */
	int has_device, device; /* 0: the first device with events */
};
GPUMEM_API int gpumem_blocks_json(gpumem_session *session,
        const struct gpumem_blocks_options *options, char **ret_json, gpumem_error **ret_error);

struct gpumem_timeline_options {
	size_t size;
	unsigned width; /* columns; 0: as many as a terminal of 80 has */
};
GPUMEM_API int gpumem_timeline_json(gpumem_session *session,
        const struct gpumem_timeline_options *options, char **ret_json, gpumem_error **ret_error);

struct gpumem_peak_options {
	size_t size;
	const char *by; /* as above */
	int tree;
	int has_device, device;
};
GPUMEM_API int gpumem_peak_json(gpumem_session *session, const struct gpumem_peak_options *options,
        char **ret_json, gpumem_error **ret_error);

GPUMEM_API int gpumem_steps_json(
        gpumem_session *session, char **ret_json, gpumem_error **ret_error);

/* What mixed precision did. */
GPUMEM_API int gpumem_amp_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error);

/* How the optimizer's state of a process or a core is sharded over ranks. */
GPUMEM_API int gpumem_zero_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error);

struct gpumem_phases_options {
	size_t size;
	uint32_t step; /* of this step only; 0: of all */
};
GPUMEM_API int gpumem_phases_json(gpumem_session *session,
        const struct gpumem_phases_options *options, char **ret_json, gpumem_error **ret_error);

/* GPUMEM_NEGATIVE: there are leaks. */
GPUMEM_API int gpumem_leaks_json(
        gpumem_session *session, char **ret_json, gpumem_error **ret_error);

struct gpumem_diff_options {
	size_t size;
	const char *by; /* as above; NULL: by category and line */
	uint32_t step;  /* at the peak of this step; 0: at each one's own peak */
};
/* Compares `count` recordings, two at least; the session's own is not among them. GPUMEM_NEGATIVE:
 * they differ. */
GPUMEM_API int gpumem_diff_json(gpumem_session *session, const char *const *recordings,
        size_t count, const struct gpumem_diff_options *options, char **ret_json,
        gpumem_error **ret_error);

struct gpumem_segments_options {
	size_t size;
	enum gpumem_moment moment;
	uint64_t event;   /* of GPUMEM_AT_EVENT */
	uint64_t request; /* what would become of a request of so many bytes; 0: not asked */
	uint64_t stream;  /* on this stream; 0: the default one */
	int has_device, device;
};
GPUMEM_API int gpumem_segments_json(gpumem_session *session,
        const struct gpumem_segments_options *options, char **ret_json, gpumem_error **ret_error);

struct gpumem_oom_options {
	size_t size;
	int has_event, has_device; /* 0: the last out-of-memory error; the device of the error */
	uint64_t event;
	int device;
};
GPUMEM_API int gpumem_oom_json(gpumem_session *session, const struct gpumem_oom_options *options,
        char **ret_json, gpumem_error **ret_error);

struct gpumem_why_options {
	size_t size;
	int has_event;
	uint64_t event; /* the block that was alive at the address after this event */
};
/* block: "0x…", or "#N", the number of the event that allocated or freed it. */
GPUMEM_API int gpumem_why_json(gpumem_session *session, const char *block,
        const struct gpumem_why_options *options, char **ret_json, gpumem_error **ret_error);

/* Of a process or core. block: "0x…", "#N" of its recording, or a variable of the thread
 * ("self.cache['kept']"). */
GPUMEM_API int gpumem_who_holds_json(
        gpumem_session *session, const char *block, char **ret_json, gpumem_error **ret_error);

/* Of a process or core. */
struct gpumem_retained_options {
	size_t size;
	uint32_t depth;     /* levels of parts; 0: all */
	uint64_t least;     /* parts that keep fewer bytes are left out; 0: none are */
	int cpu;            /* tensors in host memory instead of a device's */
	const char *save;   /* a file in which the answer is kept too; NULL: none */
	const char *before; /* what changed since this file was saved: another answer; NULL: not
	                       asked */
};
GPUMEM_API int gpumem_retained_json(gpumem_session *session,
        const struct gpumem_retained_options *options, char **ret_json, gpumem_error **ret_error);

/* It starts gdb, to ask for its version. */
GPUMEM_API int gpumem_doctor_json(
        gpumem_session *session, char **ret_json, gpumem_error **ret_error);

/*
 * Any question, with any option of its command: "peak" with {"--by", "phase"}. What the session is
 * about and --json are added. Arguments are read as options, so an argument that somebody else
 * chose must not begin with '-'.
 */
GPUMEM_API int gpumem_question_json(gpumem_session *session, const char *question,
        const char *const *arguments, size_t count, char **ret_json, gpumem_error **ret_error);

/* Writes the session's recording in another form: "pytorch", "perfetto", "folded", "sqlite", "csv",
 * "json". */
GPUMEM_API int gpumem_export(
        gpumem_session *session, const char *form, const char *path, gpumem_error **ret_error);

/* --- questions: structs, of recordings and snapshots ------------------------------------------ */

struct gpumem_recording_info {
	size_t size;
	uint64_t events;
	uint64_t devices; /* gpumem_device_info() takes 0 to devices - 1 */
	uint64_t gaps;    /* reasons why it is not complete; the JSON of info tells them */
	uint64_t process; /* its id; 0: not recorded */
	uint32_t steps;
	uint8_t complete; /* 1: no gap is known */
	uint8_t closed;   /* 0: it goes on, or ended with its recorder */
};
/* Also looks whether the file has grown. */
GPUMEM_API int gpumem_recording_info(
        gpumem_session *session, struct gpumem_recording_info *ret_info, gpumem_error **ret_error);

#define GPUMEM_UNKNOWN UINT64_MAX /* in the fields below: not recorded, or there is none */

struct gpumem_device_info {
	size_t size;
	const char *type; /* "cuda", "cpu", …; static */
	int32_t index;
	uint64_t events;
	uint64_t allocated, active, requested, reserved; /* at the end; PyTorch's meanings */
	uint64_t peak_allocated, peak_active, peak_requested, peak_reserved; /* each on its own */
	uint64_t peak_event; /* where peak_allocated was reached first; GPUMEM_UNKNOWN: nothing was
	                        allocated */
	uint64_t ooms;
};
GPUMEM_API int gpumem_device_info(gpumem_session *session, uint64_t index,
        struct gpumem_device_info *ret_info, gpumem_error **ret_error);

struct gpumem_event_info {
	size_t size;
	const char *action;      /* "alloc", "free_requested", …; static */
	const char *phase;       /* "forward", …; static */
	const char *device_type; /* static */
	int32_t device;
	uint32_t step;  /* 0: outside of the training loop */
	uint64_t block; /* the number of the event that allocated it; GPUMEM_UNKNOWN */
	uint64_t address, bytes, requested, stream, thread, time_us; /* requested 0: not recorded */
	uint64_t allocated, reserved; /* the allocator's own sums after the event; GPUMEM_UNKNOWN */
};
/* Costs no JSON: for millions of them. Does not look whether the file has grown. */
GPUMEM_API int gpumem_event_info(gpumem_session *session, uint64_t number,
        struct gpumem_event_info *ret_info, gpumem_error **ret_error);

/* --- a debugger's session (gdb/) -------------------------------------------------------------- */

GPUMEM_API gpumem_session *gpumem_session_create(void);                       /* NULL: no memory */
GPUMEM_API void gpumem_session_set_process(gpumem_session *session, int pid); /* 0: none */
GPUMEM_API void gpumem_session_set_thread(
        gpumem_session *session, int thread); /* kernel thread id, 0: none */
/* The thread's Python frame where a variable is looked for first, then in those that called it; 0:
 * the innermost one. */
GPUMEM_API void gpumem_session_set_frame(gpumem_session *session, unsigned frame);
GPUMEM_API void gpumem_session_set_log(gpumem_session *session, const char *path); /* NULL: none */
/* What commands may fill; 0 columns: no terminal, nothing is cut. */
GPUMEM_API void gpumem_session_set_terminal(gpumem_session *session, int columns, int colors);
/* A core dump instead of a process; NULL: none. */
GPUMEM_API void gpumem_session_set_core(gpumem_session *session, const char *path);

/*
 * A process that only the debugger can read (behind gdbserver), instead of one of this machine. The
 * callbacks are called from within gpumem_session_run(), in its thread; they get `context`. To be
 * set again whenever the process has run: what was read of it is kept until then. `read` NULL:
 * none.
 *
 *   read       as many bytes as can be read from `address` on; returns their number
 *   registers  those of a thread as 17 words in DWARF's order (rax, rdx, rcx, rbx, rsi, rdi, rbp,
 *              rsp, r8 ... r15, rip); returns 0 where they cannot be read
 *   file       puts the path of a copy on this machine of a file of the process's into `path`;
 *              returns 0 where there is none
 *   maps       the text of /proc/PID/maps there
 *   threads    kernel thread ids there, `pid` among them
 *
 * Returns 0, or 5: no memory.
 */
typedef size_t (*gpumem_read_callback)(void *context, uint64_t address, void *buffer, size_t size);
typedef int (*gpumem_registers_callback)(void *context, int thread, uint64_t *words);
typedef int (*gpumem_file_callback)(void *context, const char *name, char *path, size_t size);
GPUMEM_API int gpumem_session_set_remote(gpumem_session *session, int pid, const char *maps,
        const int *threads, size_t count, gpumem_read_callback read,
        gpumem_registers_callback registers, gpumem_file_callback file, void *context);

/* Whether slow things (a compressed core, a far away process) say on standard error, where that is
 * a terminal, how far they are. Off to begin with. */
GPUMEM_API void gpumem_session_show_progress(gpumem_session *session, int on);
/* The process may have run since: what was read of it is read again. */
GPUMEM_API void gpumem_session_invalidate(gpumem_session *session);

/*
 * Runs one command as typed in gdb: argv[0] is its name ("who-holds"), the rest its arguments.
 * *ret_out is what goes to standard output, *ret_err what goes to standard error (already "gpumem:
 * ..." lines); either may be NULL when empty. Returns the exit status.
 */
GPUMEM_API int gpumem_session_run(
        gpumem_session *session, int argc, const char *const *argv, char **ret_out, char **ret_err);

/* The commands that such a session answers, one a call from 0 on; NULL at the end. Both strings are
 * static. */
GPUMEM_API const char *gpumem_command_name(size_t index);
GPUMEM_API const char *gpumem_command_summary(size_t index);

/*
 * Native frames of libraries whose symbols the debugger has not read. `registers`: 17 words in
 * DWARF's order. innermost: 1: the thread stands at rip; 0: it is a caller's frame; -1: not known,
 * and then the session's thread has to be set. 1: *ret_registers are the caller's, and its stack
 * pointer stays the same while the frame lives. 0: it is not known here, or the outermost one.
 */
GPUMEM_API int gpumem_session_frame_caller(
        gpumem_session *session, const uint64_t *registers, int innermost, uint64_t *ret_registers);
/* The names of the functions at addresses: NULL where none is known. Of a caller's frame pass an
 * address within the call. ret_names: `count` strings, the session's, valid until the process has
 * run. Returns an enum gpumem_status. */
GPUMEM_API int gpumem_session_frame_functions(
        gpumem_session *session, const uint64_t *addresses, size_t count, const char **ret_names);

/* 1: a file (ELF) defines a function, as users name it to a debugger: "ncclAllReduce",
 * "c10d::Reducer::all_reduce_bucket", "all_reduce_bucket". */
GPUMEM_API int gpumem_file_defines(const char *path, const char *function);

/* --- recording at breakpoints (gdb/) ---------------------------------------------------------- */

typedef struct gpumem_recorder gpumem_recorder;

/* What gpumem_recorder_hit() asks of the debugger: bits. */
enum gpumem_verdict {
	GPUMEM_CONTINUE = 0,
	GPUMEM_STOP = 1,          /* the condition of gpumem_recorder_stop_when() is met */
	GPUMEM_NEW_SITES = 2,     /* there are more sites than before */
	GPUMEM_REFUSED = 4,       /* nothing can be recorded: gpumem_recorder_refusal() says why */
	GPUMEM_NEW_LIBRARIES = 8, /* the program has loaded or unloaded libraries */
	GPUMEM_OOM = 16, /* a device has run out of memory: PyTorch is about to raise its error */
};

/* devices: "cuda", "cpu" or "cuda,cpu". log_path: the file that is written. source: the program's
 * command line, as its user knows it. On failure *ret_err says why; the caller frees it with
 * gpumem_free(). */
GPUMEM_API int gpumem_recorder_create(int pid, const char *devices, const char *log_path,
        const char *source, gpumem_recorder **ret_recorder, char **ret_err);
/* Names what the log holds, closes it and frees the recorder, also where it fails. */
GPUMEM_API int gpumem_recorder_close(gpumem_recorder *recorder, char **ret_err);
/* Looks for libraries that came since. Returns the number of breakpoint sites. */
GPUMEM_API int gpumem_recorder_refresh(
        gpumem_recorder *recorder, size_t *ret_count, char **ret_err);
GPUMEM_API size_t gpumem_recorder_site_count(gpumem_recorder *recorder);
GPUMEM_API uint64_t gpumem_recorder_site_address(gpumem_recorder *recorder, size_t index);
GPUMEM_API const char *gpumem_recorder_site_name(gpumem_recorder *recorder, size_t index);
/* A stop at a site. Returns bits of enum gpumem_verdict; negative: the stop could not be recorded,
 * the reason is noted in the log as a gap. registers: 17 words in DWARF order, or NULL (then read
 * by ptrace, which works in gdb's main thread). */
GPUMEM_API int gpumem_recorder_hit(
        gpumem_recorder *recorder, uint64_t address, int thread, const uint64_t *registers);
/* After a stop that is not shown: does the instruction under the breakpoint, so that the debugger
 * need not step over it. 1: done, the thread's registers have to be read again; 0: nothing was
 * changed. */
GPUMEM_API int gpumem_recorder_advance(gpumem_recorder *recorder, uint64_t address, int thread);
/* What became of a stop. It is written before gpumem_recorder_stop_at() returns, so that a caller
 * that is interrupted at any moment (Ctrl-C in a debugger's Python) can tell what is done. */
struct gpumem_stop_answer {
	uint64_t stops;   /* calls so far with this answer */
	int32_t verdict;  /* of the last, as of gpumem_recorder_hit() */
	int32_t advanced; /* of the last, as of gpumem_recorder_advance() */
};

/* gpumem_recorder_hit(), and gpumem_recorder_advance() where `advance` is not 0 and the verdict is
 * GPUMEM_CONTINUE. */
GPUMEM_API void gpumem_recorder_stop_at(gpumem_recorder *recorder, uint64_t address, int thread,
        const uint64_t *registers, int advance, struct gpumem_stop_answer *answer);
/* Why recording was refused, or NULL; the recorder's. */
GPUMEM_API const char *gpumem_recorder_refusal(gpumem_recorder *recorder);
/* Stop after `events` further events, or at the first event of step `step`; 0: not. */
GPUMEM_API void gpumem_recorder_stop_when(
        gpumem_recorder *recorder, uint64_t events, uint32_t step);
/*
 * Stop at each event for which a condition holds, or (once) at the first one only: "size>1MiB and
 * phase=backward", the language of `blocks --where` over facts of events. `id` is not 0.
 */
GPUMEM_API int gpumem_recorder_watch(
        gpumem_recorder *recorder, uint32_t id, const char *condition, int once, char **ret_err);
GPUMEM_API void gpumem_recorder_unwatch(gpumem_recorder *recorder, uint32_t id);
/* How often it held. */
GPUMEM_API uint64_t gpumem_recorder_watch_hits(gpumem_recorder *recorder, uint32_t id);
/* The condition that held at the latest stop, and the event at which it did; 0: none did. */
GPUMEM_API uint32_t gpumem_recorder_stopped_by(gpumem_recorder *recorder, uint64_t *ret_event);
/*
 * Reads a condition over events and forgets it. GPUMEM_USAGE: *ret_err says what is wrong, and
 * *ret_column where (from 1; 0: nowhere). GPUMEM_NEGATIVE: it can be read, and no event from step
 * `step` and event `event` on can meet it.
 */
GPUMEM_API int gpumem_condition_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err);
/*
 * The same where the agent records. Most events are judged in the program, by what the agent knows;
 * where that cannot rule out that a condition holds, the agent calls gpumem_agent_at_event(), on
 * which the debugger has a breakpoint, and gpumem_walk_stop() judges. `path` is the agent's file.
 */
typedef struct gpumem_walk gpumem_walk;
GPUMEM_API int gpumem_walk_create(const char *path, gpumem_walk **ret_walk, char **ret_err);
GPUMEM_API void gpumem_walk_destroy(gpumem_walk *walk);
GPUMEM_API int gpumem_walk_watch(
        gpumem_walk *walk, uint32_t id, const char *condition, int once, char **ret_err);
GPUMEM_API void gpumem_walk_unwatch(gpumem_walk *walk, uint32_t id);
GPUMEM_API uint64_t gpumem_walk_watch_hits(gpumem_walk *walk, uint32_t id);
GPUMEM_API uint32_t gpumem_walk_stopped_by(gpumem_walk *walk, uint64_t *ret_event);
/*
 * While all threads stand: conditions take effect from the next event on. `addresses` are those of
 * gpumem_agent_stops, gpumem_agent_stop_filter, gpumem_agent_stop_never_python, _native and _tensor
 * in the process. *ret_active: some may still hold. `every`: each event is a stop.
 */
GPUMEM_API int gpumem_walk_arm(gpumem_walk *walk, int pid, const uint64_t *addresses, int every,
        int *ret_active, char **ret_err);
/* The thread stands at the breakpoint. *ret_holds: a condition holds at its event. */
GPUMEM_API int gpumem_walk_stop(gpumem_walk *walk, int thread, int *ret_holds, char **ret_err);
/* As gpumem_condition_check(). */
GPUMEM_API int gpumem_walk_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err);
/* Everything recorded so far can be read from the file. */
GPUMEM_API int gpumem_recorder_flush(gpumem_recorder *recorder, char **ret_err);
/* The step that the latest event belongs to, as far as can be told; 0: none yet. */
GPUMEM_API uint32_t gpumem_recorder_step(gpumem_recorder *recorder);
GPUMEM_API uint64_t gpumem_recorder_event_count(gpumem_recorder *recorder);
/* "412 events, peak 4,436,169,216 bytes allocated"; NULL: no memory. The caller frees it. */
GPUMEM_API char *gpumem_recorder_summary(gpumem_recorder *recorder);

/* Copies a recording of the session's to the user's file. Refused where a program that was recorded
 * has put a link or another user's file in its place. */
GPUMEM_API int gpumem_save_recording(const char *from, const char *to, char **ret_err);

/* --- recording by the agent (gdb/): the debugger itself calls functions in the process that the
 * session looks at */

/* The agent's file on this machine. */
GPUMEM_API int gpumem_agent_library(char **ret_path, char **ret_err);
/* The address of a function of the C library or of the agent in the process; 0: there is none. The
 * session has to be invalidated where libraries came since. */
GPUMEM_API uint64_t gpumem_session_agent_function(gpumem_session *session, const char *name);
/* Whether a stopped thread may call functions of the C library from its current place. */
enum gpumem_call_safety {
	GPUMEM_CALL_UNKNOWN = -1,
	GPUMEM_CALL_SAFE = 0,
	/* Not now: the thread is inside the C library's allocator or the like. */
	GPUMEM_CALL_BUSY = 1,
	/* Not now, and the thread may hold the dynamic linker's lock. */
	GPUMEM_CALL_LOADING = 2,
};
/* GPUMEM_CALL_BUSY: *ret_back is the address that the thread will soon return to, or 0. */
GPUMEM_API enum gpumem_call_safety gpumem_session_thread_is_call_safe(
        gpumem_session *session, int thread, uint64_t *ret_back);
/* Writes what PyTorch's allocator has handed out already into the process's memory at `table`, for
 * the agent that is about to begin there. Returns the bytes that it takes; more than `size`:
 * nothing was written. */
GPUMEM_API uint64_t gpumem_session_agent_existing(
        gpumem_session *session, uint64_t table, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
