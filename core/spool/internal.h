/*
 * Internals of the spool room.
 *
 *   file.c    the file: its header, checked
 *   runs.c    whether its process still runs
 *   extent.c  an extent's records, as they are or unpacked
 *   pack.c    packs extents in the file
 *   ring.c    a file of limited size, whose beginning was dropped
 *   decode.c  decodes the records of an extent
 *   tables.c  interned data: code, stacks, modules, evidence
 *   look.c    what a file tells without its events
 *   order.c   merges the events of all threads
 *   replay_state.c  the state of the replay
 *   replay.c  converts events to those of a log
 *   segments.c  memory that PyTorch got from CUDA, by segment
 *   external.c  memory that other libraries got from CUDA
 *   names.c   names of native addresses
 *   tensor_names.c  names of tensors
 *   ask_names.c  waits until the program requests names, and writes them
 *   import.c  the conversion of a whole file
 *   live.c    reads a growing file
 */
#ifndef GM_SPOOL_INTERNAL_H
#define GM_SPOOL_INTERNAL_H

#include <uthash.h>

#include "agent/format.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "cpython/cpython.h"
#include "log/format.h"
#include "log/log.h"
#include "spool/spool.h"

/* A part of the mapped file. */
struct gm_bytes {
	const uint8_t *at;
	size_t size;
};

struct gm_spool_file {
	const char *path;
	int fd; /* packed records are read by it, which may have been written since the file was
	           mapped */
	const uint8_t *bytes;
	size_t size;   /* of the file, when it was looked at last */
	size_t mapped; /* bytes that are mapped (base/mapped_file.h), maybe more than the file has;
	                  0: `bytes` is a copy (ring.c) */
	struct gm_agent_file_header header; /* a copy */
	uint32_t extents;                   /* whole ones that the file has */
	uint32_t *limits;                   /* bytes of each extent in which events count; owned */
	uint32_t limited; /* extents that have a limit; events of later ones do not count */
	/* of a ring whose beginning was dropped */
	uint32_t carried; /* the first extent of what was carried over, plus 1; 0: nothing was
	                     dropped */
	uint64_t beginning, dropped;
	bool torn; /* it grew faster than it could be copied */
};

/*
 * A file that still grows is cut at one moment: how far each extent had come is read first, and
 * what is interned after that, so that whatever an event refers to is there.
 */

struct gm_error *gm_spool_open(const char *path, struct gm_spool_file *ret_file);
void gm_spool_close(struct gm_spool_file *file);
/* Has it become shorter since? Then zeros were read in place of what is missing. */
bool gm_spool_was_cut(const struct gm_spool_file *file);
/* Looks at the mapped header again, and at how many extents there are. */
struct gm_error *gm_spool_check(struct gm_spool_file *file);
/* Whether its process may write on. Another process may have its id since: one that began after the
 * recording. Of a recording from another PID namespace this cannot be known. */
bool gm_spool_runs(const struct gm_agent_file_header *header);
/* The program's command line, and whose child it is. */
void gm_spool_source(const struct gm_spool_file *file, char *ret_text, size_t size);
/*
 * The records of an extent. They are a copy, as the extent may be packed, and its pages released,
 * at any time; of a file of before 2.0 and of a ring's copy they are the file's own.
 */
struct gm_spool_extent {
	uint32_t thread;
	struct gm_bytes
	        records; /* at NULL: it was never begun, or has no events and nothing interned */
	uint8_t *memory; /* owned; NULL: it is the file's */
};
/* GM_CORRUPT: it is none. */
struct gm_error *gm_spool_extent_open(
        const struct gm_spool_file *file, uint32_t number, struct gm_spool_extent *ret_extent);
/* The same as far as events count. */
struct gm_error *gm_spool_extent_events(
        const struct gm_spool_file *file, uint32_t number, struct gm_spool_extent *ret_extent);
void gm_spool_extent_close(struct gm_spool_extent *extent);
#define _cleanup_extent_ __attribute__((cleanup(gm_spool_extent_close)))
/*
 * Reads an extent on: its records are appended in `memory` (of GM_AGENT_RECORD_MAX bytes), of which
 * *size are there. *ret_finished: none will follow.
 */
struct gm_error *gm_spool_extent_read_on(const struct gm_spool_file *file, uint32_t number,
        uint8_t *memory, uint32_t *size, bool *ret_finished);
/* Checks its header; bytes of its records, 0: see gm_spool_extent.records. */
struct gm_error *gm_spool_extent_size(
        const struct gm_spool_file *file, uint32_t number, uint32_t *ret_size);
/* The most bytes that the records of all extents can have, unpacked. The size of the file does not
 * tell: it may be sparse. */
uint64_t gm_spool_records_size(const struct gm_spool_file *file);
/* It was read in the form of 2.0. */
bool gm_spool_may_be_packed(const struct gm_spool_file *file);
const struct gm_agent_extent_header *gm_spool_extent_header(
        const struct gm_spool_file *file, uint32_t number);

/* An event as it is in the file, differences worked out. */
struct gm_spool_event {
	uint64_t sequence, time_ns, address, size, requested, stream, allocated, reserved;
	uint32_t bits; /* enum gm_agent_event_bit */
	uint32_t python, native, evidence, tensor, thread;
	uint8_t action, source, device_type;
	int16_t device;
};

struct gm_spool_record {
	uint32_t kind;           /* enum gm_agent_record; 0: an event */
	uint32_t id;             /* of an interned one */
	struct gm_bytes payload; /* after the id */
};

/* A place in an extent; `event` is the last one, against which the next is coded. */
struct gm_spool_cursor {
	struct gm_cursor in;
	const uint8_t *base; /* where the extent's records begin */
	struct gm_spool_event event;
};
void gm_spool_cursor_init(struct gm_spool_cursor *cursor, struct gm_bytes records, uint32_t thread);
/* The next record; false at the end. cursor->in.bad: the bytes are none. */
bool gm_spool_next(struct gm_spool_cursor *cursor, struct gm_spool_record *ret_record);

/* ---- tensor_names.c ---- */

/* What a tensor was called, as an extent of names tells it. */
struct gm_spool_named {
	uint64_t sequence; /* of the first event after the moment */
	struct gm_log_name name;
	char *text; /* owned */
};
struct gm_spool_named_list {
	GM_ARRAY(struct gm_spool_named) items; /* by sequence */
	size_t written;                        /* how many the log has */
	uint64_t sequence;                     /* that of the last GM_AGENT_NAMED */
};
bool gm_spool_named_read(struct gm_spool_named_list *list, const struct gm_spool_record *record);
void gm_spool_named_deinit(struct gm_spool_named_list *list);
/* Are there names that are not written yet, of a moment before the event with this number? */
bool gm_spool_named_is_late(const struct gm_spool_named_list *list, uint64_t sequence);
/* Those of moments before the event with this number, which will be the log's event `event`. */
void gm_spool_named_write(struct gm_spool_named_list *list, struct gm_log_writer *log,
        uint64_t sequence, uint64_t event);

/* ---- tables.c ---- */

enum { GM_SPOOL_KINDS = GM_AGENT_TENSOR - GM_AGENT_CODE + 1 };

struct gm_spool_stack {
	uint32_t parent, code, offset;
	uint64_t pc;
};

struct gm_spool_tables {
	struct gm_log_writer *log;
	struct gm_bytes *payloads[GM_SPOOL_KINDS]; /* by id: copies in `chunks` */
	GM_ARRAY(uint8_t *) chunks;
	size_t chunk_left;                 /* bytes of the last one */
	uint32_t counts[GM_SPOOL_KINDS];   /* ids below */
	uint32_t *written[GM_SPOOL_KINDS]; /* id in the log, plus 1; 0: not yet */
	const struct gm_code **codes;      /* by id; NULL: not decoded */
	struct gm_python *python;          /* decodes code without a process; NULL: none yet */
	struct gm_spool_native *natives;   /* addresses that need names */
	struct gm_spool_named_list named;
	uint64_t most; /* no id is greater, as far as is known */
	uint32_t unreadable;
	bool has_c10; /* PyTorch's CUDA allocator has reported */
};

bool gm_spool_tables_add(struct gm_spool_tables *tables, const struct gm_spool_record *record,
        const struct gm_spool_file *file);
void gm_spool_tables_deinit(struct gm_spool_tables *tables);
struct gm_error *gm_spool_tables_modules(struct gm_spool_tables *tables);
/* Ids in the log; 0: none, or not readable. */
uint32_t gm_spool_python_stack(struct gm_spool_tables *tables, uint32_t id);
uint32_t gm_spool_native_stack(struct gm_spool_tables *tables, uint32_t id);
/* The addresses of a stack, innermost first; their number. */
size_t gm_spool_native_addresses(
        const struct gm_spool_tables *tables, uint32_t id, uint64_t *ret_addresses, size_t max);
uint32_t gm_spool_evidence(struct gm_spool_tables *tables, uint32_t id);
uint32_t gm_spool_tensor(struct gm_spool_tables *tables, uint32_t id);
uint32_t gm_spool_code(struct gm_spool_tables *tables, uint32_t id);
bool gm_spool_python_node(
        const struct gm_spool_tables *tables, uint32_t id, struct gm_spool_stack *ret_node);
const struct gm_code *gm_spool_code_of(struct gm_spool_tables *tables, uint32_t id);

/* ---- names.c ---- */
struct gm_spool_native {
	uint64_t address;
	bool is_return, named; /* named: as far as it can be */
	UT_hash_handle hh;
};
struct gm_error *gm_spool_names(struct gm_spool_tables *tables);

/* ---- replay.c ---- */
struct gm_spool_replay;
/* The file, tables and log must outlive it. */
struct gm_error *gm_spool_replay_create(const struct gm_spool_file *file,
        struct gm_spool_tables *tables, struct gm_log_writer *log,
        struct gm_spool_replay **ret_replay);
/* Can no more be written? Then the rest need not be replayed. */
bool gm_spool_replay_failed(const struct gm_spool_replay *replay);
void gm_spool_replay_destroy(struct gm_spool_replay *replay);
void gm_spool_replay_event(struct gm_spool_replay *replay, const struct gm_spool_event *event);
/* A GM_AGENT_ITERATION of the thread of the event that follows it. */
void gm_spool_replay_iteration(
        struct gm_spool_replay *replay, uint32_t thread, struct gm_bytes payload);
/* A GM_AGENT_MARK of the thread, before the event that follows it. */
void gm_spool_replay_mark(struct gm_spool_replay *replay, uint32_t thread, struct gm_bytes payload);
/* A GM_AGENT_AMP of the thread, before the event that follows it. */
void gm_spool_replay_amp(struct gm_spool_replay *replay, uint32_t thread, struct gm_bytes payload);
/* A GM_AGENT_COLLECTIVE of the thread. In collectives.c. */
void gm_spool_replay_collective(
        struct gm_spool_replay *replay, uint32_t thread, struct gm_bytes payload);
/* What still waits is written, and what was left out is told. */
void gm_spool_replay_end(struct gm_spool_replay *replay, struct gm_spool_summary *summary);

/* ---- external.c ---- */
struct gm_spool_external;
struct gm_spool_external *gm_spool_external_create(
        struct gm_spool_tables *tables, struct gm_log_writer *log);
void gm_spool_external_destroy(struct gm_spool_external *external);
/* The most that was allocated on the devices at once, by a program without PyTorch. */
uint64_t gm_spool_external_peak(const struct gm_spool_external *external);
/* An event of another source than PyTorch's allocator; `given`: what all events have. How many
 * events it became. */
unsigned gm_spool_external_event(struct gm_spool_external *external,
        const struct gm_spool_event *from, const struct gm_event *given);

/* Events of before the beginning: one that is still of use, as if nothing had been left out; then
 * from which number on all are there. */
void gm_spool_replay_carried(struct gm_spool_replay *replay, const struct gm_spool_event *event);
void gm_spool_replay_from(struct gm_spool_replay *replay, uint64_t beginning);
/* One that is not: what its thread said before it is forgotten. */
void gm_spool_replay_skip(struct gm_spool_replay *replay, uint32_t thread);

/* ---- ring.c ---- */
/* Copies the mapped file, so that it stays what it is at one moment: file->size bytes, to be
 * released with munmap(). */
struct gm_error *gm_spool_ring_copy(struct gm_spool_file *file, const uint8_t **ret_bytes);
/* What was alive at the beginning. */
struct gm_error *gm_spool_ring_replay(
        const struct gm_spool_file *file, struct gm_spool_replay *replay);

/* ---- order.c ---- */
/* What comes next of an extent: its next event; or what a thread recorded that continues in it,
 * which is somewhere before this event. */
struct gm_spool_step {
	struct gm_spool_cursor cursor; /* behind it */
	uint64_t sequence;             /* that event's */
	uint64_t coming; /* the same once it was looked for, until it is reached; 0: not known */
	bool is_event;   /* cursor.event is that event */
};
/* Moves on to the next step from `beginning` on, and replays the records before it that are no
 * events. False: the end of the extent. */
bool gm_spool_advance(
        struct gm_spool_step *step, uint64_t beginning, struct gm_spool_replay *replay);
/* Where an extent begins in the order of all threads' events. */
struct gm_spool_place {
	uint64_t sequence; /* all events with smaller numbers come before it */
	uint32_t extent;   /* its number */
	bool has_event;
};
/* Of an extent at whose beginning the cursor is. False: it has nothing to replay. */
bool gm_spool_place_of(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_cursor cursor, struct gm_spool_place *ret_place);
/* For qsort(). */
int gm_spool_by_place(const void *a, const void *b);
struct gm_error *gm_spool_each(const struct gm_spool_file *file, struct gm_spool_replay *replay);
/* What is interned in an extent, from where the cursor stands to its end. */
struct gm_error *gm_spool_read_extent_tables(const struct gm_spool_file *file, uint32_t number,
        struct gm_spool_cursor *cursor, struct gm_spool_tables *tables);
/* First pass: interned records into tables, gaps and counters into the log. */
struct gm_error *gm_spool_read_tables(
        const struct gm_spool_file *file, struct gm_spool_tables *tables);

#endif
