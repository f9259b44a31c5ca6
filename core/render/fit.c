#include "render/fit.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "render/json.h"
#include "render/say.h"

/* ---- one search ------------------------------------------------------------------------------ */

void gm_render_fit_run(
        const struct gm_fit_table *table, const struct gm_fit_run *run, bool header, FILE *out)
{
	char reserved[GM_SIZE_TEXT], allocated[GM_SIZE_TEXT];
	if (header)
		gm_put(out, "%12s  %-12s %14s %14s %9s\n", table->range, "", "PEAK RESERVED",
		        "PEAK ALLOCATED", "SECONDS");
	gm_put(out, "%12" PRId64 "  %-12s %14s %14s %9.1f\n", run->value,
	        run->fits ? "fits" : "does not fit", gm_text_size(run->peak_reserved, reserved),
	        gm_text_size(run->peak_allocated, allocated), run->seconds);
	fflush(out);
}

void gm_render_fit_text(const struct gm_fit_table *table, FILE *out)
{
	char total[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT];
	const struct gm_fit *fit = &table->cells[0].search;
	const struct gm_fit_device *device = &table->devices[0];
	gm_text_size(device->total, total);
	if (!fit->any) {
		gm_put(out, "\nNot even %s = %" PRId64 " fits %s (%s).\n", table->range, fit->from,
		        device->profile, total);
		return;
	}
	const struct gm_fit_run *best = gm_fit_run_of(fit, fit->largest);
	gm_put(out, "\n%s = %" PRId64 " is the largest that fits %s (%s): it takes %s.\n",
	        table->range, fit->largest, device->profile, total,
	        gm_text_size(best ? best->peak_reserved : 0, reserved));
	if (fit->largest == fit->to)
		gm_put(out, "It is the upper end of the range: more may fit.\n");
	else
		gm_put(out,
		        "%u runs. gpumem assumes that if a value fits, every smaller value fits.\n",
		        fit->count);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The run that the row tells of: of the largest value that fits, else the first. */
static const struct gm_fit_run *told_run(const struct gm_fit_cell *cell)
{
	const struct gm_fit *search = &cell->search;
	return search->any         ? gm_fit_run_of(search, search->largest)
	       : search->count > 0 ? &search->runs[0]
	                           : NULL;
}

/* "checkpoint: nothing to change" behind a row; the caller frees it. */
static char *remark(const struct gm_fit_table *table, const struct gm_fit_cell *cell)
{
	const struct gm_fit_way *way = &table->ways[cell->way];
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return NULL;
	if (cell->outcome == GM_FIT_FAILED)
		gm_put(stream, "the program fails: %s", cell->why);
	else if (cell->outcome == GM_FIT_DOES_NOT_FIT && table->range)
		gm_put(stream, "not even %" PRId64 " fits", table->from);
	else if (cell->search.any && table->range && cell->search.largest == table->to)
		gm_put(stream, "more may fit");
	for (size_t i = 0; i < way->measure_count && cell->outcome != GM_FIT_FAILED; i++)
		if (cell->not_applied >> i & 1)
			gm_put(stream, "%s%s changes nothing here", ftell(stream) > 0 ? "; " : "",
			        way->measures[i]);
	fclose(stream);
	return text;
}

/* What the row says of the search: the largest value, or whether it fits. */
static void put_result(
        struct gm_table *lines, const struct gm_fit_table *table, const struct gm_fit_cell *cell)
{
	if (table->range && cell->search.any)
		gm_table_cell(lines, "%" PRId64, cell->search.largest);
	else if (table->range || cell->outcome == GM_FIT_FAILED)
		gm_table_cell(lines, "-");
	else
		gm_table_cell(lines, "%s", cell->outcome == GM_FIT_FITS ? "yes" : "no");
}

static void put_row(
        struct gm_table *lines, const struct gm_fit_table *table, const struct gm_fit_cell *cell)
{
	const struct gm_fit_device *device = &table->devices[cell->device];
	const struct gm_fit_run *run = told_run(cell);
	const char *name = table->ways[cell->way].name;
	char size[GM_SIZE_TEXT];
	_cleanup_free_ char *text = remark(table, cell);
	gm_table_cell(lines, "%s", device->name);
	gm_table_cell(lines, "%s", gm_text_size(device->total, size));
	for (size_t i = 0; i < table->variable_count; i++)
		gm_table_cell(lines, "%s", table->variables[i].values[cell->values[i]]);
	if (table->way_count > 1)
		gm_table_cell(lines, "%s", *name ? name : "-");
	put_result(lines, table, cell);
	gm_table_cell(lines, "%s", run ? gm_text_size(run->peak_reserved, size) : "-");
	gm_table_cell(lines, "%s", run ? gm_text_size(run->peak_allocated, size) : "-");
	gm_table_cell(lines, "%u", cell->search.count);
	gm_table_cell(lines, "%s", text ? text : "");
}

/* "sequence = 512, layers = 4" */
static void put_values(const struct gm_fit_table *table, size_t combination, FILE *out)
{
	/* the first cell of the combination on the first device */
	const struct gm_fit_cell *cell = &table->cells[combination * table->way_count];
	for (size_t i = 0; i < table->variable_count; i++)
		gm_put(out, "%s%s = %s", i ? ", " : "", table->variables[i].name,
		        table->variables[i].values[cell->values[i]]);
}

static void put_cheapest(const struct gm_fit_table *table, FILE *out)
{
	bool prices = gm_fit_has_prices(table);
	if (table->device_count < 2)
		return;
	gm_put(out, "\nThe %s device on which ", prices ? "cheapest" : "smallest");
	if (table->range)
		gm_put(out, "%s = %" PRId64 " fits:\n", table->range, table->from);
	else
		gm_put(out, "the program fits:\n");
	for (size_t i = 0; i < gm_fit_combinations(table); i++) {
		char size[GM_SIZE_TEXT];
		const struct gm_fit_cell *cell = gm_fit_cheapest(table, i);
		fputs("  ", out);
		put_values(table, i, out);
		fputs(table->variable_count ? ": " : "", out);
		if (!cell) {
			gm_put(out, "none of these%s\n", prices ? " that have a price" : "");
			continue;
		}
		const struct gm_fit_device *device = &table->devices[cell->device];
		gm_put(out, "%s (%s)", device->name, gm_text_size(device->total, size));
		if (prices)
			gm_put(out, " at %g", device->price);
		if (*table->ways[cell->way].name)
			gm_put(out, ", with %s", table->ways[cell->way].name);
		if (table->range)
			gm_put(out, ", up to %s = %" PRId64, table->range, cell->search.largest);
		fputc('\n', out);
	}
}

struct gm_error *gm_render_fit_table(
        const struct gm_fit_table *table, const struct gm_style *style, FILE *out)
{
	const char *heads[GM_TABLE_COLUMNS] = {"DEVICE", "MEMORY"};
	char alignment[GM_TABLE_COLUMNS + 1] = "lr";
	size_t count = 2;
	for (size_t i = 0; i < table->variable_count; i++) {
		alignment[count] = 'r';
		heads[count++] = table->variables[i].name;
	}
	if (table->way_count > 1) {
		alignment[count] = 'l';
		heads[count++] = "WITH";
	}
	_cleanup_free_ char *largest = table->range ? gm_say("LARGEST %s", table->range) : NULL;
	heads[count] = largest ? largest : "FITS";
	heads[count + 1] = "PEAK RESERVED";
	heads[count + 2] = "PEAK ALLOCATED";
	heads[count + 3] = "RUNS";
	heads[count + 4] = "";
	heads[count + 5] = NULL;
	strcpy(alignment + count, "rrrrl");
	struct gm_table *lines = gm_table_create(heads, alignment);
	for (size_t i = 0; i < table->count; i++)
		put_row(lines, table, &table->cells[i]);
	if (!gm_table_finish(lines, style, out))
		return &gm_error_no_memory;
	put_cheapest(table, out);
	if (table->range)
		gm_put(out, "\ngpumem assumes that if a value fits, every smaller value fits.\n");
	return NULL;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *runs_json(const struct gm_fit *fit)
{
	json_t *runs = json_array();
	for (unsigned i = 0; runs && i < fit->count; i++) {
		const struct gm_fit_run *run = &fit->runs[i];
		json_array_append_new(
		        runs, json_pack("{s:I,s:b,s:I,s:I,s:f}", "value", (json_int_t)run->value,
		                      "fits", run->fits, "peak_reserved",
		                      (json_int_t)run->peak_reserved, "peak_allocated",
		                      (json_int_t)run->peak_allocated, "seconds", run->seconds));
	}
	return runs;
}

static const char *const outcomes[] = {
        [GM_FIT_NOT_RUN] = "not_run",
        [GM_FIT_FITS] = "fits",
        [GM_FIT_DOES_NOT_FIT] = "does_not_fit",
        [GM_FIT_FAILED] = "failed",
};

static json_t *largest_json(const struct gm_fit_table *table, const struct gm_fit_cell *cell)
{
	return table->range && cell->search.any ? json_integer(cell->search.largest) : json_null();
}

static json_t *measures_json(const struct gm_fit_way *way, unsigned bits)
{
	json_t *list = json_array();
	for (size_t i = 0; i < way->measure_count; i++)
		if (bits >> i & 1)
			json_array_append_new(list, gm_json_string(way->measures[i]));
	return list;
}

static json_t *cell_json(const struct gm_fit_table *table, const struct gm_fit_cell *cell)
{
	const struct gm_fit_device *device = &table->devices[cell->device];
	const struct gm_fit_way *way = &table->ways[cell->way];
	const struct gm_fit_run *run = told_run(cell);
	json_t *values = json_object();
	for (size_t i = 0; i < table->variable_count; i++)
		json_object_set_new(values, table->variables[i].name,
		        gm_json_string(table->variables[i].values[cell->values[i]]));
	return json_pack("{s:o,s:I,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "device",
	        gm_json_string(device->name), "total", (json_int_t)device->total, "price",
	        device->priced ? json_real(device->price) : json_null(), "values", values, "with",
	        *way->name ? gm_json_string(way->name) : json_null(), "not_applied",
	        measures_json(way, cell->not_applied), "outcome", outcomes[cell->outcome],
	        "largest", largest_json(table, cell), "peak_reserved",
	        run ? json_integer((json_int_t)run->peak_reserved) : json_null(), "peak_allocated",
	        run ? json_integer((json_int_t)run->peak_allocated) : json_null(), "error",
	        cell->outcome == GM_FIT_FAILED ? gm_json_string(cell->why) : json_null(), "runs",
	        runs_json(&cell->search));
}

struct gm_error *gm_render_fit_json(const struct gm_fit_table *table, bool tabled, FILE *out)
{
	const struct gm_fit_cell *first = &table->cells[0];
	json_t *cells = json_array(), *cheapest = json_array();
	for (size_t i = 0; i < table->count && tabled; i++)
		json_array_append_new(cells, cell_json(table, &table->cells[i]));
	for (size_t i = 0; i < gm_fit_combinations(table) && tabled; i++) {
		const struct gm_fit_cell *cell = gm_fit_cheapest(table, i);
		json_array_append_new(cheapest,
		        cell ? json_integer((json_int_t)(cell - table->cells)) : json_null());
	}
	return gm_json_write(
	        json_pack("{s:o,s:I,s:I,s:o,s:I,s:o,s:o,s:s,s:o,s:o}", "name",
	                table->range ? gm_json_string(table->range) : json_null(), "from",
	                (json_int_t)table->from, "to", (json_int_t)table->to, "profile",
	                gm_json_string(table->devices[first->device].profile), "total",
	                (json_int_t)table->devices[first->device].total, "largest",
	                largest_json(table, first), "runs", runs_json(&first->search), "assumes",
	                "monotonic", "table", cells, "cheapest", cheapest),
	        false, out);
}
