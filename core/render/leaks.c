#include "render/leaks.h"

#include <inttypes.h>

#include "render/json.h"

/* "  #225  item 4 of list: local 'losses' of train() at leak.py:20" */
static void put_holders(const struct gm_leaks *leaks, FILE *out)
{
	if (!leaks->items[0].holder) {
		fprintf(out,
		        "Who holds them: ask while the program runs, in gdb or with --pid, or of a "
		        "core "
		        "(`gpumem leaks FILE --core CORE`).\n");
		return;
	}
	fputs("Each line's oldest block is held by:\n", out);
	for (size_t i = 0; i < leaks->count && leaks->items[i].holder; i++) {
		const struct gm_leak_holder *holder = leaks->items[i].holder;
		fprintf(out, "  #%-5u ",
		        gm_model_block(leaks->model, leaks->items[i].oldest)->alloc);
		if (!holder->there)
			fputs("no storage of its size is at its address: it is gone, or the record "
			      "is of "
			      "another process\n",
			        out);
		else if (!holder->text)
			fputs("nothing that was found: `gpumem who-holds` tells what was "
			      "searched\n",
			        out);
		else
			fprintf(out, "%s%s", holder->class == GM_PROVEN ? "" : "(plausible) ",
			        holder->text);
		if (holder->text && holder->others)
			fprintf(out, "; and %zu more", holder->others);
		if (holder->text)
			fputc('\n', out);
	}
}

static json_t *holder_json(const struct gm_leak_holder *holder, const struct gm_block *block)
{
	if (!holder || !holder->text)
		return json_null();
	return json_pack("{s:i, s:o, s:s, s:I, s:b}", "allocated", (int)block->alloc, "text",
	        gm_json_string(holder->text), "class",
	        holder->class == GM_PROVEN      ? "proven"
	        : holder->class == GM_PLAUSIBLE ? "plausible"
	                                        : "stale",
	        "others", (json_int_t)holder->others, "complete", holder->complete);
}

struct gm_error *gm_render_leaks_text(
        const struct gm_leaks *leaks, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "a step", "in all", "blocks", "steps", "latest", "category", "allocated at"};
	if (leaks->device == SIZE_MAX) {
		fputs("No memory was allocated in the record.\n", out);
		return NULL;
	}
	uint32_t steps = leaks->to >= leaks->from ? leaks->to - leaks->from + 1 : 0;
	if (!steps) {
		fprintf(out,
		        "Leaks cannot be told: the record has %u step%s, and it takes %d to see "
		        "something "
		        "grow.\n",
		        gm_model_step_count(leaks->model),
		        gm_text_s(gm_model_step_count(leaks->model)), GM_LEAK_STEPS_MIN + 2);
		return NULL;
	}
	if (!leaks->count) {
		fprintf(out, "No leak: no line's blocks pile up from step %u to %u.\n", leaks->from,
		        leaks->to);
		return NULL;
	}
	fprintf(out, "%zu line%s leave%s more behind with each step (steps %u to %u looked at):\n",
	        leaks->count, leaks->count == 1 ? "" : "s", leaks->count == 1 ? "s" : "",
	        leaks->from, leaks->to);
	struct gm_table *table = gm_table_create(heads, "rrrrrll");
	for (size_t i = 0; i < leaks->count; i++) {
		const struct gm_leak *leak = &leaks->items[i];
		char a_step[GM_SIZE_TEXT], all[GM_SIZE_TEXT];
		struct gm_frame_place place;
		gm_table_cell(table, "%s", gm_text_size(leak->bytes / steps, a_step));
		gm_table_cell(table, "%s", gm_text_size(leak->bytes, all));
		gm_table_cell(table, "%" PRIu64, leak->blocks);
		gm_table_cell(table, "%u", leak->steps);
		gm_table_cell(table, "#%u", gm_model_block(leaks->model, leak->block)->alloc);
		gm_table_cell(table, "%s", gm_category_name(leak->category));
		if (gm_place_site(gm_model_log(leaks->model), leak->stack, &place))
			gm_table_cell(table, "%s:%u in %s", gm_text_path(place.file), place.line,
			        place.function);
		else
			gm_table_cell(table, "unknown");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	put_holders(leaks, out);
	return NULL;
}

struct gm_error *gm_render_leaks_json(const struct gm_leaks *leaks, FILE *out)
{
	json_t *value = json_object(), *sites = json_array();
	bool looked = leaks->device != SIZE_MAX && leaks->to >= leaks->from;
	uint32_t steps = looked ? leaks->to - leaks->from + 1 : 0;
	json_object_set_new(value, "steps",
	        looked ? json_pack("[i, i]", (int)leaks->from, (int)leaks->to) : json_null());
	for (size_t i = 0; i < leaks->count; i++) {
		const struct gm_leak *leak = &leaks->items[i];
		const struct gm_block *block = gm_model_block(leaks->model, leak->block);
		struct gm_frame_place place = {0};
		bool placed = gm_place_site(gm_model_log(leaks->model), leak->stack, &place);
		json_t *site = json_object();
		json_object_set_new(
		        site, "file", placed ? gm_json_string(place.file) : json_null());
		json_object_set_new(site, "line", placed ? json_integer(place.line) : json_null());
		json_object_set_new(
		        site, "function", placed ? gm_json_string(place.function) : json_null());
		json_object_set_new(
		        site, "bytes_per_step", json_integer((json_int_t)(leak->bytes / steps)));
		json_object_set_new(
		        site, "blocks_per_step", json_real((double)leak->blocks / (double)steps));
		json_object_set_new(site, "steps", json_integer(leak->steps));
		json_object_set_new(site, "bytes", json_integer((json_int_t)leak->bytes));
		json_object_set_new(site, "blocks", json_integer((json_int_t)leak->blocks));
		json_object_set_new(
		        site, "category", json_string(gm_category_name(leak->category)));
		json_object_set_new(site, "latest",
		        json_pack("{s:i, s:o}", "allocated", (int)block->alloc, "address",
		                gm_json_address(block->address)));
		json_object_set_new(site, "holder",
		        holder_json(leak->holder, gm_model_block(leaks->model, leak->oldest)));
		json_array_append_new(sites, site);
	}
	json_object_set_new(value, "sites", sites);
	return gm_json_write(value, true, out);
}
