/* Folded stacks, in the format of Brendan Gregg's stackcollapse tools: outermost frame first. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "export/export.h"
#include "export/text.h"

struct sum {
	uint32_t stack;
	uint64_t bytes;
};

static int by_stack(const void *a, const void *b)
{
	const struct sum *left = a, *right = b;
	return left->stack < right->stack ? -1 : left->stack > right->stack;
}

/* A frame's text must not contain ';', which is the format's separator. */
static void put_text(FILE *out, const char *name)
{
	_cleanup_free_ char *made;
	for (const char *text = gm_export_visible(name, &made); *text; text++)
		putc(*text == ';' ? '_' : *text, out);
}

static void put_stack(const struct gm_log *log, uint32_t stack, FILE *out)
{
	size_t count;
	gm_log_python_stack(log, stack, &count);
	if (!count)
		fputs("(no stack)", out);
	for (size_t i = count; i-- > 0;) {
		struct gm_export_frame frame;
		if (!gm_export_frame(log, stack, i, &frame))
			continue;
		put_text(out, frame.name);
		fputs(" (", out);
		put_text(out, frame.file);
		fprintf(out, ":%u)%s", frame.line, i ? ";" : "");
	}
}

struct gm_error *gm_export_folded(struct gm_model *model, FILE *out)
{
	const struct gm_log *log = gm_model_log(model);
	size_t device = gm_model_main_device(model);
	GM_ARRAY(struct sum) sums = {0};
	if (device == SIZE_MAX)
		return NULL;
	uint32_t peak = gm_model_device(model, device)->peak_event;
	for (size_t i = 0; peak != GM_NO_EVENT && i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		struct gm_event event;
		if (block->device != device || !gm_block_live_after(block, peak))
			continue;
		gm_log_event(log, block->alloc, &event);
		const struct sum sum = {event.python_stack, block->size};
		if (!gm_array_push(&sums, sum)) {
			gm_array_deinit(&sums);
			return &gm_error_no_memory;
		}
	}
	if (sums.count)
		qsort(sums.items, sums.count, sizeof(*sums.items), by_stack);
	for (size_t i = 0; i < sums.count;) {
		uint32_t stack = sums.items[i].stack;
		uint64_t bytes = 0;
		for (; i < sums.count && sums.items[i].stack == stack; i++)
			bytes += sums.items[i].bytes;
		put_stack(log, stack, out);
		fprintf(out, " %" PRIu64 "\n", bytes);
	}
	gm_array_deinit(&sums);
	return NULL;
}
