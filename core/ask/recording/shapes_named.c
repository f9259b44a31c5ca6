/*
 * The named shapes that PyTorch's operators produce: logits and the softmax of the loss, the first
 * and last gradients of backward, the optimizer's temporaries. Without native stacks, Python's
 * function names are used where possible; otherwise a shape has no name.
 */
#include "ask/recording/shapes_named.h"

#include <stdio.h>
#include <string.h>

#include "ask/recording/operator.h"
#include "ask/recording/shapes_find.h"

static bool in_step(const struct gm_looking *looking, const struct gm_block *block)
{
	return block->device == looking->device && block->alloc != GM_NO_EVENT &&
	       gm_model_step(looking->model, block->alloc) == looking->step;
}

static struct gm_event event_of(const struct gm_looking *looking, const struct gm_block *block)
{
	struct gm_event event;
	gm_log_event(gm_model_log(looking->model), block->alloc, &event);
	return event;
}

static bool made_by_loss(const struct gm_looking *looking, const struct gm_block *block)
{
	struct gm_event event = event_of(looking, block);
	return gm_operator_is_loss(gm_model_log(looking->model), &event);
}

/* If the loss created the largest block itself, the shape is that of its input: the latest large
 * block before it. */
static void find_logits(struct gm_looking *looking, uint32_t softmax)
{
	struct gm_shape *slab = &looking->shapes[GM_SHAPE_SLAB];
	const struct gm_block *logits = NULL;
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (in_step(looking, block) && block->alloc < softmax &&
		        block->size * 5 >= slab->bytes * 2 && !made_by_loss(looking, block))
			logits = block;
	}
	if (!logits || gm_model_phase(looking->model, logits->alloc) != GM_PHASE_FORWARD)
		return;
	uint64_t of = slab->of;
	*slab = (struct gm_shape){0};
	looking->largest[GM_SHAPE_SLAB] = 0;
	gm_shapes_add(looking, GM_SHAPE_SLAB, logits, looking->step);
	slab->of = of;
	slab->last = gm_block_end(logits);
}

/* What the loss creates in forward from the largest block, the logits: `of` bytes of it exist only
 * for a moment, the rest waits for backward. */
static void find_softmax(struct gm_looking *looking)
{
	struct gm_shape *slab = &looking->shapes[GM_SHAPE_SLAB];
	struct gm_shape *softmax = &looking->shapes[GM_SHAPE_SOFTMAX];
	uint64_t moment = 0, least = slab->bytes * 2 / 5;
	bool by_loss = false;
	for (size_t i = 0; i < gm_model_block_count(looking->model) && slab->bytes; i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (!in_step(looking, block) || block->size < least ||
		        gm_model_phase(looking->model, block->alloc) != GM_PHASE_FORWARD ||
		        !made_by_loss(looking, block))
			continue;
		by_loss |= block->alloc == slab->first;
		gm_shapes_add(looking, GM_SHAPE_SOFTMAX, block, looking->step);
		if (gm_categories_of(looking->categories, i) == GM_CATEGORY_TEMPORARY)
			moment += block->size;
	}
	softmax->of = moment;
	if (by_loss)
		find_logits(looking, softmax->first);
	slab->logits = softmax->bytes && slab->first < softmax->first;
	if (slab->logits)
		snprintf(slab->note, sizeof(slab->note), "logits");
	else if (by_loss) /* its input is not known */
		*softmax = (struct gm_shape){0};
}

/* The number of gradients that are at least half as large. */
static size_t alike(const struct gm_looking *looking, uint64_t size)
{
	size_t count = 0;
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		count += block->size * 2 >= size && in_step(looking, block) &&
		         gm_categories_of(looking->categories, i) == GM_CATEGORY_GRADIENT;
	}
	return count;
}

/* The first and last gradients of backward, if they are exceptional: at least a tenth of all, and
 * no more than these are as large. */
static void find_gradients(struct gm_looking *looking)
{
	const struct gm_shape *all = &looking->shapes[GM_SHAPE_GRADIENTS];
	const struct gm_block *first = NULL, *last = NULL;
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (!in_step(looking, block) || block->size * 10 < all->bytes ||
		        gm_categories_of(looking->categories, i) != GM_CATEGORY_GRADIENT)
			continue;
		first = first ? first : block;
		last = block;
	}
	if (all->blocks < 3 || !first || alike(looking, first->size) > 2 ||
	        alike(looking, last->size) > 2)
		return;
	const struct gm_block *ends[] = {first, last};
	bool late = first->alloc - all->first > all->last - first->alloc;
	for (size_t i = first == last && late; i < (first == last && !late ? 1 : 2); i++) {
		enum gm_shape_kind kind = i ? GM_SHAPE_LAST_GRADIENT : GM_SHAPE_FIRST_GRADIENT;
		gm_shapes_add(looking, kind, ends[i], looking->step);
		struct gm_event event = event_of(looking, ends[i]);
		gm_operator_of(gm_model_log(looking->model), event.native_stack,
		        looking->shapes[kind].note);
	}
}

/* The operation that computed most of the optimizer's temporaries at their maximum. */
static void name_temporaries(struct gm_looking *looking)
{
	enum { OPERATORS = 8 };
	struct gm_shape *most = &looking->shapes[GM_SHAPE_OPTIMIZER_TEMPORARIES];
	struct {
		char name[GM_OPERATOR_MAX];
		uint64_t bytes;
	} sums[OPERATORS] = {0};
	for (size_t i = 0; i < gm_model_block_count(looking->model) && most->bytes; i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		char name[GM_OPERATOR_MAX];
		if (!in_step(looking, block) || !gm_block_live_after(block, most->last) ||
		        gm_model_phase(looking->model, block->alloc) != GM_PHASE_OPTIMIZER ||
		        gm_categories_of(looking->categories, i) != GM_CATEGORY_TEMPORARY)
			continue;
		struct gm_event event = event_of(looking, block);
		if (!gm_operator_of(gm_model_log(looking->model), event.native_stack, name))
			return;
		for (size_t j = 0; j < OPERATORS; j++) {
			if (sums[j].name[0] && strcmp(sums[j].name, name) != 0)
				continue;
			memcpy(sums[j].name, name, sizeof(name));
			sums[j].bytes += block->size;
			break;
		}
	}
	for (size_t j = 0; j < OPERATORS; j++)
		if (sums[j].bytes * 2 > most->bytes)
			memcpy(most->note, sums[j].name, sizeof(most->note));
}

/* There are gradients and optimizer state, and the optimizer allocated nothing while it ran: it is
 * fused, or works in place. */
static void find_no_temporaries(struct gm_looking *looking)
{
	struct gm_shape *most = &looking->shapes[GM_SHAPE_OPTIMIZER_TEMPORARIES];
	const struct gm_shape *gradients = &looking->shapes[GM_SHAPE_GRADIENTS];
	const struct gm_shape *step = &looking->shapes[GM_SHAPE_REPEATS];
	bool works = looking->shapes[GM_SHAPE_OPTIMIZER_STATE].bytes && gradients->bytes &&
	             step->last != GM_NO_EVENT && looking->parameters;
	if (!works || most->bytes * 100 > looking->parameters)
		return;
	*most = (struct gm_shape){.step = looking->step,
	        .first = gradients->last,
	        .last = step->last,
	        .of = looking->parameters,
	        .count = 1};
}

void gm_shapes_name(struct gm_looking *looking)
{
	find_softmax(looking);
	find_gradients(looking);
	name_temporaries(looking);
	find_no_temporaries(looking);
}
