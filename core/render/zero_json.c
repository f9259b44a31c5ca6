#include "ask/zero/ideal.h"
#include "render/json.h"
#include "render/pause.h"
#include "render/zero.h"
#include "render/zero_json.h"

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *known(bool is_known, uint64_t value)
{
	return is_known ? number(value) : json_null();
}

static json_t *term_json(const struct gm_zero_term *term, enum gm_zero_part part)
{
	json_t *value = json_object(), *differences = json_object();
	json_object_set_new(value, "term", json_string(gm_zero_part_name(part)));
	json_object_set_new(value, "partitioned", json_boolean(term->partitioned));
	json_object_set_new(value, "tensors", number(term->tensors));
	json_object_set_new(value, "storages", number(term->storages));
	json_object_set_new(value, "bytes", number(term->bytes));
	json_object_set_new(value, "host_bytes", number(term->host_bytes));
	json_object_set_new(value, "unsharded", known(term->has_ideal, term->whole));
	json_object_set_new(value, "ideal", known(term->has_ideal, term->ideal));
	for (int i = 0; i < GM_ZERO_DIFFERENCE_COUNT; i++)
		if (term->differences[i])
			json_object_set_new(differences,
			        gm_zero_difference_name((enum gm_zero_difference)i),
			        json_integer(term->differences[i]));
	json_object_set_new(value, "differences", differences);
	json_object_set_new(value, "unexplained",
	        term->has_ideal ? json_integer(gm_zero_unexplained(term)) : json_null());
	return value;
}

static json_t *parameter_json(
        const struct gm_zero_sharding *sharding, const struct gm_zero_parameter *parameter)
{
	json_t *value = json_object(), *shape = json_array();
	for (uint32_t i = 0; i < parameter->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		json_array_append_new(shape, json_integer(parameter->shape[i]));
	json_object_set_new(value, "address", gm_json_address(parameter->object));
	json_object_set_new(value, "name", gm_json_string_or_null(parameter->name));
	json_object_set_new(value, "dtype", gm_json_string(parameter->dtype));
	json_object_set_new(value, "shape", shape);
	json_object_set_new(value, "elements", number(parameter->elements));
	json_object_set_new(value, "group", number(parameter->group));
	json_object_set_new(value, "trainable", json_boolean(parameter->trainable));
	json_object_set_new(
	        value, "owner", known(parameter->owner != GM_ZERO_NO_RANK, parameter->owner));
	json_object_set_new(value, "spread", json_boolean(parameter->spread));
	json_object_set_new(value, "owned_elements", known(sharding->has_rank, parameter->owned));
	json_object_set_new(
	        value, "gradient_bytes", known(parameter->has_gradient, parameter->gradient_bytes));
	json_object_set_new(
	        value, "state_bytes", known(parameter->has_state, parameter->state_bytes));
	json_object_set_new(value, "state_tensors", number(parameter->state_tensors));
	json_object_set_new(value, "master_bytes",
	        known(sharding->has_rank, parameter->master_size * parameter->owned));
	json_object_set_new(value, "per_tensor_bytes", number(parameter->per_tensor_bytes));
	return value;
}

static json_t *bucket_json(const struct gm_zero_bucket *bucket)
{
	json_t *value = json_object();
	json_object_set_new(value, "kind", json_string(gm_zero_bucket_kind_name(bucket->kind)));
	json_object_set_new(value, "address", gm_json_address(bucket->tensor));
	json_object_set_new(value, "bytes", number(bucket->bytes));
	json_object_set_new(
	        value, "parameters", known(bucket->parameters != 0, bucket->parameters));
	json_object_set_new(value, "shared", json_boolean(bucket->shared));
	return value;
}

static json_t *sharding_json(const struct gm_zero_sharding *sharding)
{
	json_t *value = json_object(), *terms = json_array(), *parameters = json_array();
	json_t *buckets = json_array();
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++)
		json_array_append_new(
		        terms, term_json(&sharding->terms[part], (enum gm_zero_part)part));
	for (size_t i = 0; i < sharding->parameter_count; i++)
		json_array_append_new(
		        parameters, parameter_json(sharding, &sharding->parameters[i]));
	for (size_t i = 0; i < sharding->bucket_count; i++)
		json_array_append_new(buckets, bucket_json(&sharding->buckets[i]));
	json_object_set_new(value, "scheme", json_string(gm_zero_scheme_name(sharding->scheme)));
	json_object_set_new(value, "stage", number(sharding->stage));
	json_object_set_new(value, "address", gm_json_address(sharding->object));
	json_object_set_new(value, "class", gm_json_string_or_null(sharding->class));
	json_object_set_new(value, "optimizer", gm_json_string_or_null(sharding->optimizer));
	json_object_set_new(value, "rank", known(sharding->has_rank, sharding->rank));
	json_object_set_new(value, "world_size", known(sharding->has_world, sharding->world));
	json_object_set_new(value, "elements", number(sharding->elements));
	json_object_set_new(value, "trainable_elements", number(sharding->trainable_elements));
	json_object_set_new(value, "owned_parameters", known(sharding->has_rank, sharding->owned));
	json_object_set_new(
	        value, "owned_elements", known(sharding->has_rank, sharding->owned_elements));
	json_object_set_new(value, "state_bytes_per_element",
	        known(sharding->has_state_per_element, sharding->state_per_element));
	json_object_set_new(value, "terms", terms);
	json_object_set_new(value, "buckets", buckets);
	json_object_set_new(value, "buckets_known", json_boolean(!sharding->buckets_unknown));
	json_object_set_new(value, "layout_known", json_boolean(!sharding->layout_unknown));
	json_object_set_new(value, "split_further", number(sharding->split_further));
	json_object_set_new(value, "unread", number(sharding->unread));
	json_object_set_new(value, "parameters", parameters);
	return value;
}

static json_t *device_json(const struct gm_zero_device *device)
{
	json_t *value = json_object();
	json_object_set_new(value, "device", json_integer(device->device));
	json_object_set_new(value, "allocated", number(device->allocated));
	json_object_set_new(value, "named", number(device->named));
	json_object_set_new(value, "rounding", number(device->rounding));
	json_object_set_new(value, "other", number(device->other));
	return value;
}

json_t *gm_json_zero(const struct gm_zero_now *now)
{
	json_t *value = json_object(), *shardings = json_array(), *devices = json_array();
	for (size_t i = 0; i < now->sharding_count; i++)
		json_array_append_new(shardings, sharding_json(&now->shardings[i]));
	for (size_t i = 0; i < now->device_count; i++)
		json_array_append_new(devices, device_json(&now->devices[i]));
	json_object_set_new(value, "source", gm_json_string(now->source));
	json_object_set_new(value, "shardings", shardings);
	json_object_set_new(value, "devices", devices);
	json_object_set_new(value, "pause", gm_json_pause(&now->pause));
	return value;
}

struct gm_error *gm_render_zero_json(const struct gm_zero_now *now, FILE *out)
{
	return gm_json_write(gm_json_zero(now), true, out);
}
