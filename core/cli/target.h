/*
 * Which process or core a question is about: the options --pid, --core and --thread, the same for
 * every command that asks one. It opens nothing (ask/context does, when a question needs it).
 */
#ifndef GM_CLI_TARGET_H
#define GM_CLI_TARGET_H

#include "cli/arguments.h"

/* Keys of the options; those of a command's own must differ. */
enum {
	GM_TARGET_PID = 'p',
	GM_TARGET_CORE = 'c',
	GM_TARGET_THREAD = 't',
	GM_TARGET_SYSROOT = 0x1201,
	GM_TARGET_NO_PAUSE,
	GM_TARGET_LAYOUTS,
	GM_TARGET_NO_LEARN,
	GM_TARGET_LOOP,
};

/* The options, as rows of a command's option table. */
/* clang-format off */
#define GM_TARGET_OPTIONS \
	{"pid", GM_TARGET_PID, "PID", 0, "the process to ask about", 0}, \
	{"core", GM_TARGET_CORE, "CORE", 0, "the core dump to ask about (gcore's, the kernel's or gpumem's)", 0}, \
	{"sysroot", GM_TARGET_SYSROOT, "DIR", 0, "the folder with the target's libraries", 0}, \
	{"no-pause", GM_TARGET_NO_PAUSE, NULL, 0, "reads the process while it runs: the answer may mix several states", 0}, \
	{"layouts", GM_TARGET_LAYOUTS, "FILE", 0, "the layouts of the target's PyTorch, written by `gpumem learn`", 0}, \
	{"no-learn", GM_TARGET_NO_LEARN, NULL, 0, "does not learn an unknown PyTorch", 0}
#define GM_TARGET_LOOP_OPTION \
	{"loop", GM_TARGET_LOOP, "FILE:LINE", 0, "uses the iterations of the loop at this line as steps", 0}
/* Of a recording's devices; its key is the command's own. */
#define GM_DEVICE_OPTION(KEY) \
	{"device", KEY, "N", 0, "this CUDA device, instead of the one with the highest peak", 0}
#define GM_TARGET_THREAD_OPTION \
	{"thread", GM_TARGET_THREAD, "TID", 0, "the thread whose variables are used (the main thread)", 0}
/* clang-format on */

/* A gm_option_handler for them; the input is the context. */
struct gm_error *gm_target_option(void *context, int key, const char *argument);
/*
 * For questions that a recording answers as well as a process: FILE, the first positional argument,
 * if there is one beside `others`, is a recording, a snapshot, or a core dump (distinguished by
 * content). *ret_target: the question is about a process or a core: one was named, or (in gdb)
 * nothing is recorded and there is a process. GM_USAGE: both a FILE and a process, or neither.
 */
struct gm_error *gm_target_take_file(
        struct gm_arguments *arguments, struct gm_context *context, int others, bool *ret_target);

/*
 * The same where a recording cannot answer: the first positional argument, if there is one beside
 * `others` and it is a core dump, is the core that is asked about.
 */
struct gm_error *gm_target_take_core(
        struct gm_arguments *arguments, struct gm_context *context, int others);

/* The same where no recording can be asked about and there is nothing beside. `what`: what only a
 * process or a core has, as in "frames are those of". */
struct gm_error *gm_target_take_core_only(struct gm_arguments *arguments,
        struct gm_context *context, const char *command, const char *what);

/* To be called once all options are there. GM_USAGE: both a process and a core. */
struct gm_error *gm_target_check(const struct gm_context *context);

#endif
