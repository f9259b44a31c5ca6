#include "holders/search/finding.h"
#include "holders/unattributed/unattributed.h"

#include <stdlib.h>

#include "base/cleanup.h"

void gm_finding_note(struct gm_finding *finding, struct gm_holders_note note)
{
	if (!gm_array_push(&finding->notes, note)) {
		free(note.type);
		finding->no_memory = true;
	}
}

struct gm_mark *gm_finding_mark_at(struct gm_finding *finding, uint32_t vertex)
{
	uint64_t *found = gm_map_find(&finding->mark_of, (uint64_t)vertex + 1);
	return found ? &finding->marks.items[*found - 1] : NULL;
}

void gm_finding_deinit(struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count; i++)
		free(finding->chains.items[i].edges);
	gm_array_deinit(&finding->chains);
	gm_array_deinit(&finding->chain_unattributed);
	gm_array_deinit(&finding->marks);
	gm_map_deinit(&finding->mark_of);
	gm_map_deinit(&finding->reported);
	free(finding->forward.first);
	free(finding->forward.edges);
	free(gm_take(finding->ways));
	free(gm_take(finding->collected));
	finding->forward = (struct gm_forward){0};
	gm_unattributed_list_deinit(&finding->unattributed_list);
}
