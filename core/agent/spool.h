/*
 * The spool: the mapped file with a process's events, and each thread's buffer in it.
 *
 * A file grows by extents. A thread maps one extent at a time, appends to it without a lock, and
 * takes the next one when it is full, so the agent maps one extent per thread. Disk space is
 * allocated before a page is touched: a full disk ends the recording, never the program. The agent
 * keeps the file's descriptor, for programs that have none left or become another user. If the
 * program has closed it or uses its number for something else, the file is opened again.
 */
#ifndef GM_AGENT_SPOOL_H
#define GM_AGENT_SPOOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/varint.h"
#include "agent/format.h"

/* What an event's record is coded against; 0 at an extent's beginning. */
struct gm_agent_coding {
	uint64_t sequence, time_ns, address, stream;
	uint32_t python, native;
};

/* A thread's buffer. */
struct gm_agent_buffer {
	struct gm_agent_extent_header *extent; /* NULL: none */
	uint32_t generation;                   /* of the recording it belongs to */
	uint32_t used;                         /* bytes behind the extent's header */
	uint32_t number;                       /* of the extent */
	struct gm_agent_coding coding;
};

/* Creates the file. NULL, or why not: a static text. */
const char *gm_agent_spool_open(const char *path);
/* The file has another name now, as long as the one before at most. */
void gm_agent_spool_renamed(const char *path);
/* Marks the file as ended: no thread takes a further extent. */
void gm_agent_spool_close(enum gm_agent_end end);
/* The header of the file that is open, mapped; NULL: none, or it is a parent's. */
struct gm_agent_file_header *gm_agent_spool_header(void);
/* A fork's child: forgets the parent's file without a trace in it. */
void gm_agent_spool_forget(void);

/* Of the events of this recording. The next one gets this number; no event that comes has a smaller
 * one. */
extern _Atomic uint64_t gm_agent_sequence;

/* This thread's buffer with space for `count` bytes; NULL: no space, and recording has ended or
 * ends. */
struct gm_agent_buffer *gm_agent_buffer(size_t count);

static inline uint8_t *gm_agent_buffer_at(const struct gm_agent_buffer *buffer)
{
	return (uint8_t *)buffer->extent + GM_AGENT_EXTENT_HEADER + buffer->used;
}

/* What was written up to `end` counts from now on, whatever becomes of the process. */
static inline void gm_agent_buffer_commit(struct gm_agent_buffer *buffer, const uint8_t *end)
{
	buffer->used = (uint32_t)(end - (uint8_t *)buffer->extent) - GM_AGENT_EXTENT_HEADER;
	atomic_store_explicit(&buffer->extent->committed, buffer->used, memory_order_release);
}

#endif
