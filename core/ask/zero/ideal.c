/*
 * The ideal of a term is the sum over all parameters of elements times bytes for each element,
 * divided by the number of ranks if the stage divides it. An element of a parameter or of its
 * gradient takes the bytes of its dtype. The bytes of its state (K) come from the parameters that
 * this rank owns and that have state. For the others they come from parameters of the same dtype
 * and group, or of the same dtype if all groups agree. If that does not answer it, there is no
 * ideal yet. Nor is there one where other ranks than those of the sharding have a part too.
 */
#include "ask/zero/ideal.h"

#include <string.h>

enum { KINDS_MAX = 64 };

/* Bytes of state for an element, by dtype and group */
struct kind {
	const char *dtype;
	uint32_t group;
	uint64_t bytes;
	bool differs; /* not all parameters agree */
};

struct kinds {
	struct kind items[KINDS_MAX];
	size_t count;
};

static void find_kinds(const struct gm_zero_sharding *sharding, struct kinds *kinds)
{
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		const struct gm_zero_parameter *parameter = &sharding->parameters[i];
		uint64_t bytes = parameter->state_size;
		size_t k = 0;
		if (!parameter->trainable || !parameter->state_known)
			continue;
		while (k < kinds->count && (kinds->items[k].group != parameter->group ||
		                                   kinds->items[k].dtype != parameter->dtype))
			k++;
		if (k == KINDS_MAX)
			continue;
		if (k == kinds->count)
			kinds->items[kinds->count++] =
			        (struct kind){parameter->dtype, parameter->group, bytes, false};
		else if (kinds->items[k].bytes != bytes)
			kinds->items[k].differs = true;
	}
}

static bool state_of(
        const struct kinds *kinds, const struct gm_zero_parameter *parameter, uint64_t *ret_bytes)
{
	bool found = false, agree = true;
	uint64_t bytes = 0;
	if (parameter->state_known) {
		*ret_bytes = parameter->state_size;
		return true;
	}
	for (size_t k = 0; k < kinds->count; k++) {
		const struct kind *kind = &kinds->items[k];
		if (kind->dtype != parameter->dtype)
			continue;
		if (kind->group == parameter->group) {
			*ret_bytes = kind->bytes;
			return !kind->differs;
		}
		agree = agree && !kind->differs && (!found || kind->bytes == bytes);
		bytes = kind->bytes;
		found = true;
	}
	*ret_bytes = bytes;
	return found && agree;
}

/* Bytes of an element in a term; false: not known. */
static bool unit_of(const struct kinds *kinds, const struct gm_zero_parameter *parameter,
        enum gm_zero_part part, uint64_t *ret_bytes)
{
	*ret_bytes = parameter->element_size;
	if (part == GM_ZERO_PARAMETERS)
		return true;
	if (!parameter->trainable) {
		*ret_bytes = 0;
		return true;
	}
	if (part == GM_ZERO_MASTERS)
		*ret_bytes = parameter->master_size;
	return part != GM_ZERO_STATE || state_of(kinds, parameter, ret_bytes);
}

/* The difference between a parameter's state and its ideal. */
static void compare_state(
        const struct gm_zero_parameter *parameter, uint64_t expected, struct gm_zero_term *term)
{
	if (!parameter->trainable)
		term->differences[GM_ZERO_FROZEN] += (int64_t)parameter->state_bytes;
	else if (!parameter->has_state)
		term->differences[GM_ZERO_NOT_MADE] -= (int64_t)expected;
	else
		term->differences[GM_ZERO_DTYPE] += (int64_t)(parameter->state_bytes - expected);
}

static void compare_gradient(const struct gm_zero_parameter *parameter, struct gm_zero_term *term)
{
	uint64_t unit = parameter->element_size, has = parameter->gradient_elements;
	uint64_t expected = term->partitioned ? parameter->owned : parameter->elements;
	int64_t *differences = term->differences;
	if (!parameter->trainable) {
		differences[GM_ZERO_FROZEN] += (int64_t)parameter->gradient_bytes;
		return;
	}
	if (has < expected)
		differences[GM_ZERO_NOT_MADE] -= (int64_t)((expected - has) * unit);
	else
		differences[term->partitioned ? GM_ZERO_NOT_OWNED : GM_ZERO_DUPLICATE] +=
		        (int64_t)((has - expected) * unit);
	differences[GM_ZERO_DTYPE] += (int64_t)(parameter->gradient_bytes - has * unit);
}

static void count_term(
        struct gm_zero_sharding *sharding, const struct kinds *kinds, enum gm_zero_part part)
{
	struct gm_zero_term *term = &sharding->terms[part];
	uint64_t whole = 0, owned = 0;
	bool divisible = sharding->has_world && sharding->has_rank && !sharding->split_further;
	term->has_ideal = !term->partitioned || divisible;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		const struct gm_zero_parameter *parameter = &sharding->parameters[i];
		uint64_t unit;
		if (!unit_of(kinds, parameter, part, &unit)) {
			term->has_ideal = false;
			break;
		}
		uint64_t expected =
		        unit * (term->partitioned ? parameter->owned : parameter->elements);
		whole += unit * parameter->elements;
		owned += expected;
		if (part == GM_ZERO_GRADIENTS)
			compare_gradient(parameter, term);
		else if (part == GM_ZERO_STATE)
			compare_state(parameter, expected, term);
	}
	if (!term->has_ideal)
		return;
	term->whole = whole;
	term->ideal = term->partitioned ? whole / sharding->world : whole;
	term->differences[GM_ZERO_IMBALANCE] += (int64_t)(owned - term->ideal);
}

static void count_elements(struct gm_zero_sharding *sharding, const struct kinds *kinds)
{
	bool same = true, any = false;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		const struct gm_zero_parameter *parameter = &sharding->parameters[i];
		uint64_t unit;
		sharding->elements += parameter->elements;
		if (!parameter->trainable)
			continue;
		sharding->trainable_elements += parameter->elements;
		sharding->owned += parameter->owned != 0;
		sharding->owned_elements += parameter->owned;
		if (!state_of(kinds, parameter, &unit) ||
		        (any && unit != sharding->state_per_element))
			same = false;
		else
			sharding->state_per_element = unit;
		any = true;
	}
	sharding->has_state_per_element = same && any;
}

void gm_zero_ideal(struct gm_zero_sharding *sharding)
{
	struct kinds kinds = {0};
	find_kinds(sharding, &kinds);
	count_elements(sharding, &kinds);
	for (int part = GM_ZERO_PARAMETERS; part <= GM_ZERO_STATE; part++)
		count_term(sharding, &kinds, (enum gm_zero_part)part);
	sharding->terms[GM_ZERO_BUFFERS].has_ideal = true;
}

int64_t gm_zero_unexplained(const struct gm_zero_term *term)
{
	uint64_t left = term->bytes - term->ideal;
	for (int i = 0; i < GM_ZERO_DIFFERENCE_COUNT; i++)
		left -= (uint64_t)term->differences[i];
	return (int64_t)left;
}
