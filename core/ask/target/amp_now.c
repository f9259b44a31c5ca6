#include "ask/target/amp_now.h"

#include <stdlib.h>
#include <string.h>

#include "ask/target/device.h"
#include "base/cleanup.h"
#include "image/image.h"
#include "torch/torch.h"

enum { TENSORS_MAX = 1 << 22 }; /* of one optimizer */

struct reading {
	struct gm_python *python;
	struct gm_torch *torch;
	struct gm_image *image;
	bool simulated;
	struct gm_amp_now *now;
};

static struct gm_amp_value number_of(struct reading *reading, uint64_t object)
{
	struct gm_amp_value value = {0};
	value.known = gm_python_number(reading->python, object, &value.value);
	return value;
}

static bool tensor_of(struct reading *reading, uint64_t object, struct gm_tensor *ret_tensor)
{
	uint64_t address = gm_torch_unwrap(reading->torch, object);
	return address && gm_torch_tensor(reading->torch, address, ret_tensor);
}

/* The only element of a float32 or int32 tensor. */
static struct gm_amp_value element_of(struct reading *reading, uint64_t object)
{
	struct gm_amp_value value = {0};
	struct gm_tensor tensor;
	struct gm_storage storage;
	uint32_t bits;
	if (!tensor_of(reading, object, &tensor) || tensor.numel != 1 || !tensor.dtype ||
	        (tensor.device_type != GM_DEVICE_CPU &&
	                !(tensor.device_type == GM_DEVICE_CUDA && reading->simulated)) ||
	        !gm_torch_storage(reading->torch, tensor.storage, &storage) || storage.size < 4 ||
	        tensor.storage_offset > storage.size / 4 - 1 ||
	        !gm_image_try_read(reading->image, storage.data + tensor.storage_offset * 4, &bits,
	                sizeof(bits)))
		return value;
	float real;
	memcpy(&real, &bits, sizeof(real));
	value.known = true;
	if (strcmp(tensor.dtype, "float32") == 0)
		value.value = (double)real;
	else if (strcmp(tensor.dtype, "int32") == 0)
		value.value = (int32_t)bits;
	else
		value.known = false;
	return value;
}

/* ---- a scaler ---- */

struct scaler_visit {
	struct reading *reading;
	struct gm_amp_scaler *scaler;
	unsigned depth;
};

/* found_inf_per_device of each optimizer's state: {device: tensor}. */
static bool see_found(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct scaler_visit *visit = context;
	struct gm_tensor tensor;
	if (kind == GM_EDGE_DICT_KEY || kind == GM_EDGE_TYPE)
		return true;
	if (tensor_of(visit->reading, target, &tensor)) {
		if (visit->scaler->checks < GM_AMP_NOW_MAX)
			visit->scaler->found[visit->scaler->checks] =
			        element_of(visit->reading, target);
		visit->scaler->checks++;
	} else if (kind == GM_EDGE_KEY && visit->depth < 2) {
		visit->depth++;
		gm_python_references(visit->reading->python, target, see_found, visit);
		visit->depth--;
	}
	return visit->scaler->checks < UINT16_MAX;
}

static bool see_scaler(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct scaler_visit *visit = context;
	struct gm_amp_scaler *scaler = visit->scaler;
	struct gm_tensor tensor;
	if (!name || kind == GM_EDGE_TYPE)
		return true;
	if (kind == GM_EDGE_OTHER && strcmp(name, "__dict__") == 0 && !visit->depth) {
		visit->depth++;
		gm_python_references(visit->reading->python, target, see_scaler, visit);
		visit->depth--;
		return true;
	}
	if (kind != GM_EDGE_ATTRIBUTE && kind != GM_EDGE_KEY)
		return true;
	if (strcmp(name, "_enabled") == 0) {
		scaler->enabled = number_of(visit->reading, target);
	} else if (strcmp(name, "_growth_factor") == 0) {
		scaler->growth_factor = number_of(visit->reading, target);
	} else if (strcmp(name, "_backoff_factor") == 0) {
		scaler->backoff_factor = number_of(visit->reading, target);
	} else if (strcmp(name, "_growth_interval") == 0) {
		scaler->growth_interval = number_of(visit->reading, target);
	} else if (strcmp(name, "_init_scale") == 0) {
		scaler->init_scale = number_of(visit->reading, target);
	} else if (strcmp(name, "_scale") == 0) {
		scaler->has_scale = tensor_of(visit->reading, target, &tensor);
		scaler->scale = element_of(visit->reading, target);
	} else if (strcmp(name, "_growth_tracker") == 0) {
		scaler->tracker = element_of(visit->reading, target);
	} else if (strcmp(name, "_per_optimizer_states") == 0) {
		struct scaler_visit inner = {visit->reading, scaler, 0};
		gm_python_references(visit->reading->python, target, see_found, &inner);
	}
	return true;
}

/* ---- DeepSpeed ---- */

struct number_attribute {
	const char *name;
	struct gm_amp_value *value;
};

struct numbers_visit {
	struct reading *reading;
	const struct number_attribute *attributes; /* ends with an entry without a name */
	unsigned depth;
};

static bool see_number(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct numbers_visit *visit = context;
	if (!name || kind == GM_EDGE_TYPE)
		return true;
	if (kind == GM_EDGE_OTHER && strcmp(name, "__dict__") == 0 && !visit->depth) {
		visit->depth++;
		gm_python_references(visit->reading->python, target, see_number, visit);
		visit->depth--;
		return true;
	}
	if (kind != GM_EDGE_ATTRIBUTE && kind != GM_EDGE_KEY)
		return true;
	for (const struct number_attribute *one = visit->attributes; one->name; one++)
		if (strcmp(name, one->name) == 0)
			*one->value = number_of(visit->reading, target);
	return true;
}

static void read_loss_scaler(struct reading *reading, struct gm_amp_loss_scaler *scaler)
{
	const struct number_attribute attributes[] = {
	        {"cur_scale", &scaler->scale},
	        {"cur_iter", &scaler->iterations},
	        {"last_overflow_iter", &scaler->last_overflow},
	        {"scale_factor", &scaler->factor},
	        {"scale_window", &scaler->window},
	        {0},
	};
	struct numbers_visit visit = {reading, attributes, 0};
	gm_python_type_name(reading->python, scaler->object, &scaler->class);
	gm_python_references(reading->python, scaler->object, see_number, &visit);
}

static void read_engine(struct reading *reading, struct gm_amp_engine *engine)
{
	const struct number_attribute attributes[] = {
	        {"global_steps", &engine->steps},
	        {"skipped_steps", &engine->skipped},
	        {0},
	};
	struct numbers_visit visit = {reading, attributes, 0};
	gm_python_references(reading->python, engine->object, see_number, &visit);
}

static void see_deepspeed(struct reading *reading, uint64_t object)
{
	struct gm_amp_now *now = reading->now;
	if (gm_python_is_instance(reading->python, object, "LossScalerBase")) {
		if (now->loss_scaler_count < GM_AMP_NOW_MAX) {
			now->loss_scalers[now->loss_scaler_count].object = object;
			read_loss_scaler(reading, &now->loss_scalers[now->loss_scaler_count]);
		}
		now->loss_scaler_count++;
	} else if (gm_python_is_instance(reading->python, object, "DeepSpeedEngine")) {
		if (now->engine_count < GM_AMP_NOW_MAX) {
			now->engines[now->engine_count].object = object;
			read_engine(reading, &now->engines[now->engine_count]);
		}
		now->engine_count++;
	}
}

/* ---- an optimizer ---- */

struct optimizer_visit {
	struct reading *reading;
	struct gm_amp_optimizer *optimizer;
	unsigned depth;
};

static void count_dtype(struct gm_amp_dtype *dtypes, const struct gm_tensor *tensor)
{
	for (int i = 0; i < GM_AMP_NOW_DTYPES && tensor->dtype; i++) {
		if (dtypes[i].dtype && strcmp(dtypes[i].dtype, tensor->dtype) != 0)
			continue;
		dtypes[i].dtype = tensor->dtype;
		dtypes[i].tensors++;
		dtypes[i].elements += tensor->numel;
		return;
	}
}

static bool see_parameter(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct optimizer_visit *visit = context;
	struct gm_tensor tensor, gradient;
	if (kind != GM_EDGE_ITEM || !tensor_of(visit->reading, target, &tensor))
		return true;
	count_dtype(visit->optimizer->dtypes, &tensor);
	if (tensor.grad && gm_torch_tensor(visit->reading->torch, tensor.grad, &gradient))
		count_dtype(visit->optimizer->gradients, &gradient);
	return ++visit->optimizer->parameters < TENSORS_MAX;
}

static bool see_group(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct optimizer_visit *visit = context;
	if (kind == GM_EDGE_KEY && name && strcmp(name, "params") == 0)
		gm_python_references(visit->reading->python, target, see_parameter, visit);
	return true;
}

static bool see_groups(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct optimizer_visit *visit = context;
	if (kind == GM_EDGE_ITEM)
		gm_python_references(visit->reading->python, target, see_group, visit);
	return true;
}

/* For a parameter's state: is it a dict that is not empty? */
static bool see_any(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	if (kind == GM_EDGE_KEY)
		*(bool *)context = true;
	return kind != GM_EDGE_KEY;
}

static bool see_state(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct optimizer_visit *visit = context;
	bool any = false;
	if (kind == GM_EDGE_DICT_KEY || kind == GM_EDGE_TYPE)
		return true;
	if (gm_python_is_instance(visit->reading->python, target, "dict"))
		gm_python_references(visit->reading->python, target, see_any, &any);
	visit->optimizer->with_state += any;
	return visit->optimizer->with_state < TENSORS_MAX;
}

static bool see_optimizer(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct optimizer_visit *visit = context;
	struct gm_python *python = visit->reading->python;
	if (!name)
		return true;
	if (kind == GM_EDGE_OTHER && strcmp(name, "__dict__") == 0 && !visit->depth) {
		visit->depth++;
		gm_python_references(python, target, see_optimizer, visit);
		visit->depth--;
	} else if (kind != GM_EDGE_ATTRIBUTE && kind != GM_EDGE_KEY) {
		return true;
	} else if (strcmp(name, "param_groups") == 0) {
		gm_python_references(python, target, see_groups, visit);
	} else if (strcmp(name, "state") == 0) {
		gm_python_references(python, target, see_state, visit);
	}
	return true;
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool see_object(void *context, uint64_t object)
{
	struct reading *reading = context;
	struct gm_amp_now *now = reading->now;
	if (gm_python_is_instance(reading->python, object, "GradScaler")) {
		if (now->scaler_count < GM_AMP_NOW_MAX) {
			struct gm_amp_scaler *scaler = &now->scalers[now->scaler_count];
			struct scaler_visit visit = {reading, scaler, 0};
			scaler->object = object;
			gm_python_references(reading->python, object, see_scaler, &visit);
		}
		now->scaler_count++;
	} else if (gm_python_is_instance(reading->python, object, "Optimizer")) {
		if (now->optimizer_count < GM_AMP_NOW_MAX) {
			struct gm_amp_optimizer *optimizer = &now->optimizers[now->optimizer_count];
			struct optimizer_visit visit = {reading, optimizer, 0};
			optimizer->object = object;
			gm_python_type_name(reading->python, object, &optimizer->class);
			gm_python_references(reading->python, object, see_optimizer, &visit);
		}
		now->optimizer_count++;
	} else {
		see_deepspeed(reading, object);
	}
	return true;
}

struct gm_error *gm_ask_amp_now(struct gm_context *context, struct gm_amp_now **ret_now)
{
	struct reading reading = {0};
	size_t count;
	gm_try(gm_context_image(context, &reading.image));
	gm_try(gm_context_python(context, &reading.python));
	gm_try(gm_context_torch(context, &reading.torch));
	reading.simulated = gm_device_is_simulated(context);
	_cleanup_free_ struct gm_amp_now *now = calloc(1, sizeof(*now));
	if (!now)
		return &gm_error_no_memory;
	reading.now = now;
	gm_try(gm_python_tracked(reading.python, see_object, &reading, &count));
	gm_try(gm_context_check_there(context));
	*ret_now = now;
	now = NULL;
	return NULL;
}
