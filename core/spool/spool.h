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
	/* The caller has seen the process exit by itself: nothing is missing at the end, though the
	 * agent may not have seen it (os._exit). */
	bool exited;
	bool packed; /* the log's events are packed: it is to be kept */
	int signal;  /* by which the process ended, as the caller has seen; 0: not, or not known */
};

struct gm_spool_summary {
	pid_t pid;
	uint32_t rank;   /* UINT32_MAX: none */
	uint32_t parent; /* process id of the recorded process that forked it, 0: none */
	uint64_t events, lost, cuda_peak, cpu_peak;
	uint64_t ooms;  /* out-of-memory errors on a CUDA device, caught ones too */
	uint32_t state; /* enum gm_agent_end */
};

/* Does the file begin as the agent's files do? False too where it cannot be read. */
bool gm_spool_is(const char *path);

/* Reads the agent's file at `path` into a log without a file, whose path reads as `path`. */
struct gm_error *gm_spool_import(const char *path, struct gm_log **ret_log);

/*
 * The same for a file whose process still writes it, to be read on: an update appends what came
 * since to the log, which sees it with gm_log_refresh(). *ret_live is NULL, and *ret_log is not
 * set, where this is not possible: the process has ended, or the file is of limited size and uses
 * its space again. Then it is imported.
 */
struct gm_spool_live;
struct gm_error *gm_spool_live_open(
        const char *path, struct gm_spool_live **ret_live, struct gm_log **ret_log);
/* The same, and seeks an event (gm_spool_live_seek()) as it opens. */
struct gm_error *gm_spool_live_open_at(const char *path, uint64_t sequence,
        struct gm_spool_live **ret_live, struct gm_log **ret_log);
/* *ret_ended: nothing was read, the file is to be opened again: the process has ended, or what came
 * is about events that were read. */
struct gm_error *gm_spool_live_update(struct gm_spool_live *live, bool *ret_ended);
/* Whether an update looks up the names of native functions; those left out are looked up by the
 * next one that does. At first it does. */
void gm_spool_live_name(struct gm_spool_live *live, bool names);
/* Updates look for the event to which the agent gave this number, until another is sought; 0: for
 * none. Found: it is these of the log, [*ret_from, *ret_to), with what waited for it. */
void gm_spool_live_seek(struct gm_spool_live *live, uint64_t sequence);
bool gm_spool_live_found(const struct gm_spool_live *live, uint64_t *ret_from, uint64_t *ret_to);
void gm_spool_live_close(struct gm_spool_live *live);
/* Whether the file will not change any more, as it says itself. */
bool gm_spool_is_final(const char *path);

/*
 * Packs what is finished of a file while its process writes on, in the same file: to be called now
 * and then by another process, which may be killed at any moment. *ret_packer is NULL where it is
 * of no use: the file keeps the newest, is of an older agent, another process packs it, or the file
 * system cannot release pages.
 */
struct gm_spool_packer;
struct gm_error *gm_spool_packer_open(const char *path, struct gm_spool_packer **ret_packer);
/* False: no room on the disk for what is packed, say; it may be tried again later. */
bool gm_spool_packer_step(struct gm_spool_packer *packer);
/* How many extents it has packed, and how many bytes it released for them. */
void gm_spool_packer_count(
        const struct gm_spool_packer *packer, uint64_t *ret_extents, uint64_t *ret_bytes);
/* Whether it is recorded into yet, and the file is where it was. */
bool gm_spool_packer_runs(const struct gm_spool_packer *packer);
void gm_spool_packer_close(struct gm_spool_packer *packer);

/*
 * The names of tensors are read by a process beside the one that records, at a moment that the
 * agent chooses (agent/names.h), and written into the same file. *ret_asked is NULL where the file
 * cannot take names: of an older agent, of one that keeps the newest, or its process has ended.
 */
struct gm_spool_asked;
struct gm_error *gm_spool_asked_open(const char *path, struct gm_spool_asked **ret_asked);
enum gm_spool_asked_state {
	GM_SPOOL_ASKED_NOT, /* yet */
	GM_SPOOL_ASKED,     /* a thread of the program waits, until gm_spool_asked_go_on() */
	GM_SPOOL_ASKED_OVER,
};
/* Waits for so long at most. */
enum gm_spool_asked_state gm_spool_asked_wait(struct gm_spool_asked *asked, unsigned milliseconds);
/* Where the process has the number of its next event. */
uint64_t gm_spool_asked_sequence_at(const struct gm_spool_asked *asked);
void gm_spool_asked_go_on(struct gm_spool_asked *asked);
struct gm_spool_name {
	uint8_t kind; /* enum gm_named_kind of log/log.h */
	uint8_t device_type;
	int16_t device;
	uint64_t address, offset, size; /* as in struct gm_log_name */
	const char *name;               /* not empty, at most GM_LOG_NAME_MAX bytes */
};
/* sequence: the number of the first event after the moment. GM_TARGET: no room on the disk. */
struct gm_error *gm_spool_asked_write(struct gm_spool_asked *asked, uint64_t sequence,
        const struct gm_spool_name *names, size_t count);
/* The program continues, and does not ask. May be NULL. */
void gm_spool_asked_close(struct gm_spool_asked *asked);

/* The same into a log file at `to`. */
struct gm_error *gm_spool_convert(const char *path, const char *to,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary);

#endif
