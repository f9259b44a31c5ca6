#include "ask/zero/fsdp1.h"

#include <stdio.h>
#include <stdlib.h>

#include "ask/zero/fsdp1_unit.h"

enum { NAME_MAX_BYTES = 4096 };

/* ---- which optimizers have units, and which units ---- */

/* In the order of the optimizer's parameters, which is the same on all ranks */
struct units {
	struct gm_map seen; /* their numbers, from 1 */
	GM_ARRAY(uint64_t) handles;
};

struct finding {
	struct gm_zero_reading *reading;
	size_t unit;
	struct units *units; /* the units that were found; NULL: any */
	bool found;
};

static bool see_object(void *context, uint64_t item, uint64_t index)
{
	struct finding *finding = context;
	uint64_t *number = gm_map_put(&finding->reading->flat_objects, item, NULL);
	if (!number)
		finding->reading->no_memory = true;
	else
		*number = finding->unit + 1;
	return number != NULL;
}

void gm_zero_find_fsdp1(struct gm_zero_reading *reading)
{
	struct finding finding = {.reading = reading};
	for (size_t i = 0; i < reading->fsdp1.count && !reading->no_memory; i++) {
		finding.unit = i;
		gm_zero_unit_objects(reading, reading->fsdp1.items[i], see_object, &finding);
	}
}

static bool see_any(void *context, uint64_t item, uint64_t index)
{
	struct finding *finding = context;
	const uint64_t *number = gm_map_find(&finding->reading->flat_objects, item);
	struct units *units = finding->units;
	bool is_new = false;
	if (number && units &&
	        (!gm_map_put(&units->seen, *number, &is_new) ||
	                (is_new && !gm_array_push(&units->handles,
	                                   finding->reading->fsdp1.items[*number - 1]))))
		finding->reading->no_memory = true;
	finding->found = finding->found || number;
	return !finding->reading->no_memory && (finding->units || !finding->found);
}

static bool see_group(void *context, uint64_t item, uint64_t index)
{
	struct finding *finding = context;
	struct gm_zero_attribute parameters[] = {{"params", 0}};
	gm_zero_entries(finding->reading, item, parameters, 1);
	gm_zero_items(finding->reading, parameters[0].object, see_any, finding);
	return finding->units || !finding->found;
}

static bool find_units(struct gm_zero_reading *reading, uint64_t optimizer, struct units *units)
{
	struct finding finding = {.reading = reading, .units = units};
	struct gm_zero_attribute groups[] = {{"param_groups", 0}};
	gm_zero_attributes(reading, optimizer, groups, 1);
	gm_zero_items(reading, groups[0].object, see_group, &finding);
	return finding.found;
}

bool gm_zero_has_fsdp1(struct gm_zero_reading *reading, uint64_t optimizer)
{
	return reading->flat_objects.count && find_units(reading, optimizer, NULL);
}

/* ---- parameters of a unit ---- */

struct fsdp1 {
	struct gm_zero_parameters *parameters;
	struct gm_zero_unit *unit;
	struct gm_tensor part; /* of this rank */
	size_t first;          /* of the unit's parameters */
	uint64_t elements, owned;
	bool has_gradient;
};

/* While a unit is gathered, its modules do not have them as parameters. */
static void name_by_module(
        struct fsdp1 *fsdp1, struct gm_zero_parameter *parameter, const char *name)
{
	char *module = NULL;
	if (parameter->name)
		return;
	bool there = gm_zero_name_of(fsdp1->parameters->names, fsdp1->unit->module, &module);
	if (!there || asprintf(&parameter->name, "%s%s%s", module ? module : "", module ? "." : "",
	                      name) < 0) {
		parameter->name = NULL;
		fsdp1->parameters->reading->no_memory = true;
	}
	free(module);
}

static struct gm_zero_parameter *add(
        struct fsdp1 *fsdp1, uint64_t object, uint64_t shape, uint64_t elements, uint64_t owned)
{
	struct gm_zero_parameters *parameters = fsdp1->parameters;
	struct gm_tensor own, whole = fsdp1->part;
	if (gm_zero_parameter_of(parameters, object))
		return NULL;
	if (!gm_zero_whole_tensor(parameters->reading, object, &own)) {
		parameters->sharding->unread++;
		return NULL;
	}
	/* its own tensor is the gathered one now, perhaps of another dtype */
	whole.address = own.address;
	whole.requires_grad = own.requires_grad;
	if (!shape || !gm_zero_shape(parameters->reading, shape, &whole)) {
		whole.dimensions = 1;
		whole.shape[0] = (int64_t)elements;
		whole.numel = elements;
	}
	struct gm_zero_parameter *parameter =
	        gm_zero_parameter_put(parameters, object, 0, &whole, &fsdp1->part);
	if (parameter) {
		parameter->split = true;
		parameter->owned = owned;
		fsdp1->elements += elements;
		fsdp1->owned += owned;
	}
	return parameter;
}

static void add_original(struct fsdp1 *fsdp1, const struct gm_zero_original *original)
{
	struct gm_python *python = fsdp1->parameters->reading->python;
	char *name = NULL;
	const struct gm_zero_sharding *sharding = fsdp1->parameters->sharding;
	struct gm_zero_parameter *parameter =
	        add(fsdp1, original->object, original->shape, original->elements, original->owned);
	if (!parameter)
		return;
	if (original->name && gm_python_str(python, original->name, NAME_MAX_BYTES, &name))
		name_by_module(fsdp1, parameter, name);
	free(name);
	if (!sharding->stage || !original->elements || !fsdp1->part.numel)
		return;
	uint64_t owner = original->start / fsdp1->part.numel;
	uint64_t last = (original->start + original->elements - 1) / fsdp1->part.numel;
	parameter->spread = owner != last;
	if (!parameter->spread && owner < sharding->world)
		parameter->owner = (uint32_t)owner;
}

static void add_flat(struct fsdp1 *fsdp1)
{
	const struct gm_zero_unit *unit = fsdp1->unit;
	uint64_t elements = 0, owned = 0;
	for (size_t i = 0; i < unit->originals.count; i++) {
		elements += unit->originals.items[i].elements;
		owned += unit->originals.items[i].owned;
	}
	struct gm_zero_parameter *parameter = add(fsdp1, unit->flat, 0, elements, owned);
	if (!parameter)
		return;
	name_by_module(fsdp1, parameter, "_flat_param");
	parameter->spread = fsdp1->parameters->sharding->stage != 0;
	parameter->padding = fsdp1->part.numel > owned ? fsdp1->part.numel - owned : 0;
}

/* ---- gradients of a unit ---- */

/* The first one is the gradient of this rank's part, or complete if it has not been reduced yet. */
static void add_gradient(struct fsdp1 *fsdp1, const struct gm_tensor *gradient)
{
	struct gm_zero_parameters *parameters = fsdp1->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	int64_t *differences = sharding->terms[GM_ZERO_GRADIENTS].differences;
	bool of_part = gradient->numel == fsdp1->part.numel;
	uint64_t bytes, size = gradient->element_bits / 8;
	uint64_t elements = of_part ? fsdp1->owned : fsdp1->elements;
	if (!gradient->numel || gm_map_find(&parameters->ledger->storages, gradient->storage) ||
	        !gm_zero_ledger_add(
	                parameters->ledger, sharding, GM_ZERO_GRADIENTS, gradient, &bytes))
		return;
	if (fsdp1->has_gradient || gradient->numel < elements) {
		differences[GM_ZERO_DUPLICATE] += (int64_t)bytes;
		return;
	}
	fsdp1->has_gradient = true;
	differences[GM_ZERO_PADDING] += (int64_t)((gradient->numel - elements) * size);
	for (size_t i = fsdp1->first; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		parameter->has_gradient = true;
		parameter->gradient_elements = of_part ? parameter->owned : parameter->elements;
		parameter->gradient_bytes = parameter->gradient_elements * size;
	}
}

static void read_gradients(struct fsdp1 *fsdp1)
{
	struct gm_zero_reading *reading = fsdp1->parameters->reading;
	const uint64_t objects[] = {fsdp1->unit->host_gradient, fsdp1->unit->saved_gradient};
	struct gm_tensor flat, gradient;
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		if (gm_zero_tensor(reading, objects[i], &gradient))
			add_gradient(fsdp1, &gradient);
	if (gm_zero_tensor(reading, fsdp1->unit->flat, &flat) && flat.grad &&
	        gm_torch_tensor(reading->torch, flat.grad, &gradient) &&
	        gm_zero_plausible(&gradient))
		add_gradient(fsdp1, &gradient);
}

/* ---- a unit ---- */

/* torch/distributed/fsdp/_flat_param.py, HandleShardingStrategy: FULL_SHARD, SHARD_GRAD_OP,
 * NO_SHARD, HYBRID_SHARD and its variant that gathers once */
static unsigned stage_of(struct gm_zero_reading *reading, uint64_t strategy)
{
	static const unsigned stages[] = {3, 3, 2, 0, 3, 2};
	struct gm_zero_attribute own[] = {{"_value_", 0}};
	uint32_t number = 0;
	gm_zero_attributes(reading, strategy, own, 1);
	gm_zero_number(reading, own[0].object, &number);
	return stages[number < sizeof(stages) / sizeof(stages[0]) ? number : 0];
}

static void read_stage(struct fsdp1 *fsdp1)
{
	struct gm_zero_sharding *sharding = fsdp1->parameters->sharding;
	bool first = sharding->parameter_count == 0;
	gm_zero_rank(fsdp1->parameters, fsdp1->unit->rank, fsdp1->unit->world, first);
	if (!first)
		return;
	sharding->stage = stage_of(fsdp1->parameters->reading, fsdp1->unit->strategy);
	for (int part = GM_ZERO_PARAMETERS; part <= GM_ZERO_STATE; part++)
		sharding->terms[part].partitioned = sharding->stage != 0;
}

static void read_unit(struct gm_zero_parameters *parameters, struct gm_zero_unit *unit)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct fsdp1 fsdp1 = {parameters, unit, {0}, sharding->parameter_count, 0, 0, false};
	struct gm_tensor gathered;
	if (!gm_zero_tensor(parameters->reading, unit->shard, &fsdp1.part) ||
	        !unit->originals.count) {
		sharding->unread++;
		return;
	}
	/* offloaded parts belong to a model on a device all the same */
	if (gm_zero_tensor(parameters->reading, unit->gathered, &gathered) &&
	        gathered.device_type != GM_DEVICE_CPU)
		parameters->ledger->on_device = true;
	read_stage(&fsdp1);
	if (unit->originals.items[0].object)
		for (size_t i = 0; i < unit->originals.count; i++)
			add_original(&fsdp1, &unit->originals.items[i]);
	else
		add_flat(&fsdp1);
	if (sharding->parameter_count == fsdp1.first)
		return;
	sharding->terms[GM_ZERO_PARAMETERS].differences[GM_ZERO_PADDING] +=
	        (int64_t)((fsdp1.part.numel - fsdp1.owned) * (fsdp1.part.element_bits / 8));
	read_gradients(&fsdp1);
	gm_zero_buffer_of(parameters, GM_ZERO_BUCKET_GATHERED, unit->gathered);
	gm_zero_buffer_of(parameters, GM_ZERO_BUCKET_GATHERED, unit->gathered_whole);
	gm_zero_buffer_of(parameters, GM_ZERO_BUCKET_LOW_PRECISION, unit->low);
}

/* --- tensors outside of any unit, and those of the originals alone ---------------------------- */

static void read_others(struct gm_zero_parameters *parameters)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_torch *torch = parameters->reading->torch;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		struct gm_tensor tensor, gradient;
		if (!parameter->split)
			parameter->owned = parameter->elements;
		if (gm_torch_tensor(torch, parameter->tensor, &tensor) && tensor.grad &&
		        gm_torch_tensor(torch, tensor.grad, &gradient) &&
		        gm_zero_plausible(&gradient) && gradient.numel &&
		        !gm_map_find(&parameters->ledger->storages, gradient.storage))
			gm_zero_gradient(parameters, parameter, &gradient, false);
	}
}

void gm_zero_fsdp1(struct gm_zero_parameters *parameters, uint64_t optimizer)
{
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[] = {{"param_groups", 0}, {"state", 0}};
	struct units units = {0};
	gm_zero_attributes(reading, optimizer, own, 2);
	sharding->scheme = GM_ZERO_FSDP1;
	sharding->optimizer = gm_zero_class(reading, optimizer);
	find_units(reading, optimizer, &units);
	for (size_t i = 0; i < units.handles.count; i++) {
		struct gm_zero_unit unit;
		if (gm_zero_unit_read(reading, units.handles.items[i], &unit))
			read_unit(parameters, &unit);
		gm_zero_unit_deinit(&unit);
	}
	sharding->layout_unknown = sharding->parameter_count == 0;
	gm_zero_parameters_of_groups(parameters, own[0].object);
	read_others(parameters);
	gm_zero_state(parameters, own[1].object, false);
	gm_map_deinit(&units.seen);
	gm_array_deinit(&units.handles);
}
