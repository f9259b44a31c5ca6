#include "ask/target_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int by_size(const void *a, const void *b, void *context)
{
	const struct gm_piece *pieces = context;
	const struct gm_piece *left = &pieces[*(const size_t *)a];
	const struct gm_piece *right = &pieces[*(const size_t *)b];
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static struct gm_error *collect(struct gm_target_blocks *blocks)
{
	const struct gm_memory *memory = &blocks->memory;
	blocks->order = calloc(memory->piece_count + 1, sizeof(*blocks->order));
	if (!blocks->order)
		return &gm_error_no_memory;
	for (size_t i = 0; i < memory->piece_count; i++)
		if (memory->pieces[i].state == GM_PIECE_USED)
			blocks->order[blocks->count++] = i;
	if (blocks->count)
		qsort_r(blocks->order, blocks->count, sizeof(*blocks->order), by_size,
		        memory->pieces);
	return NULL;
}

static struct gm_error *annotate(struct gm_context *context, struct gm_target_blocks *blocks)
{
	struct gm_holders *holders;
	struct gm_torch *torch;
	blocks->notes = calloc(blocks->count + 1, sizeof(*blocks->notes));
	if (!blocks->notes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < blocks->count; i++) {
		const struct gm_piece *piece = &blocks->memory.pieces[blocks->order[i]];
		blocks->notes[i].address = piece->address;
		blocks->notes[i].size = piece->size;
	}
	gm_try(gm_context_torch(context, &torch));
	gm_try(gm_holders_create(
	        context->image, context->symbols, context->python, torch, &holders));
	gm_holders_annotate(holders, blocks->notes, blocks->count);
	gm_holders_destroy(holders);
	return NULL;
}

const char *gm_note_category(const struct gm_block_note *note)
{
	if (note->parameter)
		return "parameter";
	if (note->gradient)
		return "gradient";
	if (note->has_grad_fn)
		return "activation";
	return "unknown";
}

static int by_bytes(const void *a, const void *b)
{
	const struct gm_group *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return strcmp(left->key, right->key);
}

static struct gm_error *make_groups(struct gm_target_blocks *blocks)
{
	enum { CATEGORIES = 4 };
	blocks->groups = calloc(CATEGORIES, sizeof(*blocks->groups));
	if (!blocks->groups)
		return &gm_error_no_memory;
	for (size_t i = 0; i < blocks->count; i++) {
		const char *key = gm_note_category(&blocks->notes[i]);
		size_t at = 0;
		while (at < blocks->group_count && strcmp(blocks->groups[at].key, key) != 0)
			at++;
		if (at == blocks->group_count) {
			if (!(blocks->groups[at].key = strdup(key)))
				return &gm_error_no_memory;
			blocks->group_count++;
		}
		blocks->groups[at].bytes += blocks->memory.pieces[blocks->order[i]].size;
		blocks->groups[at].blocks++;
	}
	if (blocks->group_count)
		qsort(blocks->groups, blocks->group_count, sizeof(*blocks->groups), by_bytes);
	return NULL;
}

struct gm_error *gm_ask_target_blocks(
        struct gm_context *context, int device, struct gm_target_blocks *ret_blocks)
{
	struct gm_target_blocks blocks = {0};
	gm_try(gm_memory_now(context, device, &blocks.memory));
	struct gm_error *error = collect(&blocks);
	if (!error)
		error = annotate(context, &blocks);
	if (!error)
		error = make_groups(&blocks);
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
