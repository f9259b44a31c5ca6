/* Conditions at the events of a program that the agent records. */
#include <stdlib.h>

#include "api/recorder.h"
#include "model/condition.h"
#include "walk/walk.h"

struct gpumem_walk {
	struct gm_walk *walk;
};

int gpumem_walk_create(const char *path, gpumem_walk **ret_walk, char **ret_err)
{
	*ret_err = NULL;
	gpumem_walk *walk = calloc(1, sizeof(*walk));
	struct gm_error *error = walk ? gm_walk_create(path, &walk->walk) : &gm_error_no_memory;
	if (error)
		free(walk);
	else
		*ret_walk = walk;
	return gm_api_give_error(error, ret_err);
}

void gpumem_walk_destroy(gpumem_walk *walk)
{
	if (!walk)
		return;
	gm_walk_destroy(walk->walk);
	free(walk);
}

int gpumem_walk_watch(
        gpumem_walk *walk, uint32_t id, const char *condition, int once, char **ret_err)
{
	*ret_err = NULL;
	return gm_api_give_error(gm_walk_watch(walk->walk, id, condition, once != 0), ret_err);
}

void gpumem_walk_unwatch(gpumem_walk *walk, uint32_t id)
{
	gm_walk_unwatch(walk->walk, id);
}

uint64_t gpumem_walk_watch_hits(gpumem_walk *walk, uint32_t id)
{
	return gm_walk_hits(walk->walk, id);
}

uint32_t gpumem_walk_stopped_by(gpumem_walk *walk, uint64_t *ret_event)
{
	return gm_walk_stopped_by(walk->walk, ret_event);
}

int gpumem_walk_arm(gpumem_walk *walk, int pid, const uint64_t *addresses, int every,
        int *ret_active, char **ret_err)
{
	const struct gm_walk_place place = {
	        .stops = addresses[0],
	        .filter = addresses[1],
	        .never_python = addresses[2],
	        .never_native = addresses[3],
	        .never_tensor = addresses[4],
	};
	bool active = false;
	*ret_err = NULL;
	struct gm_error *error = gm_walk_arm(walk->walk, pid, &place, every != 0, &active);
	*ret_active = active;
	return gm_api_give_error(error, ret_err);
}

int gpumem_walk_stop(gpumem_walk *walk, int thread, int *ret_holds, char **ret_err)
{
	bool holds = false;
	*ret_err = NULL;
	struct gm_error *error = gm_walk_stop(walk->walk, thread, &holds);
	*ret_holds = holds;
	return gm_api_give_error(error, ret_err);
}
