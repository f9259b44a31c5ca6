#include "render/leaks.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/chain.h"
#include "render/json.h"
#include "render/step_head.h"
#include "render/text.h"
#include "ask/recording/place.h"

/* "  #225  item 4 of list: local 'losses' of train() at leak.py:20" */
static struct gm_error *put_holder(const struct gm_leak_holder *holder, FILE *out)
{
	if (!holder->there) {
		fputs("no storage of its size is at its address: it was freed, or the recording is "
		      "of another process\n",
		        out);
		return NULL;
	}
	if (!holder->found) {
		fputs("no holder was found: `gpumem who-holds` shows what was searched\n", out);
		return NULL;
	}
	_cleanup_free_ char *words = gm_chain_text(&holder->first);
	if (!words)
		return &gm_error_no_memory;
	gm_put(out, "%s%s", holder->first.class == GM_PROVEN ? "" : "(plausible) ", words);
	if (holder->others)
		gm_put(out, "; and %zu more", holder->others);
	fputc('\n', out);
	return NULL;
}

/* "its container has 6 of at most 10 items (maxlen of the deque); full it has about 1.00 GiB" */
static void put_limit(const struct gm_leak_holder *holder, FILE *out)
{
	static const char *const words[] = {
	        [GM_PYTHON_BOUND_MAXLEN] = "maxlen of the deque",
	        [GM_PYTHON_BOUND_MAXSIZE] = "maxsize of the lru_cache",
	        [GM_PYTHON_BOUND_LENGTH] = "the rest of the list is None",
	};
	const struct gm_python_bound *limit = &holder->limit;
	char size[GM_SIZE_TEXT];
	gm_put(out, "its container has %" PRIu64 " of at most %" PRIu64 " items", limit->count,
	        limit->limit);
	if (limit->kind == GM_PYTHON_BOUND_ATTRIBUTE)
		gm_put(out, " (plausible: attribute '%s' of its owner)", limit->name);
	else
		gm_put(out, " (%s)", words[limit->kind]);
	gm_put(out, "; full it has about %s", gm_text_size(holder->bytes_when_full, size));
}

static struct gm_error *put_holders(const struct gm_leaks *leaks, FILE *out)
{
	if (!leaks->items[0].holder) {
		gm_put(out, "To see the holders, ask while the program runs, in gdb or with --pid, "
		            "or ask a core (`gpumem leaks FILE --core CORE`).\n");
		return NULL;
	}
	fputs("Of these blocks, each line's oldest is held by:\n", out);
	for (size_t i = 0; i < leaks->count && leaks->items[i].holder; i++) {
		gm_put(out, "  #%-5u ",
		        gm_model_block(leaks->model, leaks->items[i].oldest)->alloc);
		gm_try(put_holder(leaks->items[i].holder, out));
		if (!leaks->items[i].holder->limited)
			continue;
		fputs("          ", out);
		put_limit(leaks->items[i].holder, out);
		fputs(": it grows until then\n", out);
	}
	return NULL;
}

static const char *bound_kind(enum gm_python_bound_kind kind)
{
	static const char *const names[] = {
	        [GM_PYTHON_BOUND_MAXLEN] = "maxlen",
	        [GM_PYTHON_BOUND_MAXSIZE] = "maxsize",
	        [GM_PYTHON_BOUND_LENGTH] = "length",
	        [GM_PYTHON_BOUND_ATTRIBUTE] = "attribute",
	};
	return names[kind];
}

static json_t *holder_json(const struct gm_leak_holder *holder, const struct gm_block *block)
{
	if (!holder || !holder->found)
		return json_null();
	_cleanup_free_ char *words = gm_chain_text(&holder->first);
	if (!words)
		return NULL;
	return json_pack("{s:i, s:o, s:s, s:I, s:b}", "allocated", (int)block->alloc, "text",
	        gm_json_string(words), "class", gm_chain_class_name(holder->first.class), "others",
	        (json_int_t)holder->others, "complete", holder->complete);
}

/* "the loop at train.py:12" */
static void put_loop(const struct gm_leaks *leaks, const struct gm_leak_loop *loop, FILE *out)
{
	struct gm_log_code code;
	if (gm_log_code(gm_model_log(leaks->model), loop->loop.code, &code))
		gm_put(out, "the loop at %s:%u",
		        gm_text_path(gm_log_string(gm_model_log(leaks->model), code.file)),
		        loop->loop.line);
}

static bool was_looked_at(const struct gm_leak_loop *loop)
{
	return loop->to >= loop->from;
}

static void put_none(const struct gm_leaks *leaks, FILE *out)
{
	const struct gm_leak_loop *steps = &leaks->loops[0];
	bool around = false;
	for (uint32_t i = 1; i < leaks->loop_count; i++)
		around |= was_looked_at(&leaks->loops[i]);
	if (!was_looked_at(steps) && !around) {
		gm_put(out,
		        "Leaks cannot be found: the recording has %u step%s, and growth shows only "
		        "over %d.\n",
		        gm_model_step_count(leaks->model),
		        gm_text_s(gm_model_step_count(leaks->model)), GM_LEAK_STEPS_MIN + 2);
		return;
	}
	/* the lines that follow are listed after this sentence, with the reasons */
	fputs(leaks->bounded_count ? "No leak: only blocks of lines whose growth ends accumulate"
	                           : "No leak: no line's blocks accumulate",
	        out);
	bool more = was_looked_at(steps);
	if (more)
		gm_put(out, " from step %u to %u", steps->from, steps->to);
	for (uint32_t i = 1; i < leaks->loop_count; i++) {
		if (!was_looked_at(&leaks->loops[i]))
			continue;
		gm_put(out, "%s over the %u iterations of ",
		        !more                  ? ""
		        : leaks->bounded_count ? ", or"
		                               : ", nor",
		        leaks->loops[i].to - leaks->loops[i].from + 1);
		more = true;
		put_loop(leaks, &leaks->loops[i], out);
	}
	fputs(".\n", out);
}

/* What the answer does not cover. */
static void put_not_covered(const struct gm_leaks *leaks, FILE *out)
{
	char made[GM_SIZE_TEXT], all[GM_SIZE_TEXT];
	gm_put_other_training(leaks->model, out);
	const struct gm_model_device *device = gm_model_device(leaks->model, leaks->device);
	bool released = leaks->later_bytes && leaks->later_released == leaks->later_bytes;
	if (released)
		gm_put(out,
		        "The peak is after the steps, at event %u: %s of its %s were allocated in "
		        "a "
		        "loop there, and released by the end.\n",
		        device->peak_event, gm_text_size(leaks->later_bytes, made),
		        gm_text_size(device->peak.allocated, all));
	bool peak = leaks->later_bytes && !released;
	if (!peak && !leaks->later_kept)
		return;
	fputs("Not examined: what follows these loops.", out);
	if (peak)
		gm_put(out,
		        " The peak is there, after event %u: %s of its %s were allocated there.",
		        device->peak_event, gm_text_size(leaks->later_bytes, made),
		        gm_text_size(device->peak.allocated, all));
	if (leaks->later_kept)
		gm_put(out,
		        " %s in %" PRIu64 " block%s were allocated there and not released by the "
		        "end.",
		        gm_text_size(leaks->later_kept, made), leaks->later_kept_blocks,
		        gm_text_s(leaks->later_kept_blocks));
	fputc('\n', out);
}

/* "The memory of 2 lines grows with each step (steps 2 to 9):" */
static void put_level(
        const struct gm_leaks *leaks, const struct gm_leak_loop *loop, size_t count, FILE *out)
{
	gm_put(out, "The memory of %zu line%s grows with each ", count, gm_text_s(count));
	if (loop->of_steps) {
		gm_put(out, "step (steps %u to %u):\n", loop->from, loop->to);
		return;
	}
	fputs("iteration of ", out);
	put_loop(leaks, loop, out);
	gm_put(out, " (%u to %u):\n", loop->from, loop->to);
}

/* ---- what will end by itself ----------------------------------------------------------------- */

/* "has had 64 blocks since step 64: it is full" */
static void put_bound(const struct gm_leaks *leaks, const struct gm_leak *leak, FILE *out)
{
	const struct gm_leak_loop *loop = &leaks->loops[leak->bound_level];
	switch (leak->bound) {
	case GM_LEAK_FULL:
		gm_put(out,
		        "has had %" PRIu64
		        " block%s at the end of each %s since number %u: a buffer that is full",
		        leak->full_blocks, gm_text_s(leak->full_blocks),
		        loop->of_steps ? "step" : "iteration", leak->full_since);
		break;
	case GM_LEAK_BY_SHAPE:
		gm_put(out,
		        "keeps a block for each shape of the inputs: %u time%s a shape came again, "
		        "and it made nothing",
		        leak->recurrences, gm_text_s(leak->recurrences));
		break;
	case GM_LEAK_HAS_LIMIT:
		put_limit(leak->holder, out);
		break;
	default:
		break;
	}
}

static struct gm_error *put_bounded(const struct gm_leaks *leaks, FILE *out)
{
	for (size_t i = 0; i < leaks->bounded_count; i++) {
		const struct gm_leak *leak = &leaks->bounded[i];
		char size[GM_SIZE_TEXT];
		struct gm_frame_place place;
		if (i == 0)
			fputs("Not counted as leaks, as their growth ends:\n", out);
		if (gm_place_site(gm_model_log(leaks->model), leak->stack, &place))
			gm_put(out, "  %s:%u in %s", gm_text_path(place.file), place.line,
			        place.function);
		else
			gm_put(out, "  a line that is not known");
		gm_put(out, " (%" PRIu64 " block%s, %s) ", leak->blocks, gm_text_s(leak->blocks),
		        gm_text_size(leak->bytes, size));
		put_bound(leaks, leak, out);
		fputc('\n', out);
		if (leak->holder && leak->holder->found) {
			fputs("    held by ", out);
			gm_try(put_holder(leak->holder, out));
		}
	}
	return NULL;
}

/* What may be a cache, and cannot be told from a leak. */
static void put_undecided(const struct gm_leaks *leaks, FILE *out)
{
	size_t count = 0;
	for (size_t i = 0; i < leaks->count; i++)
		count += leaks->items[i].follows_shapes;
	if (count)
		gm_put(out,
		        "Of %zu line%s each block has another shape, as the inputs do, and too few "
		        "shapes came again to tell a cache from a leak.\n",
		        count, gm_text_s(count));
}

static void put_leak(struct gm_table *table, const struct gm_leaks *leaks,
        const struct gm_leak *leak, uint32_t iterations)
{
	char each[GM_SIZE_TEXT], all[GM_SIZE_TEXT];
	struct gm_frame_place place;
	gm_table_cell(table, "%s", gm_text_size(leak->bytes / iterations, each));
	gm_table_cell(table, "%s", gm_text_size(leak->bytes, all));
	gm_table_cell(table, "%" PRIu64, leak->blocks);
	gm_table_cell(table, "%u", leak->steps);
	gm_table_cell(table, "#%u", gm_model_block(leaks->model, leak->block)->alloc);
	gm_table_cell(table, "%s", gm_category_name(leak->category));
	const char *how = leak->joined ? ": one block, which grows" : "";
	if (gm_place_site(gm_model_log(leaks->model), leak->stack, &place))
		gm_table_cell(table, "%s:%u in %s%s", gm_text_path(place.file), place.line,
		        place.function, how);
	else
		gm_table_cell(table, "unknown%s", how);
}

struct gm_error *gm_render_leaks_text(
        const struct gm_leaks *leaks, const struct gm_style *style, FILE *out)
{
	if (leaks->device == SIZE_MAX) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	gm_put_other_devices(leaks->model, leaks->device, true, "leaks", out);
	if (!leaks->count) {
		put_none(leaks, out);
		put_not_covered(leaks, out);
		return put_bounded(leaks, out);
	}
	for (size_t i = 0, next; i < leaks->count; i = next) {
		const struct gm_leak_loop *loop = &leaks->loops[leaks->items[i].level];
		const char *const heads[] = {loop->of_steps ? "a step" : "each time", "in all",
		        "blocks", loop->of_steps ? "steps" : "times", "latest", "category",
		        "allocated at"};
		for (next = i;
		        next < leaks->count && leaks->items[next].level == leaks->items[i].level;)
			next++;
		put_level(leaks, loop, next - i, out);
		struct gm_table *table = gm_table_create(heads, "rrrrrll");
		for (size_t j = i; j < next; j++)
			put_leak(table, leaks, &leaks->items[j], loop->to - loop->from + 1);
		if (!gm_table_finish(table, style, out))
			return &gm_error_no_memory;
	}
	put_undecided(leaks, out);
	put_not_covered(leaks, out);
	gm_try(put_holders(leaks, out));
	return put_bounded(leaks, out);
}

static json_t *loop_json(const struct gm_leaks *leaks, const struct gm_leak_loop *loop)
{
	const struct gm_log *log = gm_model_log(leaks->model);
	struct gm_log_code code;
	if (loop->of_steps || !gm_log_code(log, loop->loop.code, &code))
		return json_null();
	return json_pack("{s:o, s:i, s:o}", "file", gm_json_string(gm_log_string(log, code.file)),
	        "line", (int)loop->loop.line, "function",
	        gm_json_string(gm_log_string(log, code.name)));
}

static json_t *looked_at_json(const struct gm_leak_loop *loop)
{
	return was_looked_at(loop) ? json_pack("[i, i]", (int)loop->from, (int)loop->to)
	                           : json_null();
}

static json_t *bound_json(const struct gm_leaks *leaks, const struct gm_leak *leak)
{
	const struct gm_leak_holder *holder = leak->holder;
	bool full = leak->bound == GM_LEAK_FULL, limited = holder && holder->limited;
	if (leak->bound == GM_LEAK_GROWS && !limited)
		return json_null();
	json_t *limit = json_null();
	if (limited)
		limit = json_pack("{s:s, s:o, s:I, s:I, s:I}", "kind",
		        bound_kind(holder->limit.kind), "name",
		        gm_json_string_or_null(holder->limit.name), "limit",
		        (json_int_t)holder->limit.limit, "count", (json_int_t)holder->limit.count,
		        "bytes_when_full", (json_int_t)holder->bytes_when_full);
	return json_pack("{s:s, s:o, s:o, s:o, s:I, s:o}", "kind", gm_leak_bound_name(leak->bound),
	        "loop", full ? loop_json(leaks, &leaks->loops[leak->bound_level]) : json_null(),
	        "since", full ? json_integer(leak->full_since) : json_null(), "blocks",
	        full ? json_integer((json_int_t)leak->full_blocks) : json_null(), "recurrences",
	        (json_int_t)leak->recurrences, "limit", limit);
}

static json_t *site_json(const struct gm_leaks *leaks, const struct gm_leak *leak)
{
	const struct gm_leak_loop *loop = &leaks->loops[leak->level];
	const struct gm_block *block = gm_model_block(leaks->model, leak->block);
	uint32_t iterations = loop->to - loop->from + 1;
	uint32_t steps = loop->of_steps ? iterations : gm_model_step_count(leaks->model);
	struct gm_frame_place place = {0};
	bool placed = gm_place_site(gm_model_log(leaks->model), leak->stack, &place);
	json_t *site = json_object();
	steps = steps ? steps : 1;
	iterations = iterations ? iterations : 1;
	json_object_set_new(site, "file", placed ? gm_json_string(place.file) : json_null());
	json_object_set_new(site, "line", placed ? json_integer(place.line) : json_null());
	json_object_set_new(
	        site, "function", placed ? gm_json_string(place.function) : json_null());
	json_object_set_new(
	        site, "bytes_per_step", json_integer((json_int_t)(leak->bytes / steps)));
	json_object_set_new(
	        site, "blocks_per_step", json_real((double)leak->blocks / (double)steps));
	json_object_set_new(site, "steps", json_integer(leak->steps));
	json_object_set_new(site, "loop", loop_json(leaks, loop));
	json_object_set_new(site, "iterations", looked_at_json(loop));
	json_object_set_new(
	        site, "bytes_per_iteration", json_integer((json_int_t)(leak->bytes / iterations)));
	json_object_set_new(site, "growth", json_string(leak->joined ? "joined" : "piles_up"));
	json_object_set_new(site, "bytes", json_integer((json_int_t)leak->bytes));
	json_object_set_new(site, "blocks", json_integer((json_int_t)leak->blocks));
	json_object_set_new(site, "category", json_string(gm_category_name(leak->category)));
	json_object_set_new(site, "latest",
	        json_pack("{s:i, s:o}", "allocated", (int)block->alloc, "address",
	                gm_json_address(block->address)));
	json_object_set_new(site, "holder",
	        holder_json(leak->holder, gm_model_block(leaks->model, leak->oldest)));
	json_object_set_new(site, "follows_shapes", json_boolean(leak->follows_shapes));
	json_object_set_new(site, "bound", bound_json(leaks, leak));
	return site;
}

struct gm_error *gm_render_leaks_json(const struct gm_leaks *leaks, FILE *out)
{
	json_t *value = json_object(), *sites = json_array(), *loops = json_array();
	for (uint32_t i = 0; i < leaks->loop_count; i++)
		json_array_append_new(loops,
		        json_pack("{s:o, s:o, s:s}", "loop", loop_json(leaks, &leaks->loops[i]),
		                "iterations", looked_at_json(&leaks->loops[i]), "kind",
		                gm_leak_loop_kind_name(leaks->loops[i].kind)));
	json_object_set_new(
	        value, "steps", leaks->loop_count ? looked_at_json(&leaks->loops[0]) : json_null());
	json_object_set_new(value, "looked_at", loops);
	for (size_t i = 0; i < leaks->count; i++)
		json_array_append_new(sites, site_json(leaks, &leaks->items[i]));
	json_object_set_new(value, "sites", sites);
	json_t *bounded = json_array();
	for (size_t i = 0; i < leaks->bounded_count; i++)
		json_array_append_new(bounded, site_json(leaks, &leaks->bounded[i]));
	json_object_set_new(value, "bounded", bounded);
	json_object_set_new(value, "device",
	        leaks->device == SIZE_MAX
	                ? json_null()
	                : json_integer(gm_model_device(leaks->model, leaks->device)->index));
	const struct gm_step_plan *plan = gm_model_step_plan(leaks->model);
	json_object_set_new(value, "other_training_threads", json_integer(plan->others));
	json_object_set_new(value, "other_training_tasks", json_integer(plan->other_tasks));
	json_object_set_new(value, "later_peak",
	        leaks->later_bytes
	                ? json_pack("{s:I, s:I, s:I}", "event",
	                          (json_int_t)gm_model_device(leaks->model, leaks->device)
	                                  ->peak_event,
	                          "bytes", (json_int_t)leaks->later_bytes, "released",
	                          (json_int_t)leaks->later_released)
	                : json_null());
	json_object_set_new(value, "later_kept",
	        leaks->later_kept ? json_pack("{s:I, s:I}", "bytes", (json_int_t)leaks->later_kept,
	                                    "blocks", (json_int_t)leaks->later_kept_blocks)
	                          : json_null());
	return gm_json_write(value, true, out);
}
