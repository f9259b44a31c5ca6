/* gpumem-ranks: one of the processes that MPI started. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "ranks/command.h"
#include "render/json.h"

static int run(struct gm_world *world, int argc, char **argv)
{
	int status = gm_ranks_run(world, argc - 1, argv + 1, stdout, stderr);
	/* A full disk behind a redirection must not look like a complete answer, nor like a
	 * negative one. */
	if (fflush(stdout) != 0 && status <= GM_NEGATIVE) {
		perror("gpumem-ranks: cannot write the answer");
		status = GM_INTERNAL;
	}
	return status;
}

int main(int argc, char **argv)
{
	static char held[1 << 20]; /* an answer is held back until it is known to be whole */
	struct gm_world world = {.size = 1};
	setvbuf(stdout, held, _IOFBF, sizeof(held));
	gm_json_begin();
	if (gm_ranks_only_help(argc - 1, argv + 1))
		return run(&world, argc, argv);
	_cleanup_error_ struct gm_error *error = gm_world_begin(&argc, &argv, &world);
	if (error) {
		gm_put(stderr, "gpumem-ranks: %s\n", error->message);
		return (int)error->status;
	}
	int status = run(&world, argc, argv);
	gm_world_end(&world);
	return status;
}
