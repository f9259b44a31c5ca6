/* Which simulated device a replay runs on. */
#include <stdio.h>

#include "base/cleanup.h"
#include "replay/replay.h"
#include "sim/profile.h"

struct gm_error *gm_replay_choose_profile(const struct gm_replay_requests *requests,
        const char *wanted, struct gm_replay_profile *ret_profile)
{
	struct gm_sim_choice choice;
	char spec[32];
	snprintf(spec, sizeof(spec), "%.31s", wanted ? wanted : "");
	if (!wanted && requests->total) {
		const struct gm_sim_profile *at = gm_sim_profiles;
		while (at->name && at->memory != requests->total)
			at++;
		if (at->name)
			snprintf(spec, sizeof(spec), "%s", at->name);
		else if (requests->total % (1 << 30) == 0)
			snprintf(spec, sizeof(spec), "%juGiB", (uintmax_t)(requests->total >> 30));
		else
			snprintf(spec, sizeof(spec), "%juMiB", (uintmax_t)(requests->total >> 20));
	}
	gm_try(gm_error_prefix(gm_sim_profile_parse(spec, &choice), "replay"));
	if (choice.count != 1)
		return gm_error_create(GM_USAGE,
		        "replay: --sim %s: one device is replayed at a time: leave the number out",
		        spec);
	snprintf(ret_profile->name, sizeof(ret_profile->name), "%s", choice.spec);
	ret_profile->total = choice.profile.memory;
	return NULL;
}
