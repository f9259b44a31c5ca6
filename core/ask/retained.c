#include "ask/retained.h"
#include "ask/context.h"
#include "ask/target/pause.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "torch/torch.h"

/* No blocks at all: is there an allocator? */
static struct gm_error *check_allocator(struct gm_torch *torch)
{
	struct gm_block_record *blocks = NULL;
	size_t count;
	gm_try(gm_torch_blocks(torch, &blocks, &count));
	free(blocks);
	return NULL;
}

static struct gm_error *compare_with_allocator(
        struct gm_torch *torch, struct gm_retained_answer *answer)
{
	size_t count = answer->retained.device_count;
	answer->allocator_bytes = calloc(count + 1, sizeof(*answer->allocator_bytes));
	if (!answer->allocator_bytes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		struct gm_allocator_bytes bytes;
		if (answer->retained.devices[i].device < 0)
			continue;
		struct gm_error *error =
		        gm_torch_allocator_bytes(torch, answer->retained.devices[i].device, &bytes);
		if (error)
			gm_error_destroy(error);
		else
			answer->allocator_bytes[i] = bytes.allocated;
	}
	return NULL;
}

static struct gm_error *ask(
        struct gm_context *context, bool host, struct gm_retained_answer *ret_answer)
{
	struct gm_torch *torch;
	struct gm_holders *holders;
	gm_try(gm_context_torch(context, &torch));
	if (!host)
		gm_try(check_allocator(torch));
	gm_try(gm_holders_create_whole(
	        context->image, context->symbols, context->python, torch, &holders));
	struct gm_retained_answer answer = {0};
	struct gm_error *error = gm_holders_retained(holders, host, &answer.retained);
	gm_holders_cost(holders, &answer.cost);
	gm_holders_destroy(holders);
	if (!error)
		error = compare_with_allocator(torch, &answer);
	if (!error)
		error = gm_context_check_there(context);
	if (error)
		gm_retained_answer_deinit(&answer);
	else
		*ret_answer = answer;
	return error;
}

static struct gm_error *ask_once(
        struct gm_context *context, bool host, struct gm_retained_answer *ret_answer)
{
	struct gm_pause pause;
	gm_try(gm_context_pause(context, GM_READS_REFERENCES));
	struct gm_error *error = ask(context, host, ret_answer);
	gm_context_resume(context, &pause);
	if (pause.lost) {
		if (!error)
			gm_retained_answer_deinit(ret_answer);
		gm_error_destroy(error);
		return ask_once(context, host, ret_answer); /* from a complete copy: only once */
	}
	if (!error)
		ret_answer->pause = pause;
	return error;
}

/* The number of storages with references that were not found. */
static uint64_t missing(const struct gm_retained_answer *answer)
{
	return answer->retained.storages - answer->retained.storages_complete;
}

struct gm_error *gm_ask_retained(
        struct gm_context *context, bool host, struct gm_retained_answer *ret_answer)
{
	struct gm_retained_answer best, other;
	struct gm_moments moments = {0};
	gm_try(ask_once(context, host, &best));
	struct gm_pause pause = best.pause;
	while (gm_context_ask_again(context, &pause, missing(&best) == 0, &moments)) {
		struct gm_error *gone = ask_once(context, host, &other);
		if (gone) { /* the process has ended */
			gm_error_destroy(gone);
			break;
		}
		pause = other.pause;
		if (missing(&other) < missing(&best)) {
			gm_retained_answer_deinit(&best);
			best = other;
		} else {
			gm_retained_answer_deinit(&other);
		}
	}
	best.pause.tries = moments.pause.tries;
	best.pause.seconds = moments.pause.seconds;
	*ret_answer = best;
	return NULL;
}

void gm_retained_answer_deinit(struct gm_retained_answer *answer)
{
	gm_retained_deinit(&answer->retained);
	free(answer->allocator_bytes);
	answer->allocator_bytes = NULL;
}
