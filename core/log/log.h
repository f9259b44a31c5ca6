/*
 * The event log: an append-only file of typed records, read while it is written and after a crash.
 * docs/log-format.md is its specification. Strings, code objects, frames, stacks, modules are
 * interned: written once, referred to by number.
 *
 * This room may include base. It knows no process, no Python and no PyTorch: only what was
 * recorded.
 */
#ifndef GM_LOG_LOG_H
#define GM_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sim/nccl_calls.h"

enum gm_action {
	GM_ALLOC = 1,
	GM_FREE_REQUESTED,
	GM_FREE_COMPLETED,
	GM_SEGMENT_ALLOC,
	GM_SEGMENT_FREE,
	GM_SEGMENT_MAP,
	GM_SEGMENT_UNMAP,
	GM_OOM,
	GM_SNAPSHOT,
	GM_ANNOTATE, /* the block at `address` gets a label: the event's metadata */
	GM_ACTION_COUNT,
};
/* PyTorch's word for it ("free_requested"), or NULL. */
const char *gm_action_name(enum gm_action action);

enum gm_event_flags {
	GM_EVENT_BORROWED = 1,    /* the Python stack is that of the thread waiting in backward() */
	GM_EVENT_PREEXISTING = 2, /* an alloc that stands for a block alive when recording began */
	GM_EVENT_COMPLETES =
	        4, /* a free_requested whose free_completed was not recorded: it counts as both */
	/* Of blocks handed out and taken back: autograd records in the thread, or does not
	   (no_grad(), inference_mode(), backward). Neither: it was not recorded. */
	GM_EVENT_GRAD = 8,
	GM_EVENT_NO_GRAD = 16,
};

/* Device types beside c10::DeviceType's: memory that PyTorch's allocator knows nothing of. */
enum {
	GM_LOG_DEVICE_EXTERNAL = 64, /* the device's, got by other libraries */
	GM_LOG_DEVICE_PINNED = 65,   /* the host's, pinned by the CUDA runtime */
	GM_LOG_DEVICE_UNKNOWN = 66,  /* an accelerator's whose type the recording does not tell */
};
/* The name of a c10::DeviceType ("cuda", "xpu", "privateuseone"); NULL: it is none. */
const char *gm_device_type_name(uint8_t type);
/* Memory of a device that PyTorch's allocator hands out; not the host's. */
static inline bool gm_device_is_accelerator(uint8_t type)
{
	return type == GM_LOG_DEVICE_UNKNOWN || (type != 0 && type < GM_LOG_DEVICE_EXTERNAL);
}

/* Ids count from 1; 0 means none or unknown. */
struct gm_event {
	uint8_t action;      /* enum gm_action */
	uint8_t device_type; /* c10::DeviceType: 0 CPU, 1 CUDA */
	int16_t device;
	uint32_t flags;   /* enum gm_event_flags */
	uint64_t thread;  /* kernel thread id */
	uint64_t time_ns; /* since the Unix epoch */
	uint64_t address; /* for GM_OOM: 0 */
	uint64_t size; /* bytes: rounded block size; a segment's size; for GM_OOM what was asked for
	                */
	uint64_t requested; /* bytes the program asked for; 0 unknown */
	uint64_t stream;
	uint64_t allocated; /* the allocator's own counters after the event, bytes; UINT64_MAX
	                       unknown */
	uint64_t reserved;
	uint32_t python_stack;
	uint32_t native_stack;
	uint32_t evidence; /* of a free: what was being torn down */
	uint32_t tensor;   /* of an alloc: for what tensor; 0: not known */
	uint32_t owner; /* string id of the library whose memory it is, where that is not PyTorch's;
	                   0: none; below 2^24 */
	uint32_t unused; /* 0; so that there is no padding, and events can be compared by their
	                    bytes */
};

struct gm_log_loop {
	uint32_t start, end;     /* bytecode offsets in bytes, [start, end) */
	uint32_t line, line_end; /* line_end 0: the loop of a comprehension, if `line` is known */
	bool has_lines; /* all of its instructions have lines from `line` to `line_end`; false: not
	                   known (files before 3.6) */
};

/* Is an instruction in the loop? `line`: its own, 0: not known. Code that follows the loop may lie
 * between its body and its handlers of exceptions: it has other lines. */
static inline bool gm_log_loop_contains(
        const struct gm_log_loop *loop, uint32_t lasti, uint32_t line)
{
	return lasti >= loop->start && lasti < loop->end &&
	       (!line || !loop->line_end || !loop->has_lines ||
	               (line >= loop->line && line <= loop->line_end));
}

struct gm_log_code {
	uint32_t file, name; /* string ids */
	uint32_t first_line;
	uint32_t loop_count;
	const struct gm_log_loop *loops;
};

/* A Python frame as recorded: where it stood, and what its instruction was doing to which name. */
struct gm_log_frame {
	uint32_t code;  /* code id */
	uint32_t lasti; /* bytes */
	uint32_t line;
	uint32_t op;      /* enum gm_op of cpython.h: numbers are part of the format */
	uint32_t op_name; /* string id of the variable or attribute, 0: none */
};

enum {
	GM_LOG_OP_FOR_ITER = 16
}; /* of these numbers the one that readers of loops know: the iterator's next */

struct gm_log_module {
	uint32_t path; /* string id */
	uint64_t start, end, bias;
	uint8_t build_id[32];
	uint32_t build_id_size;
};

/* What was dying when a block was freed, where the reader of Python could see it. */
enum gm_evidence_kind {
	GM_EVIDENCE_DYING_FRAME = 1, /* a function returned; `code` and, if known, local `name` */
	GM_EVIDENCE_GENERATOR = 2,
};
struct gm_log_evidence {
	uint32_t kind;
	uint32_t code;
	uint32_t line;
	uint32_t name;
};

enum { GM_LOG_DIMENSIONS_MAX = 64 };
/* The tensor that a block was allocated for, as it was then: views of it may have other shapes. */
struct gm_log_tensor {
	uint8_t type; /* c10::ScalarType (torch/headeronly/core/ScalarType.h) */
	uint32_t dimensions;
	const int64_t *sizes;   /* elements */
	const int64_t *strides; /* elements; NULL: contiguous */
};

/* From `event` on a loop of a code object is in another iteration, by the position of its iterator.
 */
struct gm_log_iteration {
	uint64_t event;    /* number */
	uint32_t code;     /* id */
	uint32_t loop;     /* index among the code's loops */
	uint64_t position; /* changes with each iteration; GM_LOG_NO_POSITION: it cannot be
	                      determined from here on */
};
#define GM_LOG_NO_POSITION UINT64_MAX

/* What the program said of itself (NVTX, gpumem.step()): from `event` on. */
enum gm_mark_kind {
	GM_MARK_STEP = 1, /* a step begins */
	GM_MARK_PUSH,     /* a range of the thread begins, within those that are open */
	GM_MARK_POP,
	GM_MARK_METADATA, /* the thread's events have this metadata from here on; an empty name:
	                     none */
	GM_MARK_FORWARD,  /* the thread's events are of the backward of a node made there: lines of
	                     "line number, tab, function, tab, file", innermost first; an empty
	                     name: of none, or not known */
	GM_MARK_TASK,     /* the thread's events are of this task: "number depth", of the outermost
	                     coroutine on its stack, which has so many frames around it; an empty
	                     name: of no coroutine */
	GM_MARK_COUNT,
};
struct gm_log_mark {
	uint64_t event; /* number of the first event after it */
	uint64_t thread;
	uint32_t kind;
	uint32_t name; /* string id */
};

/* What torch.amp did, GradScaler or autocast, before event `event`. */
enum gm_amp_kind {
	GM_AMP_CHECK = 1, /* gradients of an optimizer were unscaled and checked: how many; whether
	                     one was not finite (0: none was), where that is known */
	GM_AMP_FOUND,     /* the host read what a check had found: 0, or not */
	GM_AMP_SCALE,     /* the host read the scale */
	GM_AMP_UPDATE,   /* growth factor, backoff factor, growth interval; the scale and the growth
	                    tracker after it, where they are known */
	GM_AMP_CAST,     /* the next allocation of the thread is autocast's copy of a tensor whose
	                    storage is at this address */
	GM_AMP_LOOKED,   /* the gradients of a check that found something were examined: how many
	                    there are, how many could be read, how many of these are not finite */
	GM_AMP_GRADIENT, /* one of a check's gradients: its place in the check's list, how many are
	                    in that, address of its data, elements, c10::ScalarType; and where it
	                    was examined, how many elements are not finite, and how many of these
	                    are NaN */
	GM_AMP_COUNT,
};
enum { GM_LOG_AMP_VALUES = 8 };
struct gm_log_amp {
	uint64_t event; /* number of the first event after it */
	uint64_t mark;  /* index of the first of the log's marks after it */
	uint64_t thread;
	uint32_t kind;         /* enum gm_amp_kind */
	uint32_t python_stack; /* 0: none */
	uint32_t number;       /* of the check; of the scaler where it is SCALE or UPDATE */
	uint32_t count;        /* of the values that are known */
	double values[GM_LOG_AMP_VALUES];
};

/* "all_reduce", or NULL. */
const char *gm_collective_kind_name(unsigned kind);
#define GM_LOG_NO_RANK UINT32_MAX
#define GM_LOG_NO_DTYPE UINT32_MAX
struct gm_log_collective {
	uint64_t time_ns; /* of the call, since the Unix epoch */
	uint64_t thread;
	uint64_t count;                     /* elements, as the call says */
	uint64_t send, receive;             /* addresses; 0: none */
	uint64_t send_bytes, receive_bytes; /* that this rank reads and fills at them */
	uint32_t kind;                      /* enum gm_collective_kind */
	uint32_t python_stack;              /* 0: none */
	uint32_t group;                     /* number of the communicator, from 1 */
	uint32_t ranks;                     /* of the group; 0: not known */
	uint32_t rank, peer; /* this process's in the group; the root, or the other side;
	                        GM_LOG_NO_RANK: none, or not known */
	uint32_t dtype;      /* c10::ScalarType; GM_LOG_NO_DTYPE: not known */
	int16_t device;      /* of CUDA; -1: not known */
	bool borrowed;       /* the stack is that of the thread that waits in backward() */
};

/* What a tensor was called that lay in a block, at one moment of the program: before event
 * `event`. */
enum gm_named_kind {
	GM_NAMED_PARAMETER = 1,
	GM_NAMED_BUFFER,
	GM_NAMED_GRADIENT,
	GM_NAMED_OPTIMIZER_STATE,
	GM_NAMED_ATTRIBUTE, /* another attribute of a module */
	GM_NAMED_COUNT,
};
/* "parameter", "optimizer_state", or NULL. */
const char *gm_named_kind_name(unsigned kind);
enum { GM_LOG_NAME_MAX = 1 << 10 }; /* bytes of a name */
struct gm_log_name {
	uint64_t event;        /* number of the first event after that moment */
	uint64_t address;      /* of the storage, which is the block's */
	uint64_t offset, size; /* bytes of the tensor in it */
	uint32_t name;         /* string id */
	uint8_t kind;          /* enum gm_named_kind */
	uint8_t device_type;
	int16_t device;
};

/* One line of explanation about a hole in the record ("started late", "3 events lost: ..."). */
/* ---- writing --------------------------------------------------------------------------------- */

struct gm_log_writer;

struct gm_log_writer_options {
	const char *source; /* the program's command line, as the user would know it */
	uint64_t pid;
	uint64_t start_ns; /* when recording began, since the Unix epoch; 0: now */
	bool packed;       /* by zstd: smaller, and slower to write */
};

/* Creates FILE (truncates an old one). GM_TARGET with the path where it cannot. */
struct gm_error *gm_log_writer_create(const char *path, const struct gm_log_writer_options *options,
        struct gm_log_writer **ret_writer);
/* Flushes and closes. */
struct gm_error *gm_log_writer_close(struct gm_log_writer *writer);
/* Everything appended so far reaches the file, so that a reader sees it. */
struct gm_error *gm_log_writer_flush(struct gm_log_writer *writer);
/* Whether there was an error, which gm_log_writer_flush() returns. All that is appended afterwards
 * is dropped: a long conversion may end early. */
bool gm_log_writer_failed(const struct gm_log_writer *writer);

/* Interning: the same content gives the same id. 0: no memory or the file cannot grow (the writer
 * remembers the error and gm_log_writer_flush() returns it). */
uint32_t gm_log_writer_string(struct gm_log_writer *writer, const char *string);
uint32_t gm_log_writer_code(struct gm_log_writer *writer, const struct gm_log_code *code);
uint32_t gm_log_writer_frame(struct gm_log_writer *writer, const struct gm_log_frame *frame);
/* frames: ids, innermost first. */
uint32_t gm_log_writer_python_stack(
        struct gm_log_writer *writer, const uint32_t *frames, size_t count);
uint32_t gm_log_writer_module(struct gm_log_writer *writer, const struct gm_log_module *module);
/* addresses: of the image, innermost first, the first a pc and the others return addresses. */
uint32_t gm_log_writer_native_stack(
        struct gm_log_writer *writer, const uint64_t *addresses, size_t count);
uint32_t gm_log_writer_evidence(
        struct gm_log_writer *writer, const struct gm_log_evidence *evidence);
uint32_t gm_log_writer_tensor(struct gm_log_writer *writer, const struct gm_log_tensor *tensor);
/* Names an address for readers on other machines. Once per address. */
void gm_log_writer_symbol(struct gm_log_writer *writer, uint64_t address, uint32_t function,
        uint32_t file, uint32_t line);
/* A hole in the record, and why: read back as `gaps` of `info`. */
void gm_log_writer_gap(struct gm_log_writer *writer, const char *reason);
/* A named counter read at the end ("sim.kernels_not_computed"); the last value of a name wins. */
void gm_log_writer_counter(struct gm_log_writer *writer, const char *name, uint64_t value);

/* A setting that the recording was made with ("RANK", "3"); the last value of a name wins. */
void gm_log_writer_setting(struct gm_log_writer *writer, const char *name, const char *value);

/* Before the event it names is appended. */
void gm_log_writer_iteration(
        struct gm_log_writer *writer, const struct gm_log_iteration *iteration);

/* Before the event it names is appended. */
void gm_log_writer_mark(struct gm_log_writer *writer, const struct gm_log_mark *mark);

/* Before the event it names is appended; `mark` is filled in here. */
void gm_log_writer_amp(struct gm_log_writer *writer, const struct gm_log_amp *amp);

/* At any place: its time says when it was. */
void gm_log_writer_collective(
        struct gm_log_writer *writer, const struct gm_log_collective *collective);

/* Before the event it names is appended; their events ascend. */
void gm_log_writer_name(struct gm_log_writer *writer, const struct gm_log_name *name);

/* Appends an event and returns its number (from 0). */
uint64_t gm_log_writer_event(struct gm_log_writer *writer, const struct gm_event *event);

/* ---- reading --------------------------------------------------------------------------------- */

struct gm_log;

/*
 * Opens a log and reads what is there. A log that is still written, or was cut at any byte, is read
 * up to its last whole chunk; gm_log_truncated() then says where. GM_CORRUPT: not a log, a newer
 * format (names both versions), or a damaged chunk (offset and reason).
 */
struct gm_error *gm_log_open(const char *path, struct gm_log **ret_log);
/* The same for a log that stands for another file: gm_log_path() then gives `name`. */
struct gm_error *gm_log_open_named(const char *path, const char *name, struct gm_log **ret_log);
/*
 * A log whose events lie elsewhere than in its file, which has the rest: an importer need not write
 * what is read again at once. All ids in them must be those of the file.
 */
struct gm_log_events {
	uint64_t count;
	/* Events [first, first + count), all there. */
	void (*get)(const void *context, uint64_t first, size_t count, struct gm_event *ret_events);
	void (*destroy)(void *context); /* by gm_log_close(), or when opening fails */
	void *context;
};
struct gm_error *gm_log_open_with(const char *path, const char *name,
        const struct gm_log_events *events, struct gm_log **ret_log);
/* The same, but what is in the chunks of events is examined when it is first read, as reading them
 * twice takes long for millions: gm_log_event_at() is NULL where one is damaged, and
 * gm_log_event_error() says why. */
struct gm_error *gm_log_open_lazily(const char *path, const char *name, struct gm_log **ret_log);
/* Why an event cannot be read: GM_CORRUPT, offset and reason; NULL: it can. */
struct gm_error *gm_log_event_error(const struct gm_log *log, uint64_t number);
void gm_log_close(struct gm_log *log);
/* Reads what was appended since. */
struct gm_error *gm_log_refresh(struct gm_log *log);

const char *gm_log_path(const struct gm_log *log);
const char *gm_log_source(const struct gm_log *log);
uint64_t gm_log_pid(const struct gm_log *log);
uint64_t gm_log_start_ns(const struct gm_log *log); /* when recording began, since the Unix epoch */
bool gm_log_closed(const struct gm_log *log);       /* the recording ended regularly */
bool gm_log_truncated(const struct gm_log *log, uint64_t *ret_offset);

/* All arrays are owned by the log and valid until the next refresh. */
uint64_t gm_log_event_count(const struct gm_log *log);
void gm_log_event(const struct gm_log *log, uint64_t number, struct gm_event *ret_event);
/* Events from `number` on, as many as *ret_count says: what to go through many of them with. Valid
 * until another event is asked for; NULL: there is none, or no memory. */
const struct gm_event *gm_log_events(const struct gm_log *log, uint64_t number, size_t *ret_count);
/* The same without a copy, good until the next call of either; NULL: there is no such event, or it
 * cannot be read. */
const struct gm_event *gm_log_event_at(const struct gm_log *log, uint64_t number);
const char *gm_log_string(const struct gm_log *log, uint32_t id); /* "" for 0 */
bool gm_log_code(const struct gm_log *log, uint32_t id, struct gm_log_code *ret_code);
bool gm_log_frame(const struct gm_log *log, uint32_t id, struct gm_log_frame *ret_frame);
const uint32_t *gm_log_python_stack(const struct gm_log *log, uint32_t id, size_t *ret_count);
const uint64_t *gm_log_native_stack(const struct gm_log *log, uint32_t id, size_t *ret_count);
bool gm_log_evidence(const struct gm_log *log, uint32_t id, struct gm_log_evidence *ret_evidence);
bool gm_log_tensor(const struct gm_log *log, uint32_t id, struct gm_log_tensor *ret_tensor);
bool gm_log_has_tensors(const struct gm_log *log); /* any was recorded */
size_t gm_log_module_count(const struct gm_log *log);
bool gm_log_module(const struct gm_log *log, uint32_t id, struct gm_log_module *ret_module);
/* The module that covers an address, 0: none. */
uint32_t gm_log_module_at(const struct gm_log *log, uint64_t address);
/* A recorded symbol; false: none was recorded for this address. */
bool gm_log_symbol(const struct gm_log *log, uint64_t address, uint32_t *ret_function,
        uint32_t *ret_file, uint32_t *ret_line);
size_t gm_log_gap_count(const struct gm_log *log);
const char *gm_log_gap(const struct gm_log *log, size_t index);
/* Bytes of a CUDA device's memory, where a counter tells them. */
bool gm_log_device_total(const struct gm_log *log, int device, uint64_t *ret_bytes);
/* Passes, in the order in which they were recorded. */
size_t gm_log_iteration_count(const struct gm_log *log);
void gm_log_iteration(
        const struct gm_log *log, size_t index, struct gm_log_iteration *ret_iteration);
/* Marks, in the order in which they were recorded. */
size_t gm_log_mark_count(const struct gm_log *log);
void gm_log_mark(const struct gm_log *log, size_t index, struct gm_log_mark *ret_mark);
/* What torch.amp did, in the order in which it was recorded. */
size_t gm_log_amp_count(const struct gm_log *log);
void gm_log_amp(const struct gm_log *log, size_t index, struct gm_log_amp *ret_amp);
/* Each thread's in their order. */
size_t gm_log_collective_count(const struct gm_log *log);
void gm_log_collective(
        const struct gm_log *log, size_t index, struct gm_log_collective *ret_collective);
/* Names, in the order of the moments at which they were read. */
size_t gm_log_name_count(const struct gm_log *log);
void gm_log_name(const struct gm_log *log, size_t index, struct gm_log_name *ret_name);
bool gm_log_counter(const struct gm_log *log, const char *name, uint64_t *ret_value);
/* What the recording was made with: the launcher's variables of its process ("RANK"), its "host";
 * each name once. */
size_t gm_log_setting_count(const struct gm_log *log);
void gm_log_setting_at(
        const struct gm_log *log, size_t index, const char **ret_name, const char **ret_value);
const char *gm_log_setting(const struct gm_log *log, const char *name); /* NULL: not recorded */

#endif
