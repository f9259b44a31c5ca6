#include "render/oom.h"
#include "render/group_text.h"
#include "render/groups.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/memory.h"
#include "render/oom_verdict.h"
#include "render/pause.h"
#include "render/retained_name.h"
#include "render/say.h"
#include "render/text.h"
#include "torch/allocator.h"
#include "ask/oom.h"
#include "ask/oom/oom_facts.h"

/* --- common to all forms ---------------------------------------------------------------------- */

static struct gm_error *put_lines(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement, FILE *out)
{
	if (judgement->line_count)
		fputs("the arithmetic:\n", out);
	for (size_t i = 0; i < judgement->line_count; i++) {
		const struct gm_oom_line *line = &judgement->lines[i];
		_cleanup_free_ char *text = gm_oom_line_text(facts, judgement, line);
		char size[GM_SIZE_TEXT];
		if (!text)
			return &gm_error_no_memory;
		gm_put(out, "  %c %11s  %s\n", line->sign, gm_text_size(line->bytes, size), text);
	}
	return NULL;
}

static const char *answer_word(const struct gm_oom_remedy *remedy)
{
	static const char *const answers[] = {"no", "yes", "maybe"};
	return answers[remedy->sufficient];
}

static struct gm_error *put_remedies(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement, FILE *out)
{
	if (judgement->remedy_count)
		fputs("would one of these have been enough?\n", out);
	for (size_t i = 0; i < judgement->remedy_count; i++) {
		const struct gm_oom_remedy *remedy = &judgement->remedies[i];
		_cleanup_free_ char *text = gm_oom_remedy_text(facts, judgement, remedy);
		if (!text)
			return &gm_error_no_memory;
		gm_put(out, "  %-5s  %s\n", answer_word(remedy), text);
	}
	return NULL;
}

static struct gm_error *put_verdict(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement, FILE *out)
{
	_cleanup_free_ char *sentence = gm_oom_sentence(facts, judgement);
	if (!sentence)
		return &gm_error_no_memory;
	gm_put(out, "verdict: %s\n  %s\n", gm_oom_verdict_name(judgement->verdict), sentence);
	if (facts->growth) {
		_cleanup_free_ char *growth = gm_oom_growth_text(facts, judgement);
		if (!growth)
			return &gm_error_no_memory;
		gm_put(out, "  %s\n", growth);
	}
	return put_lines(facts, judgement, out);
}

/* PyTorch's text has the size of the segment, which is larger than a small request. */
static const char *segment_note(const struct gm_oom_facts *facts)
{
	if (!facts->rounded || strcmp(facts->platform, "MPS") == 0)
		return "";
	if (facts->requested == GM_TORCH_SMALL_SEGMENT)
		return " (what PyTorch asks for when a tensor of up to 1 MiB does not fit)";
	if (facts->requested == GM_TORCH_LARGE_SEGMENT)
		return " (what PyTorch asks for when a tensor of 1 to 10 MiB does not fit)";
	return "";
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == GM_NOT_KNOWN ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *lines_json(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	json_t *lines = json_array();
	for (size_t i = 0; i < judgement->line_count; i++) {
		const struct gm_oom_line *line = &judgement->lines[i];
		char sign[2] = {line->sign, 0};
		json_array_append_new(lines,
		        json_pack("{s:s, s:I, s:o}", "sign", sign, "bytes", (json_int_t)line->bytes,
		                "text", gm_json_take(gm_oom_line_text(facts, judgement, line))));
	}
	return lines;
}

static json_t *remedies_json(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	json_t *remedies = json_array();
	for (size_t i = 0; i < judgement->remedy_count; i++) {
		const struct gm_oom_remedy *remedy = &judgement->remedies[i];
		json_array_append_new(remedies,
		        json_pack("{s:s, s:s, s:o, s:I, s:o}", "name",
		                gm_oom_remedy_name(remedy->kind), "sufficient", answer_word(remedy),
		                "text", gm_json_take(gm_oom_remedy_text(facts, judgement, remedy)),
		                "bytes", (json_int_t)remedy->bytes, "delays_iterations",
		                remedy->delays ? json_integer((json_int_t)remedy->delays)
		                               : json_null()));
	}
	return remedies;
}

static void set_place(json_t *value, const struct gm_oom_place *place)
{
	json_object_set_new(value, "file", gm_json_string_or_null(place->file));
	json_object_set_new(value, "line", place->file ? json_integer(place->line) : json_null());
	json_object_set_new(value, "function", gm_json_string_or_null(place->function));
}

static json_t *growth_json(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	const struct gm_oom_growth *growth = facts->growth;
	if (!growth)
		return json_null();
	json_t *loop = json_object();
	set_place(loop, &growth->loop);
	json_t *value = json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o}", "bytes",
	        (json_int_t)growth->bytes, "blocks", (json_int_t)growth->blocks, "lines",
	        (json_int_t)growth->lines, "iterations", (json_int_t)growth->iterations,
	        "bytes_per_iteration", (json_int_t)growth->each, "growth",
	        growth->joined ? "joined" : "piles_up", "more_iterations",
	        (json_int_t)judgement->sums.more_iterations, "loop", loop, "text",
	        gm_json_take(gm_oom_growth_text(facts, judgement)));
	set_place(value, &growth->at);
	return value;
}

static json_t *release_json(const struct gm_oom_release *release)
{
	if (!release || !release->possible)
		return json_null();
	json_t *addresses = json_array();
	for (size_t i = 0; i < release->blocks; i++)
		json_array_append_new(addresses, gm_json_address(release->addresses[i]));
	json_t *value = json_pack("{s:I, s:I, s:I, s:o}", "bytes", (json_int_t)release->bytes,
	        "blocks", (json_int_t)release->blocks, "segments", (json_int_t)release->segments,
	        "addresses", addresses);
	set_place(value, &release->at);
	return value;
}

/* The documented fields, from any source of facts. */
static json_t *facts_json(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	json_t *value = json_object(), *others = json_array();
	const struct {
		const char *key;
		uint64_t bytes;
	} fields[] = {{"requested", facts->requested}, {"needed", facts->needed},
	        {"total", facts->total}, {"free", facts->free},
	        {"limit", facts->limit ? facts->limit : GM_NOT_KNOWN},
	        {"allocated", facts->allocated}, {"reserved", facts->reserved},
	        {"unallocated", facts->unallocated}, {"private_pools", facts->private_pools},
	        {"pending", facts->pending}, {"largest_free", facts->largest_hole},
	        {"process", facts->process}, {"outside", judgement->sums.outside},
	        {"missing", judgement->sums.missing}};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		json_object_set_new(value, fields[i].key, bytes_json(fields[i].bytes));
	for (size_t i = 0; i < facts->other_count; i++) {
		json_t *other = json_pack("{s:I, s:I}", "pid", (json_int_t)facts->others[i].pid,
		        "bytes", (json_int_t)facts->others[i].bytes);
		if (facts->others[i].name[0])
			json_object_set_new(other, "name", gm_json_string(facts->others[i].name));
		json_array_append_new(others, other);
	}
	json_object_set_new(
	        value, "device", facts->device < 0 ? json_null() : json_integer(facts->device));
	json_object_set_new(value, "platform", json_string(facts->platform));
	json_object_set_new(value, "processes", others);
	json_object_set_new(value, "rounded", json_boolean(facts->rounded));
	json_object_set_new(value, "verdict",
	        judgement->verdict ? json_string(gm_oom_verdict_name(judgement->verdict))
	                           : json_null());
	json_object_set_new(value, "sentence",
	        judgement->verdict ? gm_json_take(gm_oom_sentence(facts, judgement)) : json_null());
	json_object_set_new(value, "arithmetic", lines_json(facts, judgement));
	json_object_set_new(value, "enough", remedies_json(facts, judgement));
	json_object_set_new(value, "growth", growth_json(facts, judgement));
	json_object_set_new(value, "release", release_json(facts->release));
	return value;
}

/* --- messages in a text ----------------------------------------------------------------------- */

struct gm_error *gm_render_oom_messages_text(const struct gm_oom_messages *messages,
        const struct gm_oom_judgement *judgements, const struct gm_style *style, FILE *out)
{
	for (size_t i = 0; i < messages->count; i++) {
		const struct gm_oom_message *message = &messages->items[i];
		const struct gm_oom_facts *facts = &message->facts;
		char size[GM_SIZE_TEXT], device[24] = "";
		if (facts->device >= 0)
			snprintf(device, sizeof(device), " on GPU %d", facts->device);
		fputs(i ? "\n" : "", out);
		gm_put(out, "%s%sline %u: %s%s: %s did not fit%s\n", message->label,
		        message->label[0] ? ", " : "", message->line, facts->platform, device,
		        gm_text_size(facts->requested, size), segment_note(facts));
		if (message->repeats > 1)
			gm_put(out, "  (the message occurs %u times)\n", message->repeats);
		gm_try(put_verdict(facts, &judgements[i], out));
		gm_try(put_remedies(facts, &judgements[i], out));
	}
	if (messages->left_out)
		gm_put(out, "\n%zu more message%s left out: after %zu different ones\n",
		        messages->left_out, messages->left_out == 1 ? " is" : "s are",
		        messages->count);
	return NULL;
}

struct gm_error *gm_render_oom_messages_json(const struct gm_oom_messages *messages,
        const struct gm_oom_judgement *judgements, FILE *out)
{
	json_t *all = json_array();
	for (size_t i = 0; i < messages->count; i++) {
		const struct gm_oom_message *message = &messages->items[i];
		json_t *one = facts_json(&message->facts, &judgements[i]);
		json_object_set_new(one, "label",
		        message->label[0] ? gm_json_string(message->label) : json_null());
		json_object_set_new(one, "line", json_integer(message->line));
		json_object_set_new(one, "repeats", json_integer(message->repeats));
		json_array_append_new(all, one);
	}
	return gm_json_write(
	        json_pack("{s:o,s:I}", "messages", all, "left_out", (json_int_t)messages->left_out),
	        true, out);
}

/* --- a process, a core, a recording ----------------------------------------------------------- */

static const char *state_text(enum gm_oom_found found)
{
	switch (found) {
	case GM_OOM_FOUND_REPORT:
		return "being raised now";
	case GM_OOM_FOUND_RAISED:
		return "in progress: it is being raised or handled";
	case GM_OOM_FOUND_HELD:
		return "caught: a running function has it, as an exception hook or a handler does";
	case GM_OOM_FOUND_LAST:
		return "it ended the program (sys.last_value)";
	case GM_OOM_FOUND_KEPT:
		return "handled: the program continued; something still refers to the exception";
	case GM_OOM_FOUND_TEXT:
		return "only its text is left in memory: it may be handled";
	case GM_OOM_FOUND_EVENT:
		return "recorded";
	default:
		return "handled: no trace of it is left";
	}
}

static const char *state_word(enum gm_oom_found found)
{
	static const char *const words[] = {
	        "gone", "reporting", "raised", "held", "last", "kept", "text", "recorded"};
	return words[found];
}

static void put_first_line(const struct gm_oom *oom, FILE *out)
{
	const struct gm_oom_place *site = gm_oom_site(oom);
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "%s ran out of memory",
	        gm_text_device(oom->memory.device_type, oom->memory.device, name));
	if (oom->facts.requested != GM_NOT_KNOWN && !oom->message)
		gm_put(out, ": %s (%s bytes) did not fit", gm_text_size(oom->facts.requested, size),
		        gm_text_grouped(oom->facts.requested, exact));
	else if (oom->facts.requested != GM_NOT_KNOWN)
		gm_put(out, ": %s did not fit", gm_text_size(oom->facts.requested, size));
	if (site)
		gm_put(out, ", at %s:%u in %s", gm_text_path(site->file), site->line,
		        site->function);
	if (oom->memory.event != GM_NO_EVENT)
		gm_put(out, " (event %u)", oom->memory.event);
	gm_put(out, "\nthe error: %s\n", state_text(oom->found));
}

static void put_counts(const struct gm_oom *oom, FILE *out)
{
	if (oom->retries == GM_NOT_KNOWN) {
		if (oom->ooms > 1)
			gm_put(out,
			        "the recording has %" PRIu64
			        " such errors; --at=EVENT selects another\n",
			        oom->ooms);
		return;
	}
	/* a report in progress is already counted */
	uint64_t shown = oom->exceptions                      ? oom->exceptions
	                 : oom->found == GM_OOM_FOUND_NOWHERE ? 0
	                                                      : 1;
	gm_put(out,
	        "PyTorch counts %" PRIu64 " out-of-memory error%s in all, and %" PRIu64
	        " time%s cudaMalloc failed and the cache was emptied for another attempt",
	        oom->ooms, oom->ooms == 1 ? "" : "s", oom->retries, oom->retries == 1 ? "" : "s");
	uint64_t others = oom->ooms > shown ? oom->ooms - shown : 0;
	if (others && shown)
		gm_put(out, "; the other %" PRIu64 " %s caught, and the program continued", others,
		        others == 1 ? "was" : "were");
	else if (others)
		gm_put(out, "; %s caught, and the program continued",
		        others == 1 ? "it was" : "all were");
	fputc('\n', out);
}

/* "global 'model' .blocks: parameters"; NULL: out of memory. */
static char *holder_text(const struct gm_oom_holder *holder)
{
	if (holder->smaller)
		return gm_say("%zu smaller", holder->smaller);
	if (holder->line)
		return strdup(gm_text_group(holder->kind, holder->line));
	char *node = gm_retained_node_text(holder->node);
	if (!holder->part || !node)
		return node;
	_cleanup_free_ char *whole = node, *part = gm_retained_node_text(holder->part);
	return part ? gm_say("%s: %s", whole, part) : NULL;
}

static struct gm_error *put_top(const struct gm_oom *oom, const struct gm_style *style, FILE *out)
{
	bool recorded = oom->memory.event != GM_NO_EVENT;
	const char *const heads[] = {
	        "size", "bytes", "blocks", recorded ? "allocated at" : "kept by"};
	if (!oom->top_count)
		return NULL;
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "what fills the device%s: %s allocated (%s bytes)\n",
	        oom->memory_is_then ? "" : ", now", gm_text_size(oom->memory.allocated, size),
	        gm_text_grouped(oom->memory.allocated, exact));
	struct gm_table *table = gm_table_create(heads, "rrrl");
	for (size_t i = 0; i < oom->top_count; i++) {
		const struct gm_oom_holder *holder = &oom->top[i];
		gm_table_cell(table, "%s", gm_text_size(holder->bytes, size));
		gm_table_cell(table, "%s", gm_text_grouped(holder->bytes, exact));
		gm_table_cell(table, "%" PRIu64, holder->blocks);
		_cleanup_free_ char *text = holder_text(holder);
		gm_table_cell(table, "%s", text ? gm_text_path(text) : "");
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

/* The segments with the most free bytes, which show fragmentation. */
static void put_fragments(const struct gm_oom *oom, FILE *out)
{
	const struct gm_memory *memory = &oom->memory;
	char size[GM_SIZE_TEXT], largest[GM_SIZE_TEXT];
	if (!memory->holes)
		return;
	size_t with = 0;
	for (size_t i = 0; i < memory->segment_count; i++)
		with += memory->segments[i].free > 0;
	gm_put(out,
	        "fragmentation%s: %s free in %zu part%s of %zu of %zu segments, the largest %s "
	        "(`gpumem segments` lists them)\n",
	        oom->memory_is_then ? "" : ", now", gm_text_size(memory->free, size), memory->holes,
	        memory->holes == 1 ? "" : "s", with, memory->segment_count,
	        gm_text_size(memory->largest_hole, largest));
}

struct gm_error *gm_render_oom_text(
        const struct gm_oom *oom, const char *const *next, const struct gm_style *style, FILE *out)
{
	put_first_line(oom, out);
	if (oom->judgement.verdict)
		gm_try(put_verdict(&oom->facts, &oom->judgement, out));
	else
		fputs("verdict: unknown\n"
		      "  The failed request is no longer in memory.\n",
		        out);
	if (!oom->memory_is_then && oom->message) {
		char then[GM_SIZE_TEXT], now[GM_SIZE_TEXT];
		gm_put(out,
		        "  These figures are from the time of the error. The program has continued "
		        "since: %s was allocated then, %s is now.\n",
		        gm_text_size(oom->facts.allocated, then),
		        gm_text_size(oom->memory.allocated, now));
	}
	gm_try(put_top(oom, style, out));
	put_fragments(oom, out);
	gm_put_memory_gaps(&oom->memory, "not complete: ", out);
	gm_put_pause(&oom->memory.pause, out);
	gm_try(put_remedies(&oom->facts, &oom->judgement, out));
	put_counts(oom, out);
	for (; next && *next; next++)
		gm_put(out, "next: %s\n", *next);
	return NULL;
}

static json_t *frames_json(const struct gm_oom *oom)
{
	json_t *frames = json_array();
	for (size_t i = 0; i < oom->frame_count; i++)
		json_array_append_new(frames,
		        json_pack("{s:o, s:i, s:o}", "file", gm_json_string(oom->frames[i].file),
		                "line", (int)oom->frames[i].line, "function",
		                gm_json_string(oom->frames[i].function)));
	return frames;
}

struct gm_error *gm_render_oom_json(const struct gm_oom *oom, FILE *out)
{
	json_t *value = facts_json(&oom->facts, &oom->judgement);
	json_t *top = json_array(), *now = json_object();
	for (size_t i = 0; i < oom->top_count; i++)
		json_array_append_new(top, json_pack("{s:o, s:I, s:I}", "text",
		                                   gm_json_take(holder_text(&oom->top[i])), "bytes",
		                                   (json_int_t)oom->top[i].bytes, "blocks",
		                                   (json_int_t)oom->top[i].blocks));
	json_object_set_new(now, "allocated", json_integer((json_int_t)oom->memory.allocated));
	json_object_set_new(now, "reserved", json_integer((json_int_t)oom->memory.reserved));
	json_object_set_new(now, "pending", json_integer((json_int_t)oom->memory.pending));
	json_object_set_new(now, "free", json_integer((json_int_t)oom->memory.free));
	json_object_set_new(
	        now, "largest_free", json_integer((json_int_t)oom->memory.largest_hole));
	json_object_set_new(now, "holes", json_integer((json_int_t)oom->memory.holes));
	json_object_set_new(now, "same_moment", json_boolean(oom->memory_is_then));
	json_object_set_new(value, "top", top);
	json_object_set_new(value, "memory", now);
	gm_json_set_memory_gaps(value, &oom->memory);
	json_object_set_new(value, "state", json_string(state_word(oom->found)));
	json_object_set_new(value, "event", gm_json_event_or_null(oom->memory.event));
	json_object_set_new(value, "thread", oom->thread ? json_integer(oom->thread) : json_null());
	json_object_set_new(value, "ooms", bytes_json(oom->ooms));
	json_object_set_new(value, "alloc_retries", bytes_json(oom->retries));
	json_object_set_new(
	        value, "message", oom->message ? gm_json_string(oom->message) : json_null());
	json_object_set_new(value, "python", frames_json(oom));
	return gm_json_write(value, true, out);
}
