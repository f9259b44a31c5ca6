#include "render/zero_ranks.h"

#include <inttypes.h>
#include <string.h>

#include "base/put.h"
#include "render/pause.h"
#include "render/zero.h"

enum { SHOWN = 8 /* processes that have a column */, NAME_SIZE = 32 };

struct side_by_side {
	const struct gm_zero_model *model;
	size_t processes, shown;
	struct gm_table *table;
	/* memory that the table refers to until it is written */
	char names[SHOWN][NAME_SIZE];
	const char *heads[SHOWN + 2];
	char alignment[SHOWN + 2];
};

static void put_row(
        const struct side_by_side *side, gm_zero_figure figure, enum gm_zero_part part, int number)
{
	for (size_t i = 0; i < side->shown; i++) {
		const struct gm_zero_sharding *sharding = side->model->shardings[i];
		int64_t value = sharding ? figure(sharding, part, number) : 0;
		char text[GM_SIZE_GROUPED];
		if (!sharding)
			gm_table_cell(side->table, "none");
		else
			gm_table_cell(side->table, "%s%s", value < 0 ? "-" : "",
			        gm_text_grouped(
			                value < 0 ? -(uint64_t)value : (uint64_t)value, text));
	}
}

static int64_t owned(const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	return (int64_t)sharding->owned_elements;
}

static int64_t all(const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	int64_t bytes = 0;
	for (int i = 0; i < GM_ZERO_PART_COUNT; i++)
		bytes += (int64_t)sharding->terms[i].bytes;
	return bytes;
}

static void start(struct side_by_side *side, const char *head)
{
	side->heads[0] = head;
	for (size_t i = 0; i < side->shown; i++) {
		const struct gm_zero_sharding *sharding = side->model->shardings[i];
		if (sharding && sharding->has_rank)
			snprintf(side->names[i], NAME_SIZE, "rank %" PRIu32, sharding->rank);
		else
			snprintf(side->names[i], NAME_SIZE, "process %zu", i + 1);
		side->heads[i + 1] = side->names[i];
	}
	side->alignment[0] = 'l';
	memset(side->alignment + 1, 'r', side->shown);
	side->table = gm_table_create(side->heads, side->alignment);
}

static bool put_terms(struct side_by_side *side, const struct gm_style *style, FILE *out)
{
	start(side, "  bytes");
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		if (part == GM_ZERO_MASTERS && !side->model->first->terms[part].tensors)
			continue;
		gm_table_cell(side->table, "  %s", gm_zero_part_text((enum gm_zero_part)part));
		put_row(side, gm_zero_figure_bytes, (enum gm_zero_part)part, 0);
	}
	gm_table_cell(side->table, "  all");
	put_row(side, all, GM_ZERO_PARAMETERS, 0);
	gm_table_cell(side->table, "  trained elements that the rank owns");
	put_row(side, owned, GM_ZERO_PARAMETERS, 0);
	return gm_table_finish(side->table, style, out);
}

/* The table of causes begins with the first one. */
static bool differ(
        struct side_by_side *side, gm_zero_figure figure, enum gm_zero_part part, int number)
{
	if (!gm_zero_differ(side->model, side->processes, figure, part, number))
		return false;
	if (!side->table)
		start(side, "  why they differ");
	return true;
}

static bool put_causes(struct side_by_side *side, const struct gm_style *style, FILE *out)
{
	side->table = NULL;
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		const char *text = gm_zero_part_text((enum gm_zero_part)part);
		for (int i = 0; i < GM_ZERO_DIFFERENCE_COUNT; i++) {
			if (!differ(side, gm_zero_figure_difference, (enum gm_zero_part)part, i))
				continue;
			gm_table_cell(side->table, "  %s: %s", text,
			        gm_zero_difference_text((enum gm_zero_difference)i));
			put_row(side, gm_zero_figure_difference, (enum gm_zero_part)part, i);
		}
		if (!differ(side, gm_zero_figure_host, (enum gm_zero_part)part, 0))
			continue;
		gm_table_cell(side->table, "  %s: in the host's memory", text);
		put_row(side, gm_zero_figure_host, (enum gm_zero_part)part, 0);
	}
	for (int kind = 0; kind < GM_ZERO_BUCKET_KIND_COUNT; kind++) {
		static const char *const texts[GM_ZERO_BUCKET_KIND_COUNT] = {"gradients",
		        "flat parameters", "offloading", "gathered parameters",
		        "parameters too small to release", "parameters in low precision"};
		if (!differ(side, gm_zero_figure_buckets, GM_ZERO_BUFFERS, kind))
			continue;
		gm_table_cell(side->table, "  number of buckets of %s", texts[kind]);
		put_row(side, gm_zero_figure_buckets, GM_ZERO_BUFFERS, kind);
	}
	if (side->table)
		return gm_table_finish(side->table, style, out);
	fputs("  the ranks do not differ\n", out);
	return true;
}

static void put_head(const struct gm_zero_model *model, size_t processes, FILE *out)
{
	const struct gm_zero_sharding *first = model->first;
	char text[GM_SIZE_GROUPED], other[GM_SIZE_GROUPED];
	gm_put(out, "%s of %s: ZeRO stage %u, %" PRIu32 " of ", gm_zero_sharding_text(first),
	        first->optimizer ? first->optimizer : "an unknown optimizer", first->stage,
	        model->ranks);
	if (first->has_world)
		gm_put(out, "%" PRIu32 " ranks\n", first->world);
	else
		fputs("an unknown number of ranks\n", out);
	if (model->count < processes)
		gm_put(out, "  %zu of the %zu processes have it\n", model->count, processes);
	if (!model->complete)
		fputs("  some ranks are missing: what they own is not known\n", out);
	else if (first->stage && model->owned != first->elements)
		gm_put(out, "  the ranks own %s elements, and there are %s\n",
		        gm_text_grouped(model->owned, text),
		        gm_text_grouped(first->elements, other));
}

struct gm_error *gm_render_zero_ranks_text(
        const struct gm_zero_ranks *ranks, const struct gm_style *style, FILE *out)
{
	bool written = true;
	for (size_t i = 0; i < ranks->count; i++)
		gm_put(out, "%s\n", ranks->nows[i].source);
	if (!ranks->model_count)
		gm_put_zero_none("these processes", out);
	for (size_t i = 0; i < ranks->model_count && written; i++) {
		struct side_by_side side = {
		        .model = &ranks->models[i],
		        .processes = ranks->count,
		        .shown = ranks->count < SHOWN ? ranks->count : SHOWN,
		};
		put_head(side.model, ranks->count, out);
		written = put_terms(&side, style, out) && put_causes(&side, style, out);
		if (side.shown < side.processes)
			gm_put(out, "  and %zu processes more: --json has all\n",
			        side.processes - side.shown);
	}
	for (size_t i = 0; i < ranks->count; i++)
		gm_put_pause(&ranks->nows[i].pause, out);
	return written ? NULL : &gm_error_no_memory;
}
