/*
 * Inject: loads the agent into a running program, and starts or stops its recording.
 *
 * One thread of the program is stopped (PTRACE_SEIZE, no signal) at a place where it holds no
 * needed lock: its call stack shows that it is not in an allocator, the dynamic linker or thread
 * creation. There it creates one new thread and continues exactly where it was. The new thread does
 * the rest. It holds no locks, so it can wait for locks of other threads (the loader's during an
 * import, Python's) without a deadlock. All other threads keep running.
 *
 *   target.c     the process: whether the agent can be loaded, addresses of C library functions
 *   safe.c       whether a stopped thread may create a new thread
 *   harmless.c   the functions of the C library in which it may, by name
 *   thread.c     stops one thread, changes its registers, and restores them
 *   code.c       the machine code that creates the thread, and that of the new thread
 *   file.c       passes the agent's file if the process cannot open it by its path
 *   filter.c     whether a seccomp filter would end the process for a call of the agent
 *   group.c      the paths of its control groups
 *   frozen.c     whether one of them is frozen
 *   memory.c     whether they have enough memory for the agent
 *   identity.c   the process and its user, held open so that it cannot be confused with another
 *   script.c     the other way, through the process's Python: a script that its main thread runs
 *                (PEP 768)
 *   script_folder.c   that script, and its folder
 *   start_stop.c   combines these
 *
 * If gpumem is killed meanwhile, the thread restores its own registers (rt_sigreturn) and
 * continues. An unprotected window of a few microseconds remains at the first attach, in which the
 * thread makes one system call for gpumem.
 *
 * The script stops no thread: CPython 3.14 and later checks, whenever it checks for signals,
 * whether a debugger has written the path of a file into the thread's state, and runs that file. A
 * thread inside C code does not check; then the first way is used.
 *
 * Data from the process is not trusted: results of its system calls (a seccomp filter may answer
 * instead of the kernel) are verified in /proc before use, and writes go only to the memory of the
 * intended process.
 *
 * This room may include base, image and symbols. It knows of the agent only its functions' names.
 * x86-64 and glibc only.
 */
#ifndef GM_INJECT_INJECT_H
#define GM_INJECT_INJECT_H

#include <sys/types.h>

#include "symbols/symbols.h"

/* Which process it is, and whose: by the kernel's word, before anything was asked of it. See
 * identity.c. */
struct gm_inject_identity {
	pid_t pid;
	int folder;               /* /proc/PID */
	int process;              /* a pidfd, -1: the kernel has none */
	int memory, memory_error; /* of it; -1 and why not */
	uid_t uids[4];
	gid_t gids[4];
	/* With whose rights its files are to be opened: never root's where one of its own is
	 * not. */
	uid_t user;
	gid_t group;
	dev_t device; /* of its program's file */
	ino_t inode;
};

/* To be called before an image of the process is made. */
struct gm_error *gm_inject_identity_init(struct gm_inject_identity *identity, pid_t pid);
void gm_inject_identity_deinit(struct gm_inject_identity *identity);
/* GM_TARGET where it has ended, executes another program, or has become another user's. */
struct gm_error *gm_inject_identity_check(const struct gm_inject_identity *identity);
/*
 * Writes the process's memory as it was then, of which nothing may be cached afterwards. False, and
 * errno, where it is not to be written, or where the process executes another program now.
 */
bool gm_inject_write(const struct gm_inject_identity *identity, uint64_t address, const void *bytes,
        size_t size);

/* How the agent is called. */
enum gm_inject_way {
	GM_INJECT_ANY, /* by Python, else by a thread */
	GM_INJECT_BY_PYTHON,
	GM_INJECT_BY_THREAD,
};

/*
 * Where the main thread of a CPython 3.14 or later takes a script (PEP 768): addresses in the
 * process, all in a thread state that lasts as long as the process.
 */
struct gm_inject_python {
	uint64_t pending;   /* int32_t: 1 asks for it */
	uint64_t path;      /* of the script, with a NUL */
	uint64_t path_size; /* bytes that there are for it */
	uint64_t breaker;   /* the lowest byte of the thread's eval breaker */
	uint8_t stop;       /* the bit in it that makes the thread look */
	/* Bits that are set by others at any time, and that mean nothing where they are set in
	 * vain. */
	uint8_t harmless;
};

/* Why the script was not taken. */
enum gm_inject_refusal {
	GM_INJECT_NOT_REFUSED,
	GM_INJECT_OTHER_USER,  /* the process is not our own user's */
	GM_INJECT_OTHER_FILES, /* files have other names for it: a container */
	GM_INJECT_OTHER_AGENT, /* the agent that is in it cannot be started so */
	GM_INJECT_NO_FOLDER,   /* no private folder, or its path is too long */
	GM_INJECT_NO_ACCESS,   /* its memory cannot be written */
	GM_INJECT_TAKEN,       /* another debugger's script waits there */
	GM_INJECT_BLOCKED,     /* its main thread does not come by */
	GM_INJECT_FAILED,      /* the script has failed, or does not come to its end */
	GM_INJECT_GONE,        /* the process has ended */
};

/* What takes time. */
enum gm_inject_wait {
	GM_WAITS_FOR_THREAD, /* a thread that neither allocates nor loads libraries */
	GM_WAITS_FOR_RUN,    /* the program is stopped, and has to go on */
	GM_WAITS_FOR_LOCK,   /* the agent's thread waits for a lock of the program */
};

struct gm_inject_options {
	const struct gm_inject_identity *identity; /* of the process of the image */
	const char *agent;                         /* the agent's file on our disk */
	const char *settings;                      /* for gpumem_agent_start() */
	/* Called now and then, on the calling thread, while the agent's answer is waited for; NULL:
	 * not. */
	void (*meanwhile)(void *context);
	void *context;
	/* Called once for each thing that takes longer than a moment; NULL: not. */
	void (*waits)(void *context, enum gm_inject_wait what);
	void *waits_context;
	/* How long it waits for a safe moment and for the answer; 0: not at all. */
	double seconds;
	enum gm_inject_way way;
	const struct gm_inject_python *python; /* NULL: it has no way of its own */
};

enum gm_inject_state {
	GM_INJECT_DONE,    /* the agent has answered: `result` */
	GM_INJECT_WAITING, /* the new thread is there and waits for a lock; it will do it */
};

struct gm_injected {
	enum gm_inject_state state;
	int result;             /* what gpumem_agent_start() or _stop() returned: gpumem_agent.h */
	bool loaded;            /* the agent was there before */
	unsigned tries;         /* how often a thread was stopped until one was at a safe place */
	double stopped;         /* seconds for which that thread was stopped at most */
	enum gm_inject_way way; /* the way that was used */
	enum gm_inject_refusal refusal; /* why it was not Python's */
};

/*
 * Calls gpumem_agent_start(settings) in the process of the image, after loading the agent where
 * that is not there yet. GM_TARGET: it cannot be done, with the reason and what to do. The symbols
 * are those of the image.
 */
struct gm_error *gm_inject_start(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_inject_options *options, struct gm_injected *ret_injected);
/* Calls gpumem_agent_stop(). GM_TARGET where no agent is in the process. */
struct gm_error *gm_inject_stop(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_inject_options *options, struct gm_injected *ret_injected);

/* A variable that the agent exports; 0: there is none. After the agent was loaded it takes a
 * refresh of image and symbols. */
uint64_t gm_inject_variable(struct gm_symbols *symbols, const char *name);

/*
 * For a debugger, which traces the process already and calls functions in it by itself: whether a
 * thread that it has stopped may load the agent from where it stands. *ret_back is where the thread
 * will be when it has left the C library, 0: nothing is to be waited for there. To be called in the
 * debugger's own thread (ptrace).
 */
enum gm_inject_standing {
	GM_STANDS_SAFE,
	GM_STANDS_BUSY,    /* within the C library's allocator and the like: not now */
	GM_STANDS_LOADING, /* it may hold the dynamic linker's lock */
};
struct gm_error *gm_inject_thread_is_call_safe(struct gm_image *image, struct gm_symbols *symbols,
        pid_t thread, enum gm_inject_standing *ret_standing, uint64_t *ret_back);
/* The address of a function of the C library, the dynamic linker or the agent; 0: there is none. */
uint64_t gm_inject_function(struct gm_symbols *symbols, const char *name);

/* Whether an agent is in the process. */
bool gm_inject_agent_there(struct gm_symbols *symbols);

/* Whether files have other names for the process than for us: another mount namespace, or another
 * root. */
bool gm_inject_files_differ(pid_t pid);

#endif
