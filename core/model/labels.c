/*
 * Labels of blocks: torch.cuda.memory._annotate_tensor() attaches a text to the memory of an
 * existing tensor. The text is the metadata of the corresponding event.
 */
#include "model/labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "model/internal.h"
#include "model/runs.h"

bool gm_model_add_label(
        struct gm_model *model, const struct gm_event *event, uint32_t number, size_t device)
{
	uint32_t block = gm_live_get(&model->live, event->address, (uint32_t)device);
	return block == GM_NO_BLOCK ||
	       gm_array_push(&model->labels, ((struct label){block, number}));
}

static int compare(const void *a, const void *b)
{
	const struct label *left = a, *right = b;
	if (left->block != right->block)
		return left->block < right->block ? -1 : 1;
	return left->event < right->event ? -1 : left->event > right->event;
}

void gm_model_sort_labels(struct gm_model *model)
{
	if (model->labels.count)
		qsort(model->labels.items, model->labels.count, sizeof(*model->labels.items),
		        compare);
}

size_t gm_model_labels(
        const struct gm_model *model, size_t block, const char **ret_labels, size_t max)
{
	size_t count = 0;
	size_t at = gm_partition_point(
	        model->labels.count, middle, model->labels.items[middle].block < block);
	for (; at < model->labels.count && model->labels.items[at].block == block && count < max;
	        at++) {
		const char *label = gm_model_metadata(model, model->labels.items[at].event);
		size_t same = 0;
		while (label && same < count && strcmp(ret_labels[same], label) != 0)
			same++;
		if (label && same == count)
			ret_labels[count++] = label;
	}
	return count;
}

bool gm_model_has_labels(const struct gm_model *model)
{
	return model->labels.count > 0;
}
