#include "render/zero.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ask/zero/ideal.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "render/pause.h"

enum { PARAMETERS_SHOWN = 16, SHAPE_TEXT = 160 };

const char *gm_zero_sharding_text(const struct gm_zero_sharding *sharding)
{
	static const char *const texts[GM_ZERO_SCHEME_COUNT] = {
	        [GM_ZERO_FSDP1] = "FSDP1 (FullyShardedDataParallel) under the parameters",
	        [GM_ZERO_FSDP2] = "FSDP2 (fully_shard) under the parameters",
	};
	if (texts[sharding->scheme]) /* the class is that of an ordinary optimizer */
		return texts[sharding->scheme];
	return sharding->class ? sharding->class : "an optimizer";
}

const char *gm_zero_part_text(enum gm_zero_part part)
{
	static const char *const texts[GM_ZERO_PART_COUNT] = {
	        "parameters", "gradients", "masters", "optimizer state", "buffers"};
	return texts[part];
}

const char *gm_zero_difference_text(enum gm_zero_difference difference)
{
	static const char *const texts[GM_ZERO_DIFFERENCE_COUNT] = {
	        [GM_ZERO_IMBALANCE] = "the parameters are not divided equally",
	        [GM_ZERO_NOT_MADE] = "not made yet, or released",
	        [GM_ZERO_PER_TENSOR] = "state for each tensor, such as the count of steps",
	        [GM_ZERO_DTYPE] = "of another dtype than the parameter",
	        [GM_ZERO_REST] = "storages are larger than their tensors",
	        [GM_ZERO_SHARED] = "in storages of a term above",
	        [GM_ZERO_DUPLICATE] = "second copies, or memory reserved for them",
	        [GM_ZERO_NOT_OWNED] = "of parameters that this rank does not own",
	        [GM_ZERO_FROZEN] = "of parameters that are not trained",
	        [GM_ZERO_PADDING] = "padding to parts of equal size",
	};
	return texts[difference];
}

static void put_count(struct gm_table *table, bool known, uint64_t number)
{
	char text[GM_SIZE_GROUPED];
	gm_table_cell(table, "%s", known ? gm_text_grouped(number, text) : "unknown");
}

static const char *signed_text(int64_t number, char text[GM_SIZE_GROUPED])
{
	uint64_t size = number < 0 ? -(uint64_t)number : (uint64_t)number;
	text[0] = number < 0 ? '-' : '+';
	char grouped[GM_SIZE_GROUPED];
	snprintf(text + 1, GM_SIZE_GROUPED - 1, "%.29s", gm_text_grouped(size, grouped));
	return text;
}

static void put_differences(const struct gm_zero_sharding *sharding, FILE *out)
{
	char text[GM_SIZE_GROUPED];
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		const struct gm_zero_term *term = &sharding->terms[part];
		for (int i = 0; i < GM_ZERO_DIFFERENCE_COUNT; i++)
			if (term->differences[i])
				gm_put(out, "  %s %s: %s\n",
				        gm_zero_part_text((enum gm_zero_part)part),
				        signed_text(term->differences[i], text),
				        gm_zero_difference_text((enum gm_zero_difference)i));
		if (term->host_bytes)
			gm_put(out, "  %s: %s bytes of it are in the host's memory\n",
			        gm_zero_part_text((enum gm_zero_part)part),
			        gm_text_grouped(term->host_bytes, text));
		if (term->has_ideal && gm_zero_unexplained(term))
			gm_put(out, "  %s %s: not explained\n",
			        gm_zero_part_text((enum gm_zero_part)part),
			        signed_text(gm_zero_unexplained(term), text));
		if (!term->has_ideal && !sharding->split_further)
			gm_put(out,
			        "  %s: the ideal is unknown, because no parameter of this rank has "
			        "any yet\n",
			        gm_zero_part_text((enum gm_zero_part)part));
	}
}

static void put_split_further(const struct gm_zero_sharding *sharding, FILE *out)
{
	if (sharding->split_further)
		gm_put(out,
		        "  %" PRIu64 " parameter%s split along another dimension of the mesh too, "
		        "as by tensor parallelism: the ideal is unknown\n",
		        sharding->split_further, sharding->split_further == 1 ? " is" : "s are");
}

static bool put_terms(
        const struct gm_zero_sharding *sharding, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "  term", "bytes", "ideal", "without sharding", "tensors", NULL};
	struct gm_table *table = gm_table_create(heads, "lrrrr");
	uint64_t bytes = 0, ideal = 0, whole = 0, tensors = 0;
	bool known = true;
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		const struct gm_zero_term *term = &sharding->terms[part];
		if (part == GM_ZERO_MASTERS && !term->tensors)
			continue;
		gm_table_cell(table, "  %s%s", gm_zero_part_text((enum gm_zero_part)part),
		        term->partitioned ? ", divided" : "");
		put_count(table, true, term->bytes);
		put_count(table, term->has_ideal, term->ideal);
		put_count(table, term->has_ideal, term->whole);
		put_count(table, true, term->tensors);
		bytes += term->bytes;
		ideal += term->ideal;
		whole += term->whole;
		tensors += term->tensors;
		known = known && term->has_ideal;
	}
	gm_table_cell(table, "  all");
	put_count(table, true, bytes);
	put_count(table, known, ideal);
	put_count(table, known, whole);
	put_count(table, true, tensors);
	return gm_table_finish(table, style, out);
}

static const char *shape_text(const struct gm_zero_parameter *parameter, char text[SHAPE_TEXT])
{
	size_t length = 0;
	text[0] = 0;
	for (uint32_t i = 0; i < parameter->dimensions && i < GM_TENSOR_MAX_DIMENSIONS &&
	                     length < SHAPE_TEXT - 24;
	        i++)
		length += (size_t)snprintf(text + length, SHAPE_TEXT - length, "%s%" PRId64,
		        i ? ", " : "", parameter->shape[i]);
	return text;
}

static bool put_parameters(
        const struct gm_zero_sharding *sharding, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "  owner", "elements", "gradient", "state", "parameter", NULL};
	struct gm_table *table = gm_table_create(heads, "lrrrl");
	char text[SHAPE_TEXT];
	for (size_t i = 0; i < sharding->parameter_count && i < PARAMETERS_SHOWN; i++) {
		const struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->owner == GM_ZERO_NO_RANK)
			gm_table_cell(table, parameter->spread ? "  several"
			                     : sharding->stage ? "  unknown"
			                                       : "  every rank");
		else
			gm_table_cell(table, "  rank %" PRIu32 "%s", parameter->owner,
			        sharding->has_rank && parameter->owner == sharding->rank ? ", this"
			                                                                 : "");
		put_count(table, true, parameter->elements);
		put_count(table, true, parameter->gradient_bytes);
		put_count(table, true, parameter->state_bytes + parameter->per_tensor_bytes);
		gm_table_cell(table, "%s %s (%s)%s",
		        parameter->name ? parameter->name : "(no name)", parameter->dtype,
		        shape_text(parameter, text), parameter->trainable ? "" : ", not trained");
	}
	bool written = gm_table_finish(table, style, out);
	if (sharding->parameter_count > PARAMETERS_SHOWN)
		gm_put(out, "  and %zu more: --json has all\n",
		        sharding->parameter_count - PARAMETERS_SHOWN);
	return written;
}

/* "2 + 2 + 4/2 + 8/2 (parameters, gradients, masters, optimizer state)"; nothing if elements take
 * different sizes. */
static void put_paper(const struct gm_zero_sharding *sharding, FILE *out)
{
	const struct gm_zero_parameter *first = sharding->parameters;
	if (!sharding->has_state_per_element || !sharding->has_world || sharding->split_further)
		return;
	for (size_t i = 0; i < sharding->parameter_count; i++)
		if (sharding->parameters[i].element_size != first->element_size ||
		        sharding->parameters[i].master_size != first->master_size)
			return;
	const uint64_t sizes[] = {
	        [GM_ZERO_PARAMETERS] = first->element_size,
	        [GM_ZERO_GRADIENTS] = first->element_size,
	        [GM_ZERO_MASTERS] = first->master_size,
	        [GM_ZERO_STATE] = sharding->state_per_element,
	};
	fputs("  ideal, bytes for each element:", out);
	for (int part = 0; part <= GM_ZERO_STATE; part++) {
		if (part == GM_ZERO_MASTERS && !first->master_size)
			continue;
		gm_put(out, "%s %" PRIu64, part ? " +" : "", sizes[part]);
		if (sharding->terms[part].partitioned)
			gm_put(out, "/%" PRIu32, sharding->world);
	}
	gm_put(out, " (parameters, gradients, %sstate)\n", first->master_size ? "masters, " : "");
}

static void put_head(const struct gm_zero_sharding *sharding, FILE *out)
{
	char elements[GM_SIZE_GROUPED], owned[GM_SIZE_GROUPED];
	gm_put(out, "%s of %s at 0x%" PRIx64 ": ZeRO stage %u, ", gm_zero_sharding_text(sharding),
	        sharding->optimizer ? sharding->optimizer : "an unknown optimizer",
	        sharding->object, sharding->stage);
	if (sharding->has_rank && sharding->has_world)
		gm_put(out, "rank %" PRIu32 " of %" PRIu32 "\n", sharding->rank, sharding->world);
	else
		fputs("rank or number of ranks unknown\n", out);
	gm_put(out, "  %zu parameter%s with %s elements; ", sharding->parameter_count,
	        gm_text_s(sharding->parameter_count),
	        gm_text_grouped(sharding->elements, elements));
	if (sharding->trainable_elements != sharding->elements)
		gm_put(out, "%s of them trained; ",
		        gm_text_grouped(sharding->trainable_elements, elements));
	if (sharding->has_rank)
		gm_put(out, "this rank owns %" PRIu64 " with %s\n", sharding->owned,
		        gm_text_grouped(sharding->owned_elements, owned));
	else
		fputs("what this rank owns is unknown\n", out);
	put_paper(sharding, out);
}

static void put_buckets(const struct gm_zero_sharding *sharding, FILE *out)
{
	static const char *const whose[GM_ZERO_BUCKET_KIND_COUNT] = {"gradients go through",
	        "the optimizer has flat parameters in", "offloading uses",
	        "parameters are gathered in", "parameters too small to release are whole in",
	        "parameters in low precision are in"};
	for (int kind = 0; kind < GM_ZERO_BUCKET_KIND_COUNT; kind++) {
		uint64_t count = 0, shared = 0, bytes = 0;
		char text[GM_SIZE_GROUPED];
		for (size_t i = 0; i < sharding->bucket_count; i++) {
			if (sharding->buckets[i].kind != (enum gm_zero_bucket_kind)kind)
				continue;
			count++;
			shared += sharding->buckets[i].shared;
			bytes += sharding->buckets[i].bytes;
		}
		if (!count)
			continue;
		gm_put(out, "  %s %" PRIu64 " bucket%s of %s bytes", whose[kind], count,
		        gm_text_s(count), gm_text_grouped(bytes, text));
		if (shared)
			gm_put(out, "; of %" PRIu64 " the %s are views, so they take nothing more",
			        shared,
			        kind == GM_ZERO_BUCKET_GRADIENTS ? "gradients" : "parameters");
		fputc('\n', out);
	}
	if (sharding->buckets_unknown)
		fputs("  the buckets of a DistributedDataParallel could not be read: they are "
		      "unknown\n",
		        out);
	if (sharding->unread)
		gm_put(out, "  %" PRIu64 " object%s could not be read as tensors\n",
		        sharding->unread, gm_text_s(sharding->unread));
}

static void put_device(const struct gm_zero_device *device, FILE *out)
{
	char allocated[GM_SIZE_GROUPED], named[GM_SIZE_GROUPED], rounding[GM_SIZE_GROUPED],
	        other[GM_SIZE_GROUPED];
	gm_put(out,
	        "cuda:%d: %s bytes allocated: %s in the terms above, %s of rounding, %s in other "
	        "blocks\n",
	        device->device, gm_text_grouped(device->allocated, allocated),
	        gm_text_grouped(device->named, named), gm_text_grouped(device->rounding, rounding),
	        gm_text_grouped(device->other, other));
}

void gm_put_zero_none(const char *where, FILE *out)
{
	gm_put(out,
	        "No sharded optimizer is in %s. These are known: ZeroRedundancyOptimizer, "
	        "DeepSpeed stages 1 to 3, FSDP1, FSDP2.\n",
	        where);
}

struct gm_error *gm_render_zero_text(
        const struct gm_zero_now *now, const struct gm_style *style, FILE *out)
{
	bool written = true;
	gm_put(out, "%s\n", now->source);
	if (!now->sharding_count)
		gm_put_zero_none("the process", out);
	for (size_t i = 0; i < now->sharding_count && written; i++) {
		const struct gm_zero_sharding *sharding = &now->shardings[i];
		put_head(sharding, out);
		if (sharding->layout_unknown) {
			fputs("  its attributes match no known version: it cannot be analysed\n",
			        out);
			continue;
		}
		written = put_terms(sharding, style, out);
		put_split_further(sharding, out);
		put_differences(sharding, out);
		put_buckets(sharding, out);
		written = written && put_parameters(sharding, style, out);
	}
	for (size_t i = 0; i < now->device_count && now->sharding_count; i++)
		put_device(&now->devices[i], out);
	gm_put_pause(&now->pause, out);
	return written ? NULL : &gm_error_no_memory;
}
