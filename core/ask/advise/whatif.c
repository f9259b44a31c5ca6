#include "ask/advise/whatif.h"

#include <string.h>

#include "base/cleanup.h"

static bool allocate(struct gm_whatif *whatif)
{
	size_t count = whatif->block_count + 1;
	whatif->begin = malloc(count * sizeof(*whatif->begin));
	whatif->end = malloc(count * sizeof(*whatif->end));
	whatif->size = malloc(count * sizeof(*whatif->size));
	return whatif->begin && whatif->end && whatif->size;
}

struct gm_error *gm_whatif_init(
        struct gm_whatif *whatif, const struct gm_model *model, size_t device)
{
	*whatif = (struct gm_whatif){
	        .model = model,
	        .device = device,
	        .event_count = (uint32_t)gm_log_event_count(gm_model_log(model)),
	        .block_count = gm_model_block_count(model),
	};
	if (!allocate(whatif)) {
		gm_whatif_deinit(whatif);
		return &gm_error_no_memory;
	}
	for (size_t i = 0; i < whatif->block_count; i++) {
		const struct gm_block *block = gm_model_block(model, i);
		uint32_t end = gm_block_end(block);
		bool counts = block->device == device && block->alloc != GM_NO_EVENT;
		whatif->begin[i] = counts ? block->alloc : 0;
		whatif->end[i] = !counts                     ? 0
		                 : end > whatif->event_count ? whatif->event_count
		                                             : end;
		whatif->size[i] = counts ? block->size : 0;
	}
	return NULL;
}

struct gm_error *gm_whatif_copy(const struct gm_whatif *from, struct gm_whatif *ret_whatif)
{
	struct gm_whatif whatif = *from;
	memset(&whatif.spans, 0, sizeof(whatif.spans));
	if (!allocate(&whatif) || !gm_array_reserve(&whatif.spans, from->spans.count + 1)) {
		gm_whatif_deinit(&whatif);
		return &gm_error_no_memory;
	}
	memcpy(whatif.begin, from->begin, from->block_count * sizeof(*from->begin));
	memcpy(whatif.end, from->end, from->block_count * sizeof(*from->end));
	memcpy(whatif.size, from->size, from->block_count * sizeof(*from->size));
	if (from->spans.count)
		memcpy(whatif.spans.items, from->spans.items,
		        from->spans.count * sizeof(*from->spans.items));
	whatif.spans.count = from->spans.count;
	whatif.changes = 0;
	*ret_whatif = whatif;
	return NULL;
}

void gm_whatif_deinit(struct gm_whatif *whatif)
{
	free(whatif->begin);
	free(whatif->end);
	free(whatif->size);
	gm_array_deinit(&whatif->spans);
	*whatif = (struct gm_whatif){0};
}

void gm_whatif_end(struct gm_whatif *whatif, uint32_t block, uint32_t event)
{
	if (whatif->end[block] <= event)
		return;
	whatif->end[block] = event;
	whatif->changes++;
}

void gm_whatif_resize(struct gm_whatif *whatif, uint32_t block, uint64_t size)
{
	if (whatif->size[block] == size)
		return;
	whatif->size[block] = size;
	whatif->changes++;
}

static void add_span(struct gm_whatif *whatif, struct gm_whatif_span span)
{
	if (span.from >= span.until)
		return;
	whatif->changes++;
	whatif->no_memory |= !gm_array_push(&whatif->spans, span);
}

void gm_whatif_add(struct gm_whatif *whatif, uint32_t from, uint32_t until, uint64_t bytes)
{
	add_span(whatif,
	        (struct gm_whatif_span){
	                .block = GM_NO_BLOCK, .from = from, .until = until, .bytes = bytes});
}

void gm_whatif_again(struct gm_whatif *whatif, uint32_t block, uint32_t from, uint32_t until)
{
	add_span(whatif, (struct gm_whatif_span){.block = block, .from = from, .until = until});
}

void gm_whatif_absent(struct gm_whatif *whatif, uint32_t block, uint32_t from, uint32_t until)
{
	from = from > whatif->begin[block] ? from : whatif->begin[block];
	until = until < whatif->end[block] ? until : whatif->end[block];
	add_span(whatif, (struct gm_whatif_span){
	                         .block = block, .absent = true, .from = from, .until = until});
}

static bool covers(uint32_t from, uint32_t until, uint32_t event)
{
	return from <= event && event < until;
}

bool gm_whatif_is_there(const struct gm_whatif *whatif, uint32_t block, uint32_t event)
{
	return covers(whatif->begin[block], whatif->end[block], event);
}

static uint64_t span_bytes(const struct gm_whatif *whatif, const struct gm_whatif_span *span)
{
	return span->block == GM_NO_BLOCK ? span->bytes : whatif->size[span->block];
}

/* Sums wrap around in between, as unsigned numbers may: what is taken away was added. */
static void enter(uint64_t *differences, const struct gm_whatif *whatif, uint32_t from,
        uint32_t until, uint64_t bytes)
{
	if (from >= until || from >= whatif->event_count)
		return;
	until = until < whatif->event_count ? until : whatif->event_count;
	differences[from] += bytes;
	differences[until] -= bytes;
}

/* What is there after the event of the peak. */
static void describe(const struct gm_whatif *whatif, const struct gm_categories *categories,
        struct gm_whatif_peak *peak)
{
	uint64_t largest = 0;
	for (uint32_t i = 0; i < whatif->block_count; i++) {
		if (!gm_whatif_is_there(whatif, i, peak->event))
			continue;
		peak->by_category[gm_categories_of(categories, i)] += whatif->size[i];
		if (whatif->size[i] > largest) {
			largest = whatif->size[i];
			peak->largest = i;
		}
	}
	for (size_t i = 0; i < whatif->spans.count; i++) {
		const struct gm_whatif_span *span = &whatif->spans.items[i];
		if (!covers(span->from, span->until, peak->event))
			continue;
		uint64_t bytes = span_bytes(whatif, span);
		uint64_t *sum =
		        span->block == GM_NO_BLOCK
		                ? &peak->added
		                : &peak->by_category[gm_categories_of(categories, span->block)];
		*sum += span->absent ? -bytes : bytes;
	}
}

struct gm_error *gm_whatif_peak(const struct gm_whatif *whatif,
        const struct gm_categories *categories, struct gm_whatif_peak *ret_peak)
{
	if (whatif->no_memory)
		return &gm_error_no_memory;
	_cleanup_free_ uint64_t *differences =
	        calloc((size_t)whatif->event_count + 1, sizeof(*differences));
	struct gm_whatif_peak peak = {.event = GM_NO_EVENT, .largest = GM_NO_BLOCK};
	if (!differences)
		return &gm_error_no_memory;
	for (size_t i = 0; i < whatif->block_count; i++)
		enter(differences, whatif, whatif->begin[i], whatif->end[i], whatif->size[i]);
	for (size_t i = 0; i < whatif->spans.count; i++) {
		const struct gm_whatif_span *span = &whatif->spans.items[i];
		uint64_t bytes = span_bytes(whatif, span);
		enter(differences, whatif, span->from, span->until, span->absent ? -bytes : bytes);
	}
	uint64_t now = 0;
	for (uint32_t i = 0; i < whatif->event_count; i++) {
		now += differences[i];
		/* more is taken away than is there: no measure means that, so it is none */
		uint64_t bytes = (int64_t)now < 0 ? 0 : now;
		if (bytes > peak.bytes) {
			peak.bytes = bytes;
			peak.event = i;
		}
	}
	if (peak.event != GM_NO_EVENT)
		describe(whatif, categories, &peak);
	*ret_peak = peak;
	return NULL;
}
