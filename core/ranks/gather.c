#include "ranks/gather.h"

#include <stdlib.h>

#include "base/cleanup.h"

struct gm_error *gm_world_gather(
        struct gm_world *world, uint8_t **bytes, size_t size, gm_world_taker take, void *context)
{
	if (world->rank != 0)
		return gm_world_send(world, 0, *bytes, size);
	struct gm_error *error = take(context, 0, bytes, size);
	for (unsigned i = 1; i < world->size; i++) {
		_cleanup_free_ uint8_t *received = NULL;
		unsigned from = 0;
		struct gm_error *failed =
		        gm_world_receive(world, GM_WORLD_ANY, &from, &received, &size);
		if (!failed && !error)
			failed = take(context, from, &received, size);
		if (!error)
			error = failed;
		else
			gm_error_destroy(failed);
	}
	return error;
}
