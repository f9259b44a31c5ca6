#include "ranks/sections/leaks.h"

#include <stdlib.h>

#include "ask/recording/place.h"

static uint32_t line_of(struct gm_strings *strings, const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place;
	if (!gm_place_site(log, stack, &place))
		return gm_strings_add(strings, "unknown");
	return gm_section_place(strings, place.file, place.line, place.function);
}

static struct gm_error *take(struct gm_strings *strings, const struct gm_leaks *leaks,
        const struct gm_leak *leak, struct gm_leaks_section *section)
{
	const struct gm_log *log = gm_model_log(leaks->model);
	const struct gm_leak_loop *loop = &leaks->loops[leak->level];
	struct gm_log_code code;
	struct gm_kept_leak kept = {.line = line_of(strings, log, leak->stack),
	        .from = loop->from,
	        .to = loop->to,
	        .steps = leak->steps,
	        .bytes = leak->bytes,
	        .blocks = leak->blocks,
	        .joined = leak->joined,
	        .category = leak->category,
	        .bound = leak->bound};
	if (!loop->of_steps && gm_log_code(log, loop->loop.code, &code))
		kept.loop = gm_section_place(strings, gm_log_string(log, code.file),
		        loop->loop.line, gm_log_string(log, code.name));
	if (!kept.line || !gm_array_push(&section->items, kept))
		return &gm_error_no_memory;
	return NULL;
}

static struct gm_error *read_leaks(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_leaks_section *kept = section;
	struct gm_leaks leaks;
	struct gm_error *error = gm_ask_leaks(context, &leaks);
	if (error)
		return error;
	kept->from = leaks.from;
	kept->to = leaks.to;
	*ret_cut = leaks.count + leaks.bounded_count > GM_LEAKS_MOST;
	for (size_t i = 0; i < leaks.count && kept->items.count < GM_LEAKS_MOST && !error; i++)
		error = take(strings, &leaks, &leaks.items[i], kept);
	for (size_t i = 0; i < leaks.bounded_count && kept->items.count < GM_LEAKS_MOST && !error;
	        i++)
		error = take(strings, &leaks, &leaks.bounded[i], kept);
	gm_leaks_deinit(&leaks);
	return error;
}

static void code_leak(struct gm_codec *codec, struct gm_kept_leak *leak)
{
	unsigned category = leak->category, bound = leak->bound;
	gm_code_string(codec, &leak->line);
	gm_code_string(codec, &leak->loop);
	gm_code_u32(codec, &leak->from);
	gm_code_u32(codec, &leak->to);
	gm_code_u32(codec, &leak->steps);
	gm_code_u64(codec, &leak->bytes);
	gm_code_u64(codec, &leak->blocks);
	gm_code_bool(codec, &leak->joined);
	gm_code_enum(codec, &category, GM_CATEGORY_COUNT - 1);
	gm_code_enum(codec, &bound, GM_LEAK_BOUNDS - 1);
	leak->category = category;
	leak->bound = bound;
}

static void code_leaks(struct gm_codec *codec, void *section)
{
	struct gm_leaks_section *leaks = section;
	gm_code_u32(codec, &leaks->from);
	gm_code_u32(codec, &leaks->to);
	gm_code_array(codec, &leaks->items, GM_LEAKS_MOST, code_leak);
}

static void deinit_leaks(void *section)
{
	gm_array_deinit(&((struct gm_leaks_section *)section)->items);
}

const struct gm_section_kind gm_section_leaks = {
        sizeof(struct gm_leaks_section), read_leaks, code_leaks, deinit_leaks};
