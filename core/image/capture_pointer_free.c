#include "image/capture_pointer_free.h"

#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>

enum {
	PAGE = GM_PAGE_SIZE,
	UNIT = GM_COPY_UNIT,
	AT_ONCE = 4 * UNIT,                 /* read at once: stays in the second-level cache */
	LEAST = GM_COPY_UNITS_LEAST * UNIT, /* bytes of a slice that are examined */
	SAMPLES = 8,                        /* pages of it */
};

uint64_t gm_lowest_address(const struct gm_image *image)
{
	const uint64_t likely = UINT64_C(1)
	                        << 32; /* a device's address may be lower than all mappings */
	uint64_t first = image->maps.count > 0 ? image->maps.items[0].start : likely;
	return first > PAGE && first < likely ? first : likely;
}

bool gm_copy_is_likely_pointer_free(
        struct gm_image *image, struct gm_copy_area *area, struct gm_range slice, uint64_t lowest)
{
	alignas(64) uint8_t pages[SAMPLES][PAGE];
	struct gm_read reads[SAMPLES];
	uint64_t size = slice.end - slice.start;
	if (!area->units || size < LEAST)
		return false;
	for (size_t i = 0; i < SAMPLES; i++)
		reads[i] = (struct gm_read){
		        .address = (slice.start + size * i / SAMPLES) & ~(uint64_t)(PAGE - 1),
		        .buffer = pages[i],
		        .size = PAGE};
	image->kind->read_many(image, reads, SAMPLES);
	for (size_t i = 0; i < SAMPLES; i++) {
		struct gm_pointer_free_mark mark;
		if (reads[i].failed || !gm_pointer_free_look(pages[i], PAGE, lowest, &mark))
			return false;
	}
	uint64_t at = (slice.start + UNIT - 1) & ~(uint64_t)(UNIT - 1);
	for (; at + UNIT <= slice.end; at += UNIT)
		atomic_store(&gm_copy_unit_at(area, at)->state, GM_UNIT_LIKELY_POINTER_FREE);
	return true;
}

/* The end of the run that begins here: whole units that are probably pointer-free (*ret_likely), or
 * bytes that are copied in any case. */
static uint64_t end_of_run(
        const struct gm_copy_area *area, uint64_t at, uint64_t end, bool *ret_likely)
{
	uint64_t next = at;
	*ret_likely = at % UNIT == 0 && at + UNIT <= end &&
	              gm_copy_unit_state(area, at) == GM_UNIT_LIKELY_POINTER_FREE;
	if (*ret_likely) {
		while (next + UNIT <= end && next - at < AT_ONCE &&
		        gm_copy_unit_state(area, next) == GM_UNIT_LIKELY_POINTER_FREE)
			next += UNIT;
		return next;
	}
	do /* of a unit that is probably pointer-free only part may exist: its other pages were
	      unmapped */
		next = (next | (UNIT - 1)) + 1;
	while (next < end && gm_copy_unit_state(area, next) != GM_UNIT_LIKELY_POINTER_FREE);
	return next < end ? next : end;
}

/* Up to AT_ONCE bytes of whole units. */
static bool copy_units(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, struct gm_range run, uint64_t lowest, uint64_t *ret_pointer_free)
{
	alignas(64) uint8_t buffer[AT_ONCE];
	size_t size = (size_t)(run.end - run.start);
	int os_error;
	if (under->read(image, run.start, buffer, size, &os_error) != size)
		return false;
	for (size_t at = 0; at < size; at += UNIT) {
		struct gm_copy_unit *unit = gm_copy_unit_at(area, run.start + at);
		bool pointer_free = gm_pointer_free_look(buffer + at, UNIT, lowest, &unit->mark);
		if (!pointer_free)
			memcpy(area->bytes + (run.start - area->start) + at, buffer + at, UNIT);
		*ret_pointer_free += pointer_free ? UNIT : 0;
		atomic_store(&unit->state, pointer_free ? GM_UNIT_POINTER_FREE : GM_UNIT_COPIED);
	}
	return true;
}

static bool copy_run(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, struct gm_range run)
{
	size_t size = (size_t)(run.end - run.start);
	int os_error;
	if (under->read(image, run.start, area->bytes + (run.start - area->start), size,
	            &os_error) != size)
		return false;
	for (uint64_t at = run.start; area->units && at < run.end; at = (at | (UNIT - 1)) + 1)
		atomic_store(&gm_copy_unit_at(area, at)->state, GM_UNIT_COPIED);
	return true;
}

bool gm_copy_slice(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, struct gm_range slice, uint64_t lowest,
        uint64_t *ret_pointer_free)
{
	*ret_pointer_free = 0;
	for (struct gm_range run = {slice.start, 0}; run.start < slice.end; run.start = run.end) {
		bool likely = false;
		run.end = area->units ? end_of_run(area, run.start, slice.end, &likely) : slice.end;
		if (!(likely ? copy_units(image, under, area, run, lowest, ret_pointer_free)
		             : copy_run(image, under, area, run)))
			return false;
	}
	return true;
}

enum gm_unit_state gm_copy_fetch(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, uint64_t address, uint64_t lowest)
{
	struct gm_copy_unit *unit = gm_copy_unit_at(area, address);
	uint64_t start = address & ~(uint64_t)(UNIT - 1);
	alignas(64) uint8_t buffer[UNIT];
	struct gm_pointer_free_mark mark;
	int os_error;
	enum gm_unit_state state = atomic_load(&unit->state);
	if (state != GM_UNIT_POINTER_FREE)
		return state;
	if (under->read(image, start, buffer, UNIT, &os_error) == UNIT &&
	        gm_pointer_free_look(buffer, UNIT, lowest, &mark) &&
	        memcmp(&mark, &unit->mark, sizeof(mark)) == 0) {
		memcpy(area->bytes + (start - area->start), buffer, UNIT);
		state = GM_UNIT_FETCHED;
	} else {
		state = GM_UNIT_LOST;
	}
	atomic_store_explicit(&unit->state, state, memory_order_release);
	return state;
}
