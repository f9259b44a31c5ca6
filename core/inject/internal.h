/* What the files of this room share. */
#ifndef GM_INJECT_INTERNAL_H
#define GM_INJECT_INTERNAL_H

#include <sys/user.h>

#include "inject/inject.h"

/* ---- target.c ---- */

/* Addresses in the process of what the new thread calls. */
struct gm_inject_functions {
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror, errno_location;
	uint64_t syscall; /* a `syscall` instruction; with `ret` behind it where `restore` is known
	                   */
	uint64_t restore; /* the C library's code that calls rt_sigreturn, 0: not found */
	/* of an agent that is there, else 0 */
	uint64_t agent_start, agent_stop;
	uint64_t mapping; /* where it keeps what was mapped for us: uint64_t[2], code and block */
	bool has_rseq;    /* the C library has registered the program's threads by rseq() */
};

/* GM_TARGET where it does not run: stopped, by whom, or frozen. */
struct gm_error *gm_inject_check_runs(pid_t pid);
struct gm_error *gm_inject_check(struct gm_image *image, struct gm_symbols *symbols);
struct gm_error *gm_inject_find_functions(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_inject_functions *ret_functions);

/* ---- safe.c ---- */

enum gm_inject_place {
	GM_PLACE_SAFE,    /* it may call pthread_create() */
	GM_PLACE_UNKNOWN, /* it waits in a system call of the C library, but its stack cannot be
	                     followed to its end */
	GM_PLACE_LIBC,   /* in a function of the C library that may hold a lock: it will soon return
	                    from it */
	GM_PLACE_LOADER, /* in the dynamic linker, or in another allocator */
};

/* Where a stopped thread stands. `waits_in`: the system call in which it was stopped, -1: in none.
 * *ret_return: where it will be when it has left the C library (GM_PLACE_LIBC). */
enum gm_inject_place gm_inject_place(struct gm_symbols *symbols,
        const struct gm_registers *registers, long waits_in, uint64_t *ret_return);

/* ---- harmless.c ---- */

/* Whether a thread in this function of the C library holds no lock of it, whatever the function
 * calls there; NULL: not known, so no. */
bool gm_inject_is_harmless(const char *function);
/* The same for a function that a harmless one has called; NULL, which has no name: yes. */
bool gm_inject_is_harmless_within(const char *function);
/* Whether it allocates, or holds such a lock while it calls others. */
bool gm_inject_is_locking(const char *function);

/* ---- thread.c ---- */

enum { GM_INJECT_EXTENDED_MAX = 16384 };

/* A thread that we trace and that is stopped, and all that is to be put back. */
struct gm_inject_thread {
	pid_t pid, id;
	struct user_regs_struct registers;
	double until;  /* gm_seconds(): how long there is time for it */
	uint64_t mask; /* of blocked signals */
	int signal;    /* on its way to the thread: it gets it when it continues */
	uint64_t call; /* the system call that was interrupted, as the program made it */
	size_t extended_size;
	uint8_t extended[GM_INJECT_EXTENDED_MAX] __attribute__((aligned(64)));
};

/*
 * Stops a thread. *ret_stopped is false where it has ended or does not stop at once (it is in the
 * kernel): then another one is to be tried. GM_TARGET: it has not stopped until then. What is begun
 * in it afterwards has the same time, or a few seconds where less is left: to give up in its midst
 * would harm the program.
 */
struct gm_error *gm_inject_thread_stop(
        pid_t pid, pid_t id, double until, struct gm_inject_thread *ret_thread, bool *ret_stopped);
/* Reads all state of a stopped thread, by `id`, that is to be restored. */
bool gm_inject_thread_look(struct gm_inject_thread *thread);
/* It continues as if nothing had been. */
void gm_inject_thread_release(struct gm_inject_thread *thread);
/* The number of the system call in which the thread was stopped as it waited; -1: it was stopped in
 * none. */
long gm_inject_thread_waits_in(const struct gm_inject_thread *thread);
/* Steps until the thread has come back to `address`, in an outer frame, at most so many
 * instructions; other threads run. False: it is elsewhere, and is to be released. */
bool gm_inject_thread_step_to(struct gm_inject_thread *thread, uint64_t address, unsigned steps);
/* Runs one system call in the thread. `top`: of its way back (code.c), whose bytes are there, and
 * then there is a `ret` behind the instruction; 0: without. */
struct gm_error *gm_inject_thread_syscall(struct gm_inject_thread *thread, uint64_t instruction,
        uint64_t top, long number, const uint64_t arguments[6], int64_t *ret_value);
/*
 * Lets the thread run from `start` on the stack `top`, `argument` in rbx, until it asks for
 * rt_sigreturn, and puts everything back. *ret_returned is false where that did not come in time:
 * then it will go back by itself, and is not to be touched.
 */
struct gm_error *gm_inject_thread_run(struct gm_inject_thread *thread, uint64_t start, uint64_t top,
        uint64_t argument, bool *ret_returned);

/* ---- code.c ---- */

enum {
	GM_INJECT_CODE_SIZE = 4096,
	GM_INJECT_BLOCK_SIZE = 128 << 10, /* the block at its start, the stack at its end */
	GM_INJECT_TEXT = 512,
	GM_INJECT_PATH = 512,
	GM_INJECT_SETTINGS = 8192,
	GM_INJECT_FRAME = 1024 + GM_INJECT_EXTENDED_MAX,
};

enum gm_inject_progress {
	GM_PROGRESS_NONE = 0,
	GM_PROGRESS_CALLED = 1, /* the agent's function has returned */
	GM_PROGRESS_FAILED = 2, /* `text` says why */
};

/* What is in the process for the code: the code knows these places by number (code.c). */
struct gm_inject_block {
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror, errno_location;
	uint64_t function; /* to be called, 0: `name` of the library at `path` */
	uint64_t thread;   /* pthread_t of the new thread */
	uint64_t mask;     /* of signals: all but that of setuid() */
	int32_t created;   /* what pthread_create() returned */
	int32_t result;
	int32_t progress;   /* enum gm_inject_progress */
	int32_t descriptor; /* to be closed at the end, -1: none */
	int32_t errno_before;
	int32_t unused;
	char name[64];
	char text[GM_INJECT_TEXT];
	char path[GM_INJECT_PATH];
	char settings[GM_INJECT_SETTINGS];
	uint8_t frame[GM_INJECT_FRAME] __attribute__((aligned(64))); /* of rt_sigreturn */
};

/* The code: its bytes, and where the stopped thread begins within them. */
const void *gm_inject_code(size_t *ret_size);
/* Registers with which an interrupted system call begins again without the kernel's doing: a sleep
 * again. */
void gm_inject_restart(const struct gm_inject_thread *thread, struct user_regs_struct *registers);
/* Makes the frame that puts the thread back without us, which is to be at `address` (aligned to 64)
 * in the process. The thread's alternate signal stack stays as it is. Returns its size. */
size_t gm_inject_fill_frame(
        uint8_t bytes[GM_INJECT_FRAME], uint64_t address, const struct gm_inject_thread *thread);
/* A place of the stack, so that a thread goes back by itself when gpumem is killed. */
struct gm_inject_way_back {
	uint64_t top; /* what rsp is to be; 0: there is no way back */
	size_t size;
	uint8_t bytes[sizeof(uint64_t) + GM_INJECT_FRAME]; /* to be written to `top` */
};
/* Below what the thread uses of its stack. `restore`: of the process's functions. */
void gm_inject_way_back(const struct gm_inject_thread *thread, uint64_t restore,
        struct gm_inject_way_back *ret_way);

/* ---- file.c ---- */

#define GM_INJECT_MEMFD "libgpumem-agent.so" /* the name of the memfd */

/* The path under which the process can open the agent's file, where it can; NULL: it cannot. Caller
 * frees. */
struct gm_error *gm_inject_path_inside(pid_t pid, const char *agent, char **ret_path);
/* Copies the file into descriptor `descriptor` of the process, once that is an empty memfd of its
 * own. */
struct gm_error *gm_inject_copy(
        const struct gm_inject_identity *identity, int64_t descriptor, const char *agent);

/* ---- frozen.c ---- */

/* GM_TARGET where the process's control group is frozen. */
struct gm_error *gm_inject_frozen_check(pid_t pid);

/* ---- filter.c ---- */

struct sock_filter;

/* Whether the thread has seccomp filters that we have not ourselves. */
bool gm_inject_has_filters(pid_t thread);
/*
 * GM_TARGET where a filter of the stopped thread, or its dispatch of system calls
 * (PR_SET_SYSCALL_USER_DISPATCH), would end it at one of the agent's system calls, or where that is
 * not known.
 */
struct gm_error *gm_inject_filter_check(const struct gm_inject_thread *thread, bool has_rseq);
/* Whether a filter would, or might: *ret_call is the system call's name. `has_rseq`: the C library
 * registers new threads by rseq(). */
bool gm_inject_filter_hurts(
        const struct sock_filter *code, size_t count, bool has_rseq, const char **ret_call);

/* ---- identity.c ---- */

struct gm_inject_range {
	uint64_t address, size;
	const char *permissions; /* "rwx", '-': it may or may not */
	bool may_be_stack;       /* the first thread's */
};

/* Whether each of these is in private memory of no file that may do at least this. */
bool gm_inject_is_plain_memory(const struct gm_inject_identity *identity, size_t count,
        const struct gm_inject_range *ranges);

#endif
