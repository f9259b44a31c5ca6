/*
 * gpumem's public C interface: what the shell command and the gdb plugin are built on.
 *
 * Handles are opaque. Functions that can fail return an exit status of the shell command (0 answered,
 * 1 negative answer, 2 usage, 3 corrupt input, 4 target cannot be read, 5 internal). Strings that are
 * handed out belong to the caller, who frees them with gpumem_free(). Not thread-safe: one thread at a
 * time per handle.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API __attribute__((visibility("default")))

GPUMEM_API const char *gpumem_version(void);
GPUMEM_API void gpumem_free(void *pointer);
/* A text as it is shown to people: controls, characters that turn the direction of text and bytes that are no UTF-8 as
 * escapes, the middle of a long one left out. What sessions hand out has been shown so already. NULL: no memory. */
GPUMEM_API char *gpumem_visible(const char *text, size_t length);

/*
 * A session: where a question is asked from, and what it may look at. The shell command makes one; the gdb
 * plugin keeps one while gdb runs and tells it of the process, the selected thread and the recording.
 */
typedef struct gpumem_session gpumem_session;

GPUMEM_API gpumem_session *gpumem_session_create(void); /* NULL: no memory */
GPUMEM_API void gpumem_session_destroy(gpumem_session *session);
GPUMEM_API void gpumem_session_set_process(gpumem_session *session, int pid); /* 0: none */
GPUMEM_API void gpumem_session_set_thread(
        gpumem_session *session, int thread); /* kernel thread id, 0: none */
GPUMEM_API void gpumem_session_set_log(gpumem_session *session, const char *path); /* NULL: none */
GPUMEM_API void gpumem_session_set_terminal(gpumem_session *session, int columns, int colors);
/* A core dump instead of a process; NULL: none. */
GPUMEM_API void gpumem_session_set_core(gpumem_session *session, const char *path);

/*
 * A process that only the debugger can read (behind gdbserver), instead of one of this machine. The callbacks are
 * called from within gpumem_session_run(), in its thread; they get `context`. To be set anew whenever the process has
 * run: what was read of it is kept until then. `read` NULL: none.
 *
 * read: as many bytes as can be read from `address` on; returns their number.
 * registers: those of a thread as 17 words in DWARF's order (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15, rip);
 *     returns 0 where they cannot be read.
 * file: puts the path of a copy on this machine of a file of the process's into `path`; returns 0 where there is none.
 * maps: the text of /proc/PID/maps there. threads: kernel thread ids there, `pid` among them.
 * Returns 0, or 5: no memory.
 */
typedef size_t (*gpumem_read_callback)(void *context, uint64_t address, void *buffer, size_t size);
typedef int (*gpumem_registers_callback)(void *context, int thread, uint64_t *words);
typedef int (*gpumem_file_callback)(void *context, const char *name, char *path, size_t size);
GPUMEM_API int gpumem_session_set_remote(gpumem_session *session, int pid, const char *maps,
        const int *threads, size_t count, gpumem_read_callback read,
        gpumem_registers_callback registers, gpumem_file_callback file, void *context);

/* Whether slow things (a compressed core, a far away process) say on standard error, where that is a terminal, how
 * far they are. Off to begin with. */
GPUMEM_API void gpumem_session_show_progress(gpumem_session *session, int on);
/* The process may have run since: forget what was read of it. */
GPUMEM_API void gpumem_session_invalidate(gpumem_session *session);

/*
 * Runs one command as typed: argv[0] is its name ("who-holds"), the rest its arguments. *ret_out is what
 * goes to standard output, *ret_err what goes to standard error (already "gpumem: ..." lines); either may
 * be NULL when empty. Returns the exit status.
 */
GPUMEM_API int gpumem_session_run(
        gpumem_session *session, int argc, const char *const *argv, char **ret_out, char **ret_err);

/* The commands that a session answers, one a call from 0 on; NULL at the end. Both strings are static. */
GPUMEM_API const char *gpumem_command_name(size_t index);
GPUMEM_API const char *gpumem_command_summary(size_t index);

/* --- recording at breakpoints (gdb/) -------------------------------------------------------------- */

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

/* devices: "cuda", "cpu" or "cuda,cpu". log_path: the file that is written. source: the program's command
 * line, as its user knows it. On failure *ret_err says why; the caller frees it with gpumem_free(). */
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
/* A stop at a site. Returns bits of enum gpumem_verdict; negative: the stop could not be recorded, the
 * reason is noted in the log as a gap. registers: 17 words in DWARF order, or NULL (then read by ptrace,
 * which works in gdb's main thread). */
GPUMEM_API int gpumem_recorder_hit(
        gpumem_recorder *recorder, uint64_t address, int thread, const uint64_t *registers);
/* After a stop that is not shown: does the instruction under the breakpoint, so that the debugger need not
 * step over it. 1: done, the thread's registers have to be read again; 0: nothing was changed. */
GPUMEM_API int gpumem_recorder_advance(gpumem_recorder *recorder, uint64_t address, int thread);
/* Why recording was refused, or NULL; the recorder's. */
GPUMEM_API const char *gpumem_recorder_refusal(gpumem_recorder *recorder);
/* Stop after `events` further events, or at the first event of pass `step` of the loop; 0: not. */
GPUMEM_API void gpumem_recorder_stop_when(
        gpumem_recorder *recorder, uint64_t events, uint32_t step);
/* Everything recorded so far can be read from the file. */
GPUMEM_API int gpumem_recorder_flush(gpumem_recorder *recorder, char **ret_err);
/* The pass of the training loop that the latest event belongs to, as far as can be told; 0: none yet. */
GPUMEM_API uint32_t gpumem_recorder_step(gpumem_recorder *recorder);
GPUMEM_API uint64_t gpumem_recorder_event_count(gpumem_recorder *recorder);
/* "412 events, peak 4,436,169,216 bytes allocated"; NULL: no memory. The caller frees it. */
GPUMEM_API char *gpumem_recorder_summary(gpumem_recorder *recorder);

/* Copies a recording of the session's to the user's file. Refused where a program that was recorded has put a link or another
 * user's file in its place. */
GPUMEM_API int gpumem_save_recording(const char *from, const char *to, char **ret_err);

/* --- recording by the agent (gdb/): the debugger itself calls functions in the process that the session looks at ---- */

/* The agent's file on this machine. */
GPUMEM_API int gpumem_agent_library(char **ret_path, char **ret_err);
/* The address of a function of the C library or of the agent in the process; 0: there is none. The session has to be
 * invalidated where libraries came since. */
GPUMEM_API uint64_t gpumem_session_agent_function(gpumem_session *session, const char *name);
/* Whether a stopped thread may call functions of the C library from where it stands: 0 it may; 1 not now, and *ret_back
 * is where it will be a little later, if not 0; 2 not now, and it may hold the dynamic linker's lock; -1 that
 * cannot be told. */
GPUMEM_API int gpumem_session_agent_stands(gpumem_session *session, int thread, uint64_t *ret_back);
/* Writes what PyTorch's allocator has handed out already into the process's memory at `table`, for the agent that is
 * about to begin there. Returns the bytes that it takes; more than `size`: nothing was written. */
GPUMEM_API uint64_t gpumem_session_agent_existing(
        gpumem_session *session, uint64_t table, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
