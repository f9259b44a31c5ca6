#include "ask/target/target_blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/modules.h"
#include "ask/context.h"
#include "ask/target/memory.h"
#include "ask/target/memory_now.h"
#include "ask/target/pause.h"
#include "base/cleanup.h"

static int by_size(const void *a, const void *b, void *context)
{
	const struct gm_segment_part *parts = context;
	const struct gm_segment_part *left = &parts[*(const size_t *)a];
	const struct gm_segment_part *right = &parts[*(const size_t *)b];
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static struct gm_error *collect(struct gm_target_blocks *blocks)
{
	const struct gm_memory *memory = &blocks->memory;
	blocks->order = calloc(memory->part_count + 1, sizeof(*blocks->order));
	if (!blocks->order)
		return &gm_error_no_memory;
	for (size_t i = 0; i < memory->part_count; i++)
		if (memory->parts[i].state == GM_SEGMENT_PART_USED)
			blocks->order[blocks->count++] = i;
	if (blocks->count)
		qsort_r(blocks->order, blocks->count, sizeof(*blocks->order), by_size,
		        memory->parts);
	return NULL;
}

static struct gm_error *annotate(
        struct gm_context *context, struct gm_target_blocks *blocks, enum gm_group_by by)
{
	struct gm_holders *holders;
	struct gm_torch *torch;
	blocks->notes = calloc(blocks->count + 1, sizeof(*blocks->notes));
	if (!blocks->notes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < blocks->count; i++) {
		const struct gm_segment_part *part = &blocks->memory.parts[blocks->order[i]];
		blocks->notes[i].address = part->address;
		blocks->notes[i].size = part->size;
	}
	gm_try(gm_context_torch(context, &torch));
	bool kept = by == GM_BY_CATEGORY && context->python;
	gm_try((kept ? gm_holders_create_whole : gm_holders_create)(
	        context->image, context->symbols, context->python, torch, &holders));
	gm_holders_annotate(holders, blocks->notes, blocks->count);
	struct gm_error *error =
	        kept ? gm_holders_annotate_kept(holders, blocks->notes, blocks->count) : NULL;
	gm_holders_destroy(holders);
	return error;
}

const char *gm_note_category(const struct gm_block_note *note)
{
	if (note->parameter)
		return "parameter";
	if (note->gradient)
		return "gradient";
	if (note->optimizer_state)
		return "optimizer_state";
	if (note->buffer)
		return "buffer";
	if (note->workspace)
		return "workspace";
	if (note->has_grad_fn)
		return "activation";
	return "unknown";
}

static int by_bytes(const void *a, const void *b)
{
	const struct gm_group *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

static int by_key(const void *a, const void *b)
{
	const struct gm_group *left = a, *right = b;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

static char *shape_key(const struct gm_block_note *note)
{
	uint32_t count = note->dimensions < GM_TENSOR_MAX_DIMENSIONS ? note->dimensions
	                                                             : GM_TENSOR_MAX_DIMENSIONS;
	return gm_shape_key(note->dtype, note->shape, count);
}

enum { MODULES_MAX = 4096 }; /* blocks whose module is looked up: the largest */

static struct gm_error *make_key(struct gm_context *context, const struct gm_target_blocks *blocks,
        size_t index, enum gm_group_by by, struct gm_group *ret_group)
{
	const struct gm_segment_part *part = &blocks->memory.parts[blocks->order[index]];
	char *key = NULL;
	const struct gm_block_note *note = &blocks->notes[index];
	if (by == GM_BY_SHAPE && (!note->known || !note->dtype)) {
		ret_group->kind = GM_GROUP_NO_LIVE_TENSOR;
		key = strdup("");
	} else if (by == GM_BY_SHAPE) {
		key = shape_key(note);
	} else if (by == GM_BY_MODULE) {
		struct gm_holders *holders;
		gm_try(gm_context_holders(context, &holders));
		if (index < MODULES_MAX)
			gm_try(gm_module_of_address(holders, part->address, &key));
		if (!key || !key[0])
			ret_group->kind = key ? GM_GROUP_ROOT_MODULE : GM_GROUP_NO_MODULE;
		key = key ? key : strdup("");
	} else {
		key = strdup(gm_note_category(note));
	}
	ret_group->key = key;
	return key ? NULL : &gm_error_no_memory;
}

static struct gm_error *make_groups(
        struct gm_context *context, struct gm_target_blocks *blocks, enum gm_group_by by)
{
	struct gm_group *groups = blocks->groups = calloc(blocks->count + 1, sizeof(*groups));
	if (!groups)
		return &gm_error_no_memory;
	for (size_t i = 0; i < blocks->count; i++) {
		gm_try(make_key(context, blocks, i, by, &groups[i]));
		groups[i].bytes = blocks->memory.parts[blocks->order[i]].size;
		groups[i].blocks = 1;
		blocks->group_count++;
	}
	if (!blocks->group_count)
		return NULL;
	qsort(groups, blocks->group_count, sizeof(*groups), by_key);
	size_t kept = 0;
	for (size_t i = 1; i < blocks->group_count; i++) {
		if (by_key(&groups[kept], &groups[i]) == 0) {
			groups[kept].bytes += groups[i].bytes;
			groups[kept].blocks++;
			free(groups[i].key);
		} else {
			groups[++kept] = groups[i];
		}
	}
	blocks->group_count = kept + 1;
	qsort(groups, blocks->group_count, sizeof(*groups), by_bytes);
	return NULL;
}

static struct gm_error *ask(struct gm_context *context, int device, enum gm_group_by by,
        struct gm_target_blocks *ret_blocks)
{
	struct gm_target_blocks blocks = {0};
	gm_try(gm_memory_now(context, device, &blocks.memory));
	struct gm_error *error = collect(&blocks);
	if (!error)
		error = annotate(context, &blocks, by);
	if (!error)
		error = make_groups(context, &blocks, by);
	if (!error)
		error = gm_context_check_there(context);
	if (error) {
		gm_target_blocks_deinit(&blocks);
		return error;
	}
	*ret_blocks = blocks;
	ret_blocks->memory.allocator = &ret_blocks->memory.own;
	return NULL;
}

struct gm_error *gm_ask_target_blocks(struct gm_context *context, int device, enum gm_group_by by,
        struct gm_target_blocks *ret_blocks)
{
	struct gm_pause pause;
	gm_try(gm_context_pause(context, GM_READS_MUCH));
	struct gm_error *error = ask(context, device, by, ret_blocks);
	gm_context_resume(context, &pause);
	if (error)
		return error;
	ret_blocks->memory.pause = pause;
	ret_blocks->by = by == GM_BY_NONE ? GM_BY_CATEGORY : by;
	return NULL;
}

void gm_target_blocks_deinit(struct gm_target_blocks *blocks)
{
	gm_memory_deinit(&blocks->memory);
	for (size_t i = 0; i < blocks->group_count; i++)
		free(blocks->groups[i].key);
	free(blocks->groups);
	free(blocks->order);
	free(blocks->notes);
	*blocks = (struct gm_target_blocks){0};
}
