/* What doctor finds, check by check. */
#ifndef GM_ASK_DOCTOR_CHECKS_H
#define GM_ASK_DOCTOR_CHECKS_H

#include "ask/context.h"
#include "image/image.h"

#include <stddef.h>

enum gm_doctor_state {
	GM_DOCTOR_OK,
	GM_DOCTOR_ABSENT,  /* not there, and not needed for everything */
	GM_DOCTOR_PROBLEM, /* something does not work because of it */
};

/* What was found, and its operands in struct gm_doctor_fact; core/render/doctor.c has the words,
 * and what to do. */
enum gm_doctor_finding {
	/* the machine */
	GM_FOUND_GDB_INSIDE,       /* this is asked in gdb */
	GM_FOUND_GDB_NAMED_ABSENT, /* GPUMEM_GDB names one that does not exist; text: its path */
	GM_FOUND_GDB_ABSENT,
	GM_FOUND_GDB_WITHOUT_PYTHON,    /* text: its path; of: its error, "": none */
	GM_FOUND_GDB_WITHOUT_LIBPYTHON, /* the same of PyPI's gdb-for-pwndbg on a machine without
	                                 * Python's shared library */
	GM_FOUND_GDB, /* text: its version; of: its path; number: GPUMEM_GDB names it */
	GM_FOUND_CUDA_GDB_ABSENT,
	GM_FOUND_CUDA_GDB,       /* text: its path */
	GM_FOUND_PTRACE_ALLOWED, /* no rule forbids it */
	GM_FOUND_PTRACE_ROOT,    /* a rule that root is exempt from; number: ptrace_scope */
	GM_FOUND_PTRACE_REFUSED, /* number: ptrace_scope, 1 to 3 */
	GM_FOUND_NO_DEVICES,
	GM_FOUND_DEVICES,   /* number: how many; text: the driver's version, NULL: not known */
	GM_FOUND_SIMULATED, /* text: the library of the simulated device */
	GM_FOUND_SIMULATED_ABSENT,
	GM_FOUND_LINES,        /* source lines of native code */
	GM_FOUND_OTHER_GPUMEM, /* text: where its description is */
	/* a process or core */
	GM_FOUND_NO_DEBUGGER, /* number: the process */
	GM_FOUND_DEBUGGER,    /* text: its name; number: its process; other: another one is asked
	                         for */
	GM_FOUND_NO_MEMORY,   /* it cannot be read; text: why, NULL: not known */
	GM_FOUND_MEMORY,      /* number: of libraries; other: of mappings */
	GM_FOUND_LIBRARIES,   /* all mapped files are as they were; number: how many */
	GM_FOUND_LIBRARIES_CHANGED, /* number: of these; other: of all; the first few are in `files`
	                             */
	GM_FOUND_NO_PYTHON,         /* text: why, NULL: not known */
	GM_FOUND_PYTHON, /* text: its version; of: what it was found by; number: of threads */
	GM_FOUND_TORCH_UNREADABLE, /* it is loaded, and Python's objects cannot be read */
	GM_FOUND_TORCH_ABSENT,
	GM_FOUND_NO_TORCH,  /* text: why, NULL: not known */
	GM_FOUND_TORCH,     /* text: its version */
	GM_FOUND_ALLOCATOR, /* PyTorch's own caching allocator */
	GM_FOUND_ALLOCATOR_UNUSED,
	GM_FOUND_ALLOCATOR_OTHER, /* text: its name */
	GM_FOUND_CUDA_SIMULATED,
	GM_FOUND_CUDA_ABSENT,
	GM_FOUND_CUDA, /* text: the runtime's library; number: the driver is loaded */
	GM_FOUND_COUNT,
};

struct gm_doctor_file {
	char *path; /* owned */
	enum gm_file_state state;
};

struct gm_doctor_fact {
	enum gm_doctor_finding found;
	const char *text, *of;
	uint64_t number, other;
};

struct gm_doctor_check {
	const char *name; /* static, as the text and the JSON have it: "cuda-gdb" */
	enum gm_doctor_state state;
	struct gm_doctor_fact fact;   /* its texts are the check's own */
	struct gm_doctor_file *files; /* owned */
	size_t file_count;
};

struct gm_doctor_checks {
	struct gm_doctor_check *items;
	size_t count, capacity;
};

/* What doctor tells the state of: commands that need the same. */
enum gm_doctor_subject {
	GM_DOCTOR_RECORD,
	GM_DOCTOR_WHO_HOLDS,
	GM_DOCTOR_RECORDING, /* the questions about a recording */
};

/* Why a command cannot answer, here and now. */
enum gm_doctor_reason {
	GM_DOCTOR_WORKS,
	GM_DOCTOR_NO_GDB,      /* there is no gdb with Python */
	GM_DOCTOR_NO_TARGET,   /* no program was named, in the shell */
	GM_DOCTOR_NOT_RUNNING, /* no program runs, in gdb */
	GM_DOCTOR_CORE_UNREADABLE,
	GM_DOCTOR_PROCESS_UNREADABLE,
	GM_DOCTOR_IS_CORE, /* a core dump does not run */
	GM_DOCTOR_IS_REMOTE,
	GM_DOCTOR_HAS_NO_TORCH,
	GM_DOCTOR_TORCH_UNREADABLE, /* and cannot be recorded */
	GM_DOCTOR_OTHER_ALLOCATOR,  /* and its blocks cannot be recorded */
	GM_DOCTOR_ONLY_IN_GDB,
	GM_DOCTOR_NEEDS_PYTHON,    /* Python's objects */
	GM_DOCTOR_NEEDS_TORCH,     /* PyTorch's objects */
	GM_DOCTOR_NEEDS_ALLOCATOR, /* PyTorch's own */
	GM_DOCTOR_NOT_RECORDED,
};

struct gm_doctor_command {
	enum gm_doctor_subject subject;
	enum gm_doctor_reason reason;
};

struct gm_doctor {
	struct gm_doctor_checks machine;
	int pid;       /* 0: no process was asked about, or a core of one */
	char *core;    /* path of the core asked about, NULL: none; owned */
	char *command; /* its command line; owned; NULL: it is read through the debugger */
	struct gm_doctor_checks process;
	struct gm_doctor_command *commands; /* array of command_count */
	size_t command_count, command_capacity;
};

/* Appends a check; texts are copied. */
struct gm_error *gm_doctor_add(struct gm_doctor_checks *checks, const char *name,
        enum gm_doctor_state state, struct gm_doctor_fact fact) __attribute__((warn_unused_result));
struct gm_error *gm_doctor_command(
        struct gm_doctor *doctor, enum gm_doctor_subject subject, enum gm_doctor_reason reason);
void gm_doctor_checks_deinit(struct gm_doctor_checks *checks);

#endif
