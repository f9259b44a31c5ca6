/*
 * gpumem's public C interface. The shell command and the gdb plugin are built on it.
 * docs/library.md is its manual, with an example in C and one in Python; docs/schema/ has the
 * schema of each answer's JSON.
 *
 * Results. A function that can fail returns an enum gpumem_status. The values are the exit statuses
 * of the shell command. Out parameters come last, are called ret_…, and are unchanged if the
 * function fails.
 *
 * Ownership. A string returned through `char **` belongs to the caller, who frees it with
 * gpumem_free(). A `const char *` belongs to the library; the comment says how long it is valid.
 * Handles are opaque, and the functions that destroy them accept NULL. Functions copy their
 * arguments.
 *
 * Threads. A handle may be used by one thread at a time. Different threads may use different
 * handles; questions about processes are answered one after another. A target process is stopped
 * while it is read (see gpumem_session_options).
 *
 * Units. Sizes are bytes, times are microseconds since 1970, both as in the JSON. Events count from
 * 0, steps from 1. Ranges of events include both ends.
 *
 * Structs. A struct of options and one of results begin with their size, which the caller sets to
 * sizeof. A later version of the library adds fields only at the end. Options that the library does
 * not know must be 0. In a result the library fills the fields that it knows, and sets `size` to
 * their size. All fields of an options struct may be 0, and the pointer to it may be NULL.
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
	GPUMEM_OK = 0,       /* answered */
	GPUMEM_NEGATIVE = 1, /* answered, with a negative answer: leaks were found, runs differ */
	GPUMEM_USAGE = 2,    /* wrong arguments */
	GPUMEM_CORRUPT = 3,  /* a file cannot be read, or is damaged */
	GPUMEM_TARGET = 4,   /* the process or core cannot be read, or lacks the data */
	GPUMEM_INTERNAL = 5, /* an error of the library itself, or out of memory */
};

/* "0.1.0"; static. */
GPUMEM_API const char *gpumem_version(void);
/* The version of the JSON that this library writes: docs/schema/v1/. It changes if a field is
 * renamed or removed, which has not happened; added fields do not change it. */
GPUMEM_API int gpumem_json_version(void);
GPUMEM_API void gpumem_free(void *pointer);
/* Makes a text safe to display: control characters, characters that change the direction of text
 * and bytes that are not UTF-8 become escapes, and a long text is shortened in the middle. Texts
 * from a session have this form already; strings in JSON do not. NULL: no memory. The caller frees
 * the result. */
GPUMEM_API char *gpumem_visible(const char *text, size_t length);

/* --- errors ----------------------------------------------------------------------------------- */

/*
 * The reason why a function failed. A `gpumem_error **ret_error` may be NULL; otherwise the caller
 * destroys the error. Its strings are valid as long as the error.
 */
typedef struct gm_error gpumem_error;

GPUMEM_API void gpumem_error_destroy(gpumem_error *error);
GPUMEM_API int gpumem_error_status(const gpumem_error *error); /* enum gpumem_status */
/* The message for users: what failed, why, and what to do ("run.gpumem: damaged at byte 4096: …").
 */
GPUMEM_API const char *gpumem_error_message(const gpumem_error *error);
/* Data for programs: the file that the error concerns; NULL: none. */
GPUMEM_API const char *gpumem_error_path(const gpumem_error *error);
/* 1: *ret_offset is the position in that file, in bytes. 0: not known, *ret_offset is unchanged. */
GPUMEM_API int gpumem_error_offset(const gpumem_error *error, uint64_t *ret_offset);
/* 1: *ret_address is the address in the process or core that could not be read. 0: not known,
 * *ret_address is unchanged. */
GPUMEM_API int gpumem_error_address(const gpumem_error *error, uint64_t *ret_address);
/* errno of the system call that failed; 0: none did. */
GPUMEM_API int gpumem_error_errno(const gpumem_error *error);

/* --- sessions --------------------------------------------------------------------------------- */

/*
 * A session holds the target of questions. One from gpumem_session_open() works as the shell
 * command does. One from gpumem_session_create() is for debuggers, which set the target with the
 * gpumem_session_set_…() functions.
 */
typedef struct gpumem_session gpumem_session;

/* Called repeatedly during long operations, in the calling thread. `what` is static, and NULL at
 * the end; `all` is 0 if it is not known. */
typedef void (*gpumem_progress_callback)(
        void *context, const char *what, uint64_t done, uint64_t all);

/*
 * `recording` may be combined with `process` or `core`. A question that both can answer is then
 * answered from the recording; peak and leaks use both.
 *
 * A process is stopped while its memory is copied, for a fraction of a second. Each question reads
 * it again. With `no_pause` it is not stopped, and the answer may mix several states.
 */
struct gpumem_session_options {
	size_t size;
	const char *recording; /* a gpumem recording or a PyTorch snapshot; NULL: none */
	const char *core;      /* a core dump; NULL: none */
	int process;           /* its id; 0: none */
	int thread;          /* kernel id of the thread whose variables are used; 0: the main one */
	const char *sysroot; /* the folder that has the libraries of the process or core; NULL: / */
	const char *layouts; /* a file of `gpumem learn` for its PyTorch; NULL: the known layouts */
	const char *loop;    /* "FILE:LINE" of the loop whose iterations are steps; NULL: found by
	                        gpumem */
	int no_pause, no_learn;            /* the options --no-pause and --no-learn */
	gpumem_progress_callback progress; /* NULL: none */
	void *progress_context;            /* the callback's */
};

/* Opens no file yet: a missing file is an error of the first question. */
GPUMEM_API int gpumem_session_open(const struct gpumem_session_options *options,
        gpumem_session **ret_session, gpumem_error **ret_error);
GPUMEM_API void gpumem_session_destroy(gpumem_session *session);
/* Notes of the last question in addition to its answer: lines for users; NULL: none. Valid until
 * the next question. */
GPUMEM_API const char *gpumem_session_notes(const gpumem_session *session);

/* --- questions: JSON -------------------------------------------------------------------------- */

/*
 * Each gives the answer of the shell command with that name, `gpumem NAME … --json`, by the same
 * code. *ret_json is UTF-8, ends with a newline, and contains one value; for events one value per
 * line. GPUMEM_OK and GPUMEM_NEGATIVE are answers.
 */

/* A moment of a recording. */
enum gpumem_moment {
	GPUMEM_AT_END = 0, /* now, or the recording's end */
	GPUMEM_AT_PEAK,    /* when the allocated bytes first reached their maximum */
	GPUMEM_AT_EVENT,   /* after the event with the number `event` */
};

GPUMEM_API int gpumem_info_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error);

struct gpumem_events_options {
	size_t size;
	uint64_t from;  /* the first event */
	uint64_t count; /* how many; 0: all from there on */
};
GPUMEM_API int gpumem_events_json(gpumem_session *session,
        const struct gpumem_events_options *options, char **ret_json, gpumem_error **ret_error);

/* `by`: "line", "stack", "phase", "category", "operator", "module", "label", and where tensors were
 * recorded "shape" and "dtype"; for a process or core "category", "module", "shape". NULL: the
 * default of the question. */
struct gpumem_blocks_options {
	size_t size;
	const char *by;
	enum gpumem_moment moment;
	uint64_t event;   /* for GPUMEM_AT_EVENT */
	uint64_t history; /* the blocks that used this address, in order; 0: not requested */
	int tree;         /* sums by the calls that led to the allocations */
	/* has_device 0: of a recording the CUDA device with the highest peak of allocated memory,
	 * else another accelerator, else any; of a process or core the first device that has memory
	 */
	int has_device, device;
};
GPUMEM_API int gpumem_blocks_json(gpumem_session *session,
        const struct gpumem_blocks_options *options, char **ret_json, gpumem_error **ret_error);

struct gpumem_timeline_options {
	size_t size;
	unsigned width; /* in columns; 0: 80 */
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
	uint32_t step; /* this step only; 0: all */
};
GPUMEM_API int gpumem_phases_json(gpumem_session *session,
        const struct gpumem_phases_options *options, char **ret_json, gpumem_error **ret_error);

/* GPUMEM_NEGATIVE: there are leaks. */
GPUMEM_API int gpumem_leaks_json(
        gpumem_session *session, char **ret_json, gpumem_error **ret_error);

struct gpumem_diff_options {
	size_t size;
	const char *by; /* as above; NULL: by category and line */
	uint32_t step;  /* at the peak of this step; 0: at the peak of each recording */
};
/* Compares `count` recordings, at least two, not including the session's own. GPUMEM_NEGATIVE: they
 * differ. */
GPUMEM_API int gpumem_diff_json(gpumem_session *session, const char *const *recordings,
        size_t count, const struct gpumem_diff_options *options, char **ret_json,
        gpumem_error **ret_error);

struct gpumem_segments_options {
	size_t size;
	enum gpumem_moment moment;
	uint64_t event;   /* for GPUMEM_AT_EVENT */
	uint64_t request; /* whether a request of so many bytes would succeed; 0: not requested */
	uint64_t stream;  /* the stream of the request; 0: the default one */
	int has_device, device;
};
GPUMEM_API int gpumem_segments_json(gpumem_session *session,
        const struct gpumem_segments_options *options, char **ret_json, gpumem_error **ret_error);

struct gpumem_oom_options {
	size_t size;
	int has_event, has_device; /* 0: the last out-of-memory error; the error's device */
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
/* block: "0x…"; "#N", the number of the event that allocated or freed it; "FILE:LINE", which
 * allocated it; the name of a tensor (`gpumem run --names`), or of a variable whose change or end
 * released blocks. Of several blocks the last one that was released, else the last one. */
GPUMEM_API int gpumem_why_json(gpumem_session *session, const char *block,
        const struct gpumem_why_options *options, char **ret_json, gpumem_error **ret_error);

/* For a process or core. block: "0x…", "#N" of its recording, or a variable of the thread
 * ("self.cache['kept']"). */
GPUMEM_API int gpumem_who_holds_json(
        gpumem_session *session, const char *block, char **ret_json, gpumem_error **ret_error);

/* For a process or core. */
struct gpumem_retained_options {
	size_t size;
	uint32_t depth;     /* levels of parts; 0: all */
	uint64_t least;     /* parts with fewer bytes are left out; 0: none */
	int cpu;            /* tensors in host memory instead of a device's */
	const char *save;   /* also saves the answer in this file; NULL: no */
	const char *before; /* answers with the changes since this file was saved; NULL: not
	                       requested */
};
GPUMEM_API int gpumem_retained_json(gpumem_session *session,
        const struct gpumem_retained_options *options, char **ret_json, gpumem_error **ret_error);

/* Starts gdb to get its version. */
GPUMEM_API int gpumem_doctor_json(
        gpumem_session *session, char **ret_json, gpumem_error **ret_error);

/*
 * Any question, with any option of its command: "peak" with {"--by", "phase"}. The session's target
 * and --json are added. Arguments are parsed as options, so an untrusted argument must not begin
 * with '-'.
 */
GPUMEM_API int gpumem_question_json(gpumem_session *session, const char *question,
        const char *const *arguments, size_t count, char **ret_json, gpumem_error **ret_error);

/* Writes the session's recording in another format: "pytorch", "perfetto", "folded", "sqlite",
 * "csv", "json". */
GPUMEM_API int gpumem_export(
        gpumem_session *session, const char *form, const char *path, gpumem_error **ret_error);

/* --- questions: structs, for recordings and snapshots ----------------------------------------- */

struct gpumem_recording_info {
	size_t size;
	uint64_t events;
	uint64_t devices; /* gpumem_device_info() takes 0 to devices - 1 */
	uint64_t gaps;    /* reasons why it is not complete; listed in the JSON of info */
	uint64_t process; /* its id; 0: not recorded */
	uint32_t steps;
	uint8_t complete; /* 1: it is closed, and no gap is known */
	uint8_t closed;   /* 0: it is still growing, or its recorder was killed */
};
/* Also checks whether the file has grown. */
GPUMEM_API int gpumem_recording_info(
        gpumem_session *session, struct gpumem_recording_info *ret_info, gpumem_error **ret_error);

#define GPUMEM_UNKNOWN UINT64_MAX /* in the fields below: not recorded, or none */

struct gpumem_device_info {
	size_t size;
	const char *type; /* "cuda", "cpu", …; static */
	int32_t index;
	uint64_t events;
	uint64_t allocated, active, requested, reserved; /* at the end; as in PyTorch */
	uint64_t peak_allocated, peak_active, peak_requested, peak_reserved; /* each separately */
	uint64_t peak_event; /* when peak_allocated was first reached; GPUMEM_UNKNOWN: nothing was
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
	uint64_t allocated, reserved; /* the allocator's sums after the event; GPUMEM_UNKNOWN */
};
/* Makes no JSON, so it is fast enough for millions of events. Does not check whether the file has
 * grown. */
GPUMEM_API int gpumem_event_info(gpumem_session *session, uint64_t number,
        struct gpumem_event_info *ret_info, gpumem_error **ret_error);

/* --- a debugger's session (gdb/) -------------------------------------------------------------- */

GPUMEM_API gpumem_session *gpumem_session_create(void);                       /* NULL: no memory */
GPUMEM_API void gpumem_session_set_process(gpumem_session *session, int pid); /* 0: none */
GPUMEM_API void gpumem_session_set_thread(
        gpumem_session *session, int thread); /* kernel thread id, 0: none */
/* The Python frame of the thread in which variables are looked up first, then in its callers; 0:
 * the innermost one. */
GPUMEM_API void gpumem_session_set_frame(gpumem_session *session, unsigned frame);
GPUMEM_API void gpumem_session_set_log(gpumem_session *session, const char *path); /* NULL: none */
/* The terminal for answers; 0 columns: no terminal, nothing is shortened. */
GPUMEM_API void gpumem_session_set_terminal(gpumem_session *session, int columns, int colors);
/* A core dump instead of a process; NULL: none. */
GPUMEM_API void gpumem_session_set_core(gpumem_session *session, const char *path);

/*
 * A process that only the debugger can read (behind gdbserver), instead of one on this machine. The
 * callbacks are called from within gpumem_session_run(), in its thread, with `context`. Set it
 * again whenever the process has run, because data read from it is cached until then. `read` NULL:
 * none.
 *
 *   read       reads as many bytes as possible from `address` on; returns their number
 *   registers  gets a thread's registers as 17 words in DWARF's order (rax, rdx, rcx, rbx, rsi,
 *              rdi, rbp, rsp, r8 ... r15, rip); returns 0 if they cannot be read
 *   file       puts the path of a local copy of one of the process's files into `path`; returns 0
 *              if there is none
 *   maps       the remote text of /proc/PID/maps
 *   threads    the remote kernel thread ids, including `pid`
 *
 * Returns 0, or 5: no memory.
 */
typedef size_t (*gpumem_read_callback)(void *context, uint64_t address, void *buffer, size_t size);
typedef int (*gpumem_registers_callback)(void *context, int thread, uint64_t *words);
typedef int (*gpumem_file_callback)(void *context, const char *name, char *path, size_t size);
GPUMEM_API int gpumem_session_set_remote(gpumem_session *session, int pid, const char *maps,
        const int *threads, size_t count, gpumem_read_callback read,
        gpumem_registers_callback registers, gpumem_file_callback file, void *context);

/* Whether slow operations (a compressed core, a remote process) show their progress on standard
 * error if it is a terminal. Off by default. */
GPUMEM_API void gpumem_session_show_progress(gpumem_session *session, int on);
/* The process may have run: cached data is read again. */
GPUMEM_API void gpumem_session_invalidate(gpumem_session *session);

/*
 * Runs one command as typed in gdb: argv[0] is its name ("who-holds"), the rest its arguments.
 * *ret_out gets the standard output, *ret_err the standard error (as "gpumem: ..." lines); each may
 * be NULL if empty. Returns the exit status.
 */
GPUMEM_API int gpumem_session_run(
        gpumem_session *session, int argc, const char *const *argv, char **ret_out, char **ret_err);

/* The commands of such a session, by index from 0 on; NULL at the end. Both strings are static. */
GPUMEM_API const char *gpumem_command_name(size_t index);
GPUMEM_API const char *gpumem_command_summary(size_t index);

/*
 * Native frames of libraries whose symbols the debugger has not read. `registers`: 17 words in
 * DWARF's order. innermost: 1: the thread is stopped at rip; 0: a caller's frame; -1: not known,
 * then the session's thread must be set. Returns 1: *ret_registers are the caller's, and its stack
 * pointer does not change while the frame exists. 0: unknown, or the outermost frame.
 */
GPUMEM_API int gpumem_session_frame_caller(
        gpumem_session *session, const uint64_t *registers, int innermost, uint64_t *ret_registers);
/* The names of the functions at addresses; NULL for unknown ones. For a caller's frame, pass an
 * address within the call instruction. ret_names: `count` strings, which belong to the session and
 * are valid until the process runs. Returns an enum gpumem_status. */
GPUMEM_API int gpumem_session_frame_functions(
        gpumem_session *session, const uint64_t *addresses, size_t count, const char **ret_names);

/* 1: an ELF file defines a function, given the name that users type in a debugger: "ncclAllReduce",
 * "c10d::Reducer::all_reduce_bucket", "all_reduce_bucket". */
GPUMEM_API int gpumem_file_defines(const char *path, const char *function);

/* --- recording at breakpoints (gdb/) ---------------------------------------------------------- */

typedef struct gpumem_recorder gpumem_recorder;

/* What the debugger must do after gpumem_recorder_hit(): bits. */
enum gpumem_verdict {
	GPUMEM_CONTINUE = 0,
	GPUMEM_STOP = 1,          /* the condition of gpumem_recorder_stop_when() is met */
	GPUMEM_NEW_SITES = 2,     /* there are more sites than before */
	GPUMEM_REFUSED = 4,       /* nothing can be recorded: see gpumem_recorder_refusal() */
	GPUMEM_NEW_LIBRARIES = 8, /* the program has loaded or unloaded libraries */
	GPUMEM_OOM = 16, /* a device has run out of memory: PyTorch is about to raise its error */
};

/* devices: "cuda", "cpu" or "cuda,cpu". log_path: the file to write. source: the program's command
 * line, as typed. On failure *ret_err is the message; the caller frees it with gpumem_free(). */
GPUMEM_API int gpumem_recorder_create(int pid, const char *devices, const char *log_path,
        const char *source, gpumem_recorder **ret_recorder, char **ret_err);
/* Adds names to the log, closes it and frees the recorder, even on failure. */
GPUMEM_API int gpumem_recorder_close(gpumem_recorder *recorder, char **ret_err);
/* Looks for newly loaded libraries. *ret_count: the number of breakpoint sites. */
GPUMEM_API int gpumem_recorder_refresh(
        gpumem_recorder *recorder, size_t *ret_count, char **ret_err);
GPUMEM_API size_t gpumem_recorder_site_count(gpumem_recorder *recorder);
GPUMEM_API uint64_t gpumem_recorder_site_address(gpumem_recorder *recorder, size_t index);
GPUMEM_API const char *gpumem_recorder_site_name(gpumem_recorder *recorder, size_t index);
/* Handles a stop at a site. Returns bits of enum gpumem_verdict; negative: the stop could not be
 * recorded, and the log has the reason as a gap. registers: 17 words in DWARF order, or NULL to
 * read them by ptrace, which works only in gdb's main thread. */
GPUMEM_API int gpumem_recorder_hit(
        gpumem_recorder *recorder, uint64_t address, int thread, const uint64_t *registers);
/* After a stop that is not shown: executes the instruction under the breakpoint, so that the
 * debugger need not step over it. 1: done, the thread's registers must be read again; 0: nothing
 * was changed. */
GPUMEM_API int gpumem_recorder_advance(gpumem_recorder *recorder, uint64_t address, int thread);
/* The result of a stop. It is written before gpumem_recorder_stop_at() returns, so that a caller
 * that is interrupted at any moment (Ctrl-C in a debugger's Python) knows what was done. */
struct gpumem_stop_answer {
	uint64_t stops;   /* calls so far with this answer */
	int32_t verdict;  /* of the last call, as in gpumem_recorder_hit() */
	int32_t advanced; /* of the last call, as in gpumem_recorder_advance() */
};

/* gpumem_recorder_hit(), then gpumem_recorder_advance() if `advance` is not 0 and the verdict is
 * GPUMEM_CONTINUE. */
GPUMEM_API void gpumem_recorder_stop_at(gpumem_recorder *recorder, uint64_t address, int thread,
        const uint64_t *registers, int advance, struct gpumem_stop_answer *answer);
/* The reason why recording was refused, or NULL; it belongs to the recorder. */
GPUMEM_API const char *gpumem_recorder_refusal(gpumem_recorder *recorder);
/* Stops after `events` further events, or at the first event of step `step`; 0: never. */
GPUMEM_API void gpumem_recorder_stop_when(
        gpumem_recorder *recorder, uint64_t events, uint32_t step);
/*
 * Stops at each event for which a condition holds, or (once) only at the first one: "size>1MiB and
 * phase=backward", in the language of `blocks --where`, over properties of events. `id` is not 0.
 */
GPUMEM_API int gpumem_recorder_watch(
        gpumem_recorder *recorder, uint32_t id, const char *condition, int once, char **ret_err);
GPUMEM_API void gpumem_recorder_unwatch(gpumem_recorder *recorder, uint32_t id);
/* How often it held. */
GPUMEM_API uint64_t gpumem_recorder_watch_hits(gpumem_recorder *recorder, uint32_t id);
/* The condition that held at the latest stop, and its event; 0: none held. */
GPUMEM_API uint32_t gpumem_recorder_stopped_by(gpumem_recorder *recorder, uint64_t *ret_event);
/*
 * Checks a condition over events. GPUMEM_USAGE: *ret_err is the syntax error, and *ret_column its
 * column (from 1; 0: none). GPUMEM_NEGATIVE: the condition is valid, but no event from step `step`
 * and event `event` on can meet it.
 */
GPUMEM_API int gpumem_condition_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err);
/*
 * Conditions for a program that the agent records. The agent evaluates a filter at each event. If
 * the filter cannot exclude that a condition holds, the agent calls gpumem_agent_at_event(), on
 * which the debugger has a breakpoint, and gpumem_walk_stop() decides. `path` is the agent's file.
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
 * Only while all threads are stopped: conditions take effect from the next event on. `addresses`
 * are those of gpumem_agent_stops, gpumem_agent_stop_filter, gpumem_agent_stop_never_python,
 * _native and _tensor in the process. *ret_active: whether some condition may still hold. `every`:
 * stops at each event.
 */
GPUMEM_API int gpumem_walk_arm(gpumem_walk *walk, int pid, const uint64_t *addresses, int every,
        int *ret_active, char **ret_err);
/* The thread is stopped at the breakpoint. *ret_holds: whether a condition holds at its event. */
GPUMEM_API int gpumem_walk_stop(gpumem_walk *walk, int thread, int *ret_holds, char **ret_err);
/* Like gpumem_condition_check(). */
GPUMEM_API int gpumem_walk_check(
        const char *condition, uint32_t step, uint64_t event, size_t *ret_column, char **ret_err);
/* Makes all recorded events readable in the file. */
GPUMEM_API int gpumem_recorder_flush(gpumem_recorder *recorder, char **ret_err);
/* The step of the latest event, as far as known; 0: none yet. */
GPUMEM_API uint32_t gpumem_recorder_step(gpumem_recorder *recorder);
GPUMEM_API uint64_t gpumem_recorder_event_count(gpumem_recorder *recorder);
/* "412 events, peak 4,436,169,216 bytes allocated"; NULL: no memory. The caller frees it. */
GPUMEM_API char *gpumem_recorder_summary(gpumem_recorder *recorder);

/* Copies a recording of the session to the user's file. Refuses if the recorded program has put a
 * link or another user's file in its place. */
GPUMEM_API int gpumem_save_recording(const char *from, const char *to, char **ret_err);

/* --- recording by the agent (gdb/): the debugger itself calls functions in the session's process
 */

/* The path of the agent's library on this machine. */
GPUMEM_API int gpumem_agent_library(char **ret_path, char **ret_err);
/* The address of a function of the C library or of the agent in the process; 0: there is none. If
 * libraries were loaded since, the session must be invalidated first. */
GPUMEM_API uint64_t gpumem_session_agent_function(gpumem_session *session, const char *name);
/* Whether a stopped thread may call functions of the C library from its current place. */
enum gpumem_call_safety {
	GPUMEM_CALL_UNKNOWN = -1,
	GPUMEM_CALL_SAFE = 0,
	/* Not now: the thread is inside the C library's allocator or similar code. */
	GPUMEM_CALL_BUSY = 1,
	/* Not now, and the thread may hold the dynamic linker's lock. */
	GPUMEM_CALL_LOADING = 2,
};
/* GPUMEM_CALL_BUSY: *ret_back is the address that the thread will soon return to, or 0. */
GPUMEM_API enum gpumem_call_safety gpumem_session_thread_is_call_safe(
        gpumem_session *session, int thread, uint64_t *ret_back);
/* Writes the blocks that PyTorch's allocator has allocated already into the process's memory at
 * `table`, for the agent that is about to start there. Returns the needed bytes; if they are more
 * than `size`, nothing was written. */
GPUMEM_API uint64_t gpumem_session_agent_existing(
        gpumem_session *session, uint64_t table, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
