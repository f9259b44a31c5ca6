#include <inttypes.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/answers.h"
#include "render/cause.h"
#include "render/json.h"
#include "render/names.h"
#include "render/tensor.h"
#include "render/text.h"
#include "ask/recording/cause.h"
#include "ask/recording/place.h"
#include "ask/why.h"

static void put_stack(const struct gm_why *why, const char *what, uint32_t number, FILE *out)
{
	struct gm_event event;
	struct gm_frame_place place;
	gm_log_event(gm_model_log(why->model), number, &event);
	gm_put(out, "%s: event %u%s\n", what, number,
	        event.flags & GM_EVENT_BORROWED ? " (the stack is the waiting caller's)" : "");
	for (size_t i = 0; gm_place_frame(gm_model_log(why->model), event.python_stack, i, &place);
	        i++)
		gm_put(out, "    %s:%u in %s\n", gm_text_path(place.file), place.line,
		        place.function);
	struct gm_forward_frame forward;
	for (size_t i = 0; gm_model_forward(why->model, number, i, &forward); i++) {
		if (i == 0)
			fputs("  in the backward of a node that the forward pass made at\n", out);
		gm_put(out, "    %s:%u in %s\n", gm_text_path(forward.file), forward.line,
		        forward.function);
	}
}

static void put_tensor(const struct gm_why *why, FILE *out)
{
	struct gm_event event;
	char text[GM_TENSOR_TEXT];
	if (why->block.alloc == GM_NO_EVENT)
		return;
	gm_log_event(gm_model_log(why->model), why->block.alloc, &event);
	if (*gm_text_tensor(gm_model_log(why->model), event.tensor, text))
		gm_put(out, ", %s", text);
}

struct gm_error *gm_render_why_text(
        const struct gm_why *why, const struct gm_style *style, FILE *out)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED], names[GM_NAMES_TEXT];
	_cleanup_free_ char *sentence = NULL, *held_until = NULL;
	gm_try(gm_cause_sentence(why, &sentence));
	gm_try(gm_cause_held_until(why, &held_until));
	gm_put(out, "Block 0x%" PRIx64, why->block.address);
	if (why->block.alloc != GM_NO_EVENT)
		gm_put(out, " (#%u)", why->block.alloc);
	gm_put(out, ", %s (%s bytes)", gm_text_size(why->block.size, size),
	        gm_text_grouped(why->block.size, exact));
	put_tensor(why, out);
	if (*gm_text_names(why->model, why->number, names))
		gm_put(out, ", %s", names);
	fputs(":\n", out);
	fputs(style->colors ? "\033[1m" : "", out);
	gm_put(out, "%s", sentence);
	fputs(style->colors ? "\033[0m\n" : "\n", out);
	if (held_until)
		gm_put(out, "kept by: %s\n", held_until);
	if (why->meanwhile_blocks)
		gm_put(out, "while it lived: %" PRIu64 " other block%s allocated, %s (%s bytes)\n",
		        why->meanwhile_blocks, why->meanwhile_blocks == 1 ? " was" : "s were",
		        gm_text_size(why->meanwhile_bytes, size),
		        gm_text_grouped(why->meanwhile_bytes, exact));
	if (why->skipped_count) {
		gm_put(out, "while it lived, step%s ", gm_text_s(why->skipped_count));
		for (size_t i = 0; i < why->skipped_count && i < GM_WHY_SKIPPED_MAX; i++)
			gm_put(out, "%s%u", i ? ", " : "", why->skipped[i]);
		if (why->skipped_count > GM_WHY_SKIPPED_MAX)
			gm_put(out, " and %zu more", why->skipped_count - GM_WHY_SKIPPED_MAX);
		fputs(why->skipped_count == 1 ? " was skipped: found inf\n"
		                              : " were skipped: found inf\n",
		        out);
	}
	if (why->block.alloc != GM_NO_EVENT)
		put_stack(why, "allocated", why->block.alloc, out);
	if (why->freed != GM_NO_EVENT)
		put_stack(why, "released", why->freed, out);
	return NULL;
}

static json_t *cause_json(const struct gm_why *why)
{
	const struct gm_cause *cause = &why->cause;
	if (why->freed == GM_NO_EVENT)
		return json_null();
	const struct gm_frame_place *place = gm_why_statement(why), *user = &why->freed_at;
	bool known = place->code != 0;
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
	        gm_cause_name(cause->kind), "name",
	        cause->name ? gm_json_string(cause->name) : json_null(), "function",
	        known ? gm_json_string(place->function) : json_null(), "file",
	        known ? gm_json_string(place->file) : json_null(), "line",
	        known ? json_integer(place->line) : json_null(), "step",
	        cause->step ? json_integer(cause->step) : json_null(), "user_file",
	        user->code ? gm_json_string(user->file) : json_null(), "user_line",
	        user->code ? json_integer(user->line) : json_null());
}

struct gm_error *gm_render_why_json(const struct gm_why *why, FILE *out)
{
	_cleanup_free_ char *sentence = NULL, *held_until = NULL;
	gm_try(gm_cause_sentence(why, &sentence));
	gm_try(gm_cause_held_until(why, &held_until));
	json_t *value = json_object();
	const struct gm_block *block = &why->block;
	json_object_set_new(value, "block",
	        json_pack("{s:o, s:I, s:i, s:o}", "address", gm_json_address(block->address),
	                "size", (json_int_t)block->size, "device",
	                (int)gm_model_device(why->model, block->device)->index, "requested",
	                block->requested ? json_integer((json_int_t)block->requested)
	                                 : json_null()));
	gm_json_set_names(json_object_get(value, "block"), why->model, why->number);
	json_object_set_new(value, "allocated",
	        block->alloc == GM_NO_EVENT ? json_null()
	                                    : gm_json_event(why->model, block->alloc));
	json_object_set_new(value, "freed",
	        why->freed == GM_NO_EVENT ? json_null() : gm_json_event(why->model, why->freed));
	json_object_set_new(value, "cause", cause_json(why));
	json_object_set_new(
	        value, "held_until", held_until ? gm_json_string(held_until) : json_null());
	json_object_set_new(value, "successor",
	        why->successor == GM_NO_BLOCK
	                ? json_null()
	                : json_integer(gm_model_block(why->model, why->successor)->alloc));
	json_object_set_new(
	        value, "meanwhile_bytes", json_integer((json_int_t)why->meanwhile_bytes));
	json_t *skipped = json_array();
	for (size_t i = 0; i < why->skipped_count && i < GM_WHY_SKIPPED_MAX; i++)
		json_array_append_new(skipped, json_integer(why->skipped[i]));
	json_object_set_new(value, "skipped_steps", skipped);
	json_object_set_new(
	        value, "skipped_step_count", json_integer((json_int_t)why->skipped_count));
	json_object_set_new(value, "sentence", gm_json_string(sentence));
	return gm_json_write(value, true, out);
}
