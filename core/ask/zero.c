#include "ask/zero.h"

#include <stdlib.h>

#include "ask/zero/deepspeed.h"
#include "ask/zero/deepspeed3.h"
#include "ask/zero/deepspeed_bf16.h"
#include "ask/zero/devices.h"
#include "ask/zero/fsdp1.h"
#include "ask/zero/fsdp2.h"
#include "ask/zero/ideal.h"
#include "ask/zero/redundancy.h"
#include "base/cleanup.h"

const char *gm_zero_scheme_name(enum gm_zero_scheme scheme)
{
	static const char *const names[GM_ZERO_SCHEME_COUNT] = {
	        "zero_redundancy_optimizer", "deepspeed", "fsdp2", "fsdp1"};
	return names[scheme];
}

const char *gm_zero_part_name(enum gm_zero_part part)
{
	static const char *const names[GM_ZERO_PART_COUNT] = {
	        "parameters", "gradients", "masters", "optimizer_state", "buffers"};
	return names[part];
}

const char *gm_zero_difference_name(enum gm_zero_difference difference)
{
	static const char *const names[GM_ZERO_DIFFERENCE_COUNT] = {"imbalance", "not_made",
	        "per_tensor", "other_dtype", "rest_of_storages", "shared", "duplicate", "not_owned",
	        "frozen", "padding"};
	return names[difference];
}

const char *gm_zero_bucket_kind_name(enum gm_zero_bucket_kind kind)
{
	static const char *const names[GM_ZERO_BUCKET_KIND_COUNT] = {
	        "gradients", "parameters", "offload", "gathered", "persistent", "low_precision"};
	return names[kind];
}

/* --- what the program uses -------------------------------------------------------------------- */

static void push(struct gm_zero_reading *reading, struct gm_zero_objects *objects, uint64_t object)
{
	if (objects->count < GM_ZERO_OBJECTS_MAX && !gm_array_push(objects, object))
		reading->no_memory = true;
}

static bool see_object(void *context, uint64_t object)
{
	struct gm_zero_reading *reading = context;
	struct gm_python *python = reading->python;
	if (gm_python_is_instance(python, object, "Module")) {
		push(reading, &reading->modules, object);
		if (gm_python_is_instance(python, object, "DistributedDataParallel"))
			push(reading, &reading->ddp, object);
	} else if (gm_python_is_instance(python, object, "ZeroRedundancyOptimizer")) {
		push(reading, &reading->redundancy, object);
	} else if (gm_python_is_instance(python, object, "DeepSpeedZeroOptimizer")) {
		push(reading, &reading->deepspeed, object);
	} else if (gm_python_is_instance(python, object, "DeepSpeedZeroOptimizer_Stage3")) {
		push(reading, &reading->deepspeed3, object);
	} else if (gm_python_is_instance(python, object, "BF16_Optimizer")) {
		push(reading, &reading->deepspeed_bf16, object);
	} else if (gm_python_is_instance(python, object, "FlatParamHandle")) {
		push(reading, &reading->fsdp1, object);
	} else if (gm_python_is_instance(python, object, "FSDPParam")) {
		push(reading, &reading->fsdp2, object);
	} else if (gm_python_is_instance(python, object, "Optimizer")) {
		push(reading, &reading->optimizers, object);
	}
	return !reading->no_memory;
}

/* Which of the ordinary optimizers have parameters of FSDP */
static void sort_optimizers(struct gm_zero_reading *reading)
{
	gm_zero_find_fsdp1(reading);
	for (size_t i = 0; i < reading->optimizers.count && !reading->no_memory; i++) {
		uint64_t optimizer = reading->optimizers.items[i];
		if (gm_zero_has_fsdp1(reading, optimizer))
			push(reading, &reading->of_fsdp1, optimizer);
		else if (reading->fsdp2.count && gm_zero_has_fsdp2(reading, optimizer))
			push(reading, &reading->of_fsdp2, optimizer);
	}
}

static void reading_deinit(struct gm_zero_reading *reading)
{
	gm_array_deinit(&reading->redundancy);
	gm_array_deinit(&reading->deepspeed);
	gm_array_deinit(&reading->deepspeed3);
	gm_array_deinit(&reading->deepspeed_bf16);
	gm_array_deinit(&reading->fsdp2);
	gm_array_deinit(&reading->fsdp1);
	gm_array_deinit(&reading->optimizers);
	gm_array_deinit(&reading->of_fsdp1);
	gm_array_deinit(&reading->of_fsdp2);
	gm_map_deinit(&reading->flat_objects);
	gm_array_deinit(&reading->ddp);
	gm_array_deinit(&reading->modules);
}

/* ---- DistributedDataParallel ---- */

/* A DDP's buckets go to the sharding that has one of their parameters. */
static void take_ddp(struct gm_zero_parameters *parameters, uint64_t object)
{
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_attribute attribute[] = {{"reducer", 0}};
	struct gm_ddp_bucket *buckets;
	uint64_t *variables;
	size_t count;
	gm_zero_attributes(reading, object, attribute, 1);
	if (!gm_torch_ddp_buckets(
	            reading->torch, attribute[0].object, &buckets, &count, &variables)) {
		parameters->sharding->buckets_unknown = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct gm_tensor tensor;
		bool ours = false;
		for (size_t k = 0; k < buckets[i].count && !ours; k++)
			ours = gm_map_find(&parameters->tensors, variables[buckets[i].first + k]) !=
			       NULL;
		if (ours && gm_torch_tensor(reading->torch, buckets[i].gradients, &tensor))
			gm_zero_buffer(
			        parameters, GM_ZERO_BUCKET_GRADIENTS, &tensor, buckets[i].count);
	}
	free(buckets);
	free(variables);
}

/* --- the whole answer ------------------------------------------------------------------------- */

static bool note_storages(struct gm_map *all, const struct gm_map *storages)
{
	for (size_t i = 0; i < storages->capacity; i++)
		if (storages->slots[i].key && !gm_map_put(all, storages->slots[i].key, NULL))
			return false;
	return true;
}

/* How a kind of sharding is read */
typedef void (*gm_zero_fill)(struct gm_zero_parameters *parameters, uint64_t object);

static void fill_sharding(struct gm_zero_reading *reading, const struct gm_zero_names *names,
        gm_zero_fill how, uint64_t object, struct gm_map *storages,
        struct gm_zero_sharding *sharding)
{
	struct gm_zero_ledger ledger = {.torch = reading->torch};
	struct gm_zero_parameters parameters = {reading, names, &ledger, sharding, 0, {0}, {0}};
	sharding->object = object;
	sharding->class = gm_zero_class(reading, object);
	how(&parameters, object);
	for (size_t i = 0; i < reading->ddp.count; i++)
		take_ddp(&parameters, reading->ddp.items[i]);
	gm_zero_ledger_close(&ledger, sharding);
	gm_zero_ideal(sharding);
	if (ledger.no_memory || !note_storages(storages, &ledger.storages))
		reading->no_memory = true;
	gm_zero_parameters_deinit(&parameters);
	gm_zero_ledger_deinit(&ledger);
}

static struct gm_error *fill_shardings(
        struct gm_zero_reading *reading, const struct gm_zero_names *names, struct gm_zero_now *now)
{
	const struct {
		const struct gm_zero_objects *objects;
		gm_zero_fill how;
	} kinds[] = {
	        {&reading->redundancy, gm_zero_redundancy},
	        {&reading->deepspeed, gm_zero_deepspeed},
	        {&reading->deepspeed3, gm_zero_deepspeed3},
	        {&reading->deepspeed_bf16, gm_zero_deepspeed_bf16},
	        {&reading->of_fsdp1, gm_zero_fsdp1},
	        {&reading->of_fsdp2, gm_zero_fsdp2},
	};
	struct gm_map storages = {0};
	size_t count = 0;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		count += kinds[k].objects->count;
	now->shardings = calloc(count + 1, sizeof(*now->shardings));
	reading->no_memory = reading->no_memory || !now->shardings;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < kinds[k].objects->count && !reading->no_memory; i++)
			fill_sharding(reading, names, kinds[k].how, kinds[k].objects->items[i],
			        &storages, &now->shardings[now->sharding_count++]);
	if (!reading->no_memory &&
	        !gm_zero_devices(reading->torch, &storages, &now->devices, &now->device_count))
		reading->no_memory = true;
	gm_map_deinit(&storages);
	return reading->no_memory ? &gm_error_no_memory : NULL;
}

static struct gm_error *fill(struct gm_context *context, struct gm_zero_now *now)
{
	struct gm_zero_reading reading = {0};
	struct gm_zero_names names = {0};
	size_t count;
	gm_try(gm_context_python(context, &reading.python));
	gm_try(gm_context_torch(context, &reading.torch));
	if (!(now->source = gm_target_name(context)))
		return &gm_error_no_memory;
	struct gm_error *error = gm_python_tracked(reading.python, see_object, &reading, &count);
	if (!error && (reading.no_memory || !gm_zero_names_find(&reading, &names)))
		error = &gm_error_no_memory;
	sort_optimizers(&reading);
	if (!error)
		error = fill_shardings(&reading, &names, now);
	gm_zero_names_deinit(&names);
	reading_deinit(&reading);
	return error;
}

struct gm_error *gm_ask_zero(struct gm_context *context, struct gm_zero_now *ret_now)
{
	struct gm_zero_now now = {0};
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = fill(context, &now);
	gm_context_resume(context, &now.pause);
	if (!error)
		error = gm_context_check_there(context);
	if (error) {
		gm_zero_deinit(&now);
		return error;
	}
	*ret_now = now;
	return NULL;
}

void gm_zero_deinit(struct gm_zero_now *now)
{
	for (size_t i = 0; i < now->sharding_count; i++) {
		struct gm_zero_sharding *sharding = &now->shardings[i];
		for (size_t k = 0; k < sharding->parameter_count; k++)
			free(sharding->parameters[k].name);
		free(sharding->parameters);
		free(sharding->buckets);
		free(sharding->class);
		free(sharding->optimizer);
	}
	free(now->shardings);
	free(now->devices);
	free(now->source);
	*now = (struct gm_zero_now){0};
}
