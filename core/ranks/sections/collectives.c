#include "ranks/sections/collectives.h"

#include <stdlib.h>

static struct gm_kept_calls *find(
        struct gm_collectives_section *kept, const struct gm_kept_calls *one)
{
	for (size_t i = 0; i < kept->items.count; i++) {
		struct gm_kept_calls *calls = &kept->items.items[i];
		if (calls->kind == one->kind && calls->dtype == one->dtype &&
		        calls->phase == one->phase && calls->ranks == one->ranks)
			return calls;
	}
	return NULL;
}

static struct gm_error *take(const struct gm_collectives *collectives,
        const struct gm_collective_group *group, struct gm_collectives_section *kept, bool *cut)
{
	const struct gm_kept_calls one = {.kind = group->kind,
	        .dtype = group->dtype,
	        .phase = group->phase,
	        .ranks = collectives->items[group->first].call.ranks};
	struct gm_kept_calls *calls = find(kept, &one);
	if (!calls && kept->items.count == GM_COLLECTIVES_MOST) {
		*cut = true;
		return NULL;
	}
	if (!calls) {
		if (!gm_array_push(&kept->items, one))
			return &gm_error_no_memory;
		calls = &kept->items.items[kept->items.count - 1];
	}
	calls->calls += group->calls;
	calls->send_bytes += group->send_bytes;
	calls->receive_bytes += group->receive_bytes;
	return NULL;
}

static struct gm_error *read_collectives(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_collectives_section *kept = section;
	struct gm_collectives collectives;
	struct gm_model *model;
	struct gm_error *error = gm_context_model(context, &model);
	if (!error)
		error = gm_collectives_find(model, &collectives);
	if (error)
		return error;
	kept->calls = collectives.count;
	for (size_t i = 0; i < collectives.group_count && !error; i++)
		error = take(&collectives, &collectives.groups[i], kept, ret_cut);
	gm_collectives_deinit(&collectives);
	return error;
}

static void code_calls(struct gm_codec *codec, struct gm_kept_calls *calls)
{
	unsigned phase = calls->phase;
	gm_code_u32(codec, &calls->kind);
	gm_code_u32(codec, &calls->dtype);
	gm_code_enum(codec, &phase, GM_PHASE_COUNT - 1);
	calls->phase = phase;
	gm_code_u32(codec, &calls->ranks);
	gm_code_u64(codec, &calls->calls);
	gm_code_u64(codec, &calls->send_bytes);
	gm_code_u64(codec, &calls->receive_bytes);
}

static void code_collectives(struct gm_codec *codec, void *section)
{
	struct gm_collectives_section *collectives = section;
	gm_code_u64(codec, &collectives->calls);
	gm_code_array(codec, &collectives->items, GM_COLLECTIVES_MOST, code_calls);
}

static void deinit_collectives(void *section)
{
	gm_array_deinit(&((struct gm_collectives_section *)section)->items);
}

const struct gm_section_kind gm_section_collectives = {sizeof(struct gm_collectives_section),
        read_collectives, code_collectives, deinit_collectives};
