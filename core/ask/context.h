/*
 * Context: what a question may look at. The session fills in where it is asked from (a process, a
 * selected thread, a log); each part is opened when a question first needs it and kept for the next
 * one.
 *
 * This room (ask) answers questions: one C function each, which fills a result struct. It does not
 * parse arguments (cli) and does not write text or JSON (render).
 */
#ifndef GM_ASK_CONTEXT_H
#define GM_ASK_CONTEXT_H

#include <stdbool.h>

#include "base/error.h"

struct gm_image;
struct gm_progress;
struct gm_remote;
struct gm_symbols;
struct gm_python;
struct gm_torch;
struct gm_holders;
struct gm_log;
struct gm_model;
struct gm_pausing;
struct gm_spool_live;

enum gm_learned_kind { GM_LEARNED_NOTHING, GM_LEARNED_TORCH, GM_LEARNED_PYTHON };

/* A layout that was learned for a question. */
struct gm_learned_layout {
	enum gm_learned_kind kind;
	char *version; /* owned, as are the others */
	double seconds;
	char *path; /* where it was saved; NULL: nowhere */
	char *why;  /* it could not be saved; NULL: it was */
};
void gm_learned_layout_deinit(struct gm_learned_layout *learned);

struct gm_context {
	int pid;        /* the process asked about, 0: none */
	int thread;     /* its selected thread (kernel id), 0: none */
	unsigned frame; /* the Python frame where the search for a variable begins; 0: the innermost
	                 */
	char *core_path; /* the core asked about instead of a process, NULL: none; owned */
	const struct gm_remote
	        *remote; /* the process that only the debugger reads, NULL: none; the session's */
	unsigned remote_number; /* another one with each that the session gets */
	char *sysroot; /* where the target's files are on our disk, NULL: where they were; owned */
	char *layouts; /* a file of learned layouts for the target, NULL: none; owned */
	bool no_learn; /* a PyTorch that is not known is refused */
	char *unlearned;                  /* why a PyTorch could not be learned; owned */
	struct gm_learned_layout learned; /* for this question */
	char *loop;     /* FILE:LINE of the loop that the user wants the steps of, NULL: as they are
	                   found; owned */
	char *log_path; /* the log asked about, NULL: none; owned */
	bool no_pause;  /* a process that is read may run on: pause.h */
	bool shell;  /* asked in a shell: a question must name its FILE or --pid; false: in gdb */
	int columns; /* width of the terminal; 0: no terminal, nothing is cut */
	bool colors;
	const struct gm_progress *progress; /* NULL: nobody waits for something slow */

	/* Opened on demand by the functions below; do not touch. */
	int target_pid;         /* whose process the parts belong to */
	char *target_core;      /* or which core */
	unsigned target_remote; /* or which remote one, 0: none */
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python;
	struct gm_torch *torch;
	struct gm_holders *holders;
	struct gm_pausing *pausing; /* pause.h; NULL: no question has asked for it */
	void (*close_target)(struct gm_context *context);
	bool target_stale;
	void (*close_log)(struct gm_context *context);
	bool log_stale;
	char *opened_log;  /* the path `log` was opened from */
	bool log_imported; /* it was made of another kind of file, which may have changed since */
	struct gm_spool_live *log_live; /* or of one that is read on; NULL: not */
	struct gm_log *log;
	struct gm_model *model;
};

/* Keeps in the context what was learned; `error`: why it could not be saved, NULL: it was. */
struct gm_error *gm_context_note_learned(struct gm_context *context, enum gm_learned_kind kind,
        const char *version, double seconds, const char *path, const struct gm_error *error);

void gm_context_init(struct gm_context *context);
void gm_context_deinit(struct gm_context *context);

/* The thread whose variables are meant: the selected one, else the main one. Needs the image. */
int gm_context_thread(const struct gm_context *context);

/* The target may have run since: what was read of it is read again when next asked for. The log is
 * looked at again too, as a recorder may have appended to it. */
void gm_context_invalidate(struct gm_context *context);
struct gm_error *gm_context_set_core(struct gm_context *context, const char *path /* NULL: none */);
struct gm_error *gm_context_set_sysroot(
        struct gm_context *context, const char *folder /* NULL: none */);
struct gm_error *gm_context_set_layouts(
        struct gm_context *context, const char *path /* NULL: none */);
/* "train.py:20"; the end of the path is enough. GM_USAGE: it is no FILE:LINE. */
struct gm_error *gm_context_set_loop(
        struct gm_context *context, const char *place /* NULL: none */);
/* Is a process, a core or a target of the debugger's named? */
bool gm_context_has_target(const struct gm_context *context);
struct gm_error *gm_context_set_log(struct gm_context *context, const char *path /* NULL: none */);

/*
 * Each opens its part (and those below it), once. What they return is the context's. GM_USAGE where
 * no process or log was named; else the part's own error. python and torch: GM_TARGET where the
 * target has none.
 */
/* GM_TARGET where the process asked about has ended since it was opened: what was read of it last
 * need not hold. To be asked before an answer is given. */
struct gm_error *gm_context_check_there(const struct gm_context *context);
struct gm_error *gm_context_image(struct gm_context *context, struct gm_image **ret_image);
struct gm_error *gm_context_symbols(struct gm_context *context, struct gm_symbols **ret_symbols);
struct gm_error *gm_context_python(struct gm_context *context, struct gm_python **ret_python);
struct gm_error *gm_context_torch(struct gm_context *context, struct gm_torch **ret_torch);
/* The graph of references: made at the first question and good for all of one moment. */
struct gm_error *gm_context_holders(struct gm_context *context, struct gm_holders **ret_holders);
struct gm_error *gm_context_log(struct gm_context *context, struct gm_log **ret_log);
/* Is the log that is open PyTorch's own trace, read from the target? */
bool gm_context_log_is_trace(const struct gm_context *context);
/* GM_CORRUPT: the file is cut, and what stands before tells of no allocation. */
struct gm_error *gm_context_model(struct gm_context *context, struct gm_model **ret_model);
/* The same, of such a file too: for who tells how much is there. */
struct gm_error *gm_context_any_model(struct gm_context *context, struct gm_model **ret_model);
/* "process 4711 (python train.py)", or the core's path; NULL: no memory. The caller frees it. */
char *gm_target_name(const struct gm_context *context);

#endif
