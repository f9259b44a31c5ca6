/*
 * Spool: converts the agent's file (agent/format.h) to a log, whether its process still writes, has
 * ended or was killed.
 *
 * It merges the events of all threads; frees get the data of their allocation; code offsets become
 * lines and operations; native addresses get names from their files. Lost events become gaps of the
 * log.
 *
 * This room may include base, symbols, cpython (decoding of code, without a process), log, and the
 * agent's format. It answers no questions: the result is an ordinary log.
 */
#ifndef GM_SPOOL_SPOOL_H
#define GM_SPOOL_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct gm_log;

struct gm_spool_options {
	/* The caller has seen the process exit: nothing is missing at the end, even if the agent
	 * did not see the exit (os._exit). */
	bool exited;
	bool packed; /* compress the log's events, because the log is kept */
	int signal;  /* the signal that ended the process, if the caller has seen it; else 0 */
};

struct gm_spool_summary {
	pid_t pid;
	uint32_t rank;   /* UINT32_MAX: none */
	uint32_t parent; /* process id of the recorded process that forked it, 0: none */
	uint64_t events, lost, cuda_peak, cpu_peak;
	uint64_t ooms;  /* out-of-memory errors on a CUDA device, caught ones too */
	uint32_t state; /* enum gm_agent_end */
};

/* Does the file begin like a file of the agent? Also false if it cannot be read. */
bool gm_spool_is(const char *path);

/* What a recording's file tells without its events. */
struct gm_spool_look {
	pid_t pid;
	bool runs;                          /* its process is on this machine and may write on */
	uint32_t ooms;                      /* out-of-memory errors of its devices so far */
	uint64_t saved_device, saved_inode; /* of a copy that was saved before; 0, 0: none */
	char out[4096]; /* where it is to be moved when it has ended; "": it stays */
};
/* Whether a file of this name, without its folder, is moved to another one. */
bool gm_spool_is_for_another(const char *name);
struct gm_error *gm_spool_look(const char *path, struct gm_spool_look *ret_look);
/* Only how often its devices ran out of memory: cheap, for one that is looked at again and again.
 */
uint32_t gm_spool_ooms(const char *path);
/* Was the recording ended before its process? It stays mapped there until another one begins. */
bool gm_spool_is_stopped(const char *path);

/* Notes in the file itself that a copy was saved; `fd` can write to it. */
void gm_spool_note_saved(int fd, uint64_t device, uint64_t inode);

/* Converts the agent's file at `path` to a log in memory, whose path is `path`. */
struct gm_error *gm_spool_import(const char *path, struct gm_log **ret_log);

/*
 * The same for a growing file: an update appends the new events to the log, which shows them after
 * gm_log_refresh(). *ret_live is NULL, and *ret_log is not set, if this is not possible: the
 * process has ended, or the file has a limited size and reuses its space. Then import the file.
 */
struct gm_spool_live;
struct gm_error *gm_spool_live_open(
        const char *path, struct gm_spool_live **ret_live, struct gm_log **ret_log);
/* The same, and seeks an event (gm_spool_live_seek()) when opening. */
struct gm_error *gm_spool_live_open_at(const char *path, uint64_t sequence,
        struct gm_spool_live **ret_live, struct gm_log **ret_log);
/* *ret_ended: nothing was read, and the file must be opened again: the process has ended, or the
 * new data changes events that were already read. */
struct gm_error *gm_spool_live_update(struct gm_spool_live *live, bool *ret_ended);
/* Whether updates look up the names of native functions; the next update that does also looks up
 * those left out. On by default. */
void gm_spool_live_name(struct gm_spool_live *live, bool names);
/* Updates look for the event to which the agent gave this number, until another one is sought; 0:
 * none. If it was found, it is [*ret_from, *ret_to) in the log, including events that waited for
 * it. */
void gm_spool_live_seek(struct gm_spool_live *live, uint64_t sequence);
bool gm_spool_live_found(const struct gm_spool_live *live, uint64_t *ret_from, uint64_t *ret_to);
void gm_spool_live_close(struct gm_spool_live *live);
/* Whether the file is marked as final. */
bool gm_spool_is_final(const char *path);

/*
 * Packs the finished parts of a file, in place, while its process keeps writing. Another process
 * calls it periodically, and may be killed at any moment. *ret_packer is NULL if packing is not
 * possible: the file keeps the newest events, comes from an older agent, is packed by another
 * process, or the file system cannot release pages.
 */
struct gm_spool_packer;
struct gm_error *gm_spool_packer_open(const char *path, struct gm_spool_packer **ret_packer);
/* False: it failed, for example because the disk is full; it may be tried again later. */
bool gm_spool_packer_step(struct gm_spool_packer *packer);
/* The number of packed extents, and of the bytes released for them. */
void gm_spool_packer_count(
        const struct gm_spool_packer *packer, uint64_t *ret_extents, uint64_t *ret_bytes);
/* Whether the file is still being written, under its name. */
bool gm_spool_packer_runs(const struct gm_spool_packer *packer);
void gm_spool_packer_close(struct gm_spool_packer *packer);

/*
 * Another process than the recorded one reads the names of tensors, at a moment that the agent
 * chooses (agent/names.h), and writes them into the same file. *ret_asked is NULL if the file
 * cannot contain names: it comes from an older agent, keeps the newest events, or its process has
 * ended.
 */
struct gm_spool_asked;
struct gm_error *gm_spool_asked_open(const char *path, struct gm_spool_asked **ret_asked);
enum gm_spool_asked_state {
	GM_SPOOL_ASKED_NOT, /* yet */
	GM_SPOOL_ASKED,     /* a thread of the program waits, until gm_spool_asked_go_on() */
	GM_SPOOL_ASKED_OVER,
};
/* Waits at most so long. */
enum gm_spool_asked_state gm_spool_asked_wait(struct gm_spool_asked *asked, unsigned milliseconds);
/* The address of the number of the process's next event. */
uint64_t gm_spool_asked_sequence_at(const struct gm_spool_asked *asked);
void gm_spool_asked_go_on(struct gm_spool_asked *asked);
struct gm_spool_name {
	uint8_t kind; /* enum gm_named_kind of log/log.h */
	uint8_t device_type;
	int16_t device;
	uint64_t address, offset, size; /* as in struct gm_log_name */
	const char *name;               /* not empty, at most GM_LOG_NAME_MAX bytes */
};
/* sequence: the number of the first event after the moment. GM_TARGET: the disk is full. */
struct gm_error *gm_spool_asked_write(struct gm_spool_asked *asked, uint64_t sequence,
        const struct gm_spool_name *names, size_t count);
/* The program continues and requests no names any more. May be NULL. */
void gm_spool_asked_close(struct gm_spool_asked *asked);

/* Converts the agent's file to a log file at `to`. */
struct gm_error *gm_spool_convert(const char *path, const char *to,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary);

#endif
