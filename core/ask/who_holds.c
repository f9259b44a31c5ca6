#include "ask/who_holds.h"
#include "ask/context.h"
#include "ask/target/pause.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "log/log.h"

/* --- BLOCK ------------------------------------------------------------------------------------ */

static struct gm_error *parse_number(
        const char *block, const char *digits, int base, uint64_t *ret_number)
{
	if (gm_parse_digits(digits, base, ret_number))
		return NULL;
	return gm_error_create(GM_USAGE,
	        "BLOCK '%s': not a number: give an address (0x…), #N (an event's number) or a "
	        "variable",
	        block);
}

/* "#N": the block that event N allocated, if it is still live. */
static struct gm_error *address_of_event(
        struct gm_context *context, const char *block, uint64_t *ret_address)
{
	uint64_t number;
	struct gm_log *log;
	gm_try(parse_number(block, block + 1, 10, &number));
	gm_try(gm_context_log(context, &log));
	uint64_t count = gm_log_event_count(log);
	if (number >= count)
		return gm_error_create(GM_USAGE,
		        "BLOCK %s: the log has events #0 to #%" PRIu64
		        ": `gpumem events` lists them",
		        block, count ? count - 1 : 0);
	struct gm_event event, later;
	gm_log_event(log, number, &event);
	if (event.action != GM_ALLOC)
		return gm_error_create(GM_USAGE,
		        "BLOCK %s: that event allocated no block: `gpumem events` lists those that "
		        "did",
		        block);
	for (uint64_t i = number + 1; i < count; i++) {
		gm_log_event(log, i, &later);
		if (later.address == event.address && later.device_type == event.device_type &&
		        (later.action == GM_FREE_REQUESTED || later.action == GM_FREE_COMPLETED))
			return gm_error_create(GM_TARGET,
			        "block %s: nothing holds it any more: event #%" PRIu64
			        " released it: ask `gpumem why %s`",
			        block, i, block);
	}
	*ret_address = event.address;
	return NULL;
}

/* The memory of a Python object: a tensor or a storage. */
static struct gm_error *address_of_object(
        struct gm_context *context, const char *block, uint64_t object, uint64_t *ret_address)
{
	struct gm_torch *torch;
	gm_try(gm_context_torch(context, &torch));
	struct gm_tensor tensor;
	struct gm_storage storage;
	uint64_t address = gm_torch_unwrap(torch, object);
	if (address != 0) {
		if (!gm_torch_tensor(torch, address, &tensor) ||
		        !gm_torch_storage(torch, tensor.storage, &storage))
			return gm_error_create(GM_TARGET,
			        "'%s': a tensor without storage (meta, sparse, or a subclass that "
			        "wraps others): it has no block: ask about the tensors inside it",
			        block);
	} else if (!gm_torch_unwrap_storage(torch, object, &storage)) {
		const char *type = "object";
		gm_python_type_name(context->python, object, &type);
		return gm_error_create(GM_USAGE,
		        "'%s': a %s, not a tensor: name a tensor (for example %s[0], or one of its "
		        "attributes)",
		        block, type, block);
	}
	if (storage.data == 0)
		return gm_error_create(GM_TARGET,
		        "'%s': its storage holds no memory (0 bytes, or freed by resize_): there "
		        "is no block",
		        block);
	*ret_address = storage.data;
	return NULL;
}

/* As `frames` and `locals` do: if the selected thread runs no Python, the main thread. */
static int thread_of_variables(const struct gm_context *context)
{
	struct gm_python_frame innermost;
	int thread = gm_context_thread(context);
	bool runs = gm_python_stack(context->python, thread, &innermost, 1) > 0;
	return runs ? thread : (int)gm_image_main_thread(context->image);
}

struct gm_error *gm_ask_block_address(
        struct gm_context *context, const char *block, uint64_t *ret_address)
{
	if (block[0] == '#')
		return address_of_event(context, block, ret_address);
	if (block[0] == '0' && (block[1] == 'x' || block[1] == 'X'))
		return parse_number(block, block + 2, 16, ret_address);
	if (isdigit((unsigned char)block[0]))
		return gm_error_create(GM_USAGE,
		        "BLOCK '%s': is it an address (write 0x%s) or an event's number (write "
		        "#%s)?",
		        block, block, block);
	struct gm_python *python;
	uint64_t object;
	gm_try(gm_context_python(context, &python));
	gm_try(gm_python_evaluate(
	        python, thread_of_variables(context), context->frame, block, &object));
	return address_of_object(context, block, object, ret_address);
}

/* --- the question ----------------------------------------------------------------------------- */

#define TO_DO "give an address within a block, #N or a variable"
#define NOT_HELD "nothing holds it; `gpumem blocks` lists the blocks in use"

static struct gm_error *no_block(const struct gm_holders_answer *answer, uint64_t address)
{
	switch (answer->place) {
	case GM_PLACE_UNMAPPED:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64
		        ": no block in use: it is in an unmapped part of an expandable segment of "
		        "device %d: " NOT_HELD,
		        address, answer->device);
	case GM_PLACE_WAITING:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64
		        ": no block in use: it is in a block of device %d that was released and "
		        "waits for a stream (%d events outstanding): " NOT_HELD,
		        address, answer->device, answer->events);
	case GM_PLACE_FREE_BLOCK:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64 ": no block in use: it is in a free part (%" PRIu64
		        " bytes) of a segment of device %d: " NOT_HELD,
		        address, answer->size, answer->device);
	case GM_PLACE_DEVICE:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64
		        ": in no block: it is device memory outside of PyTorch's segments: " TO_DO,
		        address);
	case GM_PLACE_HOST:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64 ": in no block: it is host memory of no storage (%s): " TO_DO,
		        address, answer->file ? answer->file : "anonymous");
	default:
		return gm_error_create(GM_TARGET,
		        "0x%" PRIx64
		        ": in no block: it is not mapped, and in no segment of a device: " TO_DO,
		        address);
	}
}

#undef TO_DO
#undef NOT_HELD

static struct gm_error *ask(
        struct gm_context *context, const char *block, struct gm_who_holds *ret_result)
{
	uint64_t address = 0;
	struct gm_torch *torch;
	struct gm_holders *holders;
	gm_try(gm_context_torch(context, &torch));
	gm_try(gm_ask_block_address(context, block, &address));
	gm_try(gm_context_holders(context, &holders));
	struct gm_who_holds result = {0};
	struct gm_error *error = gm_holders_find(holders, address, &result.answer);
	if (!error) {
		gm_holders_cost(holders, &result.cost);
		if (result.answer.place != GM_PLACE_STORAGE &&
		        result.answer.place != GM_PLACE_BLOCK)
			error = no_block(&result.answer, address);
	}
	if (!error)
		error = gm_context_check_there(context);
	if (error)
		gm_who_holds_deinit(&result);
	else
		*ret_result = result;
	return error;
}

static struct gm_error *ask_once(
        struct gm_context *context, const char *block, struct gm_who_holds *ret_result)
{
	struct gm_pause pause;
	gm_try(gm_context_pause(context, GM_READS_REFERENCES));
	struct gm_error *error = ask(context, block, ret_result);
	gm_context_resume(context, &pause);
	if (pause.lost) {
		if (!error)
			gm_who_holds_deinit(ret_result);
		gm_error_destroy(error);
		return ask_once(context, block, ret_result); /* from a complete copy: only once */
	}
	if (error)
		return error;
	ret_result->pause = pause;
	ret_result->complete = ret_result->answer.complete && gm_pause_is_still(&pause);
	return NULL;
}

struct gm_error *gm_ask_who_holds(
        struct gm_context *context, const char *block, struct gm_who_holds *ret_result)
{
	struct gm_who_holds result, other;
	struct gm_moments moments = {0};
	gm_try(ask_once(context, block, &result));
	struct gm_pause pause = result.pause;
	while (gm_context_ask_again(context, &pause, result.complete, &moments)) {
		struct gm_error *gone = ask_once(context, block, &other);
		if (gone) { /* the block was released meanwhile, or the process has ended */
			gm_error_destroy(gone);
			break;
		}
		pause = other.pause;
		if (other.complete) {
			gm_who_holds_deinit(&result);
			result = other;
		} else {
			gm_who_holds_deinit(&other);
		}
	}
	result.pause.tries = moments.pause.tries;
	result.pause.seconds = moments.pause.seconds;
	*ret_result = result;
	return NULL;
}

void gm_who_holds_deinit(struct gm_who_holds *result)
{
	gm_holders_answer_deinit(&result->answer);
}
