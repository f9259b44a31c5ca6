/*
 * What a snapshot means, between the pickle and the log: its devices, each with its trace, what was
 * there before the trace began, and the sizes of the allocator's blocks, which the trace does not
 * tell.
 */
#ifndef GM_IMPORT_SNAPSHOT_H
#define GM_IMPORT_SNAPSHOT_H

#include "import/annotations.h"
#include "import/pickle.h"
#include "log/log.h"

enum { GM_SNAPSHOT_DEVICES_MAX = 256 };

/* A block or segment that was there before the trace began. */
struct gm_before {
	uint64_t address, size, requested, stream;
	gm_value frames;
	uint8_t action;    /* enum gm_action */
	bool free_pending; /* a block whose free was requested already */
};

/* An address that a trace names. */
struct gm_lived {
	uint64_t address;
	uint64_t size;  /* of the block that is there, while sizes are found; 0: not known */
	uint32_t entry; /* of its last allocation */
	uint32_t extent, place; /* where in the segments it was the last time: tried first */
	uint8_t state;          /* enum gm_lived_state */
};
enum gm_lived_state { GM_LIVED_NONE, GM_LIVED_NOW, GM_LIVED_PENDING, GM_LIVED_FREED };

/* A range of an expandable segment. */
struct gm_mapped {
	uint64_t start, end, stream;
	gm_value frames;
	bool before; /* if nothing earlier covers it, it was mapped before the trace began */
};

/* A segment from cudaMalloc: the blocks in it that are not free, by address. */
struct gm_extent {
	uint64_t start, end;
	GM_ARRAY(uint64_t) used; /* pairs: start, end */
};

struct gm_trace_device {
	uint8_t type; /* c10::DeviceType, or GM_LOG_DEVICE_PINNED */
	int16_t index;
	uint32_t first, count; /* its trace: entries of the pickle that no other device has */
	GM_ARRAY(struct gm_before) before;
	struct gm_lived *lived; /* open-addressed */
	size_t lived_count, lived_slots;
	GM_ARRAY(struct gm_extent) extents; /* by address */
	bool has_segments;
	bool pending_in_segments;       /* a block of theirs waits for its free to be completed */
	uint64_t requests, completions; /* of frees, in the trace */
	uint64_t allocations, freed_again; /* freed_again: twice, and never allocated in between */
	bool exact; /* the trace tells the sizes of blocks, not of what was asked for */
	uint64_t allocated, reserved;      /* as the segments say */
	GM_ARRAY(struct gm_mapped) mapped; /* while the trace is followed: mapped.c */
	uint64_t mapped_before;  /* expandable segments that existed before the trace began */
	uint64_t contradictions; /* blocks that segments and trace tell differently */
	/* Frees with the very stack of their allocation, and with one of their own. Where a
	 * recorder was told to look at allocations only (context="alloc"), PyTorch gives frees
	 * their allocation's. */
	uint64_t frees_as_made, frees_on_their_own;
	uint32_t next;    /* of the trace, while it is written */
	uint32_t waiting; /* log id of the stack that waits in backward(), while it is written; 0:
	                     none */
};

struct gm_snapshot {
	struct gm_pickle pickle;
	GM_ARRAY(struct gm_trace_device) devices;
	struct gm_annotations annotations;
	uint32_t taken; /* entries up to here may be in some device's trace */
	bool has_traces;
	uint8_t type;           /* of the accelerator: device_type.c */
	bool overflowed;        /* the recorder's ring overwrote its oldest entries */
	bool host_is_not_known; /* host_traces or host_segments are there in a form that is not
	                           known */
};

/*
 * A recorder may be told to leave kinds of events out (skip_actions). Without free_completed a free
 * counts as completed when it is requested; else addresses would be handed out that nobody has
 * released. Without alloc the frees are of blocks that nothing tells of: they are left out, and
 * what is live at the end is known from the segments alone.
 */
static inline bool gm_lacks_completions(const struct gm_trace_device *device)
{
	return device->requests && !device->completions && !device->pending_in_segments;
}

static inline bool gm_lacks_allocations(const struct gm_trace_device *device)
{
	return !device->allocations && device->freed_again;
}

/*
 * The events, when all is read: events.c. They stay the entries that they are, and are given to the
 * log's readers one by one, so that nothing is coded only to be decoded at once.
 */
struct gm_snapshot_events {
	GM_ARRAY(uint32_t) order; /* entries in the order of the log */
	GM_ARRAY(struct gm_entry) entries;
	struct gm_pickle streams; /* of which only those are there */
	struct {
		uint8_t type;
		int16_t index;
		uint64_t allocated, reserved; /* as the segments say, at its end */
	} devices[GM_SNAPSHOT_DEVICES_MAX];   /* by number, as entries have it */
};

/* NULL: no memory. */
struct gm_snapshot_events *gm_snapshot_events_create(const struct gm_snapshot *snapshot);
void gm_snapshot_events_destroy(struct gm_snapshot_events *events);
/* Takes entries and streams out of the pickle. */
void gm_snapshot_events_take(struct gm_snapshot_events *events, struct gm_pickle *pickle);
/* Opens the log that was written, with these events, which are its from then on, and on failure
 * gone. */
struct gm_error *gm_snapshot_events_log(struct gm_snapshot_events *events, const char *written,
        const char *name, struct gm_log **ret_log);

/* Writes all but the events: write.c. */
struct gm_error *gm_snapshot_write(struct gm_snapshot *snapshot, struct gm_log_writer *writer,
        struct gm_snapshot_events **ret_events);

#endif
