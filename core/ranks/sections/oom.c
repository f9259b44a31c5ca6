#include "ranks/sections/oom.h"

#include <stdlib.h>

#include "base/cleanup.h"

static struct gm_error *take_top(
        struct gm_strings *strings, const struct gm_oom *oom, struct gm_oom_section *kept)
{
	for (size_t i = 0; i < oom->top_count && i < GM_OOM_TOP_MOST; i++) {
		const struct gm_oom_holder *holder = &oom->top[i];
		struct gm_kept_holder one = {.kind = holder->kind,
		        .smaller = (uint32_t)holder->smaller,
		        .bytes = holder->bytes,
		        .blocks = holder->blocks};
		one.line = holder->line ? gm_strings_add(strings, holder->line) : 0;
		if ((holder->line && !one.line) || !gm_array_push(&kept->top, one))
			return &gm_error_no_memory;
	}
	return NULL;
}

static struct gm_error *take(
        struct gm_strings *strings, const struct gm_oom *oom, struct gm_oom_section *kept)
{
	const struct gm_oom_place *site = gm_oom_site(oom);
	kept->has = true;
	kept->ooms = oom->ooms;
	kept->event = oom->memory.event;
	kept->requested = oom->facts.requested;
	kept->needed = oom->facts.needed;
	kept->total = oom->facts.total;
	kept->free = oom->facts.free;
	kept->allocated = oom->facts.allocated;
	kept->reserved = oom->facts.reserved;
	kept->verdict = oom->judgement.verdict;
	if (site) {
		kept->site = gm_section_place(strings, site->file, site->line, site->function);
		if (!kept->site)
			return &gm_error_no_memory;
	}
	return take_top(strings, oom, kept);
}

static struct gm_error *read_oom(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_oom oom;
	struct gm_error *error = gm_ask_oom_event(context, -1, false, 0, &oom);
	if (error && error->status == GM_NEGATIVE) {
		gm_error_destroy(error);
		return NULL;
	}
	if (error)
		return error;
	error = take(strings, &oom, section);
	gm_oom_deinit(&oom);
	return error;
}

static void code_holder(struct gm_codec *codec, struct gm_kept_holder *holder)
{
	unsigned kind = holder->kind;
	gm_code_enum(codec, &kind, GM_GROUP_ROOT_MODULE);
	holder->kind = kind;
	gm_code_string(codec, &holder->line);
	gm_code_u32(codec, &holder->smaller);
	gm_code_u64(codec, &holder->bytes);
	gm_code_u64(codec, &holder->blocks);
}

static void code_oom(struct gm_codec *codec, void *section)
{
	struct gm_oom_section *oom = section;
	unsigned verdict = oom->verdict;
	gm_code_bool(codec, &oom->has);
	if (!oom->has)
		return;
	gm_code_u64(codec, &oom->ooms);
	gm_code_u32(codec, &oom->event);
	gm_code_string(codec, &oom->site);
	gm_code_u64(codec, &oom->requested);
	gm_code_u64(codec, &oom->needed);
	gm_code_u64(codec, &oom->total);
	gm_code_u64(codec, &oom->free);
	gm_code_u64(codec, &oom->allocated);
	gm_code_u64(codec, &oom->reserved);
	gm_code_enum(codec, &verdict, GM_OOM_UNKNOWN);
	oom->verdict = verdict;
	gm_code_array(codec, &oom->top, GM_OOM_TOP_MOST, code_holder);
}

static void deinit_oom(void *section)
{
	gm_array_deinit(&((struct gm_oom_section *)section)->top);
}

const struct gm_section_kind gm_section_oom = {
        sizeof(struct gm_oom_section), read_oom, code_oom, deinit_oom};
