/*
 * Context: the target of a question. The session sets the process, selected thread, log and so on;
 * each part is opened when a question first needs it, and kept for the next question.
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
	int pid;        /* the target process, 0: none */
	int thread;     /* its selected thread (kernel id), 0: none */
	unsigned frame; /* the Python frame where the search for a variable begins; 0: the innermost
	                 */
	char *core_path; /* a core as the target instead of a process, NULL: none; owned */
	const struct gm_remote
	        *remote; /* the process that only the debugger reads, NULL: none; the session's */
	unsigned remote_number; /* changes with each new `remote` */
	char *sysroot;   /* the folder with the target's files, NULL: their own paths; owned */
	char *layouts;   /* a file of learned layouts for the target, NULL: none; owned */
	bool no_learn;   /* refuse an unknown PyTorch */
	char *unlearned; /* why a PyTorch could not be learned; owned */
	struct gm_learned_layout learned; /* for this question */
	char *loop;     /* FILE:LINE of the loop that the user chose for steps, NULL: found
	                   automatically; owned */
	char *log_path; /* the log of the question, NULL: none; owned */
	bool no_pause;  /* the process is not stopped while it is read: pause.h */
	bool shell;  /* in a shell, where a question must name its FILE or --pid; false: in gdb */
	int columns; /* width of the terminal; 0: no terminal, nothing is shortened */
	bool colors;
	const struct gm_progress *progress; /* NULL: show no progress */

	/* Opened on demand by the functions below; do not touch. */
	int target_pid;         /* the process to which the parts belong */
	char *target_core;      /* or which core */
	unsigned target_remote; /* or which remote one, 0: none */
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python;
	struct gm_torch *torch;
	struct gm_holders *holders;
	struct gm_pausing *pausing; /* pause.h; NULL: not needed so far */
	void (*close_target)(struct gm_context *context);
	bool target_stale;
	void (*close_log)(struct gm_context *context);
	bool log_stale;
	char *opened_log;  /* the path `log` was opened from */
	bool log_imported; /* converted from another kind of file, which may have changed since */
	struct gm_spool_live *log_live; /* or from a growing file of the agent; NULL: no */
	struct gm_log *log;
	struct gm_model *model;
};

/* Notes a learned layout; `error`: why it could not be saved, NULL: it was saved. */
struct gm_error *gm_context_note_learned(struct gm_context *context, enum gm_learned_kind kind,
        const char *version, double seconds, const char *path, const struct gm_error *error);

void gm_context_init(struct gm_context *context);
void gm_context_deinit(struct gm_context *context);

/* The thread whose variables are used: the selected one, else the main one. Needs the image. */
int gm_context_thread(const struct gm_context *context);

/* The target may have run: cached data is read again when needed. The log is checked too, because a
 * recorder may have appended to it. */
void gm_context_invalidate(struct gm_context *context);
struct gm_error *gm_context_set_core(struct gm_context *context, const char *path /* NULL: none */);
struct gm_error *gm_context_set_sysroot(
        struct gm_context *context, const char *folder /* NULL: none */);
struct gm_error *gm_context_set_layouts(
        struct gm_context *context, const char *path /* NULL: none */);
/* "train.py:20"; the end of the path is enough. GM_USAGE: not a FILE:LINE. */
struct gm_error *gm_context_set_loop(
        struct gm_context *context, const char *place /* NULL: none */);
/* Is there a process, a core or a target of the debugger? */
bool gm_context_has_target(const struct gm_context *context);
struct gm_error *gm_context_set_log(struct gm_context *context, const char *path /* NULL: none */);

/* GM_TARGET if the target process has ended since it was opened: the data read last may be invalid.
 * Check it before giving an answer. */
struct gm_error *gm_context_check_there(const struct gm_context *context);

/*
 * Each opens its part (and those that it needs), once. The results belong to the context. GM_USAGE
 * if no process or log was given; otherwise the part's own error. python and torch: GM_TARGET if
 * the target has none.
 */
struct gm_error *gm_context_image(struct gm_context *context, struct gm_image **ret_image);
struct gm_error *gm_context_symbols(struct gm_context *context, struct gm_symbols **ret_symbols);
struct gm_error *gm_context_python(struct gm_context *context, struct gm_python **ret_python);
struct gm_error *gm_context_torch(struct gm_context *context, struct gm_torch **ret_torch);
/* The graph of references: built at the first question, valid for all questions about one moment.
 */
struct gm_error *gm_context_holders(struct gm_context *context, struct gm_holders **ret_holders);
struct gm_error *gm_context_log(struct gm_context *context, struct gm_log **ret_log);
/* Is the open log PyTorch's own trace, read from the target? */
bool gm_context_log_is_trace(const struct gm_context *context);
/* GM_CORRUPT: the file is truncated, and contains no allocation before that. */
struct gm_error *gm_context_model(struct gm_context *context, struct gm_model **ret_model);
/* The same, but accepts such a file too: for answers that show how much it contains. */
struct gm_error *gm_context_any_model(struct gm_context *context, struct gm_model **ret_model);
/* "process 4711 (python train.py)", or the core's path; NULL: no memory. The caller frees it. */
char *gm_target_name(const struct gm_context *context);

#endif
