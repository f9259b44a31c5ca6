#include "ask/zero/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "ask/zero.h"
#include "base/map.h"

/* --- which processes belong together ---------------------------------------------------------- */

static bool same_text(const char *one, const char *other)
{
	return one == other || (one && other && strcmp(one, other) == 0);
}

/* A parameter that is gathered may have no name at that moment. */
static bool same_parameter(
        const struct gm_zero_parameter *one, const struct gm_zero_parameter *other)
{
	return one->elements == other->elements && one->trainable == other->trainable &&
	       (!one->name || !other->name || strcmp(one->name, other->name) == 0);
}

static bool same_model(const struct gm_zero_sharding *one, const struct gm_zero_sharding *other)
{
	if (one->scheme != other->scheme || one->stage != other->stage ||
	        one->parameter_count != other->parameter_count ||
	        one->has_world != other->has_world || one->world != other->world ||
	        !same_text(one->optimizer, other->optimizer))
		return false;
	for (size_t i = 0; i < one->parameter_count; i++)
		if (!same_parameter(&one->parameters[i], &other->parameters[i]))
			return false;
	return true;
}

/* A model that has no sharding of this process yet */
static struct gm_zero_model *model_for(
        struct gm_zero_ranks *ranks, size_t process, const struct gm_zero_sharding *sharding)
{
	for (size_t i = 0; i < ranks->model_count; i++)
		if (!ranks->models[i].shardings[process] &&
		        same_model(ranks->models[i].first, sharding))
			return &ranks->models[i];
	struct gm_zero_model *model = &ranks->models[ranks->model_count];
	model->shardings = calloc(ranks->count, sizeof(*model->shardings));
	if (!model->shardings)
		return NULL;
	model->first = sharding;
	ranks->model_count++;
	return model;
}

/* With copies of a divided model (HYBRID_SHARD) several processes have the same rank. */
static bool count_ranks(struct gm_zero_model *model, size_t processes)
{
	struct gm_map seen = {0};
	bool known = model->first->has_world;
	for (size_t i = 0; i < processes; i++) {
		const struct gm_zero_sharding *sharding = model->shardings[i];
		bool is_new = false;
		if (!sharding)
			continue;
		known = known && sharding->has_rank;
		if (!gm_map_put(&seen, (uint64_t)sharding->rank + 1, &is_new)) {
			gm_map_deinit(&seen);
			return false;
		}
		for (size_t k = 0; k < sharding->parameter_count && is_new; k++)
			model->owned += sharding->parameters[k].owned;
	}
	model->ranks = known ? (uint32_t)seen.count : 0;
	model->complete = known && seen.count == model->first->world;
	gm_map_deinit(&seen);
	return true;
}

bool gm_zero_ranks_match(struct gm_zero_ranks *ranks)
{
	size_t shardings = 0;
	for (size_t i = 0; i < ranks->count; i++)
		shardings += ranks->nows[i].sharding_count;
	ranks->models = calloc(shardings + 1, sizeof(*ranks->models));
	if (!ranks->models)
		return false;
	for (size_t i = 0; i < ranks->count; i++) {
		for (size_t k = 0; k < ranks->nows[i].sharding_count; k++) {
			const struct gm_zero_sharding *sharding = &ranks->nows[i].shardings[k];
			struct gm_zero_model *model = model_for(ranks, i, sharding);
			if (!model)
				return false;
			model->shardings[i] = sharding;
			model->count++;
		}
	}
	for (size_t i = 0; i < ranks->model_count; i++)
		if (!count_ranks(&ranks->models[i], ranks->count))
			return false;
	return true;
}

void gm_zero_ranks_deinit(struct gm_zero_ranks *ranks)
{
	for (size_t i = 0; i < ranks->model_count; i++)
		free(ranks->models[i].shardings);
	for (size_t i = 0; i < ranks->count; i++)
		gm_zero_deinit(&ranks->nows[i]);
	free(ranks->models);
	free(ranks->nows);
	*ranks = (struct gm_zero_ranks){0};
}

/* ---- where they differ ---- */

int64_t gm_zero_figure_bytes(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	return (int64_t)sharding->terms[part].bytes;
}

int64_t gm_zero_figure_host(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	return (int64_t)sharding->terms[part].host_bytes;
}

int64_t gm_zero_figure_difference(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	return sharding->terms[part].differences[number];
}

int64_t gm_zero_figure_buckets(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number)
{
	int64_t count = 0;
	for (size_t i = 0; i < sharding->bucket_count; i++)
		count += sharding->buckets[i].kind == (enum gm_zero_bucket_kind)number;
	return count;
}

bool gm_zero_differ(const struct gm_zero_model *model, size_t processes, gm_zero_figure figure,
        enum gm_zero_part part, int number)
{
	int64_t first = figure(model->first, part, number);
	for (size_t i = 0; i < processes; i++)
		if (model->shardings[i] && figure(model->shardings[i], part, number) != first)
			return true;
	return false;
}
