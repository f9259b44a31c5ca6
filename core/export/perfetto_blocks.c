/*
 * The largest blocks, each as a slice from its allocation to its release. A device's blocks of one
 * category are a process of the trace, and its threads are rows. The slices of one row must not
 * overlap, so each block takes the first row that is free when it is allocated. A row's number is
 * of no other process: some readers know threads by it alone. Readers have times as doubles, which
 * are exact to about 0.25 microseconds, so slices of a row are GAP apart.
 *
 * The number of blocks is bounded: a heap holds the largest ones, with the smallest of them at its
 * root.
 */
#include "export/perfetto_blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "export/text.h"
#include "model/block_names.h"
#include "model/categories.h"

enum { FIRST_PROCESS = 2, FIRST_ROW = 16, NAMES_SHOWN = 16, GAP = 1000 /* ns */ };

struct shown {
	uint32_t block;
	uint64_t size;
	uint64_t from, to; /* nanoseconds; to >= from */
	uint32_t process;
	uint32_t row; /* of all processes together */
};

/* --- the largest ones ------------------------------------------------------------------------- */

/* Of two equally large blocks the earlier one is kept. */
static bool is_less(const struct shown *a, const struct shown *b)
{
	return a->size != b->size ? a->size < b->size : a->block > b->block;
}

static void swap(struct shown *a, struct shown *b)
{
	struct shown kept = *a;
	*a = *b;
	*b = kept;
}

static void sift_down(struct shown *heap, size_t count)
{
	for (size_t at = 0; 2 * at + 1 < count;) {
		size_t child = 2 * at + 1;
		if (child + 1 < count && is_less(&heap[child + 1], &heap[child]))
			child++;
		if (!is_less(&heap[child], &heap[at]))
			break;
		swap(&heap[child], &heap[at]);
		at = child;
	}
}

static void keep_largest(struct shown *heap, size_t *count, const struct shown *one,
        struct gm_perfetto_left_out *left_out)
{
	if (*count < GM_PERFETTO_BLOCKS_MAX) {
		size_t at = (*count)++;
		heap[at] = *one;
		for (; at > 0 && is_less(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2)
			swap(&heap[at], &heap[(at - 1) / 2]);
		return;
	}
	bool replaces = is_less(&heap[0], one);
	left_out->blocks++;
	left_out->bytes += replaces ? heap[0].size : one->size;
	if (!replaces)
		return;
	heap[0] = *one;
	sift_down(heap, *count);
}

/* --- times and rows --------------------------------------------------------------------------- */

static uint64_t time_of(const struct gm_log *log, uint32_t event)
{
	struct gm_event one;
	gm_log_event(log, event, &one);
	return one.time_ns;
}

static void set_times(const struct gm_model *model, struct shown *one)
{
	const struct gm_log *log = gm_model_log(model);
	const struct gm_block *block = gm_model_block(model, one->block);
	uint32_t last = (uint32_t)(gm_log_event_count(log) - 1), end = gm_block_end(block);
	one->from = time_of(log, block->alloc != GM_NO_EVENT ? block->alloc : 0);
	one->to = time_of(log, end != GM_NO_EVENT ? end : last);
	/* the clocks of two threads may differ */
	if (one->to < one->from)
		one->to = one->from;
}

static int by_process_and_time(const void *a, const void *b)
{
	const struct shown *left = a, *right = b;
	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

static bool set_rows(struct shown *shown, size_t count)
{
	GM_ARRAY(uint64_t) ends = {0}; /* for a process's rows: until when they are occupied */
	uint32_t first = FIRST_ROW;
	bool fits = true;
	for (size_t i = 0; i < count && fits; i++) {
		if (i && shown[i].process != shown[i - 1].process) {
			first += (uint32_t)ends.count;
			ends.count = 0;
		}
		size_t row = 0;
		while (row < ends.count && ends.items[row] + GAP > shown[i].from)
			row++;
		if (row == ends.count)
			fits = gm_array_push(&ends, 0);
		if (fits)
			ends.items[row] = shown[i].to;
		shown[i].row = first + (uint32_t)row;
	}
	gm_array_deinit(&ends);
	return fits;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Begins an object of this phase ("X": a slice, "M": a name), process and row. */
static void put_begin(FILE *out, const char *phase, const struct shown *one)
{
	fprintf(out, ",\n{\"ph\":\"%s\",\"pid\":%u", phase, one->process);
	fprintf(out, ",\"tid\":%u", one->row);
}

static void put_name(FILE *out, const char *of, const char *name)
{
	fprintf(out, ",\"name\":\"%s\"", of);
	fprintf(out, ",\"args\":{\"name\":\"%s\"}}", name);
}

static void put_process(const struct gm_model *model, const struct shown *one, FILE *out)
{
	char device[32], name[80];
	uint32_t of = (one->process - FIRST_PROCESS) / GM_CATEGORY_COUNT;
	uint32_t category = (one->process - FIRST_PROCESS) % GM_CATEGORY_COUNT;
	gm_export_device_name(gm_model_device(model, of), device);
	snprintf(name, sizeof(name), "%s blocks: %s", device,
	        gm_category_name((enum gm_category)category));
	put_begin(out, "M", one);
	put_name(out, "process_name", name);
}

static void put_row(const struct shown *one, FILE *out)
{
	put_begin(out, "M", one);
	put_name(out, "thread_name", "blocks");
}

/* "src/train.py:7 train"; the file without its folders if `brief`. */
static void put_site(const struct gm_log *log, const struct gm_block *block, bool brief, FILE *out)
{
	struct gm_event event = {0};
	struct gm_export_frame frame;
	if (block->alloc != GM_NO_EVENT)
		gm_log_event(log, block->alloc, &event);
	if (!gm_export_site(log, event.python_stack, &frame)) {
		fputs("\"unknown\"", out);
		return;
	}
	char *site = NULL;
	const char *slash = brief ? strrchr(frame.file, '/') : NULL;
	const char *file = slash ? slash + 1 : frame.file;
	if (asprintf(&site, "%s:%u %s", file, frame.line, frame.name) < 0)
		site = NULL;
	gm_export_json_string(out, site ? site : file);
	free(site);
}

static void put_event(FILE *out, const char *key, uint32_t event)
{
	if (event != GM_NO_EVENT)
		fprintf(out, ",\"%s\":%u", key, event);
}

static void put_arguments(const struct gm_model *model, const struct gm_block *block,
        const struct gm_block_name *names, size_t count, FILE *out)
{
	fprintf(out, "\"bytes\":%" PRIu64 ",\"address\":\"0x%" PRIx64 "\"", block->size,
	        block->address);
	fputs(",\"site\":", out);
	put_site(gm_model_log(model), block, false, out);
	put_event(out, "allocated", block->alloc);
	put_event(out, "released", gm_block_end(block));
	for (size_t i = 1; i < count && i < NAMES_SHOWN; i++) {
		fprintf(out, ",\"name %zu\":", i + 1);
		gm_export_json_string(out, names[i].name);
	}
	if (count > NAMES_SHOWN)
		fprintf(out, ",\"names\":%zu", count);
}

/* Its name is that of its first tensor, otherwise the line that allocated it. */
static void put_slice(const struct gm_model *model, const struct shown *one, FILE *out)
{
	const struct gm_block *block = gm_model_block(model, one->block);
	struct gm_block_name names[NAMES_SHOWN];
	size_t count = gm_model_names(model, one->block, names, NAMES_SHOWN);
	put_begin(out, "X", one);
	fprintf(out, ",\"ts\":%.3f,\"dur\":%.3f", (double)one->from / 1000,
	        (double)(one->to - one->from) / 1000);
	fputs(",\"name\":", out);
	if (count)
		gm_export_json_string(out, names[0].name);
	else
		put_site(gm_model_log(model), block, true, out);
	fputs(",\"args\":{", out);
	put_arguments(model, block, names, count, out);
	fputs("}}", out);
}

struct gm_error *gm_perfetto_put_blocks(
        struct gm_model *model, FILE *out, struct gm_perfetto_left_out *ret_left_out)
{
	const struct gm_categories *categories;
	*ret_left_out = (struct gm_perfetto_left_out){0};
	gm_try(gm_model_categories(model, &categories));
	_cleanup_free_ struct shown *shown = calloc(GM_PERFETTO_BLOCKS_MAX, sizeof(*shown));
	size_t count = 0;
	if (!shown)
		return &gm_error_no_memory;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		struct shown one = {.block = (uint32_t)i, .size = block->size};
		keep_largest(shown, &count, &one, ret_left_out);
	}
	for (size_t i = 0; i < count; i++) {
		set_times(model, &shown[i]);
		shown[i].process = FIRST_PROCESS +
		                   gm_model_block(model, shown[i].block)->device *
		                           (uint32_t)GM_CATEGORY_COUNT +
		                   (uint32_t)gm_categories_of(categories, shown[i].block);
	}
	qsort(shown, count, sizeof(*shown), by_process_and_time);
	if (!set_rows(shown, count))
		return &gm_error_no_memory;
	uint32_t next_row = FIRST_ROW; /* the rows of a process are assigned in order */
	for (size_t i = 0; i < count; i++) {
		if (!i || shown[i].process != shown[i - 1].process)
			put_process(model, &shown[i], out);
		if (shown[i].row == next_row) {
			put_row(&shown[i], out);
			next_row++;
		}
		put_slice(model, &shown[i], out);
	}
	return NULL;
}
