#include "holders/scan.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	PAGE = 4096,
	PIECE = 256 * 1024, /* read and compared at once: stays in the second-level cache */
	PIECE_WORDS = PIECE / 8,
	MAX_THREADS = 8,
};

/* What the threads share: pieces are taken in order from one counter. */
struct scan {
	struct gm_image *image;
	const struct gm_scan_options *options;
	int pagemap;                          /* /proc/PID/pagemap, or -1 */
	GM_ARRAY(struct gm_scan_range) areas; /* what to scan, last excluded here */
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

static bool is_scanned(const struct gm_mapping *mapping)
{
	const uint32_t needed = GM_MAPPING_READ | GM_MAPPING_WRITE;
	if ((mapping->flags & needed) != needed || (mapping->flags & GM_MAPPING_DEVICE))
		return false;
	/* memory of GPU drivers and other devices may not be read from outside, and reading some has effects */
	return strncmp(mapping->path, "/dev/", 5) != 0 ||
	       strncmp(mapping->path, "/dev/shm/", 9) == 0 ||
	       strcmp(mapping->path, "/dev/zero (deleted)") == 0;
}

static struct gm_error *find_areas(struct scan *scan)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(scan->image, &count);
	for (size_t i = 0; i < count; i++) {
		if (!is_scanned(&mappings[i]))
			continue;
		struct gm_scan_range area = {mappings[i].start, mappings[i].end};
		if (!gm_array_push(&scan->areas, area) ||
		        !gm_array_push(&scan->first_piece, scan->piece_count))
			return &gm_error_no_memory;
		scan->piece_count += (area.last - area.first + PIECE - 1) / PIECE;
	}
	return NULL;
}

/* Which pages of [start, end) are there, as ranges of touched pages handed to `each`. Without pagemap:
 * all of them. */
static size_t touched_ranges(
        struct scan *scan, uint64_t start, uint64_t end, struct gm_scan_range *ranges, size_t max)
{
	uint64_t entries[PIECE / PAGE];
	size_t pages = (end - start) / PAGE, count = 0;
	if (scan->pagemap < 0 || pread(scan->pagemap, entries, pages * 8,
	                                 (off_t)(start / PAGE * 8)) != (ssize_t)(pages * 8)) {
		ranges[0] = (struct gm_scan_range){start, end};
		return 1;
	}
	for (size_t i = 0; i < pages; i++) {
		if (!(entries[i] >> 62)) /* neither present (63) nor swapped (62) */
			continue;
		uint64_t page = start + i * PAGE;
		if (count > 0 && ranges[count - 1].last == page)
			ranges[count - 1].last += PAGE;
		else if (count < max)
			ranges[count++] = (struct gm_scan_range){page, page + PAGE};
	}
	return count;
}

static void scan_range(struct worker *worker, uint64_t start, uint64_t end)
{
	struct scan *scan = worker->scan;
	const struct gm_scan_options *options = scan->options;
	while (start < end) {
		size_t got = gm_image_read_some(scan->image, start, worker->words, end - start);
		size_t found = gm_scan_words(worker->words, got / 8, options->ranges,
		        options->range_count, true, worker->indexes, PIECE_WORDS);
		worker->bytes += got;
		for (size_t i = 0; i < found; i++) {
			struct gm_hit hit = {start + worker->indexes[i] * UINT64_C(8),
			        worker->words[worker->indexes[i]]};
			if (options->filter && !options->filter(options->context, hit.value))
				continue;
			if (atomic_fetch_add(&scan->hit_count, 1) >= GM_SCAN_MAX_HITS)
				return;
			if (!gm_array_push(&worker->hits, hit)) {
				atomic_store(&scan->no_memory, true);
				return;
			}
		}
		if (got == end - start)
			return;
		/* a page that cannot be read (unmapped since, or beyond a file's end): over it */
		start += got & ~UINT64_C(7);
		uint64_t next = (start & ~(uint64_t)(PAGE - 1)) + PAGE;
		worker->unread += (next < end ? next : end) - start;
		start = next;
	}
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
	struct gm_scan_range area = scan->areas.items[low];
	uint64_t start = area.first + (piece - scan->first_piece.items[low]) * PIECE;
	uint64_t end = area.last - start > PIECE ? start + PIECE : area.last;
	struct gm_scan_range ranges[PIECE / PAGE];
	size_t count = touched_ranges(scan, start, end, ranges, PIECE / PAGE);
	for (size_t i = 0; i < count; i++)
		scan_range(worker, ranges[i].first, ranges[i].last);
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
	struct scan scan = {.image = image, .options = options, .pagemap = -1};
	char path[64];
	if (gm_image_pid(image) > 0) {
		snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)gm_image_pid(image));
		scan.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	}
	struct gm_scan_result result = {0};
	struct gm_error *error = run(&scan, &result);
	gm_array_deinit(&scan.areas);
	gm_array_deinit(&scan.first_piece);
	if (scan.pagemap >= 0)
		close(scan.pagemap);
	if (!error)
		*ret_result = result;
	return error;
}
