/*
 * Whether this process records, what it was told to record, and whether this thread may. Everything
 * else in the agent asks here; a recording itself begins and ends in start.c.
 */
#ifndef GM_AGENT_STATE_H
#define GM_AGENT_STATE_H

#include "agent/agent.h"

#include <limits.h>
#include <stdatomic.h>

/* What is recorded, as in gm_agent_file_header.features */
enum gm_agent_feature {
	GM_AGENT_CUDA = 1,
	GM_AGENT_CPU = 2,
	GM_AGENT_PYTHON = 4,
	GM_AGENT_NATIVE = 8
};

/*
 * Whether this process records, in a page that the kernel wipes in every child: a forked process
 * finds WAITING there, whichever way it was made, and begins a file of its own at its first event.
 * So do processes that were just started: most that a program starts never allocate, and leave no
 * file.
 */
enum gm_agent_live {
	GM_AGENT_LIVE_WAITING = 0,
	GM_AGENT_LIVE_RECORDS,
	GM_AGENT_LIVE_OFF,
	GM_AGENT_LIVE_BEGINS,
};
struct gm_agent_live_page {
	_Atomic uint32_t state;
	_Atomic uint32_t begun; /* gm_agent_has_begun() */
};
extern struct gm_agent_live_page *gm_agent_live;
/* Gets that page. False: no memory, or a kernel before 4.14. Again: nothing new. */
bool gm_agent_live_map(void);

enum { GM_AGENT_SETTINGS_MAX = 8192 };

/* What is changed by start.c alone. */
struct gm_agent_process {
	char settings[GM_AGENT_SETTINGS_MAX];
	char folder[PATH_MAX]; /* in which the settings were given */
	char path[PATH_MAX];
	char out[PATH_MAX]; /* where the recording is moved at the end; "": it stays at `path` */
	uint32_t pid;
	bool preloaded, report;
	/* The process that was attached to while it ran, until it has begun; 0: none. A child that
	 * was forked meanwhile has its parent's number there. */
	uint32_t attached;
	bool stopped;      /* and so are the children that are forked from now on */
	unsigned features; /* enum gm_agent_feature */
	/* At the first event, by the thread that it is of: begins a file, false: it cannot and has
	 * said so; and what is done once it has begun. */
	bool (*begin)(void);
	void (*begun)(void);
};
extern struct gm_agent_process gm_agent_process;

/*
 * True: this thread may record now. False where recording is off, or this thread is within the
 * agent already (an allocation that the agent or a hooked function itself makes is nobody's). One
 * load and one branch where off.
 */
bool gm_agent_enter(void);
void gm_agent_leave(void);
/* Is this thread between the two? */
bool gm_agent_is_inside(void);
/*
 * While a lock of the agent is held, between enter and leave or not: this thread records nothing (a
 * signal's handler may allocate), and is not cancelled (pthread_cancel() would leave the lock
 * taken; open(), pwrite() and others are cancellation points). Returns what it was before.
 */
struct gm_agent_alone {
	bool inside;
	int cancel;
};
struct gm_agent_alone gm_agent_alone_begin(void);
void gm_agent_alone_end(struct gm_agent_alone before);
/*
 * Has this process itself begun a recording? Not a forked child before its first event: until then
 * the agent's variables are those of its parent, whose file is not mapped in the child.
 */
bool gm_agent_has_begun(void);
/* Another state than RECORDS: begins where that is due. True: it records now. */
bool gm_agent_wake(void);
/* By the settings; gm_agent_records() is quicker, of a process that records. */
bool gm_agent_may_record(unsigned feature);
bool gm_agent_records(unsigned feature);
/* Has it not begun to record yet, and will at its first event? */
bool gm_agent_waits(void);
/* Whether the library was preloaded (its own symbols stand before libc10's), or loaded later
 * (patch.c puts it there). */
bool gm_agent_preloaded(void);

/* Numbers of this process that a fork changes: read again in the child. */
uint32_t gm_agent_pid(void);
uint32_t gm_agent_thread(void); /* the kernel's id of this thread; cached */
/* In a fork's child: asks for this thread's id again. */
void gm_agent_thread_changed(void);

/* The value of a setting; "" where it is not there. Copied: at most `size` bytes with the NUL. */
void gm_agent_setting(const char *name, char *ret_value, size_t size);
/* "cuda,cpu" has "cpu". */
bool gm_agent_setting_has(const char *name, const char *word);

/* One thread at a time begins or ends a recording. False: another one has been at it for too
 * long. */
bool gm_agent_change_begin(void);
void gm_agent_change_end(void);

/* `line` of `length` bytes with its newline, for standard error: controls within it become '?'. */
char *gm_agent_without_controls(char *line, size_t length);

#endif
