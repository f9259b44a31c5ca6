/* The only file that knows MPI. MPI's own errors end all processes, as is its default. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "base/cleanup.h"
#include "ranks/world.h"

enum { TAG = 1 };

const char *gm_world_engine(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
	int length = 0;
	MPI_Get_library_version(text, &length);
	text[strcspn(text, "\n,")] = '\0'; /* "Open MPI v4.1.4, package: ..." */
	for (char *at = text; *at; at++)
		if (*at == '\t')
			*at = ' ';
	return text;
}

/* The processes that share this machine's memory, and the machine's number among all. */
static struct gm_error *find_node(struct gm_world *world)
{
	MPI_Comm node;
	int place, count, own = (int)world->rank;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, own, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &place);
	MPI_Comm_size(node, &count);
	world->neighbours = calloc((size_t)count, sizeof(*world->neighbours));
	_cleanup_free_ int *ranks = calloc((size_t)count, sizeof(*ranks));
	if (!world->neighbours || !ranks)
		return &gm_error_no_memory;
	MPI_Allgather(&own, 1, MPI_INT, ranks, 1, MPI_INT, node);
	for (int i = 0; i < count; i++)
		world->neighbours[i] = (unsigned)ranks[i];
	world->neighbour_count = (unsigned)count;
	world->place = (unsigned)place;
	/* The first process of each machine counts the machines before its own. */
	int first = place == 0, number = 0, all = 0;
	MPI_Exscan(&first, &number, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (world->rank == 0)
		number = 0; /* the call leaves it undefined there */
	MPI_Bcast(&number, 1, MPI_INT, 0, node);
	MPI_Allreduce(&first, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	world->node = (unsigned)number;
	world->node_count = (unsigned)all;
	MPI_Comm_free(&node);
	return NULL;
}

struct gm_error *gm_world_begin(int *argc, char ***argv, struct gm_world *ret_world)
{
	struct gm_world world = {0};
	int rank, size, length = 0;
	char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_processor_name(host, &length);
	world.rank = (unsigned)rank;
	world.size = (unsigned)size;
	snprintf(world.host, sizeof(world.host), "%.*s", (int)sizeof(world.host) - 1, host);
	struct gm_error *error = find_node(&world);
	if (error)
		gm_world_abort(&world, (int)error->status);
	*ret_world = world;
	return NULL;
}

void gm_world_end(struct gm_world *world)
{
	free(gm_take(world->neighbours));
	MPI_Finalize();
}

struct gm_error *gm_world_send(struct gm_world *world, unsigned to, const void *bytes, size_t size)
{
	if (size > INT_MAX)
		return gm_error_create(GM_INTERNAL, "a message of %zu bytes is too large", size);
	MPI_Send(bytes, (int)size, MPI_BYTE, (int)to, TAG, MPI_COMM_WORLD);
	world->sent_bytes += size;
	return NULL;
}

struct gm_error *gm_world_receive(
        struct gm_world *world, int from, unsigned *ret_from, uint8_t **ret_bytes, size_t *ret_size)
{
	MPI_Status status;
	int size;
	MPI_Probe(from == GM_WORLD_ANY ? MPI_ANY_SOURCE : from, TAG, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &size);
	uint8_t *bytes = malloc((size_t)size + 1);
	if (!bytes)
		return &gm_error_no_memory;
	MPI_Recv(bytes, size, MPI_BYTE, status.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	world->received_bytes += (uint64_t)size;
	*ret_from = (unsigned)status.MPI_SOURCE;
	*ret_bytes = bytes;
	*ret_size = (size_t)size;
	return NULL;
}

bool gm_world_arrived(struct gm_world *world)
{
	int arrived = 0;
	MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
	return arrived;
}

_Noreturn void gm_world_abort(struct gm_world *world, int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
	_exit(status);
}
