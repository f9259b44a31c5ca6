/*
 * The format of the agent's file. The agent writes it, core/spool reads it; docs/agent-format.md is
 * the specification.
 *
 * A file is a header page and extents of equal size. An extent belongs to one thread at a time,
 * which appends records and then advances the extent's `committed` (release order): the records
 * before it are complete, whenever the process ends. Each event has its number in the order of all
 * threads. Interned data (code, frames, stacks) is in the file before an event that refers to it,
 * but not necessarily in the same extent.
 */
#ifndef GM_AGENT_FORMAT_H
#define GM_AGENT_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#include "sim/nccl_calls.h"

#define GM_AGENT_MAGIC "\x89GPMAGT\n"
#define GM_AGENT_EXTENT_MAGIC UINT32_C(0x58455447) /* "GTEX" */

enum {
	GM_AGENT_MAJOR = 3,
	GM_AGENT_MINOR = 5,
	GM_AGENT_HEADER_SIZE = 16384,
	GM_AGENT_EXTENT_SIZE = 1 << 18,
	GM_AGENT_EXTENT_HEADER = 64,
	GM_AGENT_RECORD_MAX = GM_AGENT_EXTENT_SIZE - GM_AGENT_EXTENT_HEADER,
};

/* As enum gm_action of log/log.h, and what only the agent sees. */
enum gm_agent_action {
	GM_AGENT_ALLOC = 1,
	GM_AGENT_FREE_REQUESTED,
	GM_AGENT_FREE_COMPLETED,
	GM_AGENT_SEGMENT_ALLOC, /* memory got from CUDA: by whoever `source` says */
	GM_AGENT_SEGMENT_FREE,
	GM_AGENT_SEGMENT_MAP,
	GM_AGENT_SEGMENT_UNMAP,
	GM_AGENT_OOM,
	GM_AGENT_SNAPSHOT,
	GM_AGENT_ACTION_COUNT,
};

/* Whose memory an event is about. */
enum gm_agent_source {
	GM_AGENT_C10 = 0, /* PyTorch's allocator, and what it gets from CUDA */
	GM_AGENT_RUNTIME, /* cudaMalloc, cudaMallocAsync ... called by another library than
	                     PyTorch's allocator */
	GM_AGENT_DRIVER,  /* cuMemAlloc ..., by way of CUPTI */
	GM_AGENT_MANAGED, /* cudaMallocManaged, cuMemAllocManaged */
	GM_AGENT_HOST,    /* pinned host memory */
	GM_AGENT_ARRAY,   /* cudaMallocArray, cuArrayCreate ... */
	GM_AGENT_POOL,    /* a memory pool's */
	GM_AGENT_IPC,     /* another process's memory, opened here */
	GM_AGENT_SOURCE_COUNT,
};

/*
 * Kinds of records. A record is a varint of `kind`, a varint of the payload's bytes and the
 * payload, which begins with a varint of the id where `id` is said below. Payloads are of varints
 * (LEB128), signed ones (zigzag), and strings (varint of the length, then UTF-8 bytes).
 */
enum gm_agent_record {
	GM_AGENT_CODE = 16,    /* id; first line, co_flags; strings: file, qualified name, co_code,
	                          line table, exception table; number of localsplus, each a string
	                          and its kind; number of co_names, each a string; co_stacksize,
	                          Python's version (0x030b) */
	GM_AGENT_PYTHON_STACK, /* id; the caller's stack (id, 0: none), code (id), offset of the
	                          instruction in bytes: a stack is its innermost frame and the stack
	                          below it */
	GM_AGENT_MODULE,       /* id; start, end, bias; strings: path, build-id */
	GM_AGENT_NATIVE_STACK, /* id; the caller's stack (id, 0: none), pc as an address of this
	                          process */
	GM_AGENT_EVIDENCE,     /* id; kind (enum gm_evidence_kind), code, offset of its instruction,
	                          slot of the local that dies plus 1 (0: none) */
	GM_AGENT_ITERATION,    /* no id, of the event that follows in this thread: code, slot of the
	                          value stack at which the loop's iterator is, its position (any
	                          number that changes with each iteration) plus 1; 0: it cannot be
	                          read from here on */
	GM_AGENT_GAP,          /* no id; string */
	GM_AGENT_COUNTER,      /* no id; string, value; the last of a name counts */
	GM_AGENT_MARK,   /* no id; kind (enum gm_agent_mark), string: a mark of the program at this
	                    place */
	GM_AGENT_THREAD, /* no id; kernel's id of the thread that continues in this extent */
	GM_AGENT_FORKED, /* neither written nor read */
	GM_AGENT_TENSOR, /* since 3.0; id; the description below it (id, 0: none), value. A
	                    description is a chain, read  from its end: c10::ScalarType (plus 256
	                    where strides follow), each size, each stride */
	GM_AGENT_AMP,    /* since 3.2; no id; kind (enum gm_agent_amp), Python stack (id, 0: none),
	                    number of the check (0: none), number of values, each the bits of a
	                    double: what a GradScaler or autocast did at this place */
	GM_AGENT_NAMED,  /* since 3.3; no id, in an extent of names: the number of the first event
	                    after the moment at which the names that follow in it were read */
	GM_AGENT_NAME,   /* since 3.3; no id, in an extent of names: kind (enum gm_named_kind of
	                    log/log.h), type and signed index of the device, address of the
	                    storage, offset in it, bytes, string: what a tensor is called */
	GM_AGENT_COLLECTIVE, /* since 3.4; no id: kind (enum gm_collective_kind), time (ns since
	                        the epoch), Python stack (id, 0: none), 1 where it is that of the
	                        thread which waits in backward(), number of the communicator, its
	                        ranks plus 1 (0: not known), this process's rank in it plus 1,
	                        device plus 1, root or other side plus 1 (0: none), ncclDataType_t,
	                        elements as the call says, addresses from and to which */
	GM_AGENT_SETTING,    /* since 3.5; no id: strings: name and value of a setting that the
	                        recording began with; the last of a name counts */
	GM_AGENT_RECORD_COUNT,
};

/* Whether a record's payload begins with an id. */
static inline int gm_agent_has_id(uint64_t kind)
{
	return kind <= GM_AGENT_EVIDENCE || kind == GM_AGENT_TENSOR;
}
enum { GM_AGENT_TENSOR_STRIDED = 256, GM_AGENT_TENSOR_DIMENSIONS = 16 /* at most */ };

/* The setting of a recording that is moved when it has ended: to which file. */
#define GM_AGENT_SETTING_OUT "out"
/* How the name of such a file begins in the folder in which it is recorded. */
#define GM_AGENT_SPOOLED "gpumem-spool-"

enum gm_agent_mark {
	GM_AGENT_MARK_STEP = 1, /* gpumem.step() */
	GM_AGENT_MARK_PUSH,     /* a range begins: NVTX, record_function, gpumem.profile */
	GM_AGENT_MARK_POP,
	GM_AGENT_MARK_METADATA, /* from here on the thread's allocations have this metadata; "":
	                           none */
	GM_AGENT_MARK_FORWARD,  /* since 2.0: from here on the thread runs the backward of a node
	                           that was made there: lines of "line number, tab, function, tab,
	                           file", innermost first; "": of none, or that is not known */
	GM_AGENT_MARK_TASK, /* since 3.1: from here on the thread runs this task: "number depth", of
	                       the outermost coroutine on its stack, which has so many frames around
	                       it; "": no coroutine */
};

enum gm_agent_amp {
	GM_AGENT_AMP_CHECK = 1, /* gradients are unscaled and checked for what is not finite: their
	                           number; whether one was found, where the host can read that */
	GM_AGENT_AMP_FOUND,  /* the host reads what a check found: 0, or how many found something */
	GM_AGENT_AMP_SCALE,  /* the host reads the scale */
	GM_AGENT_AMP_UPDATE, /* the scale is updated: growth factor, backoff factor, growth
	                        interval; and where the host can read them, the scale and the growth
	                        tracker after it */
	GM_AGENT_AMP_CAST,   /* the thread's next allocation is of autocast's copy of a tensor:
	                        address of that one's storage */
	GM_AGENT_AMP_LOOKED, /* since 3.4: the gradients of a check that found something were
	                        looked at: how many there are, how many could be read, how many of
	                        these are not finite */
	GM_AGENT_AMP_GRADIENT, /* since 3.4: a gradient of a check: its place in the check's list,
	                          how many are in that, address of its data, elements,
	                          c10::ScalarType; and where it was examined, how many are not
	                          finite, and how many of these NaN */
};
enum { GM_AGENT_AMP_VALUES = 8 /* at most */ };

/* How a recording ended; 0 while it continues, or when the process was killed. */
enum gm_agent_end {
	GM_AGENT_RUNS = 0,
	GM_AGENT_EXITED,     /* the program's exit ran; what it did after it may follow */
	GM_AGENT_STOPPED,    /* gpumem_agent_stop() */
	GM_AGENT_DISK_FULL,  /* the file could not grow: the program went on unrecorded */
	GM_AGENT_SIZE_LIMIT, /* max= was reached */
	GM_AGENT_FILE_LIMIT, /* the process may not write files that large (RLIMIT_FSIZE) */
	GM_AGENT_LOST_FILE,  /* the file was removed, or is no more where it was and its descriptor
	                        was closed */
	GM_AGENT_NOT_OPENED, /* its descriptor was closed, and it could not be opened again */
	GM_AGENT_NOT_MAPPED, /* a part of it could not be mapped: no memory or address space */
	GM_AGENT_END_COUNT,
};

/* At the file's beginning; little-endian, as the machine writes it. */
struct gm_agent_file_header {
	uint8_t magic[8];
	uint16_t major, minor;
	uint32_t header_size, extent_size;
	uint32_t pid,
	        parent; /* parent: the process id of whoever forked it, where that one recorded */
	uint32_t rank;  /* UINT32_MAX: none */
	uint64_t id, parent_id;
	uint64_t start_ns;      /* since the Unix epoch */
	uint64_t features;      /* bits: 1 CUDA, 2 CPU tensors, 4 Python stacks, 8 native stacks;
	                           since 2.1, written before the first event of which it is true: 16
	                           events tell whether autograd records */
	char command[4096];     /* NUL at its end */
	uint32_t reserved, end; /* neither written nor read: 0 */
	/* From here on it changes; before, only `features` does. */
	_Atomic uint32_t state;   /* enum gm_agent_end */
	_Atomic uint32_t extents; /* handed out; the file has that many behind its header. Since 2.0
	                             who packs takes some too: each by compare-and-exchange, when
	                             its space is reserved */
	_Atomic uint64_t lost;    /* events that found no space */
	_Atomic uint64_t last_sequence; /* neither written nor read: 0 */
	/* Since 1.1. Number of the extent, plus 1, at which what is carried over begins; 0: nothing
	 * was dropped. */
	_Atomic uint32_t carried;
	uint32_t ring; /* extents that it has at most, where it keeps the newest; else 0 */
	/* Since 3.3: a process next to this one reads the names of tensors (enum gm_agent_names),
	 * where it says it is there: its process id, and where in this one the number of the next
	 * event stands. A futex. */
	_Atomic uint32_t names, names_reader;
	uint64_t sequence_at;
	_Atomic uint32_t ooms; /* since 3.5: out-of-memory errors of its devices so far */
	uint32_t unused;
	/* Since 3.5: the file that a copy was saved to, by whoever waits to move this one (cli);
	 * 0, 0: none. */
	uint64_t saved_device, saved_inode;
};

/* Who reads names waits until the program asks for it, at a moment at which gradients and the
 * optimizer's state are there; the thread that asks waits until it has been stopped and its memory
 * was copied. */
enum gm_agent_names {
	GM_AGENT_NAMES_NONE = 0,
	GM_AGENT_NAMES_WANTED,  /* the reader is there */
	GM_AGENT_NAMES_ASKED,   /* the program waits */
	GM_AGENT_NAMES_READING, /* the reader has begun */
	GM_AGENT_NAMES_DONE,    /* the program continues, and does not ask again */
};

/*
 * What the extents of a recording are that keeps the newest: when there is no more space, the
 * oldest ones are used again. What is interned in them, and gaps and counters, is copied to
 * GM_AGENT_KEPT ones before; of their events those that are the last of their memory (an allocation
 * that is not undone, mostly) to GM_AGENT_CARRIED ones, which together replace those of the time
 * before when the header's `carried` reports it.
 */
enum gm_agent_extent_kind {
	GM_AGENT_EVENTS = 0,
	GM_AGENT_KEPT,
	GM_AGENT_CARRIED, /* read only as far as `carried` leads to them */
	GM_AGENT_PACKED, /* since 2.0: chunks of struct gm_agent_packed, to which packed_in leads */
	GM_AGENT_NAMES,  /* since 3.3: GM_AGENT_NAMED and the names after it; by the reader */
};

/*
 * Since 2.0 another process may pack an extent that no thread writes any more (`finished`): it
 * writes the chunk, then the extent's packed_at and packed_in, and only then releases the pages
 * behind the extent's first. Whoever copies records and finds packed_in to be 0 afterwards has them
 * whole; else they are in the chunk.
 */
struct gm_agent_packed {
	uint32_t extent; /* whose */
	uint32_t size;   /* bytes of the records */
	uint32_t packed; /* bytes that follow: a zstd frame of the records */
	uint32_t check;  /* CRC-32C of them, as in core/log */
};
enum { GM_AGENT_PAGE = 4096 /* of an extent, stays */ };

/* At an extent's beginning, GM_AGENT_EXTENT_HEADER bytes. */
struct gm_agent_extent_header {
	uint32_t magic;
	_Atomic uint32_t committed;  /* bytes of whole records after this header */
	uint32_t thread;             /* kernel's id of the thread that writes it */
	_Atomic uint32_t owner_gone; /* neither written nor read: 0 */
	uint64_t first_sequence;     /* since 1.1: number of the next event of the process when the
	                                thread began it: no event in it has a smaller one */
	/* Since 1.1 */
	_Atomic uint32_t turn; /* changes before the extent is used again: what is read while it
	                          does is not whole */
	uint32_t kind;         /* enum gm_agent_extent_kind */
	uint32_t next; /* of GM_AGENT_CARRIED: number of the next of its kind plus 1, 0: the last */
	_Atomic uint32_t finished; /* since 2.0; 1: no thread writes it any more */
	uint64_t beginning; /* of GM_AGENT_CARRIED: from this number on events are all there */
	uint64_t dropped;   /* of GM_AGENT_CARRIED: how many are not */
	/* Since 2.0 */
	_Atomic uint32_t
	        packed_in;  /* number of the extent with its chunk, plus 1; 0: it is not packed */
	uint32_t packed_at; /* offset in that one of the chunk */
};

/*
 * An event: a byte 0x80 | action, two bytes of bits (low first; bit 16 is 0x40 of the byte before),
 * then varints: signed difference of the time (ns since the epoch), signed difference of the
 * address, size; and what the bits announce, in the order of their numbers. Differences are to the
 * extent's event before, to 0 at its first. For GM_AGENT_OOM the address is what was free on the
 * device then, in bytes, plus 1; 0: not known. Where GM_AGENT_GRAIN is set, address and size are in
 * units of 512 bytes.
 */
enum gm_agent_event_bit {
	GM_AGENT_GRAIN = 1 << 0,
	GM_AGENT_HAS_SEQUENCE = 1 << 1,  /* difference of the number, minus 1; absent: the next */
	GM_AGENT_HAS_DEVICE = 1 << 2,    /* c10's type, then signed index; absent: CUDA's 0 */
	GM_AGENT_HAS_SOURCE = 1 << 3,    /* absent: GM_AGENT_C10 */
	GM_AGENT_HAS_REQUESTED = 1 << 4, /* size minus requested; absent: not known */
	GM_AGENT_HAS_STREAM = 1 << 5,    /* absent: as before */
	GM_AGENT_HAS_ALLOCATED =
	        1 << 6, /* absent: what follows from the device's event before, in the order of
	                                    all threads, by adding or subtracting the size */
	GM_AGENT_HAS_RESERVED =
	        1 << 7, /* absent: as of the device's event before, segments counted */
	GM_AGENT_HAS_PYTHON = 1 << 8, /* signed difference of ids; absent: the same */
	GM_AGENT_HAS_NATIVE = 1 << 9,
	GM_AGENT_HAS_EVIDENCE = 1 << 10,
	GM_AGENT_BORROWED =
	        1 << 11, /* the Python stack is that of a thread that waits in backward() */
	GM_AGENT_DEFERRED =
	        1 << 12, /* a free_requested whose free_completed comes later; else both at once */
	GM_AGENT_NO_COUNTERS = 1 << 13, /* allocated and reserved are not known, and not changed */
	GM_AGENT_PREEXISTING = 1 << 14, /* the block was there when recording began */
	GM_AGENT_NO_GRAD =
	        1
	        << 15, /* since 2.1: autograd does not record in the thread (no_grad(),
	                  inference_mode(), backward); told where the header's features report it */
	GM_AGENT_HAS_TENSOR =
	        1 << 16, /* since 3.0: id of the tensor's description; absent: not known */
};
enum {
	GM_AGENT_EVENT_MAX = 3 + 13 * 10, /* bytes */
	GM_AGENT_ACTION_MASK = 0x3f,      /* of an event's first byte */
	GM_AGENT_MORE_BITS = 0x40,        /* there: GM_AGENT_HAS_TENSOR */
	GM_AGENT_MORE_SHIFT = 10,
};
enum { GM_AGENT_HAS_GRAD = 16 }; /* in the header's features */

_Static_assert(sizeof(struct gm_agent_file_header) <= GM_AGENT_HEADER_SIZE, "the header fits");
_Static_assert(sizeof(struct gm_agent_extent_header) == GM_AGENT_EXTENT_HEADER, "size");

#endif
