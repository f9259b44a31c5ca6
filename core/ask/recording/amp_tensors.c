/*
 * Gradients of mixed precision. The backward of a conversion (ToCopyBackward0) makes a parameter's
 * float32 gradient from a half-precision one: it allocates the former, and the same thread frees
 * the latter directly afterwards. The other gradients are those that backward made and that stay.
 */
#include "ask/recording/amp_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/amp_copies.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/text.h"

static bool tensor_of(const struct gm_log *log, uint32_t event, struct gm_log_tensor *ret,
        struct gm_event *ret_event)
{
	gm_log_event(log, event, ret_event);
	return gm_log_tensor(log, ret_event->tensor, ret);
}

static bool same_sizes(const struct gm_log_tensor *a, const struct gm_log_tensor *b)
{
	return a->dimensions == b->dimensions &&
	       memcmp(a->sizes, b->sizes, a->dimensions * sizeof(*a->sizes)) == 0;
}

/* ---- from half to float32 ---- */

/* The half-precision gradient that was converted: the next block freed by the same thread. */
static uint32_t find_half(
        const struct gm_model *model, uint32_t alloc, const struct gm_log_tensor *full)
{
	enum { NEAR = 32 };
	const struct gm_log *log = gm_model_log(model);
	uint64_t thread, count = gm_log_event_count(log);
	struct gm_event event;
	struct gm_log_tensor half;
	gm_log_event(log, alloc, &event);
	thread = event.thread;
	for (uint64_t i = (uint64_t)alloc + 1; i < count && i < (uint64_t)alloc + NEAR; i++) {
		gm_log_event(log, i, &event);
		if (event.thread != thread || event.action != GM_FREE_REQUESTED)
			continue;
		uint32_t index = gm_model_event_block(model, i);
		if (index == GM_NO_BLOCK)
			return GM_NO_BLOCK;
		const struct gm_block *block = gm_model_block(model, index);
		bool is_half = block->alloc != GM_NO_EVENT &&
		               tensor_of(log, block->alloc, &half, &event) &&
		               gm_amp_is_half(half.type) && same_sizes(&half, full);
		return is_half ? index : GM_NO_BLOCK;
	}
	return GM_NO_BLOCK;
}

static struct gm_amp_gradients *group_of(
        struct gm_amp *amp, size_t *capacity, uint32_t tensor, const struct gm_amp_gradients *like)
{
	for (size_t i = 0; i < amp->gradient_count; i++) {
		struct gm_amp_gradients *group = &amp->gradients[i];
		if (group->tensor == tensor && strcmp(group->node, like->node) == 0 &&
		        strcmp(group->operator, like->operator) == 0)
			return group;
	}
	if (!gm_array_grow((void **)&amp->gradients, capacity, amp->gradient_count, 1,
	            sizeof(*amp->gradients)))
		return NULL;
	amp->gradients[amp->gradient_count] = *like;
	return &amp->gradients[amp->gradient_count++];
}

static bool read_conversions(struct gm_amp *amp, struct gm_amp_signs *signs)
{
	const struct gm_log *log = gm_model_log(amp->model);
	size_t capacity = 0;
	for (size_t i = 0; i < gm_model_block_count(amp->model); i++) {
		const struct gm_block *block = gm_model_block(amp->model, i);
		struct gm_log_tensor full;
		struct gm_event event, half_event;
		if (block->device != amp->device || block->alloc == GM_NO_EVENT ||
		        !tensor_of(log, block->alloc, &full, &event) || full.type != GM_AMP_FLOAT32)
			continue;
		if (!(gm_amp_signs_of(signs, log, event.native_stack) & GM_AMP_CONVERTS))
			continue;
		uint32_t half = find_half(amp->model, block->alloc, &full);
		if (half == GM_NO_BLOCK)
			continue;
		struct gm_amp_gradients group = {
		        .tensor = event.tensor, .first_half = half, .first_full = (uint32_t)i};
		gm_operator_of(log, event.native_stack, group.full_operator);
		gm_node_of(log, event.native_stack, group.full_node);
		gm_log_event(log, gm_model_block(amp->model, half)->alloc, &half_event);
		gm_operator_of(log, half_event.native_stack, group.operator);
		gm_node_of(log, half_event.native_stack, group.node);
		struct gm_amp_gradients *found = group_of(amp, &capacity, event.tensor, &group);
		if (!found)
			return false;
		found->count++;
	}
	return true;
}

/* ---- how gradients end ---- */

static bool is_zero_grad(const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place;
	for (size_t i = 0; gm_place_frame(log, stack, i, &place); i++)
		if (gm_text_ends_with(place.function, "zero_grad"))
			return true;
	return false;
}

/* The other phases of the step's runs around the event. */
static void find_around(const struct gm_model *model, struct gm_amp_release *release)
{
	size_t at = gm_model_run_at(model, release->first);
	struct gm_model_run own = gm_model_run(model, at);
	for (size_t i = at; i-- > 0;) {
		struct gm_model_run run = gm_model_run(model, i);
		if (run.step != own.step)
			break;
		if (run.phase != own.phase && run.phase != GM_PHASE_OTHER) {
			release->before = run.phase;
			break;
		}
	}
	for (size_t i = at + 1; i < gm_model_run_count(model); i++) {
		struct gm_model_run run = gm_model_run(model, i);
		if (run.step != own.step)
			break;
		/* scaling the loss is still part of forward */
		if (run.phase != own.phase && run.phase != GM_PHASE_OTHER &&
		        run.phase != release->before) {
			release->after = run.phase;
			break;
		}
	}
}

static struct gm_amp_release describe_release(const struct gm_amp *amp, uint32_t index)
{
	const struct gm_model *model = amp->model;
	const struct gm_log *log = gm_model_log(model);
	const struct gm_block *block = gm_model_block(model, index);
	uint32_t freed = gm_block_end(block);
	struct gm_amp_release release = {.step = gm_model_step(model, block->alloc)};
	struct gm_cause cause;
	if (freed == GM_NO_EVENT) {
		release.never = true;
		release.first = release.last = GM_NO_EVENT;
		return release;
	}
	uint32_t python, native;
	gm_model_stacks(model, freed, &python, &native);
	gm_cause_find(model, block, &cause);
	release.cause = cause.kind;
	release.released = gm_model_step(model, freed);
	release.first = release.last = freed;
	release.by_zero_grad = is_zero_grad(log, python);
	gm_place_site(log, python, &release.statement);
	find_around(model, &release);
	return release;
}

static bool are_alike(const struct gm_amp_release *a, const struct gm_amp_release *b)
{
	return a->step == b->step && a->released == b->released && a->never == b->never &&
	       a->cause == b->cause && a->by_zero_grad == b->by_zero_grad &&
	       a->statement.code == b->statement.code && a->statement.line == b->statement.line;
}

static bool read_releases(struct gm_amp *amp, const struct gm_categories *categories)
{
	enum { RELEASES_MAX = 4096 };
	size_t capacity = 0;
	for (size_t i = 0; i < gm_model_block_count(amp->model); i++) {
		const struct gm_block *block = gm_model_block(amp->model, i);
		if (block->device != amp->device || block->alloc == GM_NO_EVENT ||
		        gm_categories_of(categories, i) != GM_CATEGORY_GRADIENT)
			continue;
		struct gm_amp_release release = describe_release(amp, (uint32_t)i), *found = NULL;
		for (size_t k = amp->release_count; k-- > 0 && !found;)
			if (are_alike(&amp->releases[k], &release))
				found = &amp->releases[k];
			else if (amp->releases[k].step + 2 < release.step)
				break; /* blocks come in the order of their allocation */
		if (!found && amp->release_count == RELEASES_MAX) {
			amp->truncated = true;
			continue;
		}
		if (!found) {
			if (!gm_array_grow((void **)&amp->releases, &capacity, amp->release_count,
			            1, sizeof(*amp->releases)))
				return false;
			amp->releases[amp->release_count] = release;
			found = &amp->releases[amp->release_count++];
		}
		found->blocks++;
		found->bytes += block->size;
		if (release.last != GM_NO_EVENT && release.last > found->last)
			found->last = release.last;
		if (release.first < found->first)
			found->first = release.first;
	}
	return true;
}

/* ---- bytes ---- */

static void count_bytes(struct gm_amp *amp)
{
	const struct gm_log *log = gm_model_log(amp->model);
	const struct gm_model_device *device = gm_model_device(amp->model, amp->device);
	struct gm_amp_bytes *bytes = &amp->bytes;
	bytes->event = device->peak_event;
	if (bytes->event == GM_NO_EVENT)
		return;
	bytes->allocated = gm_model_usage_after(amp->model, amp->device, bytes->event).allocated;
	for (size_t i = 0; i < gm_model_block_count(amp->model); i++) {
		const struct gm_block *block = gm_model_block(amp->model, i);
		struct gm_log_tensor tensor;
		struct gm_event event;
		if (block->device != amp->device || !gm_block_live_after(block, bytes->event))
			continue;
		if (block->alloc == GM_NO_EVENT || !tensor_of(log, block->alloc, &tensor, &event)) {
			bytes->unknown += block->size;
			continue;
		}
		if (gm_amp_is_half(tensor.type)) {
			bytes->half += block->size;
			bytes->copies += amp->copies[i] ? block->size : 0;
		}
	}
	/* without the copies, and with the others twice as large */
	bytes->full = bytes->allocated + bytes->half - 2 * bytes->copies;
}

struct gm_error *gm_amp_find_tensors(struct gm_amp *amp, const struct gm_categories *categories)
{
	struct gm_amp_signs signs = {0};
	amp->has_tensors = gm_log_has_tensors(gm_model_log(amp->model));
	gm_try(gm_amp_find_copies(amp, categories));
	bool good = read_conversions(amp, &signs) && read_releases(amp, categories);
	free(signs.items);
	if (!good)
		return &gm_error_no_memory;
	count_bytes(amp);
	return NULL;
}
