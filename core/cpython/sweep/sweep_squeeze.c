/*
 * Limits the memory of a sweep: references to strings and numbers are removed before there are too
 * many. A damaged length makes an array of everything after it: if most references lead to no
 * object, or if they are more than the memory has words, the sweep is abandoned.
 */
#include <stdlib.h>

#include "base/sort.h"
#include "cpython/sweep/sweep_inside.h"

struct place {
	uint64_t to;
	size_t index;
};

/* Checks the targets of the references; sets `to` to 0 for those that are not needed. Returns how
 * many lead to no object. */
static size_t look_at_all(struct gm_walker *walker, const struct place *places, size_t count)
{
	enum gm_looked looked = GM_NOT_LOOKED;
	size_t wrong = 0;
	for (size_t i = 0; i < count; i++) {
		struct gm_walk_outside *reference = &walker->raw.items[places[i].index];
		if (i == 0 || places[i].to != places[i - 1].to)
			looked = gm_walk_look_there(walker, places[i].to);
		wrong += looked == GM_NO_OBJECT;
		if (looked == GM_HOLDS_NOTHING || looked == GM_NO_OBJECT)
			reference->to = 0;
		else if (looked == GM_MAY_HOLD)
			reference->extra |= GM_WALK_LOOKED_AT;
	}
	return wrong;
}

/* Moves references [first, end) to `into`, without those that are not needed. Returns the new end.
 * */
static size_t move(struct gm_walker *walker, size_t first, size_t end, size_t into)
{
	for (; first < end; first++)
		if (walker->raw.items[first].to)
			walker->raw.items[into++] = walker->raw.items[first];
	return into;
}

void gm_sweep_squeeze(struct gm_walker *walker)
{
	struct gm_sweeper *sweeper = walker->sweeper;
	size_t first = walker->raw_checked, end = walker->raw.count, count = 0, into = first;
	struct place *places = malloc((end - first + 1) * sizeof(*places));
	struct place *scratch = malloc((end - first + 1) * sizeof(*scratch));
	if (places && scratch) {
		for (size_t i = first; i < end; i++)
			if (!(walker->raw.items[i].extra & GM_WALK_LOOKED_AT))
				places[count++] = (struct place){walker->raw.items[i].to, i};
		gm_sort_by_address(places, scratch, count, sizeof(*places));
		if (look_at_all(walker, places, count) > count / 2)
			walker->no_memory = true; /* it ends as if there were none */
		for (; sweeper->checked_parts < sweeper->parts.count; sweeper->checked_parts++) {
			struct gm_sweep_part *part = &sweeper->parts.items[sweeper->checked_parts];
			size_t behind = part->first + part->count;
			/* a part that was reduced while it was created has its beginning earlier */
			size_t start = part->first < walker->raw_checked ? part->first : into;
			into = move(walker, first, behind, into);
			part->first = start;
			part->count = into - start;
			first = behind;
		}
		/* the current part may have been reduced before */
		if (sweeper->part_first >= walker->raw_checked)
			sweeper->part_first = into;
		walker->raw.count = walker->raw_checked = move(walker, first, end, into);
	}
	walker->no_memory |= !places || !scratch || walker->raw.count > walker->raw_most;
	free(places);
	free(scratch);
}
