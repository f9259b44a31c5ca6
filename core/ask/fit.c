#include "ask/fit.h"

#include <stdlib.h>
#include <string.h>

static struct gm_error *try(
        struct gm_fit *fit, gm_fit_try *run, void *data, int64_t value, bool *ret)
{
	struct gm_fit_run *made = &fit->runs[fit->count];
	*made = (struct gm_fit_run){.value = value};
	struct gm_error *error = run(data, value, made);
	if (error)
		return error;
	fit->count++;
	*ret = made->fits;
	if (made->fits) {
		fit->any = true;
		fit->largest = value;
	}
	return NULL;
}

/* Between what fits and what does not. At first steps away from the guess, each twice as long, as
 * long as they go the same way; then halves. */
struct span {
	int64_t low, high;
	bool guessing, up;
	uint64_t step; /* 0: nothing was tried yet */
	uint64_t first_step;
};

static int64_t next_value(struct span *span, int64_t guess)
{
	uint64_t width = (uint64_t)span->high - (uint64_t)span->low;
	if (span->guessing && span->step == 0 && guess > span->low && guess < span->high)
		return guess;
	if (span->guessing && span->step > 0 && span->step < width)
		return span->up ? span->low + (int64_t)span->step
		                : span->high - (int64_t)span->step;
	span->guessing = false;
	return span->low + (int64_t)(width / 2);
}

static void take(struct span *span, int64_t value, bool fits)
{
	*(fits ? &span->low : &span->high) = value;
	if (!span->guessing)
		return;
	span->guessing = span->step == 0 || span->up == fits;
	span->up = fits;
	span->step = span->step ? span->step * 2 : span->first_step;
}

struct gm_error *gm_fit_search(struct gm_fit *fit, gm_fit_try *run, void *data)
{
	fit->any = false;
	fit->count = 0;
	bool fits;
	/* The ends first: the smallest tells whether the program works at all, the largest may be
	 * the answer. */
	struct gm_error *error = try(fit, run, data, fit->from, &fits);
	if (error || !fits || fit->from == fit->to)
		return error;
	error = try(fit, run, data, fit->to, &fits);
	if (error || fits)
		return error;
	struct span span = {fit->from, fit->to, fit->guessed, false, 0, 1};
	/* a guess is some hundredths off */
	if (fit->guessed && fit->guess > 64 && fit->guess < fit->to)
		span.first_step = (uint64_t)fit->guess / 64;
	/* at most 64 halves, and as many steps before them */
	while ((uint64_t)span.high - (uint64_t)span.low > 1) {
		int64_t value = next_value(&span, fit->guess);
		error = try(fit, run, data, value, &fits);
		if (error)
			return error;
		take(&span, value, fits);
	}
	fit->largest = span.low;
	return NULL;
}

const struct gm_fit_run *gm_fit_run_of(const struct gm_fit *fit, int64_t value)
{
	for (unsigned i = 0; i < fit->count; i++)
		if (fit->runs[i].value == value)
			return &fit->runs[i];
	return NULL;
}

/* The run that fits with the largest value, or with the smallest one; NULL: none. */
static const struct gm_fit_run *outermost(const struct gm_fit *fit, bool largest)
{
	const struct gm_fit_run *best = NULL;
	for (unsigned i = 0; i < fit->count; i++) {
		const struct gm_fit_run *run = &fit->runs[i];
		if (run->fits && (!best || (run->value > best->value) == largest))
			best = run;
	}
	return best;
}

bool gm_fit_guess(const struct gm_fit *earlier, uint64_t room, int64_t *ret_value)
{
	const struct gm_fit_run *high = outermost(earlier, true), *low = outermost(earlier, false);
	if (!low || high->peak_reserved <= low->peak_reserved)
		return false;
	double each = (double)(high->peak_reserved - low->peak_reserved) /
	              ((double)high->value - (double)low->value);
	double value = (double)high->value + ((double)room - (double)high->peak_reserved) / each;
	if (!(value > -9e18 && value < 9e18))
		return false;
	*ret_value = (int64_t)value;
	return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

size_t gm_fit_combinations(const struct gm_fit_table *table)
{
	size_t count = 1;
	for (size_t i = 0; i < table->variable_count; i++)
		count = table->variables[i].count > GM_FIT_CELLS_MAX / count
		                ? GM_FIT_CELLS_MAX + 1
		                : count * table->variables[i].count;
	return count;
}

struct gm_error *gm_fit_table_fill(struct gm_fit_table *table)
{
	size_t combinations = gm_fit_combinations(table);
	size_t count = table->device_count * table->way_count;
	if (count > GM_FIT_CELLS_MAX || combinations > GM_FIT_CELLS_MAX / count)
		return gm_error_create(GM_USAGE,
		        "fit: more than %d combinations of devices, values and measures: give "
		        "fewer",
		        GM_FIT_CELLS_MAX);
	count *= combinations;
	table->cells = calloc(count, sizeof(*table->cells));
	if (!table->cells)
		return &gm_error_no_memory;
	table->count = count;
	for (size_t i = 0; i < count; i++) {
		struct gm_fit_cell *cell = &table->cells[i];
		size_t combination = i / table->way_count % combinations;
		cell->way = (unsigned)(i % table->way_count);
		cell->device = (unsigned)(i / table->way_count / combinations);
		for (size_t j = table->variable_count; j-- > 0;) {
			cell->values[j] = (unsigned)(combination % table->variables[j].count);
			combination /= table->variables[j].count;
		}
		cell->search.from = table->from;
		cell->search.to = table->to;
	}
	return NULL;
}

void gm_fit_table_guess(const struct gm_fit_table *table, struct gm_fit_cell *cell)
{
	uint64_t room = table->devices[cell->device].room;
	for (const struct gm_fit_cell *earlier = table->cells; earlier < cell; earlier++)
		if (earlier->way == cell->way &&
		        memcmp(earlier->values, cell->values, sizeof(cell->values)) == 0)
			cell->search.guessed |=
			        gm_fit_guess(&earlier->search, room, &cell->search.guess);
}

bool gm_fit_has_prices(const struct gm_fit_table *table)
{
	for (size_t i = 0; i < table->device_count; i++)
		if (table->devices[i].priced)
			return true;
	return false;
}

/* Is a device cheaper than another? */
static bool is_cheaper(
        const struct gm_fit_device *device, const struct gm_fit_device *other, bool prices)
{
	if (prices && device->price != other->price)
		return device->price < other->price;
	return device->total < other->total;
}

const struct gm_fit_cell *gm_fit_cheapest(const struct gm_fit_table *table, size_t combination)
{
	size_t combinations = gm_fit_combinations(table);
	const struct gm_fit_cell *best = NULL;
	bool prices = gm_fit_has_prices(table);
	for (size_t i = 0; i < table->count; i++) {
		const struct gm_fit_cell *cell = &table->cells[i];
		const struct gm_fit_device *device = &table->devices[cell->device];
		if (i / table->way_count % combinations != combination ||
		        cell->outcome != GM_FIT_FITS || (prices && !device->priced))
			continue;
		if (!best || is_cheaper(device, &table->devices[best->device], prices))
			best = cell;
	}
	return best;
}
