#include "holders/heap/scan.h"
#include "holders/heap/scan_words.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/huge_pages.h"
#include "base/sort.h"
#include "base/thread.h"
#include "image/image.h"
#include "image/kept.h"

enum {
	PAGE = GM_KEPT_PAGE,
	SLICE = GM_KEPT_CHUNK, /* read and compared at once: stays in the second-level cache */
	SLICE_WORDS = SLICE / 8,
	SLICE_PAGES = SLICE / PAGE,
	SPAN = 16,                  /* slices that a visitor gets at once */
	STRETCH = 4 * GM_SCAN_AREA, /* length of untouched memory from which on it is skipped */
	MAX_THREADS = 8,
};

struct area {
	struct gm_range range;
	bool last; /* slices that do not come first */
};

/* State shared by the threads: they take slices in order from one counter. */
struct scan {
	struct gm_image *image;
	const struct gm_scan_options *options;
	GM_ARRAY(struct area) areas; /* what to scan */
	uint64_t slice; /* bytes that a thread takes at once: one SLICE, or SPAN of them */
	uint64_t slice_count;
	GM_ARRAY(uint64_t) first_slice; /* of each area */
	uint64_t rest; /* the first slice that is not one of those that come first */
	pthread_mutex_t lock;
	pthread_cond_t all_ended;
	unsigned started,
	        ended; /* number of threads; and of threads that have finished the first slices */
	atomic_flag reported; /* the error of one of them */
	atomic_uint_fast64_t next_slice;
	atomic_size_t hit_count;
	atomic_bool no_memory;
};

struct worker {
	struct scan *scan;
	pthread_t thread;
	unsigned number;
	GM_ARRAY(struct gm_hit) hits;
	uint64_t bytes, unread;
	uint64_t *words; /* of a slice, or of a span if there is a visitor */
	uint32_t indexes[SLICE_WORDS];
	struct gm_kept_chunk chunks[SPAN]; /* `words`, for the visitor */
	struct gm_read reads[SLICE_PAGES];
};

/* The largest mappings come first: while they are read, another thread can find and copy the memory
 * of Python's objects, which is mostly many small mappings. */
static int by_size(const void *a, const void *b)
{
	const struct area *left = a, *right = b;
	uint64_t mine = left->range.end - left->range.start;
	uint64_t other = right->range.end - right->range.start;
	if (left->last != right->last)
		return left->last - right->last;
	if (mine != other)
		return mine > other ? -1 : 1;
	return left->range.start < right->range.start ? -1 : left->range.start > right->range.start;
}

/* The range [start, end) of a mapping; divided, if part of it comes first. */
static bool add_area(
        struct scan *scan, const struct gm_mapping *mapping, uint64_t start, uint64_t end)
{
	const struct gm_scan_visitor *visitor = scan->options->visitor;
	for (uint64_t next; start < end; start = next) {
		next = visitor ? (start | (GM_SCAN_AREA - 1)) + 1 : end;
		next = next < end ? next : end;
		bool last = visitor && !visitor->first(visitor->context, mapping, start, next);
		struct area *before =
		        scan->areas.count > 0 ? &scan->areas.items[scan->areas.count - 1] : NULL;
		if (before && before->range.end == start && before->last == last &&
		        start > mapping->start)
			before->range.end = next;
		else if (!gm_array_push(&scan->areas, ((struct area){{start, next}, last})))
			return false;
	}
	return true;
}

/* The same, without long untouched ranges. */
static bool add_touched(
        struct scan *scan, const struct gm_mapping *mapping, uint64_t start, uint64_t end)
{
	const uint64_t in_page = PAGE - 1, in_stretch = STRETCH - 1;
	while (start < end) {
		uint64_t touched = gm_image_next_touched(
		        scan->image, start & ~in_page, (end + in_page) & ~in_page);
		if (touched >= end)
			break;
		if ((touched & ~in_stretch) > start)
			start = touched & ~in_stretch;
		uint64_t next = (start | in_stretch) + 1;
		next = next < end ? next : end;
		if (!add_area(scan, mapping, start, next))
			return false;
		start = next;
	}
	return true;
}

/* A mapping without its excluded ranges. */
static bool add_areas(struct scan *scan, const struct gm_mapping *mapping)
{
	const struct gm_scan_options *options = scan->options;
	uint64_t start = mapping->start;
	for (size_t i = 0; i < options->left_out_count; i++) {
		const struct gm_range *out = &options->left_out[i];
		if (out->end <= start || out->start >= mapping->end)
			continue;
		if (out->start > start && !add_touched(scan, mapping, start, out->start))
			return false;
		start = out->end;
	}
	return start >= mapping->end || add_touched(scan, mapping, start, mapping->end);
}

static struct gm_error *find_areas(struct scan *scan)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(scan->image, &count);
	for (size_t i = 0; i < count; i++) {
		if (!gm_mapping_is_memory(&mappings[i]))
			continue;
		if (!add_areas(scan, &mappings[i]))
			return &gm_error_no_memory;
	}
	if (scan->areas.count > 0)
		qsort(scan->areas.items, scan->areas.count, sizeof(*scan->areas.items), by_size);
	for (size_t i = 0; i < scan->areas.count; i++) {
		struct gm_range area = scan->areas.items[i].range;
		if (!gm_array_push(&scan->first_slice, scan->slice_count))
			return &gm_error_no_memory;
		scan->slice_count += (area.end - 1) / scan->slice - area.start / scan->slice + 1;
		if (!scan->areas.items[i].last)
			scan->rest = scan->slice_count;
	}
	return NULL;
}

/* False: stop. */
static bool find_hits(struct worker *worker, const uint64_t *words, size_t count, uint64_t start)
{
	struct scan *scan = worker->scan;
	const struct gm_scan_options *options = scan->options;
	size_t found = gm_scan_words(words, count, options->ranges, options->range_count, true,
	        worker->indexes, SLICE_WORDS);
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
	const uint8_t *borrowed =
	        gm_image_borrowed_bytes(worker->scan->image, start, (size_t)(end - start));
	if (borrowed && (uintptr_t)borrowed % 8 == 0) {
		worker->bytes += end - start;
		find_hits(worker, (const uint64_t *)borrowed, (end - start) / 8, start);
		return;
	}
	while (start < end) {
		size_t got =
		        gm_image_read_some(worker->scan->image, start, worker->words, end - start);
		worker->bytes += got;
		if (!find_hits(worker, worker->words, got / 8, start) || got == end - start)
			return;
		/* a page that cannot be read (unmapped since, or beyond a file's end): skip it */
		start += got & ~UINT64_C(7);
		uint64_t next = (start & ~(uint64_t)(PAGE - 1)) + PAGE;
		worker->unread += (next < end ? next : end) - start;
		start = next;
	}
}

/* Memory that the cache has is not read again. False: the cache does not have it. */
static bool scan_kept(struct worker *worker, uint64_t start, uint64_t end)
{
	const struct gm_kept *kept = gm_image_read_cache(worker->scan->image);
	const struct gm_kept_chunk *chunk = kept ? gm_kept_chunk(kept, start) : NULL;
	if (!chunk || start % PAGE || end % PAGE)
		return false;
	size_t page = start % SLICE / PAGE, last = page + (size_t)(end - start) / PAGE;
	while (page < last) {
		size_t first = page;
		while (page < last && chunk->there >> page & 1)
			page++;
		if (page > first) {
			worker->bytes += (page - first) * PAGE;
			if (!find_hits(worker, (const uint64_t *)(chunk->bytes + first * PAGE),
			            (page - first) * PAGE / 8,
			            start - start % SLICE + first * PAGE))
				return true;
		} else {
			worker->unread += (chunk->unread >> page & 1) * PAGE;
			page++;
		}
	}
	return true;
}

/* Reads ranges to their places in the chunk, and reports which pages could be read. */
static void read_chunk(struct worker *worker, struct gm_kept_chunk *chunk,
        const struct gm_range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		worker->reads[i] = (struct gm_read){.address = ranges[i].start,
		        .buffer = (uint8_t *)(uintptr_t)chunk->bytes + ranges[i].start % SLICE,
		        .size = (size_t)(ranges[i].end - ranges[i].start)};
	gm_image_read_many(worker->scan->image, worker->reads, count);
	for (size_t i = 0; i < count; i++) {
		const struct gm_read *read = &worker->reads[i];
		size_t first = read->address % SLICE / PAGE, pages = read->size / PAGE;
		for (size_t page = 0; page < pages; page++) {
			struct gm_read one = {.address = read->address + page * PAGE,
			        .buffer = (uint8_t *)read->buffer + page * PAGE,
			        .size = PAGE};
			/* unmapped since, or beyond a file's end: find out which pages */
			if (read->failed)
				gm_image_read_many(worker->scan->image, &one, 1);
			if (one.failed)
				worker->unread += PAGE;
			else
				chunk->there |= UINT64_C(1) << (first + page);
		}
	}
}

/* The chunk's bytes are used without a copy if the image can give access to all of [start, end). */
static bool borrow_chunk(struct worker *worker, struct gm_kept_chunk *chunk, uint64_t start,
        uint64_t end, const struct gm_range *ranges, size_t count)
{
	const uint8_t *borrowed =
	        gm_image_borrowed_bytes(worker->scan->image, start, (size_t)(end - start));
	if (!borrowed)
		return false;
	chunk->bytes = (const uint8_t *)((uintptr_t)borrowed - start % SLICE);
	for (size_t i = 0; i < count; i++)
		chunk->there |=
		        UINT64_MAX >> (SLICE_PAGES - (ranges[i].end - ranges[i].start) / PAGE)
		                              << ranges[i].start % SLICE / PAGE;
	return true;
}

/* Reads [start, end) of a chunk and searches it. */
static void scan_chunk(
        struct worker *worker, struct gm_kept_chunk *chunk, uint64_t start, uint64_t end)
{
	struct gm_range ranges[SLICE_PAGES];
	size_t count = gm_image_touched(worker->scan->image, start, end, ranges, SLICE_PAGES);
	if (!borrow_chunk(worker, chunk, start, end, ranges, count))
		read_chunk(worker, chunk, ranges, count);
	for (size_t page = 0, first; page < SLICE_PAGES; page++) {
		for (first = page; page < SLICE_PAGES && chunk->there >> page & 1;)
			page++;
		size_t bytes = (page - first) * PAGE;
		worker->bytes += bytes;
		if (bytes > 0 && !find_hits(worker, (const uint64_t *)(chunk->bytes + first * PAGE),
		                         bytes / 8, start - start % SLICE + first * PAGE))
			return;
	}
}

static void scan_span(struct worker *worker, uint64_t start, uint64_t end, bool in_rest)
{
	const struct gm_scan_visitor *visitor = worker->scan->options->visitor;
	uint64_t base = start - start % (SPAN * SLICE);
	bool any = false;
	for (size_t i = 0; i < SPAN; i++) {
		struct gm_kept_chunk *chunk = &worker->chunks[i];
		uint64_t first = base + i * SLICE, last = first + SLICE;
		chunk->bytes = (const uint8_t *)(worker->words + i * SLICE_WORDS);
		chunk->there = 0;
		atomic_store_explicit(&chunk->key, first / SLICE + 1, memory_order_relaxed);
		first = first > start ? first : start;
		last = last < end ? last : end;
		if (first < last)
			scan_chunk(worker, chunk, first, last);
		any |= chunk->there != 0;
	}
	if (any)
		visitor->chunks(visitor->context, worker->number, worker->chunks, SPAN, in_rest);
}

static void scan_slice(struct worker *worker, uint64_t slice)
{
	struct scan *scan = worker->scan;
	size_t low = 0, high = scan->areas.count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (scan->first_slice.items[middle] <= slice)
			low = middle;
		else
			high = middle;
	}
	struct gm_range area = scan->areas.items[low].range;
	uint64_t size = scan->slice;
	uint64_t number = area.start / size + (slice - scan->first_slice.items[low]);
	uint64_t start = number * size > area.start ? number * size : area.start;
	uint64_t end = area.end - number * size > size ? (number + 1) * size : area.end;
	struct gm_range ranges[SLICE_PAGES];
	if (scan->options->visitor && start % PAGE == 0 && end % PAGE == 0) {
		scan_span(worker, start, end, scan->areas.items[low].last);
		return;
	}
	for (uint64_t next; start < end; start = next) {
		next = (start & ~(uint64_t)(SLICE - 1)) + SLICE;
		next = next < end ? next : end;
		if (!scan->options->visitor && scan_kept(worker, start, next))
			continue;
		size_t count = gm_image_touched(scan->image, start, next, ranges, SLICE_PAGES);
		for (size_t i = 0; i < count; i++)
			scan_range(worker, ranges[i].start, ranges[i].end);
	}
}

/* This thread has finished the slices that come first. */
static void end_first(struct worker *worker)
{
	struct scan *scan = worker->scan;
	const struct gm_scan_visitor *visitor = scan->options->visitor;
	visitor->end(visitor->context, worker->number);
	pthread_mutex_lock(&scan->lock);
	scan->ended++;
	pthread_cond_signal(&scan->all_ended);
	while (worker->number == 0 && scan->ended < scan->started)
		pthread_cond_wait(&scan->all_ended, &scan->lock);
	pthread_mutex_unlock(&scan->lock);
	if (worker->number == 0)
		visitor->between(visitor->context);
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct scan *scan = worker->scan;
	bool first = scan->options->visitor != NULL;
	for (;;) {
		uint64_t slice = atomic_fetch_add(&scan->next_slice, 1);
		bool over = slice >= scan->slice_count || atomic_load(&scan->no_memory) ||
		            atomic_load(&scan->hit_count) >= GM_SCAN_MAX_HITS;
		if (first && (over || slice >= scan->rest)) {
			first = false;
			end_first(worker);
		}
		if (over)
			break;
		scan_slice(worker, slice);
	}
	const struct gm_scan_visitor *visitor = scan->options->visitor;
	if (visitor && worker->number > 0 && !atomic_flag_test_and_set(&scan->reported))
		visitor->found(visitor->context, worker->hits.items, worker->hits.count);
	return NULL;
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
	struct gm_hit *scratch = malloc((all.count + 1) * sizeof(*scratch));
	if (!scratch) {
		gm_array_deinit(&all);
		return &gm_error_no_memory;
	}
	gm_sort_by_address(all.items, scratch, all.count, sizeof(*all.items));
	free(scratch);
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
	return scan->slice_count < wanted ? (unsigned)scan->slice_count + !scan->slice_count
	                                  : wanted;
}

static void worker_destroy(struct worker *worker)
{
	if (!worker)
		return;
	gm_array_deinit(&worker->hits);
	free(worker->words);
	free(worker);
}

static struct worker *worker_create(struct scan *scan, unsigned number)
{
	struct worker *worker = malloc(sizeof(*worker));
	if (!worker)
		return NULL;
	worker->scan = scan;
	worker->number = number;
	memset(&worker->hits, 0, sizeof(worker->hits));
	worker->bytes = worker->unread = 0;
	worker->words = aligned_alloc(scan->slice, scan->slice);
	if (!worker->words) {
		worker_destroy(worker);
		return NULL;
	}
	/* read repeatedly: avoids repeated look-ups of its page */
	gm_huge_pages_advise(worker->words, scan->slice);
	return worker;
}

static struct gm_error *run(struct scan *scan, struct gm_scan_result *result)
{
	scan->slice = scan->options->visitor ? SPAN * SLICE : SLICE;
	gm_try(find_areas(scan));
	struct worker *workers[MAX_THREADS] = {0};
	unsigned count = thread_count(scan), started = 0;
	for (; started < count; started++) {
		workers[started] = worker_create(scan, started);
		/* this thread is the first worker */
		if (!workers[started] || (started > 0 && gm_thread_create(&workers[started]->thread,
		                                                 work, workers[started]))) {
			worker_destroy(gm_take(workers[started]));
			break;
		}
	}
	struct gm_error *error = started == 0 ? &gm_error_no_memory : NULL;
	pthread_mutex_lock(&scan->lock);
	scan->started = started;
	pthread_mutex_unlock(&scan->lock);
	if (!error)
		work(workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i]->thread, NULL);
	if (!error && atomic_load(&scan->no_memory))
		error = &gm_error_no_memory;
	if (!error)
		error = gather(scan, workers, started, result);
	for (unsigned i = 0; i < started; i++)
		worker_destroy(workers[i]);
	return error;
}

struct gm_error *gm_scan(struct gm_image *image, const struct gm_scan_options *options,
        struct gm_scan_result *ret_result)
{
	struct scan scan = {.image = image, .options = options, .reported = ATOMIC_FLAG_INIT};
	struct gm_scan_result result = {0};
	pthread_mutex_init(&scan.lock, NULL);
	pthread_cond_init(&scan.all_ended, NULL);
	gm_image_borrow_begin(image);
	struct gm_error *error = run(&scan, &result);
	gm_image_borrow_end(image);
	pthread_mutex_destroy(&scan.lock);
	pthread_cond_destroy(&scan.all_ended);
	gm_array_deinit(&scan.areas);
	gm_array_deinit(&scan.first_slice);
	if (!error)
		*ret_result = result;
	return error;
}
