#include "ask/zero/fsdp2.h"

/* --- is it a parameter of FSDP2? -------------------------------------------------------------- */

struct seeking {
	struct gm_zero_reading *reading;
	bool found;
};

static bool see_any(void *context, uint64_t item, uint64_t index)
{
	struct seeking *seeking = context;
	seeking->found = gm_python_is_instance(seeking->reading->python, item, "DTensor");
	return !seeking->found;
}

static bool see_group(void *context, uint64_t item, uint64_t index)
{
	struct seeking *seeking = context;
	struct gm_zero_attribute parameters[] = {{"params", 0}};
	gm_zero_entries(seeking->reading, item, parameters, 1);
	gm_zero_items(seeking->reading, parameters[0].object, see_any, seeking);
	return !seeking->found;
}

bool gm_zero_has_fsdp2(struct gm_zero_reading *reading, uint64_t optimizer)
{
	struct seeking seeking = {reading, false};
	struct gm_zero_attribute groups[] = {{"param_groups", 0}};
	gm_zero_attributes(reading, optimizer, groups, 1);
	gm_zero_items(reading, groups[0].object, see_group, &seeking);
	return seeking.found;
}

/* --- FSDP2's data about a parameter: an FSDPParam --------------------------------------------- */

enum { PARAMETER, WHOLE_PART, MESH, GATHERED, UNSHARDED, ATTRIBUTES };

static void attributes_of(
        struct gm_zero_reading *reading, uint64_t object, struct gm_zero_attribute own[ATTRIBUTES])
{
	own[PARAMETER] = (struct gm_zero_attribute){"sharded_param", 0};
	own[WHOLE_PART] = (struct gm_zero_attribute){"_sharded_param_data", 0};
	own[MESH] = (struct gm_zero_attribute){"mesh_info", 0};
	own[GATHERED] = (struct gm_zero_attribute){"all_gather_outputs", 0};
	own[UNSHARDED] = (struct gm_zero_attribute){"_unsharded_param", 0};
	gm_zero_attributes(reading, object, own, ATTRIBUTES);
}

struct placed {
	struct gm_zero_reading *reading;
	unsigned shards;
};

static bool see_placement(void *context, uint64_t item, uint64_t index)
{
	struct placed *placed = context;
	struct gm_python *python = placed->reading->python;
	placed->shards += gm_python_is_instance(python, item, "Shard") ||
	                  gm_python_is_instance(python, item, "_StridedShard");
	return true;
}

/* A DTensor has a placement for each dimension of its mesh (torch/distributed/tensor, 2.6 to 2.15).
 * FSDP splits it along one of them; the copies of HSDP are Replicate. */
static bool is_split_further(struct gm_zero_reading *reading, uint64_t parameter)
{
	struct placed placed = {reading, 0};
	struct gm_zero_attribute spec[] = {{"_spec", 0}}, placements[] = {{"placements", 0}};
	gm_zero_attributes(reading, parameter, spec, 1);
	gm_zero_attributes(reading, spec[0].object, placements, 1);
	gm_zero_items(reading, placements[0].object, see_placement, &placed);
	return placed.shards > 1;
}

/* The part is in a tensor that is as large as the first rank's. */
static void read_padding(struct gm_zero_parameters *parameters, uint64_t whole,
        const struct gm_zero_parameter *parameter)
{
	struct gm_tensor tensor;
	if (!gm_zero_tensor(parameters->reading, whole, &tensor) || tensor.numel < parameter->owned)
		return;
	uint64_t bytes = (tensor.numel - parameter->owned) * parameter->element_size;
	parameters->ledger->claimed[GM_ZERO_PARAMETERS] += bytes;
	parameters->sharding->terms[GM_ZERO_PARAMETERS].differences[GM_ZERO_PADDING] +=
	        (int64_t)bytes;
}

static void read_parameters(struct gm_zero_parameters *parameters)
{
	struct gm_zero_reading *reading = parameters->reading;
	bool first = true;
	for (size_t i = 0; i < parameters->sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &parameters->sharding->parameters[i];
		struct gm_tensor part;
		/* one that is not split belongs to this rank completely */
		if (gm_zero_tensor(reading, parameter->object, &part))
			parameter->owned = part.numel;
		parameter->spread = parameter->split;
		parameters->sharding->split_further +=
		        parameter->split && is_split_further(reading, parameter->object);
	}
	for (size_t i = 0; i < reading->fsdp2.count; i++) {
		struct gm_zero_attribute own[ATTRIBUTES];
		attributes_of(reading, reading->fsdp2.items[i], own);
		struct gm_zero_parameter *parameter =
		        gm_zero_parameter_of(parameters, own[PARAMETER].object);
		if (!parameter)
			continue;
		/* while it is gathered, its module has the complete one in its place */
		if (!parameter->name && !gm_zero_name_of(parameters->names, own[UNSHARDED].object,
		                                &parameter->name))
			reading->no_memory = true;
		struct gm_zero_attribute mesh[] = {{"shard_mesh_rank", 0}, {"shard_mesh_size", 0}};
		gm_zero_attributes(reading, own[MESH].object, mesh, 2);
		gm_zero_rank(parameters, mesh[0].object, mesh[1].object, first);
		first = false;
		read_padding(parameters, own[WHOLE_PART].object, parameter);
	}
}

/* --- what is gathered now --------------------------------------------------------------------- */

static bool see_gathered(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_parameters *parameters = context;
	struct gm_tensor tensor;
	if (gm_zero_tensor(parameters->reading, item, &tensor))
		gm_zero_buffer(parameters, GM_ZERO_BUCKET_GATHERED, &tensor, 1);
	return true;
}

static void read_gathered(struct gm_zero_parameters *parameters)
{
	struct gm_zero_reading *reading = parameters->reading;
	for (size_t i = 0; i < reading->fsdp2.count; i++) {
		struct gm_zero_attribute own[ATTRIBUTES];
		attributes_of(reading, reading->fsdp2.items[i], own);
		if (gm_zero_parameter_of(parameters, own[PARAMETER].object))
			gm_zero_items(reading, own[GATHERED].object, see_gathered, parameters);
	}
}

void gm_zero_fsdp2(struct gm_zero_parameters *parameters, uint64_t optimizer)
{
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[] = {{"param_groups", 0}, {"state", 0}};
	gm_zero_attributes(reading, optimizer, own, 2);
	sharding->scheme = GM_ZERO_FSDP2;
	sharding->stage = 3;
	for (int part = GM_ZERO_PARAMETERS; part <= GM_ZERO_STATE; part++)
		sharding->terms[part].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, optimizer);
	gm_zero_parameters_of_groups(parameters, own[0].object);
	read_parameters(parameters);
	gm_zero_gradients(parameters);
	gm_zero_state(parameters, own[1].object, false);
	read_gathered(parameters);
}
