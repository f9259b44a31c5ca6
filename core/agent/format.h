/*
 * The agent's file: what it holds, byte for byte. The agent writes it, core/spool reads it; docs/agent-format.md is
 * its specification.
 *
 * A file is a header page and extents of equal size. An extent belongs to one thread at a time, which appends
 * records and then moves the extent's `committed` on (release order): whatever stands before it is whole, whenever
 * the process ends. Events carry their number in the order of all threads; what is interned (code, frames,
 * stacks) is in the file before an event that refers to it, though not in the same extent.
 */
#ifndef GM_AGENT_FORMAT_H
#define GM_AGENT_FORMAT_H

#include <stdint.h>

#define GM_AGENT_MAGIC "\x89GPMAGT\n"
#define GM_AGENT_EXTENT_MAGIC UINT32_C(0x58455447) /* "GTEX" */

enum {
	GM_AGENT_MAJOR = 1,
	GM_AGENT_MINOR = 0,
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
	GM_AGENT_RUNTIME, /* cudaMalloc, cudaMallocAsync ... called by another library than PyTorch's allocator */
	GM_AGENT_DRIVER,  /* cuMemAlloc ..., by way of CUPTI */
	GM_AGENT_MANAGED, /* cudaMallocManaged, cuMemAllocManaged */
	GM_AGENT_HOST,    /* pinned host memory */
	GM_AGENT_ARRAY,   /* cudaMallocArray, cuArrayCreate ... */
	GM_AGENT_POOL,    /* a memory pool's */
	GM_AGENT_IPC,     /* another process's memory, opened here */
	GM_AGENT_SOURCE_COUNT,
};

/*
 * Kinds of records. A record is a varint of `kind`, then for the interned kinds a varint of the payload's bytes and
 * the payload, which begins with a varint of the id where `id` is said below. Payloads are of varints (LEB128),
 * signed ones (zigzag), and strings (varint of the length, then UTF-8 bytes).
 */
enum gm_agent_record {
	/* 1 to 9 are events: spool.h */
	GM_AGENT_CODE =
	        16, /* id; first line, co_flags; strings: file, qualified name, co_code, line table,
	                       exception table; number of localsplus, each a string and a byte of its kind;
	                       number of co_names, each a string; co_stacksize, Python's version (0x030b) */
	GM_AGENT_PYTHON_STACK, /* id; the caller's stack (id, 0: none), code (id), offset of the instruction in
	                          bytes: a stack is its innermost frame and the stack below it */
	GM_AGENT_MODULE, /* id; start, end, bias; strings: path, build-id */
	GM_AGENT_NATIVE_STACK, /* id; the caller's stack (id, 0: none), pc as an address of this process */
	GM_AGENT_EVIDENCE, /* id; kind (enum gm_evidence_kind), code, offset of its instruction, slot of
	                          the local that dies plus 1 (0: none) */
	GM_AGENT_PASS, /* no id, of the event that follows in this thread: code, slot of the value stack at
	                          which the loop's iterator is, its position (any number that changes with
	                          each pass) plus 1; 0: it cannot be read from here on */
	GM_AGENT_GAP,     /* no id; string */
	GM_AGENT_COUNTER, /* no id; string, value; the last of a name counts */
	GM_AGENT_MARK, /* no id; kind (enum gm_agent_mark), string: a mark of the program at this place */
	GM_AGENT_THREAD, /* no id; thread id, string: its name */
	GM_AGENT_FORKED, /* no id; process id of a child */
	GM_AGENT_RECORD_COUNT,
};

enum gm_agent_mark {
	GM_AGENT_MARK_STEP = 1, /* gpumem.step() */
	GM_AGENT_MARK_PUSH,     /* a range begins: NVTX, record_function, gpumem.profile */
	GM_AGENT_MARK_POP,
};

#endif
