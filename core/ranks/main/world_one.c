/* Without MPI: one process, which does everything. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ranks/world.h"

const char *gm_world_engine(void)
{
	return "";
}

/* What launchers tell of the number of processes that they started. */
static const char *launched(void)
{
	static const char *const names[] = {
	        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);
		if (value && strtoul(value, NULL, 10) > 1)
			return value;
	}
	return NULL;
}

struct gm_error *gm_world_begin(int *argc, char ***argv, struct gm_world *ret_world)
{
	const char *count = launched();
	if (count)
		return gm_error_create(GM_USAGE,
		        "one of %s processes, but this gpumem-ranks was built without MPI: install "
		        "MPI (Debian: libopenmpi-dev or libmpich-dev), configure and build gpumem "
		        "again; or start one process",
		        count);
	struct gm_world world = {.size = 1, .node_count = 1, .neighbour_count = 1};
	world.neighbours = calloc(1, sizeof(*world.neighbours));
	if (!world.neighbours)
		return &gm_error_no_memory;
	if (gethostname(world.host, sizeof(world.host) - 1) != 0)
		world.host[0] = '\0';
	*ret_world = world;
	return NULL;
}

void gm_world_end(struct gm_world *world)
{
	free(gm_take(world->neighbours));
}

struct gm_error *gm_world_send(struct gm_world *world, unsigned to, const void *bytes, size_t size)
{
	return gm_error_create(GM_INTERNAL, "no process %u: there is only one", to);
}

struct gm_error *gm_world_receive(
        struct gm_world *world, int from, unsigned *ret_from, uint8_t **ret_bytes, size_t *ret_size)
{
	return gm_error_create(GM_INTERNAL, "no process %d: there is only one", from);
}

bool gm_world_arrived(struct gm_world *world)
{
	return false;
}

_Noreturn void gm_world_abort(struct gm_world *world, int status)
{
	_exit(status);
}
