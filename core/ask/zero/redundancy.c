#include "ask/zero/redundancy.h"

#include "ask/zero/parameters.h"

/* ---- who owns what ---- */

struct owner_visit {
	struct gm_zero_parameters *parameters;
	uint32_t rank, own; /* the rank whose parameters are read; this process's rank */
};

static bool see_owned(void *context, uint64_t item, uint64_t index)
{
	struct owner_visit *visit = context;
	struct gm_zero_parameter *parameter = gm_zero_parameter_of(visit->parameters, item);
	if (parameter) {
		parameter->owner = visit->rank;
		parameter->owned = visit->rank == visit->own ? parameter->elements : 0;
	}
	return true;
}

static bool see_owned_group(void *context, uint64_t item, uint64_t index)
{
	struct owner_visit *visit = context;
	struct gm_zero_attribute entry[] = {{"params", 0}};
	gm_zero_entries(visit->parameters->reading, item, entry, 1);
	gm_zero_items(visit->parameters->reading, entry[0].object, see_owned, visit);
	return true;
}

/* A list for each rank, of lists of groups */
static bool see_rank(void *context, uint64_t item, uint64_t index)
{
	struct owner_visit *visit = context;
	visit->rank = (uint32_t)index;
	gm_zero_items(visit->parameters->reading, item, see_owned_group, visit);
	return true;
}

/* ---- flat tensors of parameters: a list for each device, of a tensor for each rank ---- */

/* Their parameters count them. For a rank that owns nothing there is one with a single element. */
static bool see_flat(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_parameters *parameters = context;
	if (!gm_zero_buffer_of(parameters, GM_ZERO_BUCKET_PARAMETERS, item))
		parameters->sharding->unread++;
	return true;
}

static bool see_flat_device(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_parameters *parameters = context;
	gm_zero_items(parameters->reading, item, see_flat, parameters);
	return true;
}

void gm_zero_redundancy(struct gm_zero_parameters *parameters, uint64_t object)
{
	enum { GROUPS, PARTITION, INNER, RANK, WORLD, BUCKETS, STATE, COUNT };
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[COUNT] = {
	        [GROUPS] = {"param_groups", 0},
	        [PARTITION] = {"_partition_parameters_cache", 0},
	        [INNER] = {"optim", 0},
	        [RANK] = {"rank", 0},
	        [WORLD] = {"world_size", 0},
	        [BUCKETS] = {"_buckets", 0},
	        [STATE] = {"state", 0},
	};
	struct gm_zero_attribute inner[] = {{"param_groups", 0}, {"state", 0}};
	gm_zero_attributes(reading, object, own, COUNT);
	gm_zero_attributes(reading, own[INNER].object, inner, 2);
	sharding->scheme = GM_ZERO_REDUNDANCY;
	sharding->stage = 1;
	sharding->terms[GM_ZERO_STATE].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, own[INNER].object);
	sharding->has_rank = gm_zero_number(reading, own[RANK].object, &sharding->rank);
	sharding->has_world =
	        gm_zero_number(reading, own[WORLD].object, &sharding->world) && sharding->world > 0;
	gm_zero_parameters_of_groups(parameters, own[GROUPS].object);
	struct owner_visit owner = {
	        parameters, 0, sharding->has_rank ? sharding->rank : GM_ZERO_NO_RANK};
	gm_zero_items(reading, own[PARTITION].object, see_rank, &owner);
	/* the parameters that are stepped are its own, whatever the partition says */
	owner.rank = owner.own;
	if (sharding->has_rank)
		gm_zero_items(reading, inner[0].object, see_owned_group, &owner);
	gm_zero_gradients(parameters);
	gm_zero_state(parameters, inner[1].object, false);
	gm_zero_state(parameters, own[STATE].object, true);
	gm_zero_items(reading, own[BUCKETS].object, see_flat_device, parameters);
}
