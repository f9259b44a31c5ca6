#include "model/sites.h"

#include <stdlib.h>

#include "base/hash.h"

void gm_sites_finish(struct gm_sites *sites)
{
	free(sites->slots);
	sites->slots = NULL;
	sites->slot_count = 0;
}

void gm_sites_deinit(struct gm_sites *sites)
{
	gm_sites_finish(sites);
	gm_array_deinit(&sites->items);
}

static bool is_of(const struct gm_site *site, const struct gm_event *event)
{
	return site->python_stack == event->python_stack &&
	       site->native_stack == event->native_stack && site->thread == event->thread &&
	       site->flags == event->flags && site->foreign == (event->owner != 0);
}

static size_t home(const struct gm_sites *sites, const struct gm_site *site)
{
	uint64_t key = (uint64_t)site->python_stack << 32 | site->native_stack;
	return gm_hash_mix(key ^ gm_hash_mix(site->thread << 8 ^ site->flags ^
	                                     (uint32_t)site->foreign << 7)) &
	       (sites->slot_count - 1);
}

static bool grow(struct gm_sites *sites)
{
	size_t count = sites->slot_count ? sites->slot_count * 2 : 1024;
	uint32_t *slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	free(sites->slots);
	sites->slots = slots;
	sites->slot_count = count;
	for (size_t i = 0; i < sites->items.count; i++) {
		size_t at = home(sites, &sites->items.items[i]);
		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = (uint32_t)i + 1;
	}
	return true;
}

static bool put(struct gm_sites *sites, const struct gm_event *event, uint32_t *ret_site)
{
	/* most events have a site that was used recently: it is found without a hash of the whole
	 * site */
	uint32_t *near =
	        &sites->near[(event->python_stack * 5 + event->native_stack) % GM_SITES_NEAR];
	*ret_site = *near;
	if (*near < sites->items.count && is_of(&sites->items.items[*near], event))
		return true;
	if (sites->items.count * 2 >= sites->slot_count && !grow(sites))
		return false;
	const struct gm_site fresh = {event->thread, event->python_stack, event->native_stack,
	        event->flags, event->owner != 0};
	size_t at = home(sites, &fresh);
	while (sites->slots[at] && !is_of(&sites->items.items[sites->slots[at] - 1], event))
		at = (at + 1) & (sites->slot_count - 1);
	if (!sites->slots[at]) {
		if (!gm_array_push(&sites->items, fresh))
			return false;
		sites->slots[at] = (uint32_t)sites->items.count;
	}
	*ret_site = *near = sites->slots[at] - 1;
	return true;
}

bool gm_sites_put(struct gm_sites *sites, const struct gm_event *event, uint32_t *ret_site)
{
	/* a free is requested and completed at one site, and so are the allocations of one call */
	if (sites->latest < sites->items.count &&
	        is_of(&sites->items.items[sites->latest], event)) {
		*ret_site = sites->latest;
		return true;
	}
	if (!put(sites, event, ret_site))
		return false;
	sites->latest = *ret_site;
	return true;
}
