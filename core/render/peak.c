/* peak's text and JSON: the blocks at the peak as groups, their sums, and the next peak. */
#include <jansson.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "render/answers.h"
#include "render/blocks.h"
#include "render/group_text.h"
#include "render/groups.h"
#include "render/json.h"
#include "render/names.h"
#include "render/tree.h"

struct gm_error *gm_render_peak_json(const struct gm_blocks *blocks,
        const struct gm_blocks *modules, const struct gm_secondary_peak *secondary, FILE *out)
{
	json_t *value = gm_json_blocks(blocks, false), *next = json_null();
	if (secondary->known)
		next = json_pack("{s:i, s:o, s:s, s:I, s:o}", "event", (int)secondary->event,
		        "step", secondary->step ? json_integer(secondary->step) : json_null(),
		        "phase", gm_phase_name(secondary->phase), "allocated",
		        (json_int_t)secondary->allocated, "equal_at_batch_times",
		        secondary->equal_at ? json_real(secondary->equal_at) : json_null());
	json_object_set_new(value, "next_peak", next);
	if (modules->group_count)
		json_object_set_new(
		        value, "by_module", gm_json_groups(modules->groups, modules->group_count));
	return gm_json_write(value, true, out);
}

static const char *phase_name(int phase)
{
	return gm_phase_name((enum gm_phase)phase);
}

static const char *category_name(int category)
{
	return gm_category_name((enum gm_category)category);
}

/* "by phase: forward 1.20 GiB, init 300.00 MiB", largest first. */
static void put_sums(
        const char *what, const uint64_t *sums, int count, const char *(*name)(int), FILE *out)
{
	bool listed[GM_PHASE_COUNT + GM_CATEGORY_COUNT + GM_NAMED_COUNT] = {false};
	const char *comma = ": ";
	gm_put(out, "%s", what);
	for (;;) {
		int biggest = -1;
		for (int i = 0; i < count; i++)
			if (!listed[i] && sums[i] && (biggest < 0 || sums[i] > sums[biggest]))
				biggest = i;
		if (biggest < 0)
			break;
		char size[GM_SIZE_TEXT];
		gm_put(out, "%s%s %s", comma, name(biggest), gm_text_size(sums[biggest], size));
		listed[biggest] = true;
		comma = ", ";
	}
	fputc('\n', out);
}

/* "the peak of the optimizer's step: 315.2 MiB at #202 in step 3 (optimizer), 92.8 MiB lower", and
 * the effect of a larger batch on both */
static void put_secondary_peak(
        const struct gm_blocks *blocks, const struct gm_secondary_peak *secondary, FILE *out)
{
	char size[GM_SIZE_TEXT], less[GM_SIZE_TEXT];
	if (!secondary->known)
		return;
	uint64_t gap = blocks->allocated > secondary->allocated
	                       ? blocks->allocated - secondary->allocated
	                       : 0;
	gm_put(out, "the peak of %s: %s at #%u",
	        secondary->phase == GM_PHASE_OPTIMIZER ? "the optimizer's step"
	                                               : "forward and backward",
	        gm_text_size(secondary->allocated, size), secondary->event);
	if (secondary->step)
		gm_put(out, " in step %u", secondary->step);
	gm_put(out, " (%s), %s lower\n", gm_phase_name(secondary->phase), gm_text_size(gap, less));
	/* else it is the lower one with any batch */
	if (secondary->equal_at < 0.01)
		return;
	gm_put(out,
	        "  the batch size decides: if activations, inputs and temporaries grow with it, "
	        "the optimizer's peak is the higher one below about %.2f times this batch\n",
	        secondary->equal_at);
}

static const char *named_kind(int kind)
{
	return kind == GM_NAMED_OPTIMIZER_STATE ? "optimizer state"
	                                        : gm_named_kind_name((unsigned)kind);
}

/* "with names: parameter 512.00 MiB, gradient 512.00 MiB" and the largest of them */
static void put_names(const struct gm_blocks *blocks, FILE *out)
{
	enum { SHOWN = 3 };
	char size[GM_SIZE_TEXT], names[GM_NAMES_TEXT];
	size_t shown = 0;
	if (!gm_model_has_names(blocks->model))
		return;
	put_sums("with names", blocks->by_named_kind, GM_NAMED_COUNT, named_kind, out);
	for (size_t i = 0; i < blocks->live_count && shown < SHOWN; i++) {
		if (!*gm_text_names(blocks->model, blocks->live[i], names))
			continue;
		gm_put(out, "%s%s %s", shown++ ? ", " : "  the largest: ", names,
		        gm_text_size(gm_model_block(blocks->model, blocks->live[i])->size, size));
	}
	if (shown)
		fputc('\n', out);
}

/* "by module: layers.3.mlp 1.20 GiB, lm_head 300.00 MiB, 12 others 20.00 MiB" */
static void put_modules(const struct gm_blocks *modules, FILE *out)
{
	enum { SHOWN = 6 };
	char size[GM_SIZE_TEXT];
	uint64_t rest = 0;
	for (size_t i = 0; i < modules->group_count; i++) {
		const struct gm_group *group = &modules->groups[i];
		if (i < SHOWN)
			gm_put(out, "%s%s %s",
			        i ? ", " : "by module: ", gm_text_group(group->kind, group->key),
			        gm_text_size(group->bytes, size));
		else
			rest += group->bytes;
	}
	if (modules->group_count > SHOWN)
		gm_put(out, ", %zu others %s", modules->group_count - SHOWN,
		        gm_text_size(rest, size));
	if (modules->group_count)
		fputc('\n', out);
}

struct gm_error *gm_render_peak_text(const struct gm_blocks *blocks,
        const struct gm_blocks *modules, const struct gm_secondary_peak *secondary,
        const struct gm_style *style, FILE *out)
{
	if (blocks->device == SIZE_MAX || blocks->event == GM_NO_EVENT) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	gm_put_blocks_head(blocks, "at the peak", out);
	struct gm_error *error = blocks->tree
	                                 ? gm_render_tree(blocks->tree, style, out)
	                                 : gm_render_groups(blocks->groups, blocks->group_count,
	                                           gm_groups_head(blocks), style, out);
	if (error)
		return error;
	put_sums("by category", blocks->by_category, GM_CATEGORY_COUNT, category_name, out);
	put_sums("by phase", blocks->by_phase, GM_PHASE_COUNT, phase_name, out);
	put_names(blocks, out);
	put_modules(modules, out);
	put_secondary_peak(blocks, secondary, out);
	return NULL;
}
