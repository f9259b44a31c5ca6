/*
 * Whose the native memory is that stray words are in, where that can be told. What lies in the unused rest of a vector is no
 * holder.
 */
#include <string.h>

#include "base/cleanup.h"
#include "holders/unattributed/stray.h"

struct gm_error *gm_strays_name_owners(
        struct gm_holders *graph, struct gm_stacks *stacks, struct gm_strays *strays)
{
	size_t total = strays->items.count, count = 0, kept = 0;
	_cleanup_free_ struct gm_owner_query *queries = calloc(total + 1, sizeof(*queries));
	if (!queries)
		return &gm_error_no_memory;
	for (size_t i = 0; i < total; i++) {
		const struct gm_stray *stray = &strays->items.items[i];
		if (stray->in_heap)
			queries[count++] = (struct gm_owner_query){.word = stray->address};
	}
	if (count == 0)
		return NULL;
	gm_try(gm_graph_find_owners(graph, stacks, queries, count));
	for (size_t i = 0, query = 0; i < total; i++) {
		struct gm_stray *stray = &strays->items.items[i];
		const struct gm_owner_query *asked =
		        query < count && queries[query].word == stray->address ? &queries[query++]
		                                                               : NULL;
		/* the simulated device knows its memory as a driver would, unseen */
		if (asked &&
		        (asked->dead || (asked->text && strstr(asked->text, "libgpumem-sim")))) {
			strays->stale++;
			free(asked->text);
			free(stray->text);
			continue;
		}
		/* a DataPtr says more than memory that nobody is known to own */
		bool better = asked && asked->text &&
		              (asked->kind != GM_OWNER_NONE || stray->sense == GM_WORD_UNKNOWN);
		if (asked && !better)
			free(asked->text);
		if (better) {
			free(stray->text);
			stray->text = asked->text;
			stray->sense = asked->sense;
		}
		if (asked) {
			stray->owner = asked->kind;
			stray->owner_vertex = asked->vertex;
			stray->owner_address = asked->address;
		}
		strays->items.items[kept++] = *stray;
	}
	strays->items.count = kept;
	return NULL;
}
