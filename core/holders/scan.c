#include "holders/scan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/kept.h"

enum {
	PAGE = GM_KEPT_PAGE,
	PIECE = GM_KEPT_CHUNK, /* read and compared at once: stays in the second-level cache */
	PIECE_WORDS = PIECE / 8,
	MAX_THREADS = 8,
};

/* What the threads share: pieces are taken in order from one counter. */
struct scan {
	struct gm_image *image;
	const struct gm_scan_options *options;
	GM_ARRAY(struct gm_range) areas; /* what to scan */
	uint64_t piece_count;
	GM_ARRAY(uint64_t) first_piece; /* of each area */
	atomic_uint_fast64_t next_piece;
	atomic_size_t hit_count;
	atomic_bool no_memory;
};

struct worker {
	struct scan *scan;
	pthread_t thread;
	GM_ARRAY(struct gm_hit) hits;
	uint64_t bytes, unread;
	uint64_t words[PIECE_WORDS];
	uint32_t indexes[PIECE_WORDS];
};

/* The largest first: while they are gone through, another thread may find and keep what Python's objects lie in, mostly
 * many small mappings. */
static int by_size(const void *a, const void *b)
{
	const struct gm_range *left = a, *right = b;
	uint64_t mine = left->end - left->start, other = right->end - right->start;
	if (mine != other)
		return mine > other ? -1 : 1;
	return left->start < right->start ? -1 : left->start > right->start;
}

static struct gm_error *find_areas(struct scan *scan)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(scan->image, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_range area = {mappings[i].start, mappings[i].end};
		if (gm_mapping_is_memory(&mappings[i]) && !gm_array_push(&scan->areas, area))
			return &gm_error_no_memory;
	}
	if (scan->areas.count > 0)
		qsort(scan->areas.items, scan->areas.count, sizeof(*scan->areas.items), by_size);
	for (size_t i = 0; i < scan->areas.count; i++) {
		struct gm_range area = scan->areas.items[i];
		if (!gm_array_push(&scan->first_piece, scan->piece_count))
			return &gm_error_no_memory;
		scan->piece_count += (area.end - 1) / PIECE - area.start / PIECE + 1;
	}
	return NULL;
}

/* False: no more are wanted. */
static bool find_hits(struct worker *worker, const uint64_t *words, size_t count, uint64_t start)
{
	struct scan *scan = worker->scan;
	const struct gm_scan_options *options = scan->options;
	size_t found = gm_scan_words(words, count, options->ranges, options->range_count, true,
	        worker->indexes, PIECE_WORDS);
	for (size_t i = 0; i < found; i++) {
		struct gm_hit hit = {
		        start + worker->indexes[i] * UINT64_C(8), words[worker->indexes[i]]};
		if (options->filter && !options->filter(options->context, hit.value))
			continue;
		if (atomic_fetch_add(&scan->hit_count, 1) >= GM_SCAN_MAX_HITS)
			return false;
		if (!gm_array_push(&worker->hits, hit)) {
			atomic_store(&scan->no_memory, true);
			return false;
		}
	}
	return true;
}

static void scan_range(struct worker *worker, uint64_t start, uint64_t end)
{
	while (start < end) {
		size_t got =
		        gm_image_read_some(worker->scan->image, start, worker->words, end - start);
		worker->bytes += got;
		if (!find_hits(worker, worker->words, got / 8, start) || got == end - start)
			return;
		/* a page that cannot be read (unmapped since, or beyond a file's end): over it */
		start += got & ~UINT64_C(7);
		uint64_t next = (start & ~(uint64_t)(PAGE - 1)) + PAGE;
		worker->unread += (next < end ? next : end) - start;
		start = next;
	}
}

/* What is kept is not read again. False: it is not. */
static bool scan_kept(struct worker *worker, uint64_t start, uint64_t end)
{
	const struct gm_kept *kept = gm_image_kept(worker->scan->image);
	const struct gm_kept_chunk *chunk = kept ? gm_kept_chunk(kept, start) : NULL;
	if (!chunk || start % PAGE || end % PAGE)
		return false;
	size_t page = start % PIECE / PAGE, last = page + (size_t)(end - start) / PAGE;
	while (page < last) {
		size_t first = page;
		while (page < last && chunk->there >> page & 1)
			page++;
		if (page > first) {
			worker->bytes += (page - first) * PAGE;
			if (!find_hits(worker, (const uint64_t *)(chunk->bytes + first * PAGE),
			            (page - first) * PAGE / 8,
			            start - start % PIECE + first * PAGE))
				return true;
		} else {
			worker->unread += (chunk->unread >> page & 1) * PAGE;
			page++;
		}
	}
	return true;
}

static void scan_piece(struct worker *worker, uint64_t piece)
{
	struct scan *scan = worker->scan;
	size_t low = 0, high = scan->areas.count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (scan->first_piece.items[middle] <= piece)
			low = middle;
		else
			high = middle;
	}
	struct gm_range area = scan->areas.items[low];
	uint64_t chunk = area.start / PIECE + (piece - scan->first_piece.items[low]);
	uint64_t start = chunk * PIECE > area.start ? chunk * PIECE : area.start;
	uint64_t end = area.end - chunk * PIECE > PIECE ? (chunk + 1) * PIECE : area.end;
	if (scan_kept(worker, start, end))
		return;
	struct gm_range ranges[PIECE / PAGE];
	size_t count = gm_image_touched(scan->image, start, end, ranges, PIECE / PAGE);
	for (size_t i = 0; i < count; i++)
		scan_range(worker, ranges[i].start, ranges[i].end);
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct scan *scan = worker->scan;
	for (;;) {
		uint64_t piece = atomic_fetch_add(&scan->next_piece, 1);
		if (piece >= scan->piece_count || atomic_load(&scan->no_memory) ||
		        atomic_load(&scan->hit_count) >= GM_SCAN_MAX_HITS)
			return NULL;
		scan_piece(worker, piece);
	}
}

static int by_address(const void *a, const void *b)
{
	const struct gm_hit *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

static struct gm_error *gather(
        struct scan *scan, struct worker **workers, size_t count, struct gm_scan_result *result)
{
	GM_ARRAY(struct gm_hit) all = {0};
	for (size_t i = 0; i < count; i++) {
		if (!gm_array_reserve(&all, workers[i]->hits.count + 1)) {
			gm_array_deinit(&all);
			return &gm_error_no_memory;
		}
		if (workers[i]->hits.count)
			memcpy(all.items + all.count, workers[i]->hits.items,
			        workers[i]->hits.count * sizeof(*all.items));
		all.count += workers[i]->hits.count;
		result->bytes += workers[i]->bytes;
		result->unread += workers[i]->unread;
	}
	if (all.count)
		qsort(all.items, all.count, sizeof(*all.items), by_address);
	result->hits = all.items;
	result->count = all.count;
	result->truncated = atomic_load(&scan->hit_count) >= GM_SCAN_MAX_HITS;
	return NULL;
}

static unsigned thread_count(const struct scan *scan)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned wanted = scan->options->threads;
	if (wanted == 0)
		wanted = processors > 0 ? (unsigned)processors : 1;
	if (wanted > MAX_THREADS)
		wanted = MAX_THREADS;
	if (!gm_image_reads_anywhere(scan->image))
		wanted = 1;
	return scan->piece_count < wanted ? (unsigned)scan->piece_count + !scan->piece_count
	                                  : wanted;
}

static struct gm_error *run(struct scan *scan, struct gm_scan_result *result)
{
	gm_try(find_areas(scan));
	struct worker *workers[MAX_THREADS] = {0};
	unsigned count = thread_count(scan), started = 0;
	for (; started < count; started++) {
		workers[started] = malloc(sizeof(**workers));
		if (!workers[started])
			break;
		workers[started]->scan = scan;
		memset(&workers[started]->hits, 0, sizeof(workers[started]->hits));
		workers[started]->bytes = workers[started]->unread = 0;
		/* the first worker is this thread */
		if (started > 0 && pthread_create(&workers[started]->thread, NULL, work,
		                           workers[started]) != 0) {
			free(gm_take(workers[started]));
			break;
		}
	}
	struct gm_error *error = started == 0 ? &gm_error_no_memory : NULL;
	if (!error)
		work(workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i]->thread, NULL);
	if (!error && atomic_load(&scan->no_memory))
		error = &gm_error_no_memory;
	if (!error)
		error = gather(scan, workers, started, result);
	for (unsigned i = 0; i < started; i++) {
		gm_array_deinit(&workers[i]->hits);
		free(workers[i]);
	}
	return error;
}

struct gm_error *gm_scan(struct gm_image *image, const struct gm_scan_options *options,
        struct gm_scan_result *ret_result)
{
	struct scan scan = {.image = image, .options = options};
	struct gm_scan_result result = {0};
	struct gm_error *error = run(&scan, &result);
	gm_array_deinit(&scan.areas);
	gm_array_deinit(&scan.first_piece);
	if (!error)
		*ret_result = result;
	return error;
}
