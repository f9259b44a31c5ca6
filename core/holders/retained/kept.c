/*
 * Holders of blocks, for the sums by category: a module's buffers, an optimizer's state, the
 * workspaces of cuBLAS. They are identified by their referrers (parts.c), so they are exact if the
 * references were read. Other blocks get no category here.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "holders/retained/reach.h"
#include "holders/holders.h"
#include "holders/retained/parts.h"
#include "holders/retained/reach_build.h"
#include "holders/retained/variables.h"

enum { STATE = 1, BUFFER = 2, WORKSPACE = 4 };

static uint8_t begun_by(const struct gm_reach *reach, const struct gm_reach_edge *edge)
{
	if (edge->part == GM_PART_ENTRY)
		return STATE;
	if (edge->part == GM_PART_BUFFER)
		return BUFFER;
	const struct gm_variable *variable = gm_reach_variable_at(reach, edge->from);
	return variable && variable->workspace ? WORKSPACE : 0;
}

/* From a Python tensor to its memory. An optimizer may also have lists and dicts of tensors
 * (LBFGS). */
static bool goes_on(const struct gm_reach_edge *edge, uint8_t marks)
{
	switch (edge->reference) {
	case 0: /* storage -> block */
	case GM_REF_STORAGE:
	case GM_REF_WRAPPER:
	case GM_REF_PART:
		return true;
	case GM_REF_PYTHON:
		return marks == STATE && (edge->part == GM_PART_ITEM || edge->part == GM_PART_KEY ||
		                                 edge->part == GM_PART_DICT_KEY);
	default:
		return false;
	}
}

static bool mark(const struct gm_reach *reach, uint8_t *marks)
{
	GM_ARRAY(uint32_t) queue = {0};
	bool good = true;
	for (size_t i = 0; i < reach->edges.count && good; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		uint8_t begun = begun_by(reach, edge);
		if (begun && !(marks[edge->to] & begun)) {
			marks[edge->to] |= begun;
			good = gm_array_push(&queue, edge->to);
		}
	}
	for (size_t done = 0; done < queue.count && good; done++) {
		uint32_t from = queue.items[done];
		for (uint32_t e = reach->first[from]; e < reach->first[from + 1] && good; e++) {
			const struct gm_reach_edge *edge = &reach->edges.items[e];
			if (!goes_on(edge, marks[from]) || (marks[from] & ~marks[edge->to]) == 0)
				continue;
			marks[edge->to] |= marks[from];
			good = gm_array_push(&queue, edge->to);
		}
	}
	gm_array_deinit(&queue);
	return good;
}

struct gm_error *gm_holders_annotate_kept(
        struct gm_holders *holders, struct gm_block_note *notes, size_t count)
{
	struct gm_reach *reach;
	const struct gm_reach_options options = {0};
	gm_try(gm_reach_create(holders, &options, &reach));
	gm_reach_name_parts(reach);
	_cleanup_free_ uint8_t *marks = calloc((size_t)reach->count + 1, 1);
	bool good = marks && !reach->no_memory && mark(reach, marks);
	for (size_t i = 0; i < count && good; i++) {
		const struct gm_reach_block *blocks = reach->blocks.items;
		size_t at = gm_partition_point(
		        reach->blocks.count, middle, blocks[middle].address < notes[i].address);
		if (at == reach->blocks.count || blocks[at].address != notes[i].address)
			continue;
		uint8_t kept = marks[blocks[at].vertex];
		notes[i].optimizer_state = kept & STATE;
		notes[i].buffer = kept & BUFFER;
		notes[i].workspace = kept & WORKSPACE;
	}
	gm_reach_destroy(reach);
	return good ? NULL : &gm_error_no_memory;
}
