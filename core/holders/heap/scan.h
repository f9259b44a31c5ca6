/*
 * The scanner: every aligned word of the image's writable memory that is in one of a few ranges.
 *
 * The memory is read in slices by a few threads and compared 32 words at a time (AVX2 where the
 * machine has it, else SSE2's width): almost all slices contain no hit and need only one pass.
 * Pages that were never touched are not read, if the system shows them (/proc/PID/pagemap). Device
 * memory is never scanned: it holds numbers.
 *
 * It knows nothing of objects: the caller interprets the hits.
 */
#ifndef GM_HOLDERS_SCAN_H
#define GM_HOLDERS_SCAN_H

#include "holders/heap/scan_words.h"
#include "image/image.h"
#include "image/kept.h"

/* A word was found at `address`. */
struct gm_hit {
	uint64_t address, value;
};

/* May be asked by several threads at once: is this word wanted? */
typedef bool (*gm_scan_filter)(const void *context, uint64_t value);

/*
 * Who else looks at the memory while it is at hand. What it wants to see comes first; when that is
 * done, it can go on with what it saw while other threads scan the rest. By several threads at
 * once, each with its number, but for `first` and `between`.
 */
struct gm_scan_visitor {
	/* Does [start, end) of this mapping, GM_SCAN_AREA at most, come first? */
	bool (*first)(
	        void *context, const struct gm_mapping *mapping, uint64_t start, uint64_t end);
	/* Chunks that follow one another, as far as they were read and are of one mapping; in_rest:
	 * behind `between`. */
	void (*chunks)(void *context, unsigned thread, const struct gm_kept_chunk *chunks,
	        size_t count, bool in_rest);
	void (*end)(void *context, unsigned thread); /* of what comes first, for each thread */
	void (*between)(void *context); /* by the caller's thread, once all have ended it */
	/* What another thread found in all that it read, by that thread, while others may continue;
	 * by one of them only. */
	void (*found)(void *context, const struct gm_hit *hits, size_t count);
	void *context;
};

enum {
	GM_SCAN_AREA = 16 << 20,
	GM_SCAN_MAX_HITS = 1 << 24,
};

struct gm_scan_options {
	struct gm_scan_range ranges[GM_SCAN_MAX_RANGES];
	size_t range_count;
	gm_scan_filter filter; /* NULL: every word in a range */
	const void *context;
	const struct gm_scan_visitor *visitor; /* may be NULL */
	const struct gm_range
	        *left_out; /* whole pages, by address, none over another; may be NULL */
	size_t left_out_count;
	unsigned threads; /* 0: as many as the machine has, at most 8 */
};

struct gm_scan_result {
	struct gm_hit *hits; /* by address; the caller frees */
	size_t count;
	bool truncated;  /* more than GM_SCAN_MAX_HITS: the rest is left out */
	uint64_t bytes;  /* that were examined */
	uint64_t unread; /* bytes that could not be read */
};

/* Scans all readable, writable mappings. */
struct gm_error *gm_scan(struct gm_image *image, const struct gm_scan_options *options,
        struct gm_scan_result *ret_result);

#endif
